/* The coordinator: a job of the worker thread for a store that has waiters or watched leases. It
 * listens on the channel, calls the waiters whose turn comes, and notifies the watches of broken
 * leases. When a look is due in a wait queue, the coordinator makes one of its waiters look. */
#ifndef PLOCK__COORDINATOR_H
#define PLOCK__COORDINATOR_H

#include "base/container.h"
#include "redis/channel.h"
#include "redis/failover.h"
#include "redis/wait_queue.h"
#include "redis/watch.h"

struct plock_coordinator {
    plock_job job; /* first, so that both are one address */
    plock_node *node;
    unsigned generation;
    bool begun;
    plock_failover *failover; /* NULL: none */
    plock_load *load;         /* the map of the cluster that it waits for; NULL: none */

    plock_channel channel; /* only the worker thread uses it, except for the id */
    plock_ns retry_at;
    unsigned failures;
    plock_ns idle_since; /* PLOCK_NEVER: it is not idle */

    /* Under the lock. */
    plock_coordinator *next; /* in the list of this process */
    plock_wait_queues queues;
    plock_watch *watches;
    plock__index watches_by_key;
    bool open; /* the channel is open, so waiters can queue on the server */
    /* the worker thread looks through the wait queues by then, but may find nothing due */
    plock_ns looks_at;
    unsigned routes_seen; /* the version of the store's routes by which its keys belong here */
};

/* Returns the store's coordinator, or NULL if there is none. With the lock held. */
plock_coordinator *plock__coordinator_of(plock_node *node);

/* Returns the coordinator of a wait queue that is among a coordinator's. With the lock held. */
static inline plock_coordinator *plock__coordinator_among(const plock_wait_queue *queue) {
    return PLOCK__CONTAINER(plock_coordinator, queues, queue->among);
}

/* Something about the key was added. If another node serves it by now, makes the coordinator look
 * where its keys belong. With the lock held. */
void plock__coordinator_places(plock_coordinator *coordinator, plock_text key);

/* Finds the store's coordinator, or makes one. Returns PLOCK_OK with the lock held, or
 * PLOCK_NO_MEMORY or PLOCK_CRYPTO without it. If *start is not NULL, the caller passes it to
 * plock__coordinator_start after releasing the lock. */
PLOCK_MUST_USE plock_status plock__coordinator_find(plock_node *node,
                                                    plock_coordinator **coordinator,
                                                    plock_coordinator **start, plock_error *error);
void plock__coordinator_start(plock_coordinator *coordinator);

/* Makes the coordinator check whether the store still needs it. With the lock held. */
void plock__coordinator_review(plock_node *node);

/* Makes the coordinator step now, or at `by` at the latest. With the lock held. */
void plock__coordinator_schedule(plock_coordinator *coordinator);
void plock__coordinator_tell(plock_coordinator *coordinator, plock_ns by);

void plock__coordinators_in_child(void);

#endif
