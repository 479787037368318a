#include "redis/waiter.h"

#include "base/expiry.h"
#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "redis/coordinator.h"
#include "redis/watch.h"

#include <stddef.h>

/* The server forgets a queue by then in which nobody asks any more (acquire.lua). */
static const plock_ns QUEUE_LASTS = 600 * PLOCK_SECOND;

/* --- life --- */

static const plock_error ENDED = {.status = PLOCK_DISCONNECTED,
                                  .message = "waiting for locks has been ended"};

static plock_status step(plock_job *job, plock_interest *interest);
static void put_down(plock_job *job);

static plock_waiter *new_waiter(plock_store *store, size_t key_length) {
    plock_waiter *waiter = plock__allocate(sizeof *waiter + plock__names_room(key_length));
    if (!waiter) return NULL;
    waiter->job.step = step;
    waiter->job.destroy = put_down;
    waiter->references = 1;
    waiter->generation = plock__generation();
    waiter->store = plock__store_retain(store);
    return waiter;
}

static void release(plock_waiter *waiter) {
    plock__enter();
    const bool last = --waiter->references == 0;
    plock__leave();
    if (!last) return;
    plock_waker_give(waiter->waker);
    plock__call_cancel(&waiter->call, NULL);
    plock__owner_clear(&waiter->subject.owner);
    if (waiter->watch) plock__watch_release(waiter->watch);
    plock__store_release(waiter->store);
    plock__free(waiter);
}

/* --- in line, with the lock held --- */

static bool inherited(const plock_waiter *waiter) {
    return waiter->generation != plock__generation();
}

/* The line, if it is empty now: to be freed. */
static plock_wait_queue *leave_queue(plock_waiter *waiter) {
    plock_wait_queue *queue = waiter->queue;
    if (!queue) return NULL;
    plock_coordinator *coordinator = plock__coordinator_of(waiter->store);
    plock__wait_queue_remove(waiter);
    if (!queue->first) {
        plock_wait_queue **link = &coordinator->queues;
        while (*link != queue) link = &(*link)->next;
        *link = queue->next;
        if (!coordinator->queues && plock__pool_closed(&waiter->store->pool))
            plock__coordinator_schedule(coordinator);
        return queue;
    }
    if (queue->look_at == PLOCK_NEVER) { /* it may have been he who was to look */
        queue->look_at = plock_now();
        plock__coordinator_tell(coordinator, queue->look_at);
    }
    return NULL;
}

static bool is_shared(const plock_waiter *waiter) { return *waiter->subject.share != 0; }

/* Where several hold a lock, what one of its waiters was told does not become untrue by what
 * another is. Nor does an answer to another one put off when the first in line makes sure of his
 * place. */
static void schedule(plock_wait_queue *queue, const plock_waiter *waiter,
                     const plock_place *place) {
    /* those who do not queue yet look often */
    const plock_ns before = queue->looks ? PLOCK_NEVER : queue->look_at;
    plock__wait_queue_schedule(queue, place, plock_now());
    if ((is_shared(waiter) || waiter != queue->first) && before < queue->look_at)
        queue->look_at = before;
}

/* He holds the lock: the others need not look before his time is over, or that of one who shares it
 * with him. But where he found it, and nobody had called him, the queue may have been lost with the
 * lock: then the next one looks at once. */
static plock_wait_queue *served(plock_waiter *waiter, const plock_grant *grant) {
    const plock_place place = {
        .free_in = grant->next_in < waiter->ttl ? grant->next_in : waiter->ttl, .notified = true};
    if (waiter->queue) {
        /* that was about the turn that has come to this one, or before */
        if (!is_shared(waiter)) waiter->queue->told_at = PLOCK_NEVER;
        schedule(waiter->queue, waiter, &place);
        if (!waiter->called) waiter->queue->look_at = PLOCK_NEVER;
    }
    return leave_queue(waiter);
}

static void refused(plock_waiter *waiter, const plock_place *place) {
    const bool was_lost = waiter->queues && place->lost && waiter->known && !waiter->checks;
    waiter->place = *place;
    waiter->due = !waiter->queues;
    waiter->known = waiter->known || waiter->queues;
    waiter->called = waiter->woken;
    waiter->unanswered_since = 0;
    if (waiter->queues && !place->notified && waiter->shares)
        plock__store_saw_older(waiter->store, plock_now());
    if (!waiter->queue) return;
    schedule(waiter->queue, waiter, place);
    plock_coordinator *coordinator = plock__coordinator_of(waiter->store);
    if (was_lost) {
        plock__wait_queue_shake(waiter->queue, waiter);
        plock__coordinator_schedule(coordinator);
    }
    plock__coordinator_tell(coordinator, waiter->queue->look_at);
}

