/* A waiter: it stands in its process's wait queue for a lock, and has a place in the queue on the
 * server. Its own thread asks as long as no other waiter goes first. After that a job in the worker
 * thread asks for it, when its turn has come or it is time to look again. */
#ifndef PLOCK__WAITER_H
#define PLOCK__WAITER_H

#include "plock/waker.h"
#include "redis/call.h"
#include "redis/debt.h"
#include "runtime/worker.h"

typedef struct plock_waiter plock_waiter;
struct plock_wait_queue;

/* The texts of the subject are copied. */
typedef struct plock_wait_request {
    const plock_subject *subject;
    plock_ns ttl;
    int64_t ticket; /* from an earlier place in the queue; 0: none */
    bool shares;    /* with processes of the older implementation */
    /* another lease of this process has just asked for the key: the waiter goes behind it, and does
     * not ask at once */
    bool follows;
    struct plock_watch *watch; /* starts as soon as the waiter holds; NULL: none */
    plock_ns renewed_for;
} plock_wait_request;

/* The states of a waiter. "Called" means: it must ask again, because its turn has come, it is time
 * to look, or it may have lost its place in the queue. An event without an entry changes no state.
 *
 * event                             from                       to               done
 * --------------------------------  -------------------------  ---------------  -------------------
 * joins behind another waiter       ASKS                       RESTS
 * called                            RESTS                      ASKED            submits its job
 *                                   ASKS                       ASKS_CALLED
 *                                   ASKED                      ASKED_CALLED
 *                                   ANSWERED                   ANSWERED_CALLED
 * its job begins a request          ASKED_CALLED               ASKED
 * refused                           ASKS                       RESTS
 *                                   ASKS_CALLED                ASKS             asks again
 *                                   ASKED                      ANSWERED
 *                                   ASKED_CALLED               ASKED            asks again
 * refused without a coordinator     ASKS, ASKS_CALLED          FAILED           wakes its thread
 * granted                           ASKS, ASKS_CALLED          HOLDS            frees the waiter
 *                                   ASKED, ASKED_CALLED        HOLDS            wakes its thread
 * request failed, or its job ends   ASKED, ASKED_CALLED        FAILED           wakes its thread
 * the coordinator fails or ends     RESTS, ANSWERED            FAILED           wakes its thread
 *                                   ANSWERED_CALLED            FAILED           wakes its thread
 * its job ends                      ANSWERED                   RESTS
 *                                   ANSWERED_CALLED            ASKED            submits it again
 *                                   GOING                      PARTED           wakes its thread
 * gives up while its job asks       ASKED, ASKED_CALLED        GOING
 * gives up, and must leave          any other before GOING     LEAVING          submits a debt
 * gives up, and has no place        the same, but not HOLDS    PARTED
 * its job is answered or unasked    GOING                      LEAVING, PARTED  as if it gives up
 * the debt is settled               LEAVING                    PARTED           wakes its thread
 */
enum plock_waiter_state {
    PLOCK__WAITER_ASKS, /* its own thread has a request under way, or is about to; a new waiter */
    PLOCK__WAITER_ASKS_CALLED,
    PLOCK__WAITER_RESTS,
    PLOCK__WAITER_ASKED, /* its job has a request under way, or is about to */
    PLOCK__WAITER_ASKED_CALLED,
    PLOCK__WAITER_ANSWERED, /* it rests, but its job has not ended and cannot be submitted yet */
    PLOCK__WAITER_ANSWERED_CALLED,
    PLOCK__WAITER_HOLDS,
    PLOCK__WAITER_FAILED,
    PLOCK__WAITER_GOING, /* it has given up, as in those below; its job is not done */
    PLOCK__WAITER_LEAVING,
    PLOCK__WAITER_PARTED
};

struct plock_waiter {
    plock_job job;                  /* asks in the worker thread; first: both are one address */
    plock_waiter *next, *previous;  /* in the wait queue */
    struct plock_wait_queue *queue; /* NULL: it waits no more */
    plock_node *node;
    unsigned references, generation;

    /* Under the lock. */
    enum plock_waiter_state state; /* only plock__waiter_become changes it */

    /* These are facts and not states: each can be true in several states, and a transition does not
     * change it. They are about the server, a request or another waiter. */
    bool follows; /* it joined without having asked, so behind a waiter that was refused */
    bool placed;  /* the server may have it in the queue; true for good */
    bool known;   /* an answer has said that it is there; true for good */
    bool doubt;   /* the server may have given it the lock; true for good */
    bool due;     /* it must ask for its place: it has none, or may have lost it */
    bool turn;    /* its turn has come since its last request; a call during a request counts */
    bool shaken;  /* another waiter has been lost from the queue, so this one may be … */
    bool checks;  /* … which is why it asks now: if it is lost, that is no news */
    plock_place place;
    plock_grant grant;
    plock_error error;
    plock_waker *waker;        /* woken when the waiter holds, has failed, or has parted */
    plock_ns unanswered_since; /* 0: the server owes no answer, only the turn */

