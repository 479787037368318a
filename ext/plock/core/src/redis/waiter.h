/* A waiter stands in its process's wait queue for a lock, and has a place in the queue on the
 * server. Its own thread asks the server first, unless another waiter of this process must ask
 * before it. Later requests are sent by the waiter's job in the worker thread: when its turn has
 * come, or when a look is due (wait_queue.h). */
#ifndef PLOCK__WAITER_H
#define PLOCK__WAITER_H

#include "plock/waker.h"
#include "redis/call.h"
#include "redis/debt.h"
#include "runtime/worker.h"

typedef struct plock_redis_lease plock_redis_lease;
typedef struct plock_waiter plock_waiter;
struct plock_wait_queue;

/* The answer that the server owes a waiter. */
typedef struct plock_owing {
    plock_ns since;    /* when the server began to owe an answer; 0: it owes none */
    unsigned failures; /* how many of the waiter's attempts to reach the server have failed */
    /* why the server cannot be reached; PLOCK_OK: it can, as far as the waiter knows */
    plock_error why;
    /* The server has answered that the waiter is in the queue. So it can owe an answer only to the
     * waiter's last request, because it has answered the earlier ones. */
    bool known;
    bool confirms; /* The server has granted the lock, and replicas must confirm the grant. */
} plock_owing;

/* The states of a waiter, and the events that change them. "Called" means that the waiter must ask
 * again: its turn has come, a look is due, or it may have lost its place in the queue. An event
 * changes only the states that are listed for it.
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
 * the server cannot be reached      as refused, but the others also rest, for a pause
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
 * gives up with a place or a lock   any other before GOING     LEAVING          submits a debt
 * gives up with neither             the same, but not HOLDS    PARTED
 * its job has no request any more   GOING                      LEAVING, PARTED  as the two above
 * the debt is settled               LEAVING                    PARTED           wakes its thread
 */
enum plock_waiter_state {
    PLOCK__WAITER_ASKS, /* its own thread asks, or is about to; the state of a new waiter */
    PLOCK__WAITER_ASKS_CALLED,
    PLOCK__WAITER_RESTS,
    PLOCK__WAITER_ASKED, /* its job asks, or is about to */
    PLOCK__WAITER_ASKED_CALLED,
    PLOCK__WAITER_ANSWERED, /* the waiter rests, but its job has not ended yet, so the job cannot be
                             * submitted again */
    PLOCK__WAITER_ANSWERED_CALLED,
    PLOCK__WAITER_HOLDS,
    PLOCK__WAITER_FAILED,
    /* in the last three states, the waiter has given up; GOING: its job has not ended */
    PLOCK__WAITER_GOING,
    PLOCK__WAITER_LEAVING,
    PLOCK__WAITER_PARTED
};

struct plock_waiter {
    plock_job job;                  /* first, so that the job has the waiter's address */
    plock_waiter *next, *previous;  /* in the wait queue */
    struct plock_wait_queue *queue; /* NULL: it is in no wait queue */
    /* What the wait queue has noted about this waiter (plock__wait_queue_note). */
    plock__heap_entry due_entry;
    bool noted_asking, noted_unplaced;
    unsigned joined; /* how many waiters joined the wait queue before this one */
    plock_node *node;
    unsigned references, generation;

    /* Protected by the mutex. */
    enum plock_waiter_state state; /* only plock__waiter_become changes it */

    /* These are facts and not states: each can be true in several states, and a transition does not
     * change it. */
    bool follows; /* It joined before it asked, so it goes behind the waiters that were refused. */
    bool placed;  /* The server may have it in the queue. Never becomes false again. */
    bool known;   /* The server has answered that it is in the queue. Never becomes false again. */
    bool doubt;   /* The server may have given it the lock. Never becomes false again. */
    bool due;     /* It must ask for its place, because it has none, or may have lost it. */
    /* Its turn has come since its last request began. If the waiter was told to ask again while
     * that request was under way, for whatever reason, that counts as a turn. */
    bool turn;
    bool shaken; /* The server has lost another waiter, so it may also have lost this one. */
    /* It asks now because it was shaken. If the server proves to have lost it too, it does not
     * shake the other waiters again. */
    bool checks;
    plock_place place;
    plock_grant grant;
    plock_error error;  /* Why it failed, or why the server cannot be reached. PLOCK_OK: neither. */
    plock_waker *waker; /* Woken when the waiter holds the lock, has failed, or has parted. Also
                         * woken when the server cannot be reached: at the first failure, or at each
                         * failure if the caller wants reports. */
    bool confirms;      /* The server has granted the lock, and replicas must confirm the grant. */
    plock_ns unanswered_since; /* When the server began to owe an answer. 0: it owes none. */
    unsigned failures;         /* How many attempts to reach the server have failed. */

    /* Only for the thread that has the request under way. */
    plock_call call;
    plock_debt leaving;
    plock_ns ttl;
    bool shares;               /* the lock is shared with processes of the older implementation */
    bool reports;              /* the caller wants a report of each failure to reach the server */
    bool queues;               /* the request also asks the server for a place in the queue */
    struct plock_watch *watch; /* starts as soon as the waiter holds the lock; NULL: none */
    plock_ns renewed_for;      /* how long the watch renews the lease */
    plock_subject subject;
    char names[];
};

