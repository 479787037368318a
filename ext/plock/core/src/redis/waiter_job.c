/* A waiter's job in the worker thread: it asks for the lock. */
#include "redis/waiter_parts.h"

#include "base/expiry.h"
#include "base/memory.h"
#include "base/process.h"
#include "redis/coordinator.h"
#include "redis/store.h"
#include "redis/watch.h"

static void begin_asking(plock_waiter *waiter) {
    plock__enter();
    waiter->queues = waiter->queue && plock__coordinator_among(waiter->queue)->open;
    if (waiter->state == PLOCK__WAITER_ASKED_CALLED)
        plock__waiter_become(waiter, PLOCK__WAITER_ASKED);
    plock__waiter_checks_if_shaken(waiter);
    if (!waiter->error.status) waiter->unanswered_since = plock_now();
    waiter->confirms = false;
    plock__leave();
    const plock_request request = plock__waiter_request(waiter);
    plock__call_begin(&waiter->call, waiter->node, &request,
                      plock_after(plock_now(), waiter->node->config->command_timeout));
}

/* Can the waiter keep its token and its place after this failure? It can if the server has received
 * nothing that may still be executed. */
static bool stays(const plock_waiter *waiter, plock_status status) {
    return waiter->queue && plock_status_unreachable(status) && !plock__call_left(&waiter->call);
}

static void fail(plock_waiter *waiter, const plock_error *error) {
    plock__waiter_met_silence(waiter, error, waiter->unanswered_since);
    plock__waiter_fail(waiter, error);
    const plock_place unknown = {.free_in = PLOCK_NEVER};
    /* this request may have been the look that was due, so another waiter must look soon */
    if (waiter->queue) plock__wait_queue_schedule(waiter->queue, &unknown, plock_now());
}

/* Handles the end of a request that the job sent. Returns true if the job must ask again. */
static bool conclude(plock_waiter *waiter, plock_status status, const plock_grant *grant,
                     const plock_place *place, const plock_error *error) {
    plock_wait_queue *empty = NULL;
    plock__enter();
    const bool left = plock__call_left(&waiter->call);
    waiter->placed = waiter->placed || (left && waiter->queues);
    waiter->doubt = waiter->doubt || status == PLOCK_OK ||
                    (status != PLOCK_REFUSED && left && plock_status_leaves_doubt(status));
    waiter->confirms = false;
    bool again = false, leaves = false;
    plock_waker *waker = NULL;
    if (waiter->state == PLOCK__WAITER_GOING) {
        leaves = plock__waiter_depart(waiter);
    } else if (status == PLOCK_OK) {
        plock__waiter_become(waiter, PLOCK__WAITER_HOLDS);
        waiter->unanswered_since = 0;
        waiter->grant = *grant;
        waker = waiter->waker;
        empty = plock__waiter_served(waiter, grant);
    } else if (status == PLOCK_REFUSED || stays(waiter, status)) {
        if (status == PLOCK_REFUSED) {
            plock__waiter_refused(waiter, place);
        } else {
            plock__waiter_unreached(waiter, error, waiter->unanswered_since);
            plock__wait_queue_failed(waiter->queue, error, waiter->unanswered_since, plock_now());
        }
        again = waiter->state == PLOCK__WAITER_ASKED_CALLED;
        plock__waiter_become(waiter, again ? PLOCK__WAITER_ASKED : PLOCK__WAITER_ANSWERED);
    } else {
        fail(waiter, error);
    }
    plock__leave();
    /* not with the mutex held, because the woken thread takes the mutex */
    if (waker) plock__worker_wake(waker);
    if (leaves) plock__waiter_leave(waiter);
    plock__free(empty);
    return again;
}

static bool has_gone(const plock_waiter *waiter) {
    plock__enter();
    const bool gone = waiter->state == PLOCK__WAITER_GOING;
    plock__leave();
    return gone;
}

/* The undo follows the request on the same connection, because the server may execute the request
 * after the waiter has left on another connection. */
