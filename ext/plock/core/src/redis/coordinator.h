/* The coordinator: a job of the worker thread for a node whose keys have waiters or watched leases.
 * It listens on the channel, calls the waiters whose turn comes, and notifies the watches of broken
 * leases. At the times that a wait queue sets, a waiter of that queue must ask the server again,
 * even without a message. The coordinator makes it ask (a look, see wait_queue.h). */
#ifndef PLOCK__COORDINATOR_H
#define PLOCK__COORDINATOR_H

#include "base/container.h"
#include "redis/channel.h"
#include "redis/failover.h"
#include "redis/wait_queue.h"
#include "redis/watch.h"

struct plock_coordinator {
    plock_job job; /* first, so that the job has the coordinator's address */
    plock_node *node;
    unsigned generation;
    bool begun;
    plock_failover *failover; /* NULL: none */
    plock_load *load;         /* the load of the cluster's map that it waits for; NULL: none */

    plock_channel channel; /* only the worker thread uses it, except for the id */
    plock_ns retry_at;
    unsigned failures;
    plock_ns idle_since; /* PLOCK_NEVER: it is not idle */

    /* Protected by the mutex. */
    plock_coordinator *next; /* in the list of this process */
    plock_wait_queues queues;
    plock_watch *watches;
    plock__index watches_by_key;
    bool open; /* the channel is open, so waiters can queue on the server */
    /* The next time at which the worker thread looks for due wait queues. It may find none. */
    plock_ns looks_at;
    /* The version of the store's routes when the worker thread last found that all keys of the
     * coordinator belong to its node. If the version differs, the worker thread checks again. */
    unsigned routes_seen;
};

/* Returns the coordinator that has the wait queue. Call with the mutex held. */
static inline plock_coordinator *plock__coordinator_among(const plock_wait_queue *queue) {
    return PLOCK__CONTAINER(plock_coordinator, queues, queue->among);
}

/* Must be called after a waiter or a watch for the key was added. If another node serves the key
 * now, makes the coordinator check where each of its own keys belongs. Call with the mutex held. */
void plock__coordinator_places(plock_coordinator *coordinator, plock_text key);

/* Finds the node's coordinator, or makes one. Returns PLOCK_OK with the mutex held, or
 * PLOCK_NO_MEMORY or PLOCK_CRYPTO without it. If *start is not NULL, the caller passes it to
 * plock__coordinator_start after releasing the mutex. */
PLOCK_MUST_USE plock_status plock__coordinator_find(plock_node *node,
                                                    plock_coordinator **coordinator,
                                                    plock_coordinator **start, plock_error *error);
void plock__coordinator_start(plock_coordinator *coordinator);

/* Makes the node's coordinator check whether it is still needed. Call with the mutex held. */
void plock__coordinator_review(plock_node *node);

/* Makes the coordinator step by the time `by`. Call with the mutex held. */
void plock__coordinator_tell(plock_coordinator *coordinator, plock_ns by);

void plock__coordinators_in_child(void);

#endif