/* He asks again. With the lock held. */
static void checks_if_shaken(plock_waiter *waiter) {
    waiter->checks = waiter->shaken;
    waiter->shaken = false;
}

/* Is there something on the server that is to be taken back if he goes? */
static bool owes(const plock_waiter *waiter) { return waiter->placed || waiter->doubt; }

/* --- his own thread --- */

static plock_status make(plock_waiter **out, plock_wait_queue **queue, plock_store *store,
                         const plock_wait_request *wait_request, plock_error *error) {
    plock_waiter *waiter = *out = new_waiter(store, wait_request->subject->key.length);
    *queue = plock__wait_queue_new(wait_request->subject->key);
    plock_status status = waiter && *queue ? PLOCK_OK : PLOCK_NO_MEMORY;
    if (!status)
        status = plock__subject_copy(&waiter->subject, waiter->names, wait_request->subject);
    if (status) return plock__fail_plainly(error, status);
    waiter->ttl = wait_request->ttl;
    waiter->shares = wait_request->shares;
    waiter->place.ticket = wait_request->ticket;
    waiter->placed = wait_request->ticket != 0;
    if (wait_request->watch) {
        waiter->watch = plock__watch_retain(wait_request->watch);
        waiter->renewed_for = wait_request->renewed_for;
    }
    return PLOCK_OK;
}

/* Nobody of this process is before him, and nobody listens yet: he asks without queueing. */
static bool asks_plainly(const plock_coordinator *coordinator, plock_text key) {
    return !coordinator->open && !plock__wait_queue_find(coordinator->queues, key);
}

/* With the lock held. `spare` becomes the line where there is none yet. */
static void get_in_queue(plock_waiter *waiter, plock_wait_queue **spare,
                         plock_coordinator *coordinator, const plock_wait_request *wait_request,
                         const plock_place *place) {
    plock_wait_queue *queue = plock__wait_queue_find(coordinator->queues, waiter->subject.key);
    if (!queue) {
        queue = *spare;
        *spare = NULL;
        queue->next = coordinator->queues;
        coordinator->queues = queue;
    }
    plock__owner_sign(&waiter->subject.owner,
                      plock__text(coordinator->channel.id, PLOCK__CHANNEL_LENGTH),
                      wait_request->subject->owner.label);
    waiter->queues =
        coordinator->open && !wait_request->follows && !plock__wait_queue_unplaced(queue);
    waiter->due = !waiter->queues;
    waiter->state = waiter->queues ? PLOCK__ASKS : PLOCK__RESTS;
    waiter->unanswered_since = waiter->due ? plock_now() : 0;
    /* he has not asked, so whoever has was before him */
    waiter->follows = !place && !wait_request->ticket;
    if (place) plock__wait_queue_schedule(queue, place, plock_now());
    plock__wait_queue_insert(queue, waiter);
    if (waiter->due) plock__coordinator_schedule(coordinator);
}

plock_status plock__waiter_join(plock_waiter **out, plock_store *store,
                                const plock_wait_request *wait_request, const plock_place *place,
                                bool *asks, plock_error *error) {
    const bool first_look = !place && !wait_request->ticket && !wait_request->follows;
    *out = NULL;
    *asks = true;
    if (first_look && !atomic_load(&store->coordinator)) return PLOCK_OK;
    plock_waiter *waiter = NULL;
    plock_wait_queue *spare = NULL;
    plock_coordinator *coordinator, *start = NULL;
    plock_status status = make(&waiter, &spare, store, wait_request, error);
    if (!status) status = plock__coordinator_find(store, &coordinator, &start, error);
    if (!status) {
        if (!(first_look && asks_plainly(coordinator, wait_request->subject->key))) {
            get_in_queue(waiter, &spare, coordinator, wait_request, place);
            *asks = waiter->queues;
            *out = waiter;
            waiter = NULL;
        }
        plock__leave();
    }
    if (start) plock__coordinator_start(start);
    if (waiter) release(waiter);
    plock__free(spare);
    return status;
}

