/* A place in memory that processes share, where one of them sleeps until another has changed it. */
#ifndef PLOCK__PARKING_SLOT_H
#define PLOCK__PARKING_SLOT_H

#include <stdatomic.h>
#include <stdint.h>

#include "plock/interest.h"

struct plock__parking_slot {
    _Atomic uint64_t *word; /* its lower half is looked at */
    uint64_t value;         /* he sleeps as long as it is this */
    _Atomic uint8_t *asleep;
    plock_waker *waker; /* woken for everything else that concerns him: the interest's waker */
    bool (*is_there)(const void *of); /* may it be written to, still? NULL: it always may */
    const void *of;
};

/* Sleeps there. False: the system does not have that; *status as plock_await. */
PLOCK_MUST_USE bool plock__parking_slot_await(const plock_interest *interest,
                                              plock_waker *interrupt, plock_status *status);

/* Wakes whoever sleeps there. */
void plock__parking_slot_wake(_Atomic uint64_t *word);

#ifdef PLOCK_TESTING
/* As on a system that does not have it. True: this one has. */
bool plock__parking_slot_forbid(bool forbidden);
#endif

#endif
