/* A waiter that gives up leaves the wait queue of its process, and the queue on the server. */
#include "redis/waiter_parts.h"

#include "base/container.h"
#include "base/memory.h"
#include "base/process.h"

/* If no request arrives for this long, the queue on the server expires (acquire.lua). */
static const plock_ns QUEUE_LASTS = 600 * PLOCK_SECOND;

static plock_waiter *debtor(plock_debt *debt) {
    return PLOCK__CONTAINER(plock_waiter, leaving, debt);
}

static plock_request owed_request(plock_debt *debt, plock_ns now) {
    plock_waiter *waiter = debtor(debt);
    (void)now;
    return plock__leave_request(&waiter->subject, waiter->doubt);
}

/* Must the server be told that the waiter has given up? It must if the waiter may be in the queue,
 * or may hold the lock. */
static bool owes(const plock_waiter *waiter) { return waiter->placed || waiter->doubt; }

void plock__waiter_say_parted(plock_waiter *waiter) {
    plock__waiter_become(waiter, PLOCK__WAITER_PARTED);
    if (waiter->waker) plock__worker_wake(waiter->waker);
}

bool plock__waiter_depart(plock_waiter *waiter) {
    const bool leaves = owes(waiter);
    if (leaves) {
        plock__waiter_become(waiter, PLOCK__WAITER_LEAVING);
        waiter->references++; /* the debt's reference */
    } else {
        plock__waiter_say_parted(waiter);
    }
    return leaves;
}

static void settle(plock_debt *debt, plock_status status) {
    plock_waiter *waiter = debtor(debt);
    (void)status; /* if the waiter could not leave, its place, baton or lease expires */
    plock__enter();
    if (!plock__waiter_inherited(waiter)) plock__waiter_say_parted(waiter);
    plock__leave();
    plock__waiter_release(waiter);
}

void plock__waiter_leave(plock_waiter *waiter) {
    const plock_ns span = waiter->doubt && waiter->ttl > QUEUE_LASTS ? waiter->ttl : QUEUE_LASTS;
    waiter->leaving.until = plock_after(plock_now(), span);
    waiter->leaving.request = owed_request;
    waiter->leaving.settle = settle;
    plock__debt_submit(waiter->node, &waiter->leaving);
}

/* Takes the waiter out of the wait queue. Then calls plock__waiter_depart, and returns its result.
 * But if the waiter's job is asking, returns false, and the job calls plock__waiter_depart later.
 * If the wait queue is now empty, sets *empty to the wait queue, which the caller must free. */
static bool part(plock_waiter *waiter, bool asked, bool doubt, plock_wait_queue **empty) {
    *empty = plock__waiter_leave_queue(waiter);
    waiter->placed = waiter->placed || asked;
    waiter->doubt = waiter->doubt || doubt || waiter->state == PLOCK__WAITER_HOLDS;
    if (!plock__waiter_asked(waiter)) return plock__waiter_depart(waiter);
    plock__waiter_become(waiter, PLOCK__WAITER_GOING); /* its job departs after the answer */
    return false;
}

bool plock__waiter_part(plock_waiter *waiter, bool asked) {
    plock_waker *waker =
        plock__waiter_inherited(waiter) || waiter->waker ? NULL : plock_waker_take();
    if (plock__waiter_inherited(waiter) || !(waiter->waker || waker)) return false;
    plock_wait_queue *empty;
    plock__enter();
    if (waker) waiter->waker = waker;
    const bool leaves = part(waiter, asked, false, &empty);
    const bool parts = waiter->state != PLOCK__WAITER_PARTED;
    plock__leave();
    plock__free(empty);
    if (leaves) plock__waiter_leave(waiter);
    return parts;
}

plock_status plock__waiter_parting(plock_waiter *waiter, plock_interest *interest) {
    plock__waker_clear_if_woken(waiter->waker);
    plock__enter();
    const bool parted = waiter->state == PLOCK__WAITER_PARTED;
    plock__leave();
    *interest =
        (plock_interest){.fd = -1, .waker = waiter->waker, .deadline = PLOCK_NEVER, .helps = true};
    return parted ? PLOCK_OK : PLOCK_AGAIN;
}

int64_t plock__waiter_give_up(plock_waiter *waiter, bool asked, bool doubt) {
    if (plock__waiter_inherited(waiter)) {
        plock__waiter_release(waiter);
        return 0;
    }
    plock_wait_queue *empty = NULL;
    plock__enter();
    const int64_t ticket = waiter->place.ticket;
    const bool gone = waiter->state >= PLOCK__WAITER_GOING;
    const bool leaves = !gone && part(waiter, asked, doubt, &empty);
    /* the waker is given back now, because another thread may need it before the waiter has left */
    plock_waker *waker = waiter->waker;
    waiter->waker = NULL;
    plock__leave();
    plock_waker_give(waker);
    plock__free(empty);
    if (leaves) plock__waiter_leave(waiter);
    plock__waiter_release(waiter);
    return ticket;
}

void plock__waiter_pass_on(plock_node *node, plock_text key, plock_text value, bool shared) {
    plock_waiter *waiter = plock__waiter_new(node, key.length);
    if (!waiter) return; /* the baton expires in a second */
    plock__subject_name(&waiter->subject, waiter->names, key, node->config->fence_ttl);
    if (shared) *waiter->subject.share = '?'; /* its mode is not known, and does not matter */
    waiter->placed = true;
    if (!plock__owner_bring(&waiter->subject.owner, value)) {
        plock__enter();
        (void)plock__waiter_depart(waiter);
        plock__leave();
        plock__waiter_leave(waiter);
    }
    plock__waiter_release(waiter);
}