plock_request plock__waiter_request(plock_waiter *waiter) {
    if (waiter->queues)
        return plock__queue_request(&waiter->subject, waiter->ttl, waiter->place.ticket,
                                    plock__store_window(waiter->store, waiter->shares));
    return plock__acquire_request(&waiter->subject, waiter->ttl, false);
}

bool plock__waiter_rest(plock_waiter *waiter, const plock_place *place) {
    plock__enter();
    waiter->placed = true;
    refused(waiter, place);
    const bool rests = !waiter->woken || !waiter->queue;
    waiter->woken = false;
    if (!rests) checks_if_shaken(waiter);
    if (rests && waiter->state == PLOCK__ASKS) waiter->state = PLOCK__RESTS;
    /* while the refusal was on its way: nobody would call him */
    if (!waiter->queue) plock__waiter_fail(waiter, &ENDED);
    plock__leave();
    return rests;
}

static plock_status outcome(plock_waiter *waiter, plock_grant *grant, plock_error *error) {
    plock__enter();
    const plock_status status = waiter->state == PLOCK__HOLDS    ? PLOCK_OK
                                : waiter->state == PLOCK__FAILED ? waiter->error.status
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
    /* it may have been meant for the one who had it before */
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

plock_ns plock__waiter_unanswered_since(const plock_waiter *waiter) {
    plock__enter();
    const plock_ns since = waiter->unanswered_since;
    plock__leave();
    return since;
}

bool plock__waiter_known(const plock_waiter *waiter) {
    plock__enter();
    const bool known = waiter->known;
    plock__leave();
    return known;
}

bool plock__waiter_unanswered(const plock_waiter *waiter, plock_ns span) {
    const plock_ns since = plock__waiter_unanswered_since(waiter);
    return since && plock_now() - since >= span;
}

void plock__waiter_finish(plock_waiter *waiter, const plock_grant *grant) {
    plock__enter();
    plock_wait_queue *empty = inherited(waiter) ? NULL : served(waiter, grant);
    plock__leave();
    plock__free(empty);
    release(waiter);
}

/* With the lock held. True: his job is to be submitted; it has a reference of its own. *empty: his
 * line, to be freed. */
static bool part(plock_waiter *waiter, bool asked, bool doubt, plock_wait_queue **empty) {
    *empty = leave_queue(waiter);
    waiter->gone = true;
    waiter->placed = waiter->placed || asked;
    waiter->doubt = waiter->doubt || doubt || waiter->state == PLOCK__HOLDS;
    const bool leaves = owes(waiter) && !waiter->employed;
    if (leaves)
        waiter->employed = true, waiter->concluded = false, waiter->references++;
    else if (waiter->employed)
        plock__worker_schedule(&waiter->job);
    waiter->parted = !waiter->employed;
    return leaves;
}

bool plock__waiter_part(plock_waiter *waiter, bool asked) {
    plock_waker *waker = inherited(waiter) || waiter->waker ? NULL : plock_waker_take();
    if (inherited(waiter) || !(waiter->waker || waker)) return false;
    plock_wait_queue *empty;
    plock__enter();
    if (waker) waiter->waker = waker;
    const bool leaves = part(waiter, asked, false, &empty), parts = !waiter->parted;
    plock__leave();
    plock__free(empty);
    if (leaves) plock__worker_submit(&waiter->job);
    return parts;
}

plock_status plock__waiter_parting(plock_waiter *waiter, plock_interest *interest) {
    plock__waker_clear_if_woken(waiter->waker);
    plock__enter();
    const bool parted = waiter->parted;
    plock__leave();
    *interest =
        (plock_interest){.fd = -1, .waker = waiter->waker, .deadline = PLOCK_NEVER, .helps = true};
    return parted ? PLOCK_OK : PLOCK_AGAIN;
}

int64_t plock__waiter_give_up(plock_waiter *waiter, bool asked, bool doubt) {
    if (inherited(waiter)) {
        release(waiter);
        return 0;
    }
    plock_wait_queue *empty = NULL;
    plock__enter();
    const int64_t ticket = waiter->place.ticket;
    /* what referred to him now does so from there */
    const bool leaves = !waiter->gone && part(waiter, asked, doubt, &empty);
    plock_waker *waker = waiter->waker; /* another may need it before he has left */
    waiter->waker = NULL;
    plock__leave();
    plock_waker_give(waker);
    plock__free(empty);
    if (leaves) plock__worker_submit(&waiter->job);
    release(waiter);
    return ticket;
}

/* --- called by the coordinator --- */

bool plock__waiter_call(plock_waiter *waiter, bool turn) {
    waiter->called = waiter->called || turn;
    if (waiter->state != PLOCK__RESTS || waiter->employed) {
        waiter->woken = true;
        return false;
    }
    waiter->state = PLOCK__ASKED;
    waiter->employed = true;
    waiter->references++;
    return true;
}

void plock__waiter_fail(plock_waiter *waiter, const plock_error *error) {
    if (waiter->state != PLOCK__RESTS) return; /* what is under way will say */
    waiter->state = PLOCK__FAILED;
    waiter->error = *error;
    if (waiter->waker) plock_waker_wake(waiter->waker);
}

void plock__waiter_pass_on(plock_store *store, plock_text key, plock_text value, bool shared) {
    plock_waiter *waiter = new_waiter(store, key.length);
    if (!waiter) return; /* what is reserved for nobody is free again in a second */
    plock__subject_name(&waiter->subject, waiter->names, key, store->config->fence_ttl);
    if (shared) *waiter->subject.share = '?'; /* of which kind is not known, and does not matter */
    waiter->gone = waiter->placed = waiter->employed = true;
    if (plock__owner_bring(&waiter->subject.owner, value))
        release(waiter);
    else
        plock__worker_submit(&waiter->job);
}

/* --- leaving the queue --- */

static plock_waiter *debtor(plock_debt *debt) {
    return (plock_waiter *)(void *)((char *)debt - offsetof(plock_waiter, leaving));
}

static plock_request owed_request(plock_debt *debt, plock_ns now) {
    plock_waiter *waiter = debtor(debt);
    (void)now;
    return plock__leave_request(&waiter->subject, waiter->doubt);
}

/* Nothing more is done about the place in the queue. With the lock held, since the caller that
 * waits for this gives the waker back as soon as it sees it. */
static void say_parted(plock_waiter *waiter) {
    waiter->parted = true;
    if (waiter->waker) plock__worker_wake(waiter->waker);
}

static void settle(plock_debt *debt, plock_status status) {
    plock_waiter *waiter = debtor(debt);
    (void)status; /* where he cannot leave, a second or a time to live has to do */
    plock__enter();
    if (!inherited(waiter)) say_parted(waiter);
    plock__leave();
    release(waiter);
}

/* His reference to himself goes along. */
static void leave(plock_waiter *waiter) {
    const plock_ns span = waiter->doubt && waiter->ttl > QUEUE_LASTS ? waiter->ttl : QUEUE_LASTS;
    waiter->leaving.until = plock_after(plock_now(), span);
    waiter->leaving.request = owed_request;
    waiter->leaving.settle = settle;
    plock__debt_submit(waiter->store, &waiter->leaving);
}

/* --- in the native thread --- */

static void begin_asking(plock_waiter *waiter) {
    plock__enter();
    const plock_coordinator *coordinator = plock__coordinator_of(waiter->store);
    waiter->queues = coordinator && coordinator->open;
    waiter->woken = waiter->concluded = false;
    checks_if_shaken(waiter);
    waiter->unanswered_since = plock_now();
    plock__leave();
    const plock_request request = plock__waiter_request(waiter);
    plock__call_begin(&waiter->call, waiter->store, &request,
                      plock_after(plock_now(), waiter->store->config->command_timeout));
}

static void fail(plock_waiter *waiter, const plock_error *error) {
    waiter->state = PLOCK__RESTS;
    plock__waiter_fail(waiter, error);
    const plock_place unknown = {.free_in = PLOCK_NEVER};
    /* for the others */
    if (waiter->queue) plock__wait_queue_schedule(waiter->queue, &unknown, plock_now());
}

/* What the answer to a request of the native thread comes to. True: he asks again. */
static bool conclude(plock_waiter *waiter, plock_status status, const plock_grant *grant,
                     const plock_place *place, const plock_error *error) {
    plock_wait_queue *empty = NULL;
    plock__enter();
    const bool left = plock__call_left(&waiter->call);
    waiter->concluded = true;
    waiter->placed = waiter->placed || (left && waiter->queues);
    waiter->doubt = waiter->doubt || status == PLOCK_OK ||
                    (status != PLOCK_REFUSED && left && plock_status_leaves_doubt(status));
    bool again = false;
    plock_waker *waker = NULL;
    if (!waiter->gone) {
        if (status == PLOCK_OK) {
            waiter->state = PLOCK__HOLDS;
            waiter->unanswered_since = 0;
            waiter->grant = *grant;
            waker = waiter->waker;
            empty = served(waiter, grant);
        } else if (status == PLOCK_REFUSED) {
            waiter->state = PLOCK__RESTS;
            refused(waiter, place);
            if (waiter->woken) waiter->state = PLOCK__ASKED;
            again = waiter->woken;
        } else {
            fail(waiter, error);
        }
    }
    plock__leave();
    if (waker) plock__worker_wake(waker); /* without the lock, which he wants at once */
    plock__free(empty);
    return again;
}

static bool has_gone(const plock_waiter *waiter) {
    plock__enter();
    const bool gone = waiter->gone;
    plock__leave();
    return gone;
}

/* Should the server come to the request later, it undoes it at once: by then he may have left, on
 * another connection. */
static void give_up_asking(plock_waiter *waiter) {
    const plock_request undo = plock__leave_request(&waiter->subject, true);
    plock__call_cancel(&waiter->call, &undo);
}

static plock_status ask(plock_waiter *waiter, plock_interest *interest) {
    for (;;) {
        if (waiter->call.state == PLOCK__CALL_NONE) begin_asking(waiter);
        const plock_value *answer;
        plock_error error = {.status = PLOCK_OK};
        plock_status status = plock__call_step(&waiter->call, &answer, interest, &error);
        if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
        plock_grant grant = {.asked_at = waiter->call.left_at};
        plock_place place = waiter->place;
        if (!status) status = plock__read_acquired(answer, &grant, &place, &error);
        if (status == PLOCK_OK || status == PLOCK_REFUSED)
            plock__call_finish(&waiter->call);
        else
            give_up_asking(waiter);
        /* From here on, not from when his own thread comes round to it. */
        if (status == PLOCK_OK && waiter->watch && !has_gone(waiter))
            plock__watch_start(waiter->watch, &waiter->subject, waiter->ttl,
                               plock__expiry(grant.asked_at, waiter->ttl),
                               plock_after(grant.asked_at, waiter->renewed_for));
        if (!conclude(waiter, status, &grant, &place, &error)) return PLOCK_OK;
    }
}

static plock_status step(plock_job *job, plock_interest *interest) {
    plock_waiter *waiter = (plock_waiter *)(void *)job;
    if (!waiter->leaves) {
        const bool asking = waiter->call.state != PLOCK__CALL_NONE;
        /* a request under way is waited for even then: it costs less than a connection */
        if (asking || !has_gone(waiter)) {
            const plock_status status = ask(waiter, interest);
            if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
            if (!has_gone(waiter)) return PLOCK_OK;
        }
        if (!owes(waiter)) return PLOCK_OK;
        waiter->concluded = waiter->leaves = true;
    }
    return PLOCK_OK; /* and then he leaves */
}

/* The thread is done with him, or could not begin, or ends before he was served. */
static void put_down(plock_job *job) {
    plock_waiter *waiter = (plock_waiter *)(void *)job;
    give_up_asking(waiter);
    plock__enter();
    const bool own = !inherited(waiter);
    waiter->employed = false;
    if (own && waiter->state == PLOCK__ASKED) {
        const bool left = !waiter->concluded && plock__call_left(&waiter->call);
        waiter->placed = waiter->placed || left;
        waiter->doubt = waiter->doubt || left;
        fail(waiter, &ENDED);
    }
    bool again = false;
    if (own && waiter->gone)
        again = owes(waiter) && !waiter->leaves && waiter->concluded;
    else if (own && waiter->state == PLOCK__RESTS && waiter->woken)
        waiter->state = PLOCK__ASKED, again = true;
    /* if it cannot be begun, that is the end */
    if (again) waiter->employed = true, waiter->concluded = false;
    if (own && waiter->gone && !again && !waiter->leaves) say_parted(waiter);
    plock_coordinator *coordinator = own ? plock__coordinator_of(waiter->store) : NULL;
    /* another place in the queue may be due */
    if (coordinator && coordinator->queues) plock__coordinator_schedule(coordinator);
    plock__leave();
    if (again)
        plock__worker_submit(&waiter->job);
    else if (own && waiter->leaves)
        leave(waiter);
    else
        release(waiter);
}