/* Does the waiter rest? It then has no request under way, and can be called or fail. */
static inline bool plock__waiter_rests(const plock_waiter *waiter) {
    return waiter->state == PLOCK__WAITER_RESTS || waiter->state == PLOCK__WAITER_ANSWERED ||
           waiter->state == PLOCK__WAITER_ANSWERED_CALLED;
}

/* Does the waiter's own thread ask? */
static inline bool plock__waiter_asks(const plock_waiter *waiter) {
    return waiter->state == PLOCK__WAITER_ASKS || waiter->state == PLOCK__WAITER_ASKS_CALLED;
}

/* Does the waiter's job ask? False once the waiter has given up. */
static inline bool plock__waiter_asked(const plock_waiter *waiter) {
    return waiter->state == PLOCK__WAITER_ASKED || waiter->state == PLOCK__WAITER_ASKED_CALLED;
}

/* Joins the wait queue for a lease that is being acquired. place: the place from a refusal; NULL:
 * the lease has not asked yet. follows: another lease of this process has just asked the server for
 * the key, so the waiter goes behind that lease, and does not ask at once. Sets lease->waiter, to
 * NULL if the first request need not queue. Sets *asks to true if the caller must ask at once, with
 * plock__waiter_request if there is a waiter. Otherwise the waiter rests. Returns PLOCK_OK,
 * PLOCK_NO_MEMORY or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__waiter_join(plock_redis_lease *lease, const plock_place *place,
                                               bool follows, bool *asks);

/* Makes the request that asks for the lock, for the waiter's own thread or for its job. */
plock_request plock__waiter_request(plock_waiter *waiter);

/* Handles a refusal that the waiter's own thread received. Returns false if the waiter was called
 * in the meantime, so that the thread must ask again. */
bool plock__waiter_rest(plock_waiter *waiter, const plock_place *place);

/* Handles a request of the waiter's own thread that could not reach the server. The waiter keeps
 * its place and its token, because the server has received nothing that it may execute late.
 * Returns as plock__waiter_rest does. */
bool plock__waiter_rest_unreached(plock_waiter *waiter, const plock_error *error);

/* Notes that the server has not answered a request of the waiter's own thread. since: when the
 * server began to owe the answer. */
void plock__waiter_tell_of_silence(const plock_waiter *waiter, const plock_error *error,
                                   plock_ns since);

/* Returns PLOCK_OK and the grant if the waiter holds the lock, PLOCK_AGAIN and the interest while
 * it waits, or the failure. */
PLOCK_MUST_USE plock_status plock__waiter_look(plock_waiter *waiter, plock_grant *grant,
                                               plock_interest *interest, plock_error *error);

plock_owing plock__waiter_owing(const plock_waiter *waiter);

/* Frees a waiter that holds the lock, after its own thread has read the grant. */
void plock__waiter_finish(plock_waiter *waiter, const plock_grant *grant);

/* Ends the wait, but does not free the waiter, so the caller must still call plock__waiter_give_up.
 * Returns true if the waiter may still be in the queue. Then plock__waiter_parting reports when the
 * waiter is out of the queue. */
bool plock__waiter_part(plock_waiter *waiter, bool asked);

/* Returns PLOCK_AGAIN and the interest until the waiter is out of the queue on the server, or has
 * failed to leave it. After that, returns PLOCK_OK. */
PLOCK_MUST_USE plock_status plock__waiter_parting(plock_waiter *waiter, plock_interest *interest);

/* Ends the wait, and frees the waiter. The waiter leaves the wait queue and, in the background, the
 * queue on the server. asked: the waiter's own thread has sent a request. doubt: the server may
 * have executed this request, although no answer came. Returns the waiter's ticket; 0: it has
 * none. */
int64_t plock__waiter_give_up(plock_waiter *waiter, bool asked, bool doubt);

/* --- for the coordinator and the wait queue --- */

/* Calls the waiter. turn: its turn has come. Call with the mutex held. Returns whether the caller
 * must submit the waiter's job after releasing the mutex. */
bool plock__waiter_call(plock_waiter *waiter, bool turn);

/* Notes that the waiter must ask again when its present request or job has ended. For a waiter that
 * is not in the state RESTS. Call with the mutex held. */
void plock__waiter_call_later(plock_waiter *waiter);

/* Notes that the server cannot be reached. The server has received no request of the waiter that
 * may still be executed, so the waiter keeps waiting. since: when the server began to owe an
 * answer. Call with the mutex held. */
void plock__waiter_unreached(plock_waiter *waiter, const plock_error *error, plock_ns since);

/* Notes that the server has not answered this waiter since the time `since`. The server may not
 * answer the other waiters in the queue either. So their wait for the server also begins at
 * `since`, and they must ask again. Call with the mutex held. */
void plock__waiter_met_silence(const plock_waiter *waiter, const plock_error *error,
                               plock_ns since);

/* The error of a waiter that fails because no coordinator can call it any more. */
extern const plock_error PLOCK__WAITING_ENDED;

/* Ends the wait with a failure. Call with the mutex held. */
void plock__waiter_fail(plock_waiter *waiter, const plock_error *error);

/* Passes on a turn that came for a waiter unknown to this process. */
void plock__waiter_pass_on(plock_node *node, plock_text key, plock_text value, bool shared);

#endif
