#include "runtime/waker_ends.h"

#include "base/descriptor.h"
#include "base/platform.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#ifdef PLOCK__EVENTFD
#include <sys/eventfd.h>
#endif

enum { KEPT_OPEN = 16 };
static _Atomic plock__ends kept[KEPT_OPEN];

static plock__ends both(int out, int in) {
    return ((plock__ends)out + 1) << 32 | ((plock__ends)in + 1);
}

int plock__ends_descriptor(plock__ends of) { return (int)(of >> 32) - 1; }

static int in_of(plock__ends of) { return (int)(of & UINT32_MAX) - 1; }

void plock__ends_close(plock__ends of) {
    if (in_of(of) != plock__ends_descriptor(of)) (void)close(in_of(of));
    (void)close(plock__ends_descriptor(of));
}

static plock__ends open_ends(void) {
#ifdef PLOCK__EVENTFD
    const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fd < 0 ? PLOCK__NO_ENDS : both(fd, fd);
#else
    int fds[2];
    if (pipe(fds)) return PLOCK__NO_ENDS;
    for (int i = 0; i < 2; i++)
        if (plock__prepare_descriptor(fds[i])) {
            const int code = errno;
            (void)close(fds[0]);
            (void)close(fds[1]);
            errno = code;
            return PLOCK__NO_ENDS;
        }
    return both(fds[0], fds[1]);
#endif
}

plock__ends plock__ends_take(void) {
    for (int i = 0; i < KEPT_OPEN; i++) {
        if (atomic_load_explicit(&kept[i], memory_order_relaxed) == PLOCK__NO_ENDS) continue;
        const plock__ends found = atomic_exchange(&kept[i], PLOCK__NO_ENDS);
        if (found != PLOCK__NO_ENDS) return found;
    }
    return open_ends();
}

void plock__ends_give(plock__ends given) {
    for (int i = 0; i < KEPT_OPEN; i++) {
        plock__ends none = PLOCK__NO_ENDS;
        if (atomic_compare_exchange_strong(&kept[i], &none, given)) return;
    }
    plock__ends_close(given);
}

void plock__ends_write(plock__ends of) {
    const uint64_t one = 1;
    ssize_t written;
    do written = write(in_of(of), &one, sizeof one);
    while (written < 0 && errno == EINTR); /* EAGAIN: the pipe is full, so it is readable anyway */
}

void plock__ends_drain(plock__ends of) {
    uint64_t drained[8];
    ssize_t got;
    const int out = plock__ends_descriptor(of);
    const bool at_once = in_of(of) == out; /* one read empties an eventfd */
    do got = read(out, drained, sizeof drained);
    while ((got > 0 && !at_once) || (got < 0 && errno == EINTR));
}

void plock__ends_close_kept(void) {
    for (int i = 0; i < KEPT_OPEN; i++) {
        const plock__ends open = atomic_exchange(&kept[i], PLOCK__NO_ENDS);
        if (open != PLOCK__NO_ENDS) plock__ends_close(open);
    }
}
