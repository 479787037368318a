#include "net/pool.h"

#include "base/process.h"
#include "runtime/interest.h"

/* A connection that has been idle for this long is checked before its next use, because the server
 * may have closed it. */
static const plock_ns RESTED = 5 * PLOCK_MILLISECOND;

/* If memory for a waker ran out, a caller checks at this interval whether it has received a
 * connection. */
static const plock_ns WITHOUT_A_WAKER = 2 * PLOCK_MILLISECOND;

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
}

/* --- the queue; with the mutex held --- */

static plock_turns *queue_of(plock_pool *pool, const plock_turn *turn) {
    return turn->urgent ? &pool->urgent : &pool->ordinary;
}

static void append_turn(plock_pool *pool, plock_turn *turn) {
    plock_turns *queue = queue_of(pool, turn);
    turn->waits = true;
    turn->generation = plock__generation();
    turn->next = NULL;
    turn->previous = queue->last;
    *(queue->last ? &queue->last->next : &queue->first) = turn;
    queue->last = turn;
    pool->waiting++;
    pool->waits++;
}

static void remove_turn(plock_pool *pool, plock_turn *turn) {
    plock_turns *queue = queue_of(pool, turn);
    *(turn->next ? &turn->next->previous : &queue->last) = turn->previous;
    *(turn->previous ? &turn->previous->next : &queue->first) = turn->next;
    pool->waiting--;
}

/* Hands a connection, or the room for one (NULL), to the first caller in the queue. Wakes the
 * caller with the mutex held, because the turn may be gone once the mutex is released. Returns
 * false if the queue is empty. */
static bool hand_over(plock_pool *pool, plock_connection *connection) {
    plock_turn *turn = pool->urgent.first ? pool->urgent.first : pool->ordinary.first;
    if (!turn) return false;
    remove_turn(pool, turn);
    turn->served = true;
    turn->connection = connection;
    if (turn->job)
        plock__worker_schedule(turn->job);
    else if (turn->waker)
        plock_waker_wake(turn->waker);
    return true;
}

static void give_room(plock_pool *pool) {
    if (!hand_over(pool, NULL)) pool->open--;
}

/* --- taking connections, and giving them back --- */

static void discard(plock_pool *pool, plock_connection *connection) {
    plock__enter();
    if (connection->next) connection->next->previous = connection->previous;
    *(connection->previous ? &connection->previous->next : &pool->all) = connection->next;
    if (connection->generation == plock__generation() && !connection->beside) give_room(pool);
    plock__leave();
    plock__connection_free(connection);
}

/* Does the connection still work? Sends no request, so it notices only what the server has already
 * sent, or that the server has closed the connection. */
static bool stands(plock_connection *connection) {
    plock_interest interest;
    plock_error error;
    const plock_status status = plock__connection_catch_up(connection, &interest, &error);
    if (status) return status == PLOCK_AGAIN;
    return connection->transport->does->alive(connection->transport);
}

bool plock__pool_take_this(plock_pool *pool, plock_connection *connection) {
    plock_connection **link = &pool->idle;
    while (*link && *link != connection) link = &(*link)->next_idle;
    if (!*link) return false;
    *link = connection->next_idle;
    connection->next_idle = NULL;
    return true;
}

/* Takes an idle connection, or returns NULL. Takes a connection with a trail only if `follows` is
 * true. */
static plock_connection *take_idle(plock_pool *pool, bool careful, bool follows) {
    for (;;) {
        plock__enter();
        plock_connection *connection = pool->idle;
        while (connection && connection->trail && !follows) connection = connection->next_idle;
        if (connection) (void)plock__pool_take_this(pool, connection);
        const bool stale = connection && connection->epoch != pool->epoch;
        plock__leave();
        if (!connection) return NULL;
        const bool look = careful || plock_now() - connection->idle_since >= RESTED;
        if (!stale && connection->generation == plock__generation() &&
            (!look || stands(connection)))
            return connection;
        discard(pool, connection);
    }
}

plock_connection *plock__pool_take_idle(plock_pool *pool) { return take_idle(pool, false, false); }

