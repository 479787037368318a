/* A waiter that gives up: out of the wait queue of its process, and out of the queue on the server.
 */
#include "redis/waiter_parts.h"

#include "base/memory.h"
#include "base/process.h"

#include <stddef.h>

/* The server forgets a queue by then in which nobody asks any more (acquire.lua). */
static const plock_ns QUEUE_LASTS = 600 * PLOCK_SECOND;

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
void plock__waiter_say_parted(plock_waiter *waiter) {
    waiter->parted = true;
    if (waiter->waker) plock__worker_wake(waiter->waker);
}

static void settle(plock_debt *debt, plock_status status) {
    plock_waiter *waiter = debtor(debt);
    (void)status; /* where he cannot leave, a second or a time to live has to do */
    plock__enter();
    if (!plock__waiter_inherited(waiter)) plock__waiter_say_parted(waiter);
    plock__leave();
    plock__waiter_release(waiter);
}

/* His reference to himself goes along. */
void plock__waiter_leave(plock_waiter *waiter) {
    const plock_ns span = waiter->doubt && waiter->ttl > QUEUE_LASTS ? waiter->ttl : QUEUE_LASTS;
    waiter->leaving.until = plock_after(plock_now(), span);
    waiter->leaving.request = owed_request;
    waiter->leaving.settle = settle;
    plock__debt_submit(waiter->store, &waiter->leaving);
}

/* With the lock held. True: his job is to be submitted; it has a reference of its own. *empty: his
 * line, to be freed. */
static bool part(plock_waiter *waiter, bool asked, bool doubt, plock_wait_queue **empty) {
    *empty = plock__waiter_leave_queue(waiter);
    waiter->gone = true;
    waiter->placed = waiter->placed || asked;
    waiter->doubt = waiter->doubt || doubt || waiter->state == PLOCK__HOLDS;
    const bool leaves = plock__waiter_owes(waiter) && !waiter->employed;
    if (leaves)
        waiter->employed = true, waiter->concluded = false, waiter->references++;
    else if (waiter->employed)
        plock__worker_schedule(&waiter->job);
    waiter->parted = !waiter->employed;
    return leaves;
}

bool plock__waiter_part(plock_waiter *waiter, bool asked) {
    plock_waker *waker =
        plock__waiter_inherited(waiter) || waiter->waker ? NULL : plock_waker_take();
    if (plock__waiter_inherited(waiter) || !(waiter->waker || waker)) return false;
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
    if (plock__waiter_inherited(waiter)) {
        plock__waiter_release(waiter);
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
    plock__waiter_release(waiter);
    return ticket;
}

void plock__waiter_pass_on(plock_store *store, plock_text key, plock_text value, bool shared) {
    plock_waiter *waiter = plock__waiter_new(store, key.length);
    if (!waiter) return; /* what is reserved for nobody is free again in a second */
    plock__subject_name(&waiter->subject, waiter->names, key, store->config->fence_ttl);
    if (shared) *waiter->subject.share = '?'; /* of which kind is not known, and does not matter */
    waiter->gone = waiter->placed = waiter->employed = true;
    if (plock__owner_bring(&waiter->subject.owner, value))
        plock__waiter_release(waiter);
    else
        plock__worker_submit(&waiter->job);
}
