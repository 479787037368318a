#include "redis/coordinator.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/pause.h"
#include "base/process.h"
#include "redis/reroute.h"
#include "redis/routes.h"

/* How long a coordinator stays when nothing needs it. It costs a connection and a sleeping thread,
 * but the next waiter may come soon, and then finds the channel open. */
static const plock_ns IDLE = 5 * PLOCK_SECOND;

static plock_coordinator *coordinators; /* the coordinators of this process; under the mutex */

/* --- the wait queues, with the mutex held --- */

/* Makes all waiters ask for their places again. While the channel was closed, the server could not
 * notify this process, and may have removed its waiters from the queue. Even a waiter that has a
 * request under way may have been removed, so it asks once more. */
static void channel_opened(plock_coordinator *coordinator) {
    coordinator->open = true;
    for (plock_wait_queue *queue = coordinator->queues.first; queue; queue = queue->next)
        plock__wait_queue_shake(queue, NULL);
    plock__watch_doubt(coordinator->watches);
}

/* Visits the wait queues that are due or have changed, until one of them has a waiter that must ask
 * the server. Returns that waiter. If there is none, returns NULL, and lowers *at to the time at
 * which a queue is next due. */
static plock_waiter *next_to_look(plock_coordinator *coordinator, plock_ns now, plock_ns *at) {
    for (plock_wait_queue *queue; (queue = plock__wait_queues_due(&coordinator->queues, now));) {
        plock_ns next = PLOCK_NEVER;
        plock_waiter *waiter = plock__wait_queue_next(queue, coordinator->open, now, &next);
        if (waiter) plock__wait_queue_looks(queue, now);
        const bool asks = waiter && plock__waiter_call(waiter, false);
        /* plock__waiter_call has changed the queue, so the queue is due again */
        if (asks) return waiter;
        /* this waiter cannot ask before its job has ended; the end of the job changes the queue,
         * which makes the queue due again */
        plock__wait_queue_come_at(queue, next);
    }
    const plock_ns first = plock__heap_at(&coordinator->queues.looks);
    if (first < *at) *at = first;
    return NULL;
}

static void fail_all(plock_coordinator *coordinator, const plock_error *error) {
    for (plock_wait_queue *queue = coordinator->queues.first; queue; queue = queue->next)
        for (plock_waiter *waiter = queue->first; waiter; waiter = waiter->next)
            if (plock__waiter_rests(waiter)) plock__waiter_fail(waiter, error);
}

/* Called if the channel cannot be opened. While the server cannot be reached, the waiters rest
 * until they give up. Other failures do not pass by themselves, so the waiters fail. */
static void meet_failure(plock_coordinator *coordinator, const plock_error *error) {
    if (!plock_status_unreachable(error->status)) {
        fail_all(coordinator, error);
        return;
    }
    const plock_ns now = plock_now();
    for (plock_wait_queue *queue = coordinator->queues.first; queue; queue = queue->next)
        plock__wait_queue_failed(queue, error, now, now);
}

/* --- steps --- */

static void understand(plock_coordinator *coordinator, const plock_message *message) {
    plock__enter();
    if (!message->kind) channel_opened(coordinator);
    bool elsewhere = false; /* another coordinator has the waiter, or may have it */
    plock_waiter *waiter =
        message->kind ? plock__reroute_find(coordinator, message, &elsewhere) : NULL;
    const bool shared = message->kind == '+', turn = shared || message->kind == '=';
    const bool employ = turn && waiter && plock__waiter_call(waiter, true);
    if (message->kind == '~' && waiter) {
        const plock_ns at = plock_now() + (plock_ns)message->ms * PLOCK_MILLISECOND;
        plock_coordinator *its = plock__coordinator_among(waiter->queue);
        plock__wait_queue_told(waiter->queue, at);
        if (its != coordinator) plock__coordinator_tell(its, at);
    }
    if (message->kind == '!') plock__reroute_break(coordinator, message);
    plock__leave();
    if (employ) plock__worker_submit(&waiter->job);
    if (turn && !waiter && !elsewhere)
        plock__waiter_pass_on(coordinator->node, message->key, message->value, shared);
}

static void channel_failed(plock_coordinator *coordinator, const plock_error *error) {
    coordinator->retry_at = plock_now() + plock__pause_before_trying(coordinator->failures++);
    if (coordinator->node->store->routes) plock__routes_distrust(coordinator->node);
    plock__enter();
    /* If the channel was open, it will be opened again. The waiters keep waiting, because their
     * tickets keep their places in the queue. */
    if (!coordinator->open) meet_failure(coordinator, error);
    coordinator->open = false;
    plock__leave();
}