static bool trails(const plock_connection *connection, const plock_turn *turn) {
    if (connection->generation != plock__generation()) return false; /* the trail is the parent's */
    for (unsigned key = 0; key < turn->key_count; key++)
        if (plock__connection_trails(connection, turn->keys[key])) return true;
    return false;
}

/* Returns how many connections have a trail about one of the turn's keys. If one of these
 * connections is idle, takes it and sets *idle to it. Otherwise sets *idle to NULL. */
static unsigned take_trail(plock_pool *pool, const plock_turn *turn, plock_connection **idle) {
    unsigned count = 0;
    *idle = NULL;
    if (!turn->key_count || !plock__connections_trail()) return 0;
    plock__enter();
    for (plock_connection *each = pool->all; each; each = each->next) {
        if (each->epoch != pool->epoch || !trails(each, turn)) continue;
        count++;
        if (!*idle && plock__pool_take_this(pool, each)) *idle = each;
    }
    plock__leave();
    return count;
}

/* A caller that waits for a trail to end searches the pool again after each TRAIL_PAUSE. After
 * TRAIL_PATIENCE, it takes any connection. Usually the trail's answer is read within a round trip.
 */
static const plock_ns TRAIL_PAUSE = PLOCK_MILLISECOND, TRAIL_PATIENCE = 20 * PLOCK_MILLISECOND;

/* Returns PLOCK_OK with the only connection that has a trail about one of the turn's keys;
 * PLOCK_AGAIN if it is in use, or if several connections have such trails; PLOCK_REFUSED if none
 * has one, or if TRAIL_PATIENCE is over. */
static plock_status follow_trail(plock_pool *pool, plock_connection **connection, plock_turn *turn,
                                 plock_interest *interest) {
    for (;;) {
        plock_connection *idle;
        const unsigned count = take_trail(pool, turn, &idle);
        if (!count) return PLOCK_REFUSED;
        /* stands() may read the trail's answer, which ends the trail */
        const bool usable = idle && stands(idle);
        if (usable && count == 1) {
            *connection = idle;
            return PLOCK_OK;
        }
        const bool ended = idle && !idle->trail;
        if (idle) plock__pool_give(pool, idle, usable);
        if (ended || (idle && !usable)) continue; /* this trail has ended, so count the rest */
        const plock_ns now = plock_now();
        if (!turn->follows_until) turn->follows_until = plock_after(now, TRAIL_PATIENCE);
        if (now >= turn->follows_until) return PLOCK_REFUSED;
        *interest = (plock_interest){.fd = -1, .deadline = plock_after(now, TRAIL_PAUSE)};
        return PLOCK_AGAIN;
    }
}

static bool take_room(plock_pool *pool) {
    plock__enter();
    const bool room = pool->open < pool->limit;
    if (room) pool->open++;
    plock__leave();
    return room;
}

static void put_waker_away(plock_turn *turn) {
    plock_waker_give(turn->waker);
    turn->waker = NULL;
    turn->job = NULL;
}

/* Puts the turn in the queue. If there is a free connection now, or room for one more, returns
 * false instead. */
static bool get_in_line(plock_pool *pool, plock_turn *turn) {
    plock__enter();
    const bool queues = !pool->idle && pool->open >= pool->limit;
    if (queues) append_turn(pool, turn);
    plock__leave();
    return queues;
}

static plock_status look(plock_connection **connection, plock_turn *turn,
                         plock_interest *interest) {
    plock__enter();
    const bool served = turn->served;
    plock__leave();
    if (served) {
        turn->waits = turn->served = false;
        *connection = turn->connection;
        turn->connection = NULL;
        put_waker_away(turn);
        return PLOCK_OK;
    }
    plock__interest_set(interest, -1, 0);
    interest->waker = turn->waker;
    if (!turn->waker && !turn->job) interest->deadline = plock_after(plock_now(), WITHOUT_A_WAKER);
    return PLOCK_AGAIN;
}

plock_status plock__pool_take(plock_pool *pool, plock_connection **connection, plock_turn *turn,
                              plock_interest *interest) {
    while (!turn->waits) {
        plock_status status = follow_trail(pool, connection, turn, interest);
        if (status == PLOCK_REFUSED) {
            *connection = take_idle(pool, turn->careful, true);
            if (*connection || take_room(pool)) status = PLOCK_OK;
        }
        if (status != PLOCK_REFUSED) {
            put_waker_away(turn);
            return status;
        }
        /* hand_over wakes the caller as a job, or by its waker */
        turn->job = plock__worker_stepping();
        if (!turn->job && !turn->waker) turn->waker = plock_waker_take();
        if (get_in_line(pool, turn)) break;
    }
    return look(connection, turn, interest);
}

