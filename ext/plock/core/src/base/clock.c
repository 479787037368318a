#include "plock/clock.h"

#include "base/platform.h"

#include <limits.h>
#include <stdatomic.h>

typedef plock_ns (*clock_function)(void);

static _Atomic(clock_function) replacement;

plock_ns plock_now(void) {
    const clock_function replaced = atomic_load_explicit(&replacement, memory_order_relaxed);
    if (replaced) return replaced();
    struct timespec time;
    (void)clock_gettime(PLOCK__CLOCK, &time); /* fails only for a clock that does not exist */
    return (plock_ns)time.tv_sec * PLOCK_SECOND + (plock_ns)time.tv_nsec;
}

void plock_clock_replace(plock_ns (*clock)(void)) { atomic_store(&replacement, clock); }

plock_ns plock_after(plock_ns moment, plock_ns span) {
    return span > PLOCK_NEVER - moment ? PLOCK_NEVER : moment + span;
}

int plock_poll_timeout(plock_ns deadline) {
    if (deadline == PLOCK_NEVER) return -1;
    const plock_ns left = deadline - plock_now();
    if (left <= 0) return 0;
    /* rounded up, because a timeout of 0 before the deadline would make the caller spin */
    const plock_ns milliseconds = (left - 1) / PLOCK_MILLISECOND + 1;
    return milliseconds > INT_MAX ? INT_MAX : (int)milliseconds;
}
