/* One who waits for a lock: in his process's line for it, and with a place in the queue on the
 * server. His thread asks itself as long as nothing stands in the way; then the native thread asks
 * for him, when it is his turn or it is time to look again. */
#ifndef PLOCK__WAITER_H
#define PLOCK__WAITER_H

#include "plock/waker.h"
#include "redis/call.h"
#include "redis/debt.h"
#include "runtime/worker.h"

typedef struct plock_waiter plock_waiter;
struct plock_wait_queue;

/* What he wants; the texts of the subject are copied. */
typedef struct plock_wait_request {
    const plock_subject *subject;
    plock_ns ttl;
    int64_t ticket; /* from an earlier place in the queue; 0: none */
    bool shares;    /* with processes of the older implementation */
    /* another of this process has just asked for it: he goes behind that one, and does not ask at
     * once */
    bool follows;
    struct plock_watch *watch; /* to be started as soon as he holds; NULL: none */
    plock_ns renewed_for;
} plock_wait_request;

/* The life of a waiter. It is CALLED when it must ask again: its turn has come, it is time to look,
 * or it may have lost its place in the queue.
 *
 * event                       from              to               done
 * --------------------------  ----------------  ---------------  ----------------------------------
 * another one goes first      ASKS              RESTS            a new waiter joins without asking
 * it is called                RESTS             ASKED            its job is submitted
 *                             ASKS              ASKS_CALLED
 *                             ASKED             ASKED_CALLED
 *                             ANSWERED          ANSWERED_CALLED
 * its request begins          ASKED_CALLED      ASKED            this request answers the call
 * the server refuses it       ASKS              RESTS
 *                             ASKS_CALLED       ASKS             its thread asks again
 *                             ASKED             ANSWERED
 *                             ASKED_CALLED      ASKED            its job asks again
 * the server grants it        ASKS, ASKS_CALLED
 *                             ASKED, ASKED_CALLED
 *                                               HOLDS            it leaves the wait queue
 * its job ends                ANSWERED          RESTS
 *                             ANSWERED_CALLED   ASKED            its job is submitted again
 *                             GOING             PARTED           nobody can leave for it
 * its job fails or cannot go  ASKED, ASKED_CALLED
 * on                                            FAILED           its thread is woken
 * the coordinator fails       RESTS, ANSWERED, ANSWERED_CALLED
 *                                               FAILED           its thread is woken
 * it is refused after the     ASKS, ASKS_CALLED FAILED           nothing would call it
 * coordinator has ended
 * it gives up                 ASKED, ASKED_CALLED
 *                                               GOING            its job goes on
 *                             any before GOING  LEAVING          the server owes it a place or
 * more: a debt sends `leave` PARTED           the server has nothing of it its last answer comes,
 * or   GOING             LEAVING, PARTED  as above it never asked the debt is settled LEAVING
 * PARTED           its thread is woken
 */
enum plock_waiter_state {
    PLOCK__WAITER_ASKS, /* its own thread has a request under way, or is about to; a new waiter */
    PLOCK__WAITER_ASKS_CALLED,
    PLOCK__WAITER_RESTS,
    PLOCK__WAITER_ASKED, /* its job, in the worker thread, has a request under way, or is about to
                          */
    PLOCK__WAITER_ASKED_CALLED,
    PLOCK__WAITER_ANSWERED, /* it rests, but its job has not ended and cannot be submitted yet */
    PLOCK__WAITER_ANSWERED_CALLED,
    PLOCK__WAITER_HOLDS,
    PLOCK__WAITER_FAILED,
    PLOCK__WAITER_GOING, /* it has given up, and from here on; its job has a request under way */
    PLOCK__WAITER_LEAVING,
    PLOCK__WAITER_PARTED
};

struct plock_waiter {
    plock_job job;                  /* asks in the worker thread; first: both are one address */
    plock_waiter *next, *previous;  /* in the wait queue */
    struct plock_wait_queue *queue; /* NULL: it waits no more */
    plock_store *store;
    unsigned references, generation;

    /* Under the lock. */
    enum plock_waiter_state state; /* only plock__waiter_become changes it */

    /* Facts that hold in several states, and do not change when the state does. */
    bool follows; /* how it came: without a request, so behind a waiter that was refused */
    bool placed;  /* of the server: the waiter may be in the queue there … */
    bool known;   /* … and an answer has said so … */
    bool due;     /* … but it must ask for a place: it has none, or may have lost it */
    bool doubt;   /* of the server: it may even have given the lock to the waiter */
    bool turn;    /* of its last call: its turn came, not only the time to look */
    bool shaken;  /* of the queue on the server: another waiter has been lost from there … */
    bool checks;  /* … which is why this request is under way: a lost place is no news */
    plock_place place;
    plock_grant grant;
    plock_error error;
    plock_waker *waker;        /* woken when the waiter holds, has failed, or has parted */
    plock_ns unanswered_since; /* 0: the server owes no answer, only the turn */

    /* Of the thread that has the request under way. */
    plock_call call;
    plock_debt leaving;
    plock_ns ttl;
    bool shares; /* what was asked for: see plock_wait_request */
    bool queues; /* of the request: it carries the record that the server queues */
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

/* Gets in line. place: what an earlier refusal said; NULL: nobody has asked yet, and then *out is
 * NULL where he need not queue to ask. *asks: the caller is to ask at once, with
 * plock__waiter_request; else he rests. PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__waiter_join(plock_waiter **out, plock_store *store,
                                               const plock_wait_request *wait_request,
                                               const plock_place *place, bool *asks,
                                               plock_error *error);

/* The request by which his own thread asks. */
plock_request plock__waiter_request(plock_waiter *waiter);

/* His own thread has been refused. False: his turn has come meanwhile, ask again. */
bool plock__waiter_rest(plock_waiter *waiter, const plock_place *place);

/* PLOCK_AGAIN with interest while he rests; PLOCK_OK: he holds; else the failure. */
PLOCK_MUST_USE plock_status plock__waiter_look(plock_waiter *waiter, plock_grant *grant,
                                               plock_interest *interest, plock_error *error);

/* Since when has the server owed him an answer? 0: it does not. */
plock_ns plock__waiter_unanswered_since(const plock_waiter *waiter);

/* Has the server answered that the waiter is in the queue? Then it owes an answer to the waiter's
 * last request only. */
bool plock__waiter_known(const plock_waiter *waiter);

/* Has the server owed him an answer for so long? Then it is not somebody else's lock that he waits
 * for. */
bool plock__waiter_unanswered(const plock_waiter *waiter, plock_ns span);

/* His own thread holds the lock: the waiter is freed. */
void plock__waiter_finish(plock_waiter *waiter, const plock_grant *grant);

/* His patience is over: as plock__waiter_give_up, but he can still be asked after, and has to be
 * given up all the same. True: he has a place in the queue, so there is something to wait for. */
bool plock__waiter_part(plock_waiter *waiter, bool asked);

/* PLOCK_AGAIN with interest until he is out of the queue, or the attempt at that has failed. */
PLOCK_MUST_USE plock_status plock__waiter_parting(plock_waiter *waiter, plock_interest *interest);

/* He waits no more: taken out of line and, in the background, out of the queue. asked, doubt: what
 * became of a request of his own thread: it has left; and may have been carried out without an
 * answer. Returns his ticket, 0 for none. The waiter is freed. */
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
void plock__waiter_pass_on(plock_store *store, plock_text key, plock_text value, bool shared);

#endif
