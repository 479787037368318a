/* A pool of connections, which are made on demand up to a limit. Idle connections are kept, and the
 * most recently used one is taken first.
 *
 * If all connections are in use, callers queue. A returned connection goes to the first caller in
 * the queue, so there is never an idle connection while callers queue. */
#ifndef PLOCK__POOL_H
#define PLOCK__POOL_H

#include "net/connection.h"
#include "runtime/waker.h"
#include "runtime/worker.h"

#include <stdatomic.h>

typedef struct plock_pool plock_pool;

/* A caller's place in the queue. If all fields are zero, the caller is not in the queue. */
typedef struct plock_turn {
    struct plock_turn *next, *previous;
    /* The caller is in the queue, or has not noticed yet that it was served. Only the caller's own
     * thread uses this. */
    bool waits;
    bool served; /* Protected by the mutex. */
    /* Urgent callers go before all others. Set this before plock__pool_take. */
    bool urgent;
    /* Check a connection even if it was idle only briefly. Set this before plock__pool_take. */
    bool careful;
    /* The keys that the caller's request acquires, or NULL. Set them before plock__pool_take. */
    const plock_text *keys;
    unsigned key_count;
    /* When the caller stops waiting for trails about its keys. 0 if it has found no such trail. */
    plock_ns follows_until;
    unsigned generation; /* the generation of the caller's process */
    /* Valid if served. NULL means that there is room for a new connection. */
    plock_connection *connection;
    /* The caller, if it is a job of the worker thread; otherwise NULL. */
    plock_job *job;
    /* Wakes the caller if it is not a job. NULL if memory ran out; the caller then polls. */
    plock_waker *waker;
} plock_turn;

typedef struct plock_turns {
    plock_turn *first, *last;
} plock_turns;

struct plock_pool {
    plock_pool *next, *previous; /* in the list of all pools, which a forked child needs */
    plock_connection *idle, *all;
    unsigned limit, open, waiting;
    uint64_t waits;     /* how many turns have joined the queue so far */
    unsigned epoch;     /* grows when the pool stops trusting all earlier connections */
    atomic_bool closed; /* the pool keeps no connection until its next use */
    plock_turns urgent, ordinary;
};

void plock__pool_start(plock_pool *pool, unsigned limit);
void plock__pool_clear(plock_pool *pool); /* no connection may be in use */

/* Returns PLOCK_OK with a ready *connection, or with NULL if there is room for a new connection.
 * After NULL, the caller makes a connection and calls plock__pool_add, or gives the room back.
 * Returns PLOCK_AGAIN if the caller must wait, usually in the queue. The caller then calls again as
 * the interest says, or calls plock__pool_leave.
 *
 * If a connection has a trail about one of the turn's keys, this function takes no other, so that
 * the server executes the trail's request before the caller's. If several connections have such a
 * trail, or if the only one is in use, the caller waits. This wait is short, because the
 * connection's user may itself be waiting for the caller. */
PLOCK_MUST_USE plock_status plock__pool_take(plock_pool *pool, plock_connection **connection,
                                             plock_turn *turn, plock_interest *interest);
/* Returns an idle connection without a trail, on which a request can be sent at once, or NULL. */
plock_connection *plock__pool_take_idle(plock_pool *pool);
/* Takes this connection if it is idle. Call with the mutex held. */
bool plock__pool_take_this(plock_pool *pool, plock_connection *connection);
void plock__pool_add(plock_pool *pool, plock_connection *connection);
void plock__pool_give_room(plock_pool *pool);
/* Adds a connection beyond the limit. It is closed as soon as it is given back. */
void plock__pool_add_beside(plock_pool *pool, plock_connection *connection);

/* Takes the caller out of the queue. If the caller had been served already, the next caller is
 * served instead. Does nothing for a turn that is not in the queue. */
void plock__pool_leave(plock_pool *pool, plock_turn *turn);

/* Gives a connection back. The pool keeps it if it is usable and at rest, and otherwise closes it.
 */
void plock__pool_give(plock_pool *pool, plock_connection *connection, bool usable);

/* Closes the idle connections, and keeps none until plock__pool_use. */
void plock__pool_close(plock_pool *pool);
bool plock__pool_closed(const plock_pool *pool);
void plock__pool_use(plock_pool *pool);

/* Closes all existing connections: idle ones now, and those in use when they are given back. */
void plock__pool_distrust(plock_pool *pool);

/* Closes the idle connections that were last used before the time `before`, except `spared`. */
void plock__pool_trim(plock_pool *pool, plock_ns before, const plock_connection *spared);

/* Returns how many connections are idle, without those of a parent process. Call with the
 * mutex held. */
unsigned plock__pool_idle(const plock_pool *pool);

void plock__pools_in_child(void);

#endif
