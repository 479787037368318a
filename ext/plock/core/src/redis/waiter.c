/* The life of a waiter, and the steps of its own thread. */
#include "redis/waiter_parts.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "redis/coordinator.h"
#include "redis/redis_lease.h"

#ifdef PLOCK_TESTING
#include <assert.h>
#endif

const plock_error PLOCK__WAITING_ENDED = {.status = PLOCK_DISCONNECTED,
                                          .message = "waiting for locks has been ended"};

/* --- lifecycle --- */

plock_waiter *plock__waiter_new(plock_node *node, size_t key_length) {
    plock_waiter *waiter = plock__allocate(sizeof *waiter + key_length);
    if (!waiter) return NULL;
    waiter->job = (plock_job){.step = plock__waiter_step, .destroy = plock__waiter_put_down};
    waiter->references = 1;
    waiter->generation = plock__generation();
    waiter->node = plock__node_retain(node);
    return waiter;
}

void plock__waiter_release(plock_waiter *waiter) {
    if (!plock__drop_reference(&waiter->references)) return;
    plock_waker_give(waiter->waker);
    plock__call_cancel(&waiter->call, NULL);
    plock__owner_clear(&waiter->subject.owner);
    if (waiter->watch) plock__watch_release(waiter->watch);
    plock__node_release(waiter->node);
    plock__free(waiter);
}

/* --- states --- */

#ifdef PLOCK_TESTING
/* Is the transition in the table (waiter.h)? */
static bool may_become(enum plock_waiter_state from, enum plock_waiter_state to) {
#define TO(state) (1u << PLOCK__WAITER_##state)
    static const unsigned NEXT[] = {
        [PLOCK__WAITER_ASKS] =
            TO(ASKS_CALLED) | TO(RESTS) | TO(HOLDS) | TO(FAILED) | TO(LEAVING) | TO(PARTED),
        [PLOCK__WAITER_ASKS_CALLED] = TO(ASKS) | TO(HOLDS) | TO(FAILED) | TO(LEAVING) | TO(PARTED),
        [PLOCK__WAITER_RESTS] = TO(ASKED) | TO(FAILED) | TO(LEAVING) | TO(PARTED),
        [PLOCK__WAITER_ASKED] =
            TO(ASKED_CALLED) | TO(ANSWERED) | TO(HOLDS) | TO(FAILED) | TO(GOING),
        [PLOCK__WAITER_ASKED_CALLED] = TO(ASKED) | TO(HOLDS) | TO(FAILED) | TO(GOING),
        [PLOCK__WAITER_ANSWERED] =
            TO(ANSWERED_CALLED) | TO(RESTS) | TO(FAILED) | TO(LEAVING) | TO(PARTED),
        [PLOCK__WAITER_ANSWERED_CALLED] = TO(ASKED) | TO(FAILED) | TO(LEAVING) | TO(PARTED),
        [PLOCK__WAITER_HOLDS] = TO(LEAVING),
        [PLOCK__WAITER_FAILED] = TO(LEAVING) | TO(PARTED),
        [PLOCK__WAITER_GOING] = TO(LEAVING) | TO(PARTED),
        [PLOCK__WAITER_LEAVING] = TO(PARTED),
        [PLOCK__WAITER_PARTED] = 0};
#undef TO
    return NEXT[from] >> to & 1;
}
#endif

void plock__waiter_become(plock_waiter *waiter, enum plock_waiter_state state) {
#ifdef PLOCK_TESTING
    assert(may_become(waiter->state, state));
#endif
    waiter->state = state;
    plock__wait_queue_note(waiter);
}

/* --- in the wait queue, with the mutex held --- */

bool plock__waiter_inherited(const plock_waiter *waiter) {
    return waiter->generation != plock__generation();
}

plock_wait_queue *plock__waiter_leave_queue(plock_waiter *waiter) {
    plock_wait_queue *queue = waiter->queue;
    if (!queue) return NULL;
    plock_coordinator *coordinator = plock__coordinator_among(queue);
    plock__wait_queue_remove(waiter);
    if (!queue->first) {
        plock__wait_queues_remove(queue);
        if (!coordinator->queues.first && plock__pool_closed(&waiter->node->pool))
            plock__worker_schedule(&coordinator->job);
        return queue;
    }
    if (queue->look_at == PLOCK_NEVER) { /* a look is under way, and may be this waiter's */
        plock__wait_queue_look_at(queue, plock_now());
        plock__coordinator_tell(coordinator, queue->look_at);
    }
    return NULL;
}