static void give_up_asking(plock_waiter *waiter) {
    const plock_request undo = plock__leave_request(&waiter->subject, true);
    plock__call_cancel(&waiter->call, &undo);
}

static void note_confirming(plock_waiter *waiter) {
    plock__enter();
    waiter->confirms = true;
    waiter->unanswered_since = 0; /* the server has answered */
    plock__leave();
}

static plock_status ask(plock_waiter *waiter, plock_interest *interest) {
    for (;;) {
        if (waiter->call.state == PLOCK__CALL_NONE) begin_asking(waiter);
        const plock_value *answer;
        plock_error error = {.status = PLOCK_OK};
        plock_status status = plock__call_step(&waiter->call, &answer, interest, &error);
        if (status == PLOCK_AGAIN && waiter->call.state == PLOCK__CONFIRMING)
            note_confirming(waiter);
        if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
        plock_grant grant = {.asked_at = waiter->call.left_at};
        plock_place place = waiter->place;
        if (!status) status = plock__read_acquired(answer, &grant, &place, &error);
        if (status == PLOCK_OK || status == PLOCK_REFUSED)
            plock__call_finish(&waiter->call);
        else
            give_up_asking(waiter);
        /* the job starts the watch, because the waiter's own thread may be too late to renew the
         * lease */
        if (status == PLOCK_OK && waiter->watch && !has_gone(waiter))
            plock__watch_start(waiter->watch, &waiter->subject, waiter->ttl,
                               plock__expiry(grant.asked_at, waiter->ttl),
                               plock_after(grant.asked_at, waiter->renewed_for));
        if (!conclude(waiter, status, &grant, &place, &error)) return PLOCK_OK;
    }
}

/* If the waiter gave up before its job began a request, lets the waiter leave, and returns true. */
static bool departs_unasked(plock_waiter *waiter) {
    plock__enter();
    const bool gone = waiter->state == PLOCK__WAITER_GOING;
    const bool leaves = gone && plock__waiter_depart(waiter);
    plock__leave();
    if (leaves) plock__waiter_leave(waiter);
    return gone;
}

/* If the waiter gives up while a request is under way, the job still waits for the answer.
 * Cancelling the request would close its connection, and a new connection would cost more than the
 * wait. */
plock_status plock__waiter_step(plock_job *job, plock_interest *interest) {
    plock_waiter *waiter = (plock_waiter *)(void *)job;
    if (waiter->call.state == PLOCK__CALL_NONE && departs_unasked(waiter)) return PLOCK_OK;
    return ask(waiter, interest);
}

/* Called when the job has ended, could not begin, or is cut off by the end of the worker thread. */
void plock__waiter_put_down(plock_job *job) {
    plock_waiter *waiter = (plock_waiter *)(void *)job;
    give_up_asking(waiter);
    plock__enter();
    const bool own = !plock__waiter_inherited(waiter);
    bool again = false;
    if (own && plock__waiter_asked(waiter)) {
        const bool left = plock__call_left(&waiter->call);
        waiter->placed = waiter->placed || left;
        waiter->doubt = waiter->doubt || left;
        fail(waiter, &PLOCK__WAITING_ENDED);
    } else if (own && waiter->state == PLOCK__WAITER_ANSWERED) {
        plock__waiter_become(waiter, PLOCK__WAITER_RESTS);
    } else if (own && waiter->state == PLOCK__WAITER_ANSWERED_CALLED) {
        plock__waiter_become(waiter, PLOCK__WAITER_ASKED);
        again = true;
    } else if (own && waiter->state == PLOCK__WAITER_GOING) {
        plock__waiter_say_parted(waiter);
    }
    plock_node *node = plock__store_node(waiter->node->store, waiter->subject.key);
    plock_coordinator *coordinator = own ? atomic_load(&node->coordinator) : NULL;
    /* another waiter may now have to ask for its place */
    if (coordinator && coordinator->queues.first) plock__worker_schedule(&coordinator->job);
    plock__leave();
    if (again)
        plock__worker_submit(&waiter->job);
    else
        plock__waiter_release(waiter);
}
