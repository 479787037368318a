/* The connections of one store: made on demand, bounded in number, the idle ones kept and the most
 * recently used one taken first.
 *
 * If all are in use, callers queue. A returned connection goes to the first of them, past every
 * later caller, so an idle connection and a queue never exist together. */
#ifndef PLOCK__POOL_H
#define PLOCK__POOL_H

#include "net/connection.h"
#include "runtime/waker.h"
#include "runtime/worker.h"

#include <stdatomic.h>

typedef struct plock_pool plock_pool;

/* A caller's place in the queue. All zero: the caller is not in the queue. */
typedef struct plock_turn {
    struct plock_turn *next, *previous;
    /* in the queue, or served without having noticed; for its own thread only */
    bool waits;
    bool served; /* under the lock */
    /* goes before the callers that are not; set it before plock__pool_take */
    bool urgent;
    bool careful;                 /* check a connection even if it was idle only briefly; set it
                                   * before plock__pool_take */
    unsigned generation;          /* of the process of the caller */
    plock_connection *connection; /* if served: this one, or NULL: there is room for a new one */
    plock_job *job;               /* the worker thread queues, for this job … */
    /* … or another thread, which this wakes; NULL: no memory, so the thread polls */
    plock_waker *waker;
} plock_turn;

typedef struct plock_turns {
    plock_turn *first, *last;
} plock_turns;

struct plock_pool {
    plock_pool *next, *previous; /* all pools of the process, for a forked child */
    plock_connection *idle, *all;
    unsigned limit, open, waiting;
    unsigned epoch;     /* grows when the idle connections are no longer trusted */
    atomic_bool closed; /* keeps no connection until its next use */
    plock_turns urgent, ordinary;
};

void plock__pool_start(plock_pool *pool, unsigned limit);
void plock__pool_clear(plock_pool *pool); /* no connection may be in use */

/* Returns PLOCK_OK with a ready *connection, or with NULL: there is room for a new one. Then the
 * caller makes one and calls plock__pool_add, or gives the room back. Returns PLOCK_AGAIN if all
 * are in use and the turn is in the queue: call again as interest says, or call plock__pool_leave.
 */
PLOCK_MUST_USE plock_status plock__pool_take(plock_pool *pool, plock_connection **connection,
                                             plock_turn *turn, plock_interest *interest);
void plock__pool_add(plock_pool *pool, plock_connection *connection);
void plock__pool_give_room(plock_pool *pool);
/* Adds a connection beyond the bound, which stays in use and is never idle. */
void plock__pool_add_beside(plock_pool *pool, plock_connection *connection);

/* Takes the caller out of the queue. If it had been served already, the next caller is served. Does
 * nothing for a turn without a place. */
void plock__pool_leave(plock_pool *pool, plock_turn *turn);

/* Gives a connection back. The pool keeps it if it is usable and in a known state, and else closes
 * it. */
void plock__pool_give(plock_pool *pool, plock_connection *connection, bool usable);

/* Keeps no connections until plock__pool_use. */
void plock__pool_close(plock_pool *pool);
bool plock__pool_closed(const plock_pool *pool);
void plock__pool_use(plock_pool *pool);

/* No connection opened before this call is used again: idle ones are closed now, those in use when
 * they return. */
void plock__pool_distrust(plock_pool *pool);

void plock__pools_in_child(void);

#endif