static bool is_shared(const plock_waiter *waiter) { return *waiter->subject.share != 0; }

/* Sets the time of the next look after an answer. An earlier time stays if the lock can have
 * several holders, because the earlier answers are still true. An earlier time also stays if this
 * waiter is not the first, so that the first waiter checks its place in time. */
static void schedule(plock_wait_queue *queue, const plock_waiter *waiter,
                     const plock_place *place) {
    /* while the waiters poll, the new time is soon enough, so an earlier time is dropped */
    const plock_ns before = queue->looks ? PLOCK_NEVER : queue->look_at;
    plock__wait_queue_schedule(queue, place, plock_now());
    if ((is_shared(waiter) || waiter != queue->first) && before < queue->look_at)
        plock__wait_queue_look_at(queue, before);
}

/* The waiter holds the lock. The other waiters need not look until a lease on the lock expires. But
 * if the waiter got the lock although its turn was not announced, the server may have lost the
 * queue with the lock. In that case, the next waiter looks at once. */
plock_wait_queue *plock__waiter_served(plock_waiter *waiter, const plock_grant *grant) {
    const plock_place place = {
        .free_in = grant->next_in < waiter->ttl ? grant->next_in : waiter->ttl, .notified = true};
    if (waiter->queue) {
        /* told_at was set for this waiter's turn or an earlier turn, so it is outdated */
        if (!is_shared(waiter)) waiter->queue->told_at = PLOCK_NEVER;
        schedule(waiter->queue, waiter, &place);
        if (!waiter->turn) plock__wait_queue_look_at(waiter->queue, PLOCK_NEVER);
    }
    return plock__waiter_leave_queue(waiter);
}

void plock__waiter_refused(plock_waiter *waiter, const plock_place *place) {
    const bool was_lost = waiter->queues && place->lost && waiter->known && !waiter->checks;
    waiter->place = *place;
    /* a shaken waiter may have lost its place after the server sent this answer, so it is due */
    waiter->due = !waiter->queues || waiter->shaken;
    waiter->known = waiter->known || waiter->queues;
    waiter->turn =
        waiter->state == PLOCK__WAITER_ASKS_CALLED || waiter->state == PLOCK__WAITER_ASKED_CALLED;
    waiter->unanswered_since = 0;
    waiter->error.status = PLOCK_OK;
    plock__wait_queue_note(waiter);
    if (waiter->queues && !place->notified && waiter->shares)
        atomic_store(&waiter->node->older_seen_at, plock_now());
    if (!waiter->queue) return;
    schedule(waiter->queue, waiter, place);
    plock_coordinator *coordinator = plock__coordinator_among(waiter->queue);
    if (was_lost) {
        plock__wait_queue_shake(waiter->queue, waiter);
        plock__worker_schedule(&coordinator->job);
    }
    plock__coordinator_tell(coordinator, waiter->queue->look_at);
}

void plock__waiter_unreached(plock_waiter *waiter, const plock_error *error, plock_ns since) {
    const bool wakes = !waiter->error.status || waiter->reports;
    waiter->error = *error;
    waiter->failures++;
    waiter->due = true;
    if (!waiter->unanswered_since) waiter->unanswered_since = since;
    plock__wait_queue_note(waiter);
    if (wakes && waiter->waker) plock_waker_wake(waiter->waker);
}

void plock__waiter_met_silence(const plock_waiter *waiter, const plock_error *error,
                               plock_ns since) {
    plock_wait_queue *queue = waiter->queue;
    if (!queue || error->status != PLOCK_SILENT) return;
    /* this skips `waiter` itself, because it is not resting */
    plock__wait_queue_unreached(queue, error, since);
    plock__worker_schedule(&plock__coordinator_among(queue)->job);
}

void plock__waiter_checks_if_shaken(plock_waiter *waiter) {
    waiter->checks = waiter->shaken;
    waiter->shaken = false;
}

/* --- the waiter's own thread --- */

