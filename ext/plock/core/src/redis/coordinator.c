#include "redis/coordinator.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/pause.h"
#include "base/process.h"

/* For how long an idle coordinator stays. It costs a connection and a sleeping thread, but other
 * waiters may come soon. */
static const plock_ns IDLE = 5 * PLOCK_SECOND;

static plock_coordinator *coordinators; /* of this process; under the lock */

/* --- the wait queues, with the lock held --- */

static plock_waiter *find(const plock_coordinator *coordinator, const plock_message *message) {
    return plock__wait_queue_waiter(plock__wait_queue_find(coordinator->queues, message->key),
                                    message->value);
}

/* All waiters ask again, because the server removes a waiter from the queue if it cannot be called.
 * This may also have happened to a waiter whose refusal is still under way. */
static void channel_opened(plock_coordinator *coordinator) {
    coordinator->open = true;
    for (plock_wait_queue *queue = coordinator->queues; queue; queue = queue->next)
        plock__wait_queue_shake(queue, NULL);
    plock__watch_doubt(coordinator->watches);
}

static plock_waiter *next_to_look(plock_coordinator *coordinator, plock_ns now, plock_ns *at) {
    for (plock_wait_queue *queue = coordinator->queues; queue; queue = queue->next) {
        plock_waiter *waiter = plock__wait_queue_next(queue, coordinator->open, now, at);
        if (!waiter) continue;
        plock__wait_queue_looks(queue, now);
        if (plock__waiter_call(waiter, false)) return waiter;
    }
    return NULL;
}

static void fail_all(plock_coordinator *coordinator, const plock_error *error) {
    for (plock_wait_queue *queue = coordinator->queues; queue; queue = queue->next)
        for (plock_waiter *waiter = queue->first; waiter; waiter = waiter->next)
            if (plock__waiter_rests(waiter)) plock__waiter_fail(waiter, error);
}

/* --- steps --- */

static void understand(plock_coordinator *coordinator, const plock_message *message) {
    plock__enter();
    if (!message->kind) channel_opened(coordinator);
    plock_waiter *waiter = message->kind ? find(coordinator, message) : NULL;
    const bool shared = message->kind == '+', turn = shared || message->kind == '=';
    const bool employ = turn && waiter && plock__waiter_call(waiter, true);
    if (message->kind == '~' && waiter)
        plock__wait_queue_told(waiter->queue,
                               plock_now() + (plock_ns)message->ms * PLOCK_MILLISECOND);
    if (message->kind == '!')
        plock__watch_broken(coordinator->watches, message->key, message->value);
    plock__leave();
    if (employ) plock__worker_submit(&waiter->job);
    if (turn && !waiter)
        plock__waiter_pass_on(coordinator->node, message->key, message->value, shared);
}

static void channel_failed(plock_coordinator *coordinator, const plock_error *error) {
    coordinator->retry_at = plock_now() + plock__pause_before_trying(coordinator->failures++);
    plock__enter();
    /* If the channel was open, it will be opened again, and the tickets keep the places in the
     * queue: so the waiters go on. */
    if (!coordinator->open) fail_all(coordinator, error);
    coordinator->open = false;
    plock__leave();
}

/* With the lock held. */
static bool needed(const plock_coordinator *coordinator) {
    return coordinator->queues || coordinator->watches;
}

static bool is_needed(const plock_coordinator *coordinator) {
    plock__enter();
    const bool yes = needed(coordinator);
    plock__leave();
    return yes;
}

static void attend(plock_coordinator *coordinator, plock_ns now, plock_interest *interest) {
    if (coordinator->channel.state == PLOCK__CHANNEL_CLOSED) {
        if (!is_needed(coordinator)) return; /* the next waiter or watch schedules it */
        if (now < coordinator->retry_at) {
            interest->deadline = coordinator->retry_at;
            return;
        }
    }
    plock_message message;
    plock_error error = {.status = PLOCK_OK};
    plock_status status;
    for (bool reads = coordinator->job.ready;; reads = false) {
        status = plock__channel_step(&coordinator->channel, coordinator->node, reads, &message,
                                     interest, &error);
        if (status) break;
        coordinator->failures = 0;
        understand(coordinator, &message);
    }
    if (status == PLOCK_AGAIN) return;
    channel_failed(coordinator, &error);
    *interest = (plock_interest){.fd = -1, .deadline = coordinator->retry_at};
}

static void send_to_look(plock_coordinator *coordinator, plock_ns now, plock_interest *interest) {
    for (;;) {
        plock__enter();
        plock_ns at = interest->deadline;
        plock_waiter *waiter = next_to_look(coordinator, now, &at);
        /* An earlier date is kept, though its wait queue may be gone. To wake this thread once for
         * nothing costs less than to wake it for each new wait queue. */
        if (now >= coordinator->looks_at || at < coordinator->looks_at) coordinator->looks_at = at;
        if (coordinator->looks_at < interest->deadline) interest->deadline = coordinator->looks_at;
        plock__leave();
        if (!waiter) return;
        plock__worker_submit(&waiter->job);
    }
}

/* May the job wait without a step? Without waiters and watches no message matters. */
static bool idle(const plock_job *job) {
    const plock_coordinator *coordinator = (const plock_coordinator *)(const void *)job;
    return !needed(coordinator) && coordinator->channel.state == PLOCK__CHANNEL_OPEN;
}

