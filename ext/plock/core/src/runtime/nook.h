/* A place in memory that processes share, where one of them sleeps until another has changed it. */
#ifndef PLOCK__NOOK_H
#define PLOCK__NOOK_H

#include <stdatomic.h>
#include <stdint.h>

#include "plock/want.h"

struct plock__nook {
    _Atomic uint64_t *word; /* its lower half is looked at */
    uint64_t value;         /* he sleeps as long as it is this */
    _Atomic uint8_t *asleep;
    plock_waker *bell; /* rung for everything else that concerns him: the want's waker */
    bool (*is_there)(const void *of); /* may it be written to, still? NULL: it always may */
    const void *of;
};

/* Sleeps there. False: the system does not have that; *status as plock_await. */
PLOCK_MUST_USE bool plock__nook_await(const plock_want *want, plock_waker *interrupt, plock_status *status);

/* Wakes whoever sleeps there. */
void plock__nook_wake(_Atomic uint64_t *word);

#ifdef PLOCK_TESTING
/* As on a system that does not have it. True: this one has. */
bool plock__nook_forbid(bool forbidden);
#endif

#endif
