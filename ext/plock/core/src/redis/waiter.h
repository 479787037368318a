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

struct plock_waiter {
    plock_job job;                  /* of the native thread; first, so that both are one address */
    plock_waiter *next, *previous;  /* in line */
    struct plock_wait_queue *queue; /* NULL: he waits no more */
    plock_store *store;
    unsigned references, generation;

    /* Under the lock. */
    enum {
        PLOCK__ASKS, /* his own thread has a request under way, or is about to */
        PLOCK__RESTS,
        PLOCK__ASKED, /* the native thread has */
        PLOCK__HOLDS,
        PLOCK__FAILED
    } state;
    bool employed; /* the native thread has the job */
    /* he came without having asked: one who has, and has been refused, goes before him */
    bool follows;
    bool due;           /* he has no place in the queue, or cannot be sure of it */
    bool woken;         /* his turn came while a request was under way */
    bool called;        /* it has come since he last asked */
    bool known;         /* an answer has said that he is in the queue */
    bool shaken;        /* another one has been lost from there … */
    bool checks;        /* … which is why he asks: what he finds is no news */
    bool gone;          /* he has given up … */
    bool parted;        /* … and nothing more is done about his place in the queue */
    bool placed, doubt; /* he may be in the queue; he may even have the lock */
    plock_place place;
    plock_grant grant;
    plock_error error;
    plock_waker *waker;        /* woken when he holds or has failed */
    plock_ns unanswered_since; /* 0: nothing is expected of the server but that his turn comes */

    /* Of whoever has the request under way. */
    plock_call call;
    plock_debt leaving;
    plock_ns ttl;
    bool shares, queues, leaves, concluded;
    struct plock_watch *watch;
    plock_ns renewed_for;
    plock_subject subject;
    char names[];
};

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

/* --- for the coordinator --- */

/* His turn, or time to look; with the lock held. True: submit his job when it is not held any more.
 */
bool plock__waiter_call(plock_waiter *waiter, bool turn);

/* He rests, and nothing will come of it. With the lock held. */
void plock__waiter_fail(plock_waiter *waiter, const plock_error *error);

/* A turn came for somebody unknown here: it is passed on. */
void plock__waiter_pass_on(plock_store *store, plock_text key, plock_text value, bool shared);

#endif