/* Has no waiter and no watch needed the coordinator for a while? Then it ends. */
static bool retires(plock_coordinator *coordinator, plock_ns now, plock_interest *interest) {
    plock__enter();
    const bool unneeded = !needed(coordinator);
    const bool unused =
        plock__node_used_once(coordinator->node) || plock__pool_closed(&coordinator->node->pool);
    if (!unneeded)
        coordinator->idle_since = PLOCK_NEVER;
    else if (coordinator->idle_since == PLOCK_NEVER)
        coordinator->idle_since = now;
    const bool over = unneeded && (unused || now >= coordinator->idle_since + IDLE);
    if (over) atomic_store(&coordinator->node->coordinator, NULL);
    plock__leave();
    /* nothing schedules the job when the last waiter or watch leaves, so set a deadline */
    const plock_ns again = (unneeded ? coordinator->idle_since : now) + IDLE;
    if (again < interest->deadline) interest->deadline = again;
    return over;
}

static plock_status step(plock_job *job, plock_interest *interest) {
    plock_coordinator *coordinator = (plock_coordinator *)(void *)job;
    const plock_ns now = plock_now();
    *interest = (plock_interest){.fd = -1, .deadline = PLOCK_NEVER};
    coordinator->begun = true;
    attend(coordinator, now, interest);
    send_to_look(coordinator, now, interest);
    return retires(coordinator, now, interest) ? PLOCK_OK : PLOCK_AGAIN;
}

/* --- life --- */

plock_coordinator *plock__coordinator_of(plock_node *node) {
    return atomic_load(&node->coordinator);
}

static void free_queues(plock_wait_queue *list) {
    while (list) {
        plock_wait_queue *queue = list;
        list = queue->next;
        plock__free(queue);
    }
}

static void unlink_coordinator(plock_coordinator *coordinator) {
    plock_coordinator **link = &coordinators;
    while (*link && *link != coordinator) link = &(*link)->next;
    if (*link) *link = coordinator->next;
    if (atomic_load(&coordinator->node->coordinator) == coordinator)
        atomic_store(&coordinator->node->coordinator, NULL);
}

/* In a forked child the waiters belong to the parent, and the child does not touch them. */
static void destroy(plock_job *job) {
    plock_coordinator *coordinator = (plock_coordinator *)(void *)job;
    const plock_error ended = {.status = PLOCK_DISCONNECTED,
                               .message = "waiting for locks has been ended"};
    const plock_error never_begun = {.status = PLOCK_DESCRIPTORS,
                                     .message =
                                         "no thread or file descriptor is left to wait with"};
    plock__enter();
    unlink_coordinator(coordinator);
    plock_wait_queue *queues = coordinator->queues;
    if (coordinator->generation == plock__generation()) {
        fail_all(coordinator, coordinator->begun ? &ended : &never_begun);
        for (plock_wait_queue *queue = queues; queue; queue = queue->next)
            while (queue->first) plock__wait_queue_remove(queue->first);
    }
    plock__leave();
    free_queues(queues);
    plock__channel_close(&coordinator->channel, coordinator->node);
    plock__node_release(coordinator->node);
    plock__free(coordinator);
}

static plock_coordinator *new_coordinator(plock_node *node, plock_error *error) {
    plock_coordinator *coordinator = plock__allocate(sizeof *coordinator);
    const plock_status status =
        coordinator ? plock__channel_name(&coordinator->channel) : PLOCK_NO_MEMORY;
    if (status) {
        (void)plock__fail_plainly(error, status);
        plock__free(coordinator);
        return NULL;
    }
    coordinator->job.step = step;
    coordinator->job.destroy = destroy;
    coordinator->job.idle = idle;
    coordinator->job.lingers = true;
    coordinator->generation = plock__generation();
    coordinator->idle_since = coordinator->looks_at = PLOCK_NEVER;
    coordinator->node = plock__node_retain(node);
    return coordinator;
}

static void free_unused(plock_coordinator *coordinator) {
    if (coordinator) plock__node_release(coordinator->node);
    plock__free(coordinator);
}

plock_status plock__coordinator_find(plock_node *node, plock_coordinator **found,
                                     plock_coordinator **start, plock_error *error) {
    *start = NULL;
    plock__enter();
    *found = plock__coordinator_of(node);
    if (*found) return PLOCK_OK;
    plock__leave();
    plock_coordinator *made = new_coordinator(node, error);
    if (!made) return error->status;
    plock__enter();
    *found = plock__coordinator_of(node);
    if (*found) { /* another thread was quicker */
        plock__leave();
        free_unused(made);
        return plock__coordinator_find(node, found, start, error);
    }
    *found = *start = made;
    atomic_store(&node->coordinator, made);
    made->next = coordinators;
    coordinators = made;
    return PLOCK_OK;
}

void plock__coordinator_start(plock_coordinator *coordinator) {
    plock__worker_submit(&coordinator->job);
}

void plock__coordinator_review(plock_node *node) {
    plock_coordinator *coordinator = plock__coordinator_of(node);
    if (coordinator) plock__coordinator_schedule(coordinator);
}

void plock__coordinator_schedule(plock_coordinator *coordinator) {
    plock__worker_schedule(&coordinator->job);
}

void plock__coordinator_tell(plock_coordinator *coordinator, plock_ns by) {
    if (by >= coordinator->looks_at) return;
    coordinator->looks_at = by;
    plock__worker_schedule(&coordinator->job);
}

/* In a forked child: forgets the coordinators, whose thread and waiters belong to the parent. */
void plock__coordinators_in_child(void) {
    for (plock_coordinator *coordinator = coordinators; coordinator;
         coordinator = coordinator->next)
        atomic_store(&coordinator->node->coordinator, NULL);
    coordinators = NULL;
}
