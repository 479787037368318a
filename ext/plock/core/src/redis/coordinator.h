/* The coordinator: a job of the worker thread for a store that has waiters, or leases that are
 * watched. It listens on the channel, calls the waiters whose turn comes, and tells the watches of
 * leases that were broken. When it is time, it sends one waiter of each wait queue to look. */
#ifndef PLOCK__COORDINATOR_H
#define PLOCK__COORDINATOR_H

#include "redis/channel.h"
#include "redis/wait_queue.h"
#include "redis/watch.h"

struct plock_coordinator {
    plock_job job; /* first, so that both are one address */
    plock_node *node;
    unsigned generation;
    bool begun;

    plock_channel channel; /* only the worker thread uses it, except for the id */
    plock_ns retry_at;
    unsigned failures;
    plock_ns idle_since; /* PLOCK_NEVER: it is not */

    /* Under the lock. */
    plock_coordinator *next; /* all of the process */
    plock_wait_queue *queues;
    plock_watch *watches;
    bool open; /* the channel is, so waiters can queue */
    /* the worker thread looks at the wait queues by then; it may find nothing due */
    plock_ns looks_at;
};

/* The store's coordinator, or NULL if there is none. With the lock held. */
plock_coordinator *plock__coordinator_of(plock_node *node);

/* The same, made if there is none: then the caller passes *start to plock__coordinator_start
 * without the lock. PLOCK_OK: the lock is held. Else PLOCK_NO_MEMORY or PLOCK_CRYPTO, and it is
 * not. */
PLOCK_MUST_USE plock_status plock__coordinator_find(plock_node *node,
                                                    plock_coordinator **coordinator,
                                                    plock_coordinator **start, plock_error *error);
void plock__coordinator_start(plock_coordinator *coordinator);

/* The store is used less, and may no longer need a coordinator. With the lock held. */
void plock__coordinator_review(plock_node *node);

/* The coordinator has something to do: now, or `by` then. With the lock held. */
void plock__coordinator_schedule(plock_coordinator *coordinator);
void plock__coordinator_tell(plock_coordinator *coordinator, plock_ns by);

void plock__coordinators_in_child(void);

#endif
