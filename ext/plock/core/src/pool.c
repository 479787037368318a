#include "pool.h"

#include "failure.h"
#include "process.h"
#include <errno.h>
#include <poll.h>

/* An idle connection that has rested this long is looked at before it is used again: the server may have closed it. */
static const plock_ns RESTED = 5 * PLOCK_MILLISECOND;

static plock_pool *pools;

void plock__pool_start(plock_pool *pool, unsigned limit) {
    pool->limit = limit;
    plock__enter();
    pool->next = pools;
    if (pools) pools->previous = pool;
    pools = pool;
    plock__leave();
}

void plock__pool_clear(plock_pool *pool) {
    plock__pool_distrust(pool);
    plock__enter();
    if (pool->next) pool->next->previous = pool->previous;
    *(pool->previous ? &pool->previous->next : &pools) = pool->next;
    plock__leave();
    plock_waker_give(pool->freed);
    pool->freed = NULL;
}

/* --- the list of all; with the lock held --- */

static void link_connection(plock_pool *pool, plock_connection *connection) {
    connection->next = pool->all;
    if (pool->all) pool->all->previous = connection;
    pool->all = connection;
    connection->epoch = pool->epoch;
}

static void unlink_connection(plock_pool *pool, plock_connection *connection) {
    if (connection->next) connection->next->previous = connection->previous;
    *(connection->previous ? &connection->previous->next : &pool->all) = connection->next;
}

/* One more may be open, or one more is idle. */
static void tell_waiting(plock_pool *pool) {
    if (pool->waiting && pool->freed) plock_waker_ring(pool->freed);
}

/* --- taking and giving --- */

static void discard(plock_pool *pool, plock_connection *connection) {
    plock__enter();
    unlink_connection(pool, connection);
    if (connection->generation == plock__generation() && !connection->beside) pool->open--;
    tell_waiting(pool);
    plock__leave();
    plock__connection_free(connection);
}

static plock_connection *pop_idle(plock_pool *pool) {
    for (;;) {
        plock__enter();
        plock_connection *connection = pool->idle;
        if (connection) pool->idle = connection->next_idle;
        plock__leave();
        if (!connection) return NULL;
        connection->next_idle = NULL;
        const bool rested = plock_now() - connection->idle_since >= RESTED;
        if (connection->generation == plock__generation() && (!rested || connection->transport->does->alive(connection->transport)))
            return connection;
        discard(pool, connection);
    }
}

static bool take_room(plock_pool *pool) {
    plock__enter();
    const bool room = pool->open < pool->limit;
    if (room) pool->open++;
    plock__leave();
    return room;
}

static plock_status wait_for_room(plock_pool *pool, bool *waits, plock_want *want, plock_error *error) {
    plock_waker *made = *waits ? NULL : plock_waker_take();
    if (!*waits && !made) return plock__fail_errno(error, PLOCK_SATURATED, "waiting for a connection", errno);
    plock__enter();
    if (!pool->freed) {
        pool->freed = made;
        made = NULL;
    }
    if (!*waits) pool->waiting++;
    want->fd = plock_waker_descriptor(pool->freed);
    plock__leave();
    plock_waker_give(made);
    *waits = true;
    want->events = POLLIN;
    return PLOCK_AGAIN;
}

/* Before looking, so that no ring is missed. */
static void hush(plock_pool *pool) {
    plock__enter();
    plock_waker *freed = pool->freed;
    plock__leave();
    (void)plock_waker_hush(freed);
}

plock_status plock__pool_take(plock_pool *pool, plock_connection **connection, bool *waits, plock_want *want, plock_error *error) {
    for (bool prepared = *waits;; prepared = true) {
        if (prepared) hush(pool);
        *connection = pop_idle(pool);
        if (*connection || take_room(pool)) {
            plock__pool_leave(pool, waits);
            return PLOCK_OK;
        }
        const plock_status status = wait_for_room(pool, waits, want, error);
        if (status != PLOCK_AGAIN || prepared) return status; /* having said that we wait, look once more */
    }
}

void plock__pool_add(plock_pool *pool, plock_connection *connection) {
    plock__enter();
    link_connection(pool, connection);
    plock__leave();
}

void plock__pool_give_room(plock_pool *pool) {
    plock__enter();
    pool->open--;
    tell_waiting(pool);
    plock__leave();
}

void plock__pool_add_beside(plock_pool *pool, plock_connection *connection) {
    connection->beside = true;
    plock__pool_add(pool, connection);
}

void plock__pool_leave(plock_pool *pool, bool *waits) {
    if (!*waits) return;
    *waits = false;
    plock__enter();
    pool->waiting--;
    if (pool->idle || pool->open < pool->limit) tell_waiting(pool); /* the ring may have been meant for another, too */
    plock__leave();
}

void plock__pool_give(plock_pool *pool, plock_connection *connection, bool usable) {
    plock__enter();
    const bool keep = usable && !connection->beside && plock__connection_at_rest(connection) && connection->epoch == pool->epoch &&
                      !atomic_load(&pool->closed);
    if (keep) {
        connection->idle_since = plock_now();
        connection->next_idle = pool->idle;
        pool->idle = connection;
        tell_waiting(pool);
    }
    plock__leave();
    if (!keep) discard(pool, connection);
}

void plock__pool_distrust(plock_pool *pool) {
    plock__enter();
    pool->epoch++;
    plock_connection *list = pool->idle;
    pool->idle = NULL;
    plock__leave();
    while (list) {
        plock_connection *connection = list;
        list = connection->next_idle;
        discard(pool, connection);
    }
}

void plock__pool_close(plock_pool *pool) {
    atomic_store(&pool->closed, true);
    plock__pool_distrust(pool);
}

bool plock__pool_closed(const plock_pool *pool) {
    return atomic_load(&pool->closed);
}

void plock__pool_use(plock_pool *pool) {
    if (atomic_load_explicit(&pool->closed, memory_order_relaxed)) atomic_store(&pool->closed, false);
}

/* The child keeps the structures and none of the descriptors: what is idle goes, and what was in use by threads that
 * do not exist here is dead. */
void plock__pools_in_child(void) {
    for (plock_pool *pool = pools; pool; pool = pool->next) {
        for (plock_connection *connection = pool->all; connection; connection = connection->next) plock__connection_abandon(connection);
        pool->open = pool->waiting = 0;
        if (pool->freed) plock__waker_put_back(pool->freed);
        pool->freed = NULL;
    }
}
