/* Work that begins later unless it is cancelled, such as the automatic renewal of leases. Most
 * leases are released before their renewal begins, so an entry and its removal usually wake no
 * thread. */
#ifndef PLOCK__LATER_H
#define PLOCK__LATER_H

#include "base/heap.h"
#include "plock/status.h"

#include <stdbool.h>

typedef struct plock_later plock_later;

/* An entry in the list of later work, embedded in the struct of its lease, watch or trail. */
struct plock_later {
    bool listed;
    plock__heap_entry date; /* in the heap if the entry has a date */
    /* called with the mutex held, right before `begin`; takes a reference, so that the entry stays
     * alive during `begin` */
    void (*keep)(plock_later *);
    void (*begin)(plock_later *); /* called in the worker thread or a follower, without the mutex */
};

/* Adds the entry to the list, without a date, and makes sure that a thread exists to begin the
 * work. Returns PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_DESCRIPTORS. */
PLOCK_MUST_USE plock_status plock__later_enter(plock_later *later, plock_error *error);

/* Sets the date of a listed entry, unless the entry has an earlier date. Call with the mutex held.
 */
void plock__later_by(plock_later *later, plock_ns due);

/* Removes the entry, so that its work does not begin. Must be called with the mutex held, in the
 * process that added the entry. */
void plock__later_leave(plock_later *later);

/* Returns the time at which to begin watching a lease that is renewed automatically: after 0.25 s,
 * or halfway to the first renewal if that is earlier. Most leases are released before then. */
plock_ns plock__later_than(plock_ns now, plock_ns renew_at);

void plock__later_in_child(void);

#endif