static plock_status make(plock_waiter **out, plock_wait_queue **queue, plock_redis_lease *lease) {
    plock_waiter *waiter = *out = plock__waiter_new(lease->node, lease->subject.key.length);
    *queue = plock__wait_queue_new(lease->subject.key);
    plock_status status = waiter && *queue ? PLOCK_OK : PLOCK_NO_MEMORY;
    if (!status) status = plock__subject_copy(&waiter->subject, waiter->names, &lease->subject);
    if (status) return plock__fail_plainly(&lease->base.error, status);
    waiter->ttl = lease->new_ttl;
    waiter->shares = lease->shares;
    waiter->reports = lease->endures;
    waiter->place.ticket = lease->ticket;
    waiter->placed = lease->ticket != 0;
    if (lease->watch) waiter->watch = plock__watch_retain(lease->watch);
    waiter->renewed_for = lease->max_hold;
    return PLOCK_OK;
}

/* May the first request ask for the lock without joining the queue? It may if the channel is not
 * open, and no other waiter of this process waits for the key. */
static bool asks_plainly(const plock_coordinator *coordinator, plock_text key) {
    return !coordinator->open && !plock__wait_queue_find(&coordinator->queues, key);
}

/* Puts the waiter into the wait queue for its key. If there is none yet, *spare becomes that wait
 * queue, and *spare is set to NULL. Call with the mutex held. */
static void get_in_queue(plock_waiter *waiter, plock_wait_queue **spare,
                         plock_coordinator *coordinator, const plock_redis_lease *lease,
                         const plock_place *place, bool follows) {
    plock_wait_queue *queue = plock__wait_queue_find(&coordinator->queues, waiter->subject.key);
    if (!queue) {
        queue = *spare;
        *spare = NULL;
        plock__wait_queues_add(&coordinator->queues, queue);
    }
    plock__owner_sign(&waiter->subject.owner, plock__channel_text(&coordinator->channel),
                      lease->subject.owner.label);
    /* no waiter may overtake one that must still ask for its place */
    waiter->queues = coordinator->open && !follows && !queue->unplaced;
    waiter->due = !waiter->queues;
    if (waiter->due) plock__waiter_become(waiter, PLOCK__WAITER_RESTS);
    waiter->unanswered_since = waiter->due ? plock_now() : 0;
    /* the waiter has not asked yet, so the waiters that were refused go before it */
    waiter->follows = !place && !lease->ticket;
    if (place) plock__wait_queue_schedule(queue, place, plock_now());
    plock__wait_queue_insert(queue, waiter);
    plock__coordinator_places(coordinator, waiter->subject.key);
    if (waiter->due) plock__worker_schedule(&coordinator->job);
}

plock_status plock__waiter_join(plock_redis_lease *lease, const plock_place *place, bool follows,
                                bool *asks) {
    const bool first_look = !place && !lease->ticket && !follows;
    plock__lease_route(lease);
    lease->failures_told = 0;
    lease->waiter = NULL;
    *asks = true;
    if (first_look && !atomic_load(&lease->node->coordinator)) return PLOCK_OK;
    plock_waiter *waiter = NULL;
    plock_wait_queue *spare = NULL;
    plock_coordinator *coordinator, *start = NULL;
    plock_status status = make(&waiter, &spare, lease);
    if (!status)
        status = plock__coordinator_find(lease->node, &coordinator, &start, &lease->base.error);
    if (!status) {
        if (!(first_look && asks_plainly(coordinator, lease->subject.key))) {
            get_in_queue(waiter, &spare, coordinator, lease, place, follows);
            *asks = waiter->queues;
            lease->waiter = waiter;
            waiter = NULL;
        }
        plock__leave();
    }
    if (start) plock__coordinator_start(start);
    if (waiter) plock__waiter_release(waiter);
    plock__free(spare);
    return status;
}

plock_request plock__waiter_request(plock_waiter *waiter) {
    if (waiter->queues)
        return plock__queue_request(&waiter->subject, waiter->ttl, waiter->place.ticket,
                                    plock__node_window(waiter->node, waiter->shares));
    return plock__acquire_request(&waiter->subject, waiter->ttl, false);
}

/* Makes the waiter rest after its own thread was refused. Returns false if the waiter was called in
 * the meantime, so that it must ask again. */
static bool rest(plock_waiter *waiter) {
    const bool again = waiter->queue && waiter->state == PLOCK__WAITER_ASKS_CALLED;
    if (again) {
        plock__waiter_checks_if_shaken(waiter);
        plock__waiter_become(waiter, PLOCK__WAITER_ASKS);
    } else if (waiter->queue) {
        plock__waiter_become(waiter, PLOCK__WAITER_RESTS);
    } else { /* the coordinator has ended, so nothing would call the waiter */
        plock__waiter_fail(waiter, &PLOCK__WAITING_ENDED);
    }
    return !again;
}