/* Call with the mutex held. */
static bool needed(const plock_coordinator *coordinator) {
    return coordinator->queues.first || coordinator->watches;
}

static bool is_needed(const plock_coordinator *coordinator) {
    plock__enter();
    const bool yes = needed(coordinator);
    plock__leave();
    return yes;
}

/* Closes the channel if it leads to an earlier primary. This is so if sentinels have named another
 * primary since the channel was opened, or if the server has said that it is no primary. */
static void leave_stale_server(plock_coordinator *coordinator) {
    plock_channel *channel = &coordinator->channel;
    if (!channel->connection) return;
    plock__enter();
    const bool stale = plock__node_left(coordinator->node, channel->connection);
    if (stale) coordinator->open = false;
    plock__leave();
    if (stale) plock__channel_close(channel, coordinator->node);
}

/* For a node that is no server (routes.h). Waits for the map. Once the map is loaded, all waiters
 * and watches move to the nodes that the map names. */
static void await_map(plock_coordinator *coordinator, plock_ns now, plock_interest *interest) {
    plock_error error = {.status = PLOCK_OK};
    if (!is_needed(coordinator)) return;
    interest->deadline = coordinator->retry_at;
    if (now < coordinator->retry_at) return;
    interest->deadline = PLOCK_NEVER;
    const plock_status status =
        plock__routes_await(coordinator->node->store, &coordinator->load, interest, &error);
    if (status == PLOCK_AGAIN) return;
    if (!status) (void)plock__fail(&error, PLOCK_CLUSTERDOWN, "no node of the cluster serves it");
    channel_failed(coordinator, &error);
    *interest = (plock_interest){.fd = -1, .deadline = coordinator->retry_at};
}

static void attend(plock_coordinator *coordinator, plock_ns now, plock_interest *interest) {
    if (plock__is_no_server(coordinator->node)) {
        await_map(coordinator, now, interest);
        return;
    }
    leave_stale_server(coordinator);
    if (coordinator->channel.state == PLOCK__CHANNEL_CLOSED) {
        if (!is_needed(coordinator)) return; /* the next waiter or watch schedules the job */
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
        /* Before looks_at has come, it is never moved to a later time, even if the wait queue that
         * set it is gone. This may wake the thread once for nothing. But if looks_at were later,
         * each new wait queue would wake the thread. */
        if (now >= coordinator->looks_at || at < coordinator->looks_at) coordinator->looks_at = at;
        if (coordinator->looks_at < interest->deadline) interest->deadline = coordinator->looks_at;
        plock__leave();
        if (!waiter) return;
        plock__worker_submit(&waiter->job);
    }
}

/* Returns how long the job may go without a step. Without waiters and watches, no message
 * matters, and only a channel that is being opened needs steps. */
static plock_ns idle(const plock_job *job) {
    const plock_coordinator *coordinator = (const plock_coordinator *)(const void *)job;
    const bool rests = coordinator->channel.state == PLOCK__CHANNEL_OPEN ||
                       coordinator->channel.state == PLOCK__CHANNEL_CLOSED;
    return !needed(coordinator) && rests ? PLOCK_SECOND : 0;
}

/* Must the node still learn of failovers, because its connections have been used lately? */
static bool attends_failovers(const plock_coordinator *coordinator, plock_ns now) {
    return coordinator->failover && now - atomic_load(&coordinator->node->reached_at) < IDLE;
}

/* Ends the coordinator and returns true if no waiter, watch or connection to a primary has needed
 * it for a while. If the program no longer uses the store, the coordinator ends as soon as it has
 * no waiter and no watch. After that, nothing reports a failover to this process. So if the node
 * has sentinels, its existing connections are not used again. */