    /* Of the thread that has the request under way. */
    plock_call call;
    plock_debt leaving;
    plock_ns ttl;
    bool shares; /* as in plock_wait_request */
    bool queues; /* the request carries the record, which the server puts in the queue */
    struct plock_watch *watch;
    plock_ns renewed_for;
    plock_subject subject;
    char names[];
};

/* It rests: nothing is under way, so it can be called or fail. */
static inline bool plock__waiter_rests(const plock_waiter *waiter) {
    return waiter->state == PLOCK__WAITER_RESTS || waiter->state == PLOCK__WAITER_ANSWERED ||
           waiter->state == PLOCK__WAITER_ANSWERED_CALLED;
}

/* Its own thread asks. */
static inline bool plock__waiter_asks(const plock_waiter *waiter) {
    return waiter->state == PLOCK__WAITER_ASKS || waiter->state == PLOCK__WAITER_ASKS_CALLED;
}

/* Its job asks, and the waiter has not given up. */
static inline bool plock__waiter_asked(const plock_waiter *waiter) {
    return waiter->state == PLOCK__WAITER_ASKED || waiter->state == PLOCK__WAITER_ASKED_CALLED;
}

/* Joins the wait queue. place: of an earlier refusal; NULL: this is the first request, and *out is
 * NULL if it need not queue. *asks: the caller must ask at once, with plock__waiter_request; else
 * the waiter rests. Returns PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__waiter_join(plock_waiter **out, plock_node *node,
                                               const plock_wait_request *wait_request,
                                               const plock_place *place, bool *asks,
                                               plock_error *error);

/* The request by which its own thread asks. */
plock_request plock__waiter_request(plock_waiter *waiter);

/* Its own thread was refused. False: the waiter was called in the meantime, so ask again. */
bool plock__waiter_rest(plock_waiter *waiter, const plock_place *place);

/* PLOCK_AGAIN with interest while it rests; PLOCK_OK: it holds; else the failure. */
PLOCK_MUST_USE plock_status plock__waiter_look(plock_waiter *waiter, plock_grant *grant,
                                               plock_interest *interest, plock_error *error);

/* Since when has the server owed it an answer? 0: it does not. */
plock_ns plock__waiter_unanswered_since(const plock_waiter *waiter);

/* Has the server answered that the waiter is in the queue? Then it owes an answer to the waiter's
 * last request only. */
bool plock__waiter_known(const plock_waiter *waiter);

/* Has the server owed it an answer for so long? Then it waits for the server, not for a holder. */
bool plock__waiter_unanswered(const plock_waiter *waiter, plock_ns span);

/* Its own thread holds the lock: the waiter is freed. */
void plock__waiter_finish(plock_waiter *waiter, const plock_grant *grant);

/* Its patience is over: as plock__waiter_give_up, but the waiter is not freed. The caller must
 * still give it up. True: it has a place in the queue, and plock__waiter_parting tells when it is
 * out. */
bool plock__waiter_part(plock_waiter *waiter, bool asked);

/* PLOCK_AGAIN with interest until it is out of the queue, or the attempt to leave has failed. */
PLOCK_MUST_USE plock_status plock__waiter_parting(plock_waiter *waiter, plock_interest *interest);

/* It waits no more: it leaves the wait queue and, in the background, the queue on the server.
 * asked: a request of its own thread has left. doubt: the server may have carried that out without
 * an answer. Returns its ticket, 0 for none. The waiter is freed. */
int64_t plock__waiter_give_up(plock_waiter *waiter, bool asked, bool doubt);

/* --- for the coordinator and the wait queue --- */

/* Its turn has come, or it is time to look. With the lock held. True: the caller submits its job
 * when it does not hold the lock any more. */
bool plock__waiter_call(plock_waiter *waiter, bool turn);

/* Has a waiter that does not rest ask again after the request under way. With the lock held. */
void plock__waiter_call_later(plock_waiter *waiter);

/* Nothing will come of its wait. With the lock held. */
void plock__waiter_fail(plock_waiter *waiter, const plock_error *error);

/* A turn came for a waiter that is not known here: it is passed on. */
void plock__waiter_pass_on(plock_node *node, plock_text key, plock_text value, bool shared);

#endif
