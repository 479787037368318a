/* A place in shared memory where one process sleeps until another process changes a word. */
#ifndef PLOCK__PARKING_SLOT_H
#define PLOCK__PARKING_SLOT_H

#include <stdatomic.h>
#include <stdint.h>

#include "plock/interest.h"

struct plock__parking_slot {
    _Atomic uint64_t *word; /* only its lower half is compared */
    uint64_t value;         /* the process sleeps while the word has this value */
    _Atomic uint8_t *asleep;
    plock_waker *waker;               /* the interest's waker: a wake of it also ends the sleep */
    bool (*is_there)(const void *of); /* does the shared memory still exist? */
    const void *of;
};

/* Sleeps at the interest's parking slot. Returns false if the system has no futex_waitv. Otherwise
 * *status is the result that plock_await must return. */
PLOCK_MUST_USE bool plock__parking_slot_await(const plock_interest *interest,
                                              plock_waker *interrupt, plock_status *status);

/* Wakes the process that sleeps at this word. */
void plock__parking_slot_wake(_Atomic uint64_t *word);

#ifdef PLOCK_TESTING
/* Makes plock__parking_slot_await behave as on a system without futex_waitv, or as usual again.
 * Returns true if this system has futex_waitv. */
bool plock__parking_slot_forbid(bool forbidden);
#endif

#endif
