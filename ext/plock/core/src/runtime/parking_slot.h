/* A place in shared memory where one process sleeps until another changes it. */
#ifndef PLOCK__PARKING_SLOT_H
#define PLOCK__PARKING_SLOT_H

#include <stdatomic.h>
#include <stdint.h>

#include "plock/interest.h"

struct plock__parking_slot {
    _Atomic uint64_t *word; /* only its lower half is compared */
    uint64_t value;         /* the process sleeps while the word has this value */
    _Atomic uint8_t *asleep;
    plock_waker *waker; /* the interest's waker, for all other events that concern the process */
    bool (*is_there)(const void *of); /* may the process still write to it? NULL: it always may */
    const void *of;
};

/* Sleeps there. Returns false if the system lacks the call. *status is that of plock_await. */
PLOCK_MUST_USE bool plock__parking_slot_await(const plock_interest *interest,
                                              plock_waker *interrupt, plock_status *status);

/* Wakes the process that sleeps there. */
void plock__parking_slot_wake(_Atomic uint64_t *word);

#ifdef PLOCK_TESTING
/* Behaves as on a system without the call. Returns true if this system has it. */
bool plock__parking_slot_forbid(bool forbidden);
#endif

#endif