void plock__pool_add(plock_pool *pool, plock_connection *connection) {
    plock__enter();
    connection->next = pool->all;
    if (pool->all) pool->all->previous = connection;
    pool->all = connection;
    connection->epoch = pool->epoch;
    plock__leave();
}

void plock__pool_give_room(plock_pool *pool) {
    plock__enter();
    give_room(pool);
    plock__leave();
}

void plock__pool_add_beside(plock_pool *pool, plock_connection *connection) {
    connection->beside = true;
    plock__pool_add(pool, connection);
}

void plock__pool_leave(plock_pool *pool, plock_turn *turn) {
    if (!turn->waits) return;
    plock__enter();
    /* in a forked child the queue has been emptied */
    const bool own = turn->generation == plock__generation();
    plock_connection *unused = turn->connection;
    if (own && !turn->served) remove_turn(pool, turn);
    if (own && turn->served && !unused) give_room(pool);
    turn->waits = turn->served = false;
    turn->connection = NULL;
    plock__leave();
    put_waker_away(turn);
    if (unused) plock__pool_give(pool, unused, own);
}

void plock__pool_give(plock_pool *pool, plock_connection *connection, bool usable) {
    plock__enter();
    const bool keep = usable && !connection->beside && plock__connection_at_rest(connection) &&
                      connection->epoch == pool->epoch && !atomic_load(&pool->closed);
    if (keep && !hand_over(pool, connection)) {
        connection->idle_since = plock_now();
        connection->next_idle = pool->idle;
        pool->idle = connection;
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

/* Takes a connection that was last used before the time `before`. A connection with a trail does
 * not count as idle, because an answer is still to come. */
static plock_connection *take_unused(plock_pool *pool, plock_ns before,
                                     const plock_connection *spared) {
    plock__enter();
    plock_connection *connection = pool->idle;
    while (connection &&
           (connection == spared || connection->trail || connection->idle_since >= before))
        connection = connection->next_idle;
    if (connection) (void)plock__pool_take_this(pool, connection);
    plock__leave();
    return connection;
}

void plock__pool_trim(plock_pool *pool, plock_ns before, const plock_connection *spared) {
    for (plock_connection *unused; (unused = take_unused(pool, before, spared));)
        discard(pool, unused);
}

void plock__pool_close(plock_pool *pool) {
    atomic_store(&pool->closed, true);
    plock__pool_distrust(pool);
}

bool plock__pool_closed(const plock_pool *pool) { return atomic_load(&pool->closed); }

void plock__pool_use(plock_pool *pool) {
    if (atomic_load_explicit(&pool->closed, memory_order_relaxed))
        atomic_store(&pool->closed, false);
}

unsigned plock__pool_idle(const plock_pool *pool) {
    unsigned count = 0;
    for (const plock_connection *idle = pool->idle; idle; idle = idle->next_idle)
        if (idle->generation == plock__generation()) count++;
    return count;
}

/* In a forked child: empties the queue, because its callers are threads of the parent. */
static void forget(plock_turns *queue) {
    for (plock_turn *turn = queue->first; turn; turn = turn->next) {
        turn->waits = false;
        if (turn->waker) plock__waker_put_back(turn->waker);
        turn->waker = NULL;
    }
    *queue = (plock_turns){0};
}

/* In a forked child: closes the descriptors of all connections. plock__pool_take frees the idle
 * ones later. Those in use remain, because the threads that use them do not exist in the child. */
void plock__pools_in_child(void) {
    plock__connections_forget_trails();
    for (plock_pool *pool = pools; pool; pool = pool->next) {
        for (plock_connection *connection = pool->all; connection; connection = connection->next)
            plock__connection_abandon(connection);
        pool->open = pool->waiting = 0;
        pool->waits = 0;
        forget(&pool->urgent);
        forget(&pool->ordinary);
    }
}