bool plock__waiter_rest(plock_waiter *waiter, const plock_place *place) {
    plock__enter();
    waiter->placed = true;
    plock__waiter_refused(waiter, place);
    const bool rests = rest(waiter);
    plock__leave();
    return rests;
}

bool plock__waiter_rest_unreached(plock_waiter *waiter, const plock_error *error) {
    plock__enter();
    const plock_ns now = plock_now();
    /* the waiter is not resting yet, so plock__wait_queue_failed skips it */
    plock__waiter_unreached(waiter, error, now);
    if (waiter->queue) {
        plock__wait_queue_failed(waiter->queue, error, now, now);
        plock__coordinator_tell(plock__coordinator_among(waiter->queue), waiter->queue->look_at);
    }
    const bool rests = rest(waiter);
    plock__leave();
    return rests;
}

void plock__waiter_tell_of_silence(const plock_waiter *waiter, const plock_error *error,
                                   plock_ns since) {
    plock__enter();
    plock__waiter_met_silence(waiter, error, since);
    plock__leave();
}

static plock_status outcome(plock_waiter *waiter, plock_grant *grant, plock_error *error) {
    plock__enter();
    const plock_status status = waiter->state == PLOCK__WAITER_HOLDS    ? PLOCK_OK
                                : waiter->state == PLOCK__WAITER_FAILED ? waiter->error.status
                                                                        : PLOCK_AGAIN;
    if (status == PLOCK_OK)
        *grant = waiter->grant;
    else if (status != PLOCK_AGAIN)
        *error = waiter->error;
    plock__leave();
    return status;
}

plock_status plock__waiter_look(plock_waiter *waiter, plock_grant *grant, plock_interest *interest,
                                plock_error *error) {
    /* the wake may have been for the thread that had the waker before */
    if (waiter->waker) plock__waker_clear_if_woken(waiter->waker);
    plock_status status = outcome(waiter, grant, error);
    if (status == PLOCK_AGAIN && !waiter->waker) {
        plock_waker *waker = plock_waker_take();
        if (!waker) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
        plock__enter();
        waiter->waker = waker;
        plock__leave();
        status = outcome(waiter, grant, error);
    }
    const plock_interest woken = {
        .fd = -1, .waker = waiter->waker, .deadline = PLOCK_NEVER, .helps = true};
    if (status == PLOCK_AGAIN) *interest = woken;
    return status;
}

plock_owing plock__waiter_owing(const plock_waiter *waiter) {
    plock__enter();
    const plock_owing owing = {.since = waiter->unanswered_since,
                               .failures = waiter->failures,
                               .why = waiter->error,
                               .known = waiter->known,
                               .confirms = waiter->confirms};
    plock__leave();
    return owing;
}

void plock__waiter_finish(plock_waiter *waiter, const plock_grant *grant) {
    plock__enter();
    const bool own = !plock__waiter_inherited(waiter);
    if (own && plock__waiter_asks(waiter)) plock__waiter_become(waiter, PLOCK__WAITER_HOLDS);
    plock_wait_queue *empty = own ? plock__waiter_served(waiter, grant) : NULL;
    plock__leave();
    plock__free(empty);
    plock__waiter_release(waiter);
}

/* --- called by the coordinator --- */

bool plock__waiter_call(plock_waiter *waiter, bool turn) {
    waiter->turn = waiter->turn || turn;
    if (waiter->state != PLOCK__WAITER_RESTS) {
        plock__waiter_call_later(waiter);
        return false;
    }
    plock__waiter_become(waiter, PLOCK__WAITER_ASKED);
    waiter->references++;
    return true;
}

void plock__waiter_call_later(plock_waiter *waiter) {
    switch (waiter->state) {
    case PLOCK__WAITER_ASKS: plock__waiter_become(waiter, PLOCK__WAITER_ASKS_CALLED); break;
    case PLOCK__WAITER_ASKED: plock__waiter_become(waiter, PLOCK__WAITER_ASKED_CALLED); break;
    case PLOCK__WAITER_ANSWERED: plock__waiter_become(waiter, PLOCK__WAITER_ANSWERED_CALLED); break;
    default: break; /* it has been called already, or no longer asks */
    }
}

void plock__waiter_fail(plock_waiter *waiter, const plock_error *error) {
    plock__waiter_become(waiter, PLOCK__WAITER_FAILED);
    waiter->error = *error;
    if (waiter->waker) plock_waker_wake(waiter->waker);
}
