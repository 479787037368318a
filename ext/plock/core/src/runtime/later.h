/* What is to begin later, if it is still wanted then: the renewal of leases that are renewed
 * automatically. Most blocks end before that, so to enter one here, and to take it out again, wakes
 * no thread as a rule. */
#ifndef PLOCK__LATER_H
#define PLOCK__LATER_H

#include "plock/clock.h"
#include "plock/status.h"

#include <stdbool.h>

typedef struct plock_later plock_later;

/* Part of what is to begin. */
struct plock_later {
    plock_later *next, *previous;
    bool listed;
    plock_ns due;
    /* with the lock held: it is about to begin, and must not be freed before it has */
    void (*keep)(plock_later *);
    void (*begin)(plock_later *); /* in the native thread, without the lock */
};

/* Enters it without a date, and makes sure that a thread is there to begin it. PLOCK_OK,
 * PLOCK_NO_MEMORY or PLOCK_DESCRIPTORS. */
PLOCK_MUST_USE plock_status plock__later_enter(plock_later *later, plock_error *error);

/* It begins at that moment, or at an earlier one that was set before. With the lock held. */
void plock__later_by(plock_later *later, plock_ns due);

/* It does not begin. With the lock held, and in the process that entered it. */
void plock__later_leave(plock_later *later);

/* When a lease that is renewed automatically is to be seen to: as late as is still in time, so that
 * most blocks are over by then. */
plock_ns plock__later_than(plock_ns now, plock_ns renew_at);

void plock__later_in_child(void);

#endif
