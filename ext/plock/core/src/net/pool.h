/* The connections of one store: made on demand, at most so many, the idle ones kept, the most
 * recently used first.
 *
 * When all are in use, callers queue. A connection that comes back is handed to the first of them,
 * past every caller that comes later, so an idle connection and a queue never exist together. */
#ifndef PLOCK__POOL_H
#define PLOCK__POOL_H

#include "net/connection.h"
#include "runtime/waker.h"
#include "runtime/worker.h"

#include <stdatomic.h>

typedef struct plock_pool plock_pool;

/* A caller's place in the queue. All zero: it has none. */
typedef struct plock_turn {
    struct plock_turn *next, *previous;
    /* it has a place, or was served and has not looked; for its own thread */
    bool waits;
    bool served; /* under the lock */
    /* it goes before those that are not: say so before plock__pool_take */
    bool urgent;
    bool careful;                 /* a connection is looked at however short it rested; the same */
    unsigned generation;          /* of the process that queues */
    plock_connection *connection; /* served: this one, or NULL: there is room for a new one */
    plock_job *job;               /* the native thread queues, for this job … */
    /* … or another thread, which this wakes; NULL where there was no memory: it looks often */
    plock_waker *waker;
} plock_turn;

typedef struct plock_turns {
    plock_turn *first, *last;
} plock_turns;

struct plock_pool {
    plock_pool *next, *previous; /* all pools of the process, for the child of a fork */
    plock_connection *idle, *all;
    unsigned limit, open, waiting;
    unsigned epoch;     /* grows when what is idle is no longer trusted */
    atomic_bool closed; /* nothing is kept until somebody uses it again */
    plock_turns urgent, ordinary;
};

void plock__pool_start(plock_pool *pool, unsigned limit);
void plock__pool_clear(plock_pool *pool); /* no connection may be in use */

/* PLOCK_OK: *connection is one that is ready to use, or NULL: there is room for a new one, which
 * the caller makes and hands to plock__pool_add, or gives the room back. PLOCK_AGAIN: all are in
 * use, and the turn is in the queue; call again as want says, or plock__pool_leave. */
PLOCK_MUST_USE plock_status plock__pool_take(plock_pool *pool, plock_connection **connection,
                                             plock_turn *turn, plock_interest *interest);
void plock__pool_add(plock_pool *pool, plock_connection *connection);
void plock__pool_give_room(plock_pool *pool);
/* One beyond the bound, which stays in use and is never idle. */
void plock__pool_add_beside(plock_pool *pool, plock_connection *connection);

/* The caller queues no more. If it had been served already, the next one is. Harmless for a turn
 * that has no place. */
void plock__pool_leave(plock_pool *pool, plock_turn *turn);

/* Gives a connection back. It is kept if usable and in a known state, else closed. */
void plock__pool_give(plock_pool *pool, plock_connection *connection, bool usable);

/* Keeps nothing any more, until plock__pool_use. */
void plock__pool_close(plock_pool *pool);
bool plock__pool_closed(const plock_pool *pool);
void plock__pool_use(plock_pool *pool);

/* Nothing that was opened before now is used again: the idle are closed, those in use when they
 * come back. */
void plock__pool_distrust(plock_pool *pool);

void plock__pools_in_child(void);

#endif