static bool retires(plock_coordinator *coordinator, plock_ns now, plock_interest *interest) {
    const bool attends = attends_failovers(coordinator, now);
    plock__enter();
    const bool unneeded = !needed(coordinator), rests = unneeded && !attends;
    const bool unused = plock__store_unused(coordinator->node->store) ||
                        plock__pool_closed(&coordinator->node->pool);
    if (!rests)
        coordinator->idle_since = PLOCK_NEVER;
    else if (coordinator->idle_since == PLOCK_NEVER)
        coordinator->idle_since = now;
    const bool over = unneeded && (unused || (rests && now >= coordinator->idle_since + IDLE));
    if (over) atomic_store(&coordinator->node->coordinator, NULL);
    plock__leave();
    if (over && coordinator->failover) plock__pool_distrust(&coordinator->node->pool);
    /* set a deadline, because the last waiter or watch may leave without scheduling the job */
    const plock_ns again = (rests ? coordinator->idle_since : now) + IDLE;
    if (again < interest->deadline) interest->deadline = again;
    return over;
}

static plock_status step(plock_job *job, plock_interest *interest) {
    plock_coordinator *coordinator = (plock_coordinator *)(void *)job;
    const plock_ns now = plock_now();
    *interest = (plock_interest){.fd = -1, .deadline = PLOCK_NEVER};
    coordinator->begun = true;
    const plock_ns reroutes_at = plock__reroute(coordinator, now);
    attend(coordinator, now, interest);
    if (coordinator->channel.tag_lost) plock__reroute_tag(coordinator);
    send_to_look(coordinator, now, interest);
    if (reroutes_at < interest->deadline) interest->deadline = reroutes_at;
    return retires(coordinator, now, interest) ? PLOCK_OK : PLOCK_AGAIN;
}

/* --- lifecycle --- */

static void unlink_coordinator(plock_coordinator *coordinator) {
    plock_coordinator **link = &coordinators;
    while (*link && *link != coordinator) link = &(*link)->next;
    if (*link) *link = coordinator->next;
    if (atomic_load(&coordinator->node->coordinator) == coordinator)
        atomic_store(&coordinator->node->coordinator, NULL);
}

static void free_unused(plock_coordinator *coordinator) {
    plock__failover_end(coordinator->failover);
    plock__store_unattend(coordinator->node);
    plock__free(coordinator);
}

/* In a forked child the waiters belong to the parent, and the child does not touch them. */
static void destroy(plock_job *job) {
    plock_coordinator *coordinator = (plock_coordinator *)(void *)job;
    const plock_error never_begun = {.status = PLOCK_DESCRIPTORS,
                                     .message =
                                         "no thread or file descriptor is left to wait with"};
    plock__enter();
    unlink_coordinator(coordinator);
    plock_wait_queue *queues = coordinator->queues.first;
    if (coordinator->generation == plock__generation()) {
        fail_all(coordinator, coordinator->begun ? &PLOCK__WAITING_ENDED : &never_begun);
        plock__watch_forsake(coordinator->watches);
        for (plock_wait_queue *queue = queues; queue; queue = queue->next)
            while (queue->first) plock__wait_queue_remove(queue->first);
    }
    plock__leave();
    plock__wait_queues_free(queues);
    plock__channel_close(&coordinator->channel, coordinator->node);
    plock__routes_abandon(&coordinator->load);
    free_unused(coordinator);
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
    coordinator->job = (plock_job){.step = step, .destroy = destroy, .idle = idle, .lingers = true};
    coordinator->generation = plock__generation();
    coordinator->idle_since = coordinator->looks_at = PLOCK_NEVER;
    coordinator->node = plock__store_attend(node);
    coordinator->failover = plock__failover_new(node);
    return coordinator;
}

plock_status plock__coordinator_find(plock_node *node, plock_coordinator **found,
                                     plock_coordinator **start, plock_error *error) {
    *start = NULL;
    plock__enter();
    *found = atomic_load(&node->coordinator);
    if (*found) return PLOCK_OK;
    plock__leave();
    plock_coordinator *made = new_coordinator(node, error);
    if (!made) return error->status;
    plock__enter();
    *found = atomic_load(&node->coordinator);
    if (*found) { /* another thread was quicker */
        plock__leave();
        free_unused(made);
        return plock__coordinator_find(node, found, start, error);
    }
    *found = *start = made;
    plock__reroute_name(made);
    atomic_store(&node->coordinator, made);
    made->next = coordinators;
    coordinators = made;
    return PLOCK_OK;
}

void plock__coordinator_start(plock_coordinator *coordinator) {
    plock__failover_start(coordinator->failover);
    plock__worker_submit(&coordinator->job);
}

void plock__coordinator_review(plock_node *node) {
    plock_coordinator *coordinator = atomic_load(&node->coordinator);
    if (coordinator) plock__worker_schedule(&coordinator->job);
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
