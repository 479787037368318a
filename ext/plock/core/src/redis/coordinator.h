/* The coordinator: what the native thread does for a store while anybody waits there, or holds a
 * lease that is watched. It listens on the channel, calls those whose turn comes, sends one of each
 * line to look when it is time, and tells of leases that were broken. */
#ifndef PLOCK__COORDINATOR_H
#define PLOCK__COORDINATOR_H

#include "redis/channel.h"
#include "redis/wait_queue.h"
#include "redis/watch.h"

struct plock_coordinator {
    plock_job job; /* first, so that both are one address */
    plock_store *store;
    unsigned generation;
    bool begun;

    plock_channel channel; /* the thread's own, but the id */
    plock_ns retry_at;
    unsigned failures;
    plock_ns idle_since; /* PLOCK_NEVER: it is not */

    /* Under the lock. */
    plock_coordinator *next; /* all of the process */
    plock_wait_queue *queues;
    plock_watch *watches;
    bool open; /* the channel is, so one can queue */
    /* the thread will look at the lines by then; it may find that it need not have */
    plock_ns looks_at;
};

/* The store's coordinator, or NULL where none is at work. With the lock held. */
plock_coordinator *plock__coordinator_of(plock_store *store);

/* The same, appointed where there was none: then *start is it, too, and has to be handed to
 * plock__coordinator_start without the lock. PLOCK_OK: the lock is held. Else PLOCK_NO_MEMORY or
 * PLOCK_CRYPTO, and it is not. */
PLOCK_MUST_USE plock_status plock__coordinator_find(plock_store *store,
                                                    plock_coordinator **coordinator,
                                                    plock_coordinator **start, plock_error *error);
void plock__coordinator_start(plock_coordinator *coordinator);

/* The store is used less: it may have no need of a coordinator any more. With the lock held. */
void plock__coordinator_review(plock_store *store);

/* There is something to do, now or by then. With the lock held. */
void plock__coordinator_schedule(plock_coordinator *coordinator);
void plock__coordinator_tell(plock_coordinator *coordinator, plock_ns by);

void plock__coordinators_in_child(void);

#endif
