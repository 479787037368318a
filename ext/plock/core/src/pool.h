/* The connections of one store: made on demand, at most so many, the idle ones kept, the most recently used first. */
#ifndef PLOCK__POOL_H
#define PLOCK__POOL_H

#include "connection.h"
#include "waker.h"

#include <stdatomic.h>

typedef struct plock_pool plock_pool;

struct plock_pool {
    plock_pool *next, *previous; /* all pools of the process, for the child of a fork */
    plock_connection *idle, *all;
    unsigned limit, open, waiting;
    unsigned epoch;       /* grows when what is idle is no longer trusted */
    atomic_bool closed;   /* nothing is kept until somebody uses it again */
    plock_waker *freed;   /* rung when there is room and somebody waits; NULL until somebody does */
};

void plock__pool_start(plock_pool *pool, unsigned limit);
void plock__pool_clear(plock_pool *pool); /* no connection may be in use */

/* PLOCK_OK: *connection is an idle one that is ready to use, or NULL: there is room for a new one, which the caller makes
 * and hands to plock__pool_add, or gives the room back. PLOCK_AGAIN: all are in use; call again as want says, with
 * *waits true as it has been left. PLOCK_DESCRIPTORS or PLOCK_NO_MEMORY: it cannot even be waited for. */
PLOCK_MUST_USE plock_status plock__pool_take(plock_pool *pool, plock_connection **connection, bool *waits, plock_want *want, plock_error *error);
void plock__pool_add(plock_pool *pool, plock_connection *connection);
void plock__pool_give_room(plock_pool *pool);
/* One beyond the bound, which stays in use and is never idle. */
void plock__pool_add_beside(plock_pool *pool, plock_connection *connection);

/* The caller waited and does so no more. */
void plock__pool_leave(plock_pool *pool, bool *waits);

/* Gives a connection back. It is kept if usable and in a known state, else closed. */
void plock__pool_give(plock_pool *pool, plock_connection *connection, bool usable);

/* Keeps nothing any more, until plock__pool_use. */
void plock__pool_close(plock_pool *pool);
bool plock__pool_closed(const plock_pool *pool);
void plock__pool_use(plock_pool *pool);

/* Nothing that was opened before now is used again: the idle are closed, those in use when they come back. */
void plock__pool_distrust(plock_pool *pool);

void plock__pools_in_child(void);

#endif
