#include "base/pause.h"

#include "base/random.h"

/* The pauses of one kind double from FIRST to LAST. Each is then made longer or shorter, at random,
 * by up to 30 %. If a holder publishes no release, the first waiter notices the free lock after at
 * most 94 ms: its longest pause is 26 ms, and for up to 68 ms of each second only processes that
 * poll may take the lock (WINDOW_SEEN in node.c). */
static const plock_ns LOOK_FIRST = 4 * PLOCK_MILLISECOND, LOOK_LAST = 20 * PLOCK_MILLISECOND;
static const plock_ns TRY_FIRST = 10 * PLOCK_MILLISECOND, TRY_LAST = 250 * PLOCK_MILLISECOND;
static const plock_ns BACKGROUND_FIRST = 20 * PLOCK_MILLISECOND, BACKGROUND_LAST = PLOCK_SECOND;

static plock_ns pause(unsigned pauses, plock_ns first, plock_ns last, plock_ns at_most) {
    enum { DOUBLINGS_MAX = 16 };
    plock_ns span = first << (pauses < DOUBLINGS_MAX ? pauses : DOUBLINGS_MAX);
    if (span > last) span = last;
    span = plock__random_between(span * 7 / 10, span * 13 / 10);
    if (span > at_most) span = at_most;
    return span < PLOCK_MILLISECOND ? PLOCK_MILLISECOND : span;
}

/* The pause is at most half of the waiter's remaining time, so that the waiter looks at the lock
 * once more before that time is over. */
plock_ns plock__pause_before_looking(unsigned pauses, plock_ns free_in, plock_ns left) {
    return pause(pauses, LOOK_FIRST, LOOK_LAST, free_in < left / 2 ? free_in : left / 2);
}

plock_ns plock__pause_before_trying(unsigned pauses) {
    return pause(pauses, TRY_FIRST, TRY_LAST, PLOCK_NEVER);
}

plock_ns plock__pause_in_background(unsigned pauses) {
    return pause(pauses, BACKGROUND_FIRST, BACKGROUND_LAST, PLOCK_NEVER);
}
