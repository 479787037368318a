#include "runtime/busy_poll.h"

#include "base/platform.h"
#include "base/process.h"
#include "plock/clock.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* About the time that a thread takes to fall asleep and wake on an idle processor of a virtual
 * machine. */
static const plock_ns SPAN = PLOCK_MILLISECOND / 10;

/* Ends the polling even if the clock stands still. With a running clock, SPAN is over before this
 * many looks. */
enum { LOOKS_MOST = 10000 };

/* At most this many waits in a row skip the polling, however late the answers come. */
enum { SKIPPED_MOST = 1023 };

/* --- the other threads --- */

static const plock_ns COUNT_SPAN = 50 * PLOCK_MILLISECOND;

/* Waits are frequent if there are at least this many in a span. */
enum { FREQUENT = 16 };

static _Atomic plock_ns span_began;
static atomic_uint waits; /* in this span, in all threads */
static atomic_bool room;  /* enough processors at the last count, in this span or the one before */

#ifdef PLOCK_TESTING
static atomic_long pretended = -1;

void plock__pretend_running_threads(long count) { atomic_store(&pretended, count); }
#else
static
#endif
long plock__running_threads(void) {
#ifdef PLOCK_TESTING
    if (atomic_load(&pretended) >= 0) return atomic_load(&pretended);
#endif
    long count = 0;
#ifdef PLOCK__LOADAVG
    char text[128] = ""; /* "0.26 1.04 1.67 2/345 6789": 2 of 345 threads run */
    plock__begin_step(); /* delays a fork, so that no child inherits the open descriptor */
    const int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) (void)close(fd);
    plock__end_step();
    const char *number = length > 0 ? strchr(text, '/') : NULL;
    while (number && number > text && isdigit((unsigned char)number[-1])) number--;
    if (number) count = strtol(number, NULL, 10);
#endif
    return count;
}

/* Is there a processor for each thread that wants one? After a pause, counting the threads takes
 * up to 40 us, which is more than polling saves. So this counts them once in a span, and only
 * while waits are frequent. While waits are rare, this returns false. */
static bool have_room(void) {
    const plock_ns moment = plock_now();
    plock_ns began = atomic_load(&span_began);
    if ((moment < began || moment - began >= COUNT_SPAN) &&
        atomic_compare_exchange_strong(&span_began, &began, moment)) {
        const bool frequent = atomic_exchange(&waits, 0) >= FREQUENT;
        if (!frequent || moment < began || moment - began >= 2 * COUNT_SPAN)
            atomic_store(&room, false);
    }
    if (atomic_fetch_add(&waits, 1) + 1 == FREQUENT) {
        const long count = plock__running_threads();
        atomic_store(&room, count > 0 && count <= sysconf(_SC_NPROCESSORS_ONLN));
    }
    return atomic_load(&room);
}

/* --- the answer --- */

/* Sets *found if the answer came. Returns true only if it came within SPAN. If it came later,
 * another thread had the processor in between, so polling did not help. */
static bool comes_soon(bool (*look)(void *), void *context, bool *found) {
    const plock_ns end = plock_now() + SPAN;
    plock_ns looked_at = 0;
    for (unsigned looks = 0; looks < LOOKS_MOST && !*found && looked_at < end; looks++) {
        *found = look(context);
        looked_at = plock_now();
    }
    return *found && looked_at < end;
}

bool plock__busy_poll(plock__answers *answers, bool (*look)(void *), void *context) {
    bool found = false;
    if (answers->skipping > 0)
        answers->skipping--;
    else if (have_room()) {
        answers->skipped = comes_soon(look, context, &found) ? 0 : 2 * answers->skipped + 1;
        if (answers->skipped > SKIPPED_MOST) answers->skipped = SKIPPED_MOST;
        answers->skipping = answers->skipped;
    }
    return found;
}
