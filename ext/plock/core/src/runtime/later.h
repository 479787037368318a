/* Work that begins later, unless it is cancelled before: the renewal of leases that are renewed
 * automatically. Most blocks end before that, so an entry and its removal usually wake no thread.
 */
#ifndef PLOCK__LATER_H
#define PLOCK__LATER_H

#include "plock/clock.h"
#include "plock/status.h"

#include <stdbool.h>

typedef struct plock_later plock_later;

/* A member of the entry's own struct. */
struct plock_later {
    plock_later *next, *previous;
    bool listed;
    plock_ns due;
    /* with the lock held, right before it begins: keeps the entry alive until it has begun */
    void (*keep)(plock_later *);
    void (*begin)(plock_later *); /* in the worker thread, without the lock */
};

/* Enters it without a date, and makes sure that a thread exists to begin it. Returns PLOCK_OK,
 * PLOCK_NO_MEMORY or PLOCK_DESCRIPTORS. */
PLOCK_MUST_USE plock_status plock__later_enter(plock_later *later, plock_error *error);

/* Sets the date, unless it has an earlier one. With the lock held. */
void plock__later_by(plock_later *later, plock_ns due);

/* Removes it, so that it does not begin. With the lock held, in the process that entered it. */
void plock__later_leave(plock_later *later);

/* Returns when to watch a lease that is renewed automatically: as late as possible, so that most
 * blocks are over by then. */
plock_ns plock__later_than(plock_ns now, plock_ns renew_at);

void plock__later_in_child(void);

#endif
