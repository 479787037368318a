#include "redis/trailing.h"

#include "base/container.h"
#include "base/memory.h"
#include "base/process.h"
#include "runtime/later.h"
#include "runtime/notice.h"

/* If no other request uses the connection for this long, the worker thread tries to read the
 * answer. */
static const plock_ns LOOKS_EVERY = 20 * PLOCK_MILLISECOND;

typedef struct trailing {
    plock_trail trail; /* first, so that the trail has the address of `trailing` */
    plock_later later;
    struct trailing *next, *previous; /* under the mutex */
    plock_connection *connection;     /* under the mutex; NULL: the trail has ended */
    unsigned references; /* under the mutex: one for the trail, one for each thread at work */
    unsigned generation;
    plock_script_id script;
    plock_ns silent_at; /* the server must have answered by this time */
    plock_node *node;
    plock_redis_lease *lease;
} trailing;

static trailing *all; /* of this process, under the mutex */

static trailing *of(plock_later *later) { return PLOCK__CONTAINER(trailing, later, later); }

/* --- the list, with the mutex held --- */

static void insert(trailing *t, plock_connection *connection) {
    t->connection = connection;
    t->next = all;
    if (all) all->previous = t;
    all = t;
}

static void take_out(trailing *t) {
    if (t->next) t->next->previous = t->previous;
    *(t->previous ? &t->previous->next : &all) = t->next;
    t->connection = NULL;
    plock__later_leave(&t->later);
}

/* --- the end of a trail --- */

static void let_go(trailing *t) {
    if (!plock__drop_reference(&t->references)) return;
    plock__node_release(t->node);
    plock__free(t);
}

static void ends(plock_trail *trail, const plock_value *reply) {
    trailing *t = (trailing *)(void *)trail;
    plock_redis_lease *lease = t->lease;
    const bool own = t->generation == plock__generation();
    plock_error ignored;
    plock__enter();
    if (own) take_out(t);
    plock__leave();
    const plock_status status =
        reply ? plock__read_done(t->script, reply, &ignored) : PLOCK_DISCONNECTED;
    if (reply && reply->type == PLOCK__ERROR) plock__node_knows(t->node, t->script, false);
    if (own && status == PLOCK_NOT_OWNER)
        plock__notice_post(PLOCK_LOST_BEFORE, lease->base.id, lease->base.key, lease->base.fence,
                           0);
    if (!own || status == PLOCK_OK || status == PLOCK_NOT_OWNER)
        plock__lease_destroy(lease);
    else
        plock__lease_hand_over(lease);
    let_go(t);
}

/* --- reading the answer, if no other request uses the connection --- */

/* Takes the connection from the pool, unless a caller is using it. Such a caller reads the answer
 * itself. */
static plock_connection *claim(trailing *t) {
    plock_connection *connection = t->connection;
    return connection && plock__pool_take_this(&t->node->pool, connection) ? connection : NULL;
}

static plock_status look(const trailing *t, plock_connection *connection, plock_ns silent_at,
                         plock_interest *interest) {
    plock_error ignored;
    const plock_status status = plock__connection_catch_up(connection, interest, &ignored);
    const bool waits = status == PLOCK_AGAIN && plock_now() < silent_at;
    plock__pool_give(&t->node->pool, connection, waits || !status);
    return status;
}

static void keep(plock_later *later) { of(later)->references++; }

/* Makes the worker thread try to read the answer after LOOKS_EVERY, unless the trail has ended. If
 * no thread can be started, the next user of the connection still reads the answer. */
static void look_later(trailing *t) {
    plock_error ignored;
    if (plock__later_enter(&t->later, &ignored)) return;
    plock__enter();
    if (t->connection)
        plock__later_by(&t->later, plock_after(plock_now(), LOOKS_EVERY));
    else
        plock__later_leave(&t->later);
    plock__leave();
}

static void begin_look(plock_later *later) {
    trailing *t = of(later);
    plock_interest interest;
    plock__enter();
    plock_connection *connection = claim(t);
    plock__leave();
    const plock_status status =
        connection ? look(t, connection, t->silent_at, &interest) : PLOCK_AGAIN;
    if (status == PLOCK_AGAIN) look_later(t);
    let_go(t);
}

static trailing *next_to_settle(const plock_store *store, plock_connection **connection) {
    trailing *t = NULL;
    plock__enter();
    for (t = all; t; t = t->next)
        if ((!store || t->node->store == store) && (*connection = claim(t))) break;
    if (t) t->references++;
    plock__leave();
    return t;
}

void plock__trailing_settle(const plock_store *store, plock_ns deadline) {
    plock_connection *connection;
    for (;;) {
        plock_interest interest = {.fd = -1};
        plock__begin_step();
        trailing *t = next_to_settle(store, &connection);
        const plock_status status = t ? look(t, connection, deadline, &interest) : PLOCK_OK;
        if (t) let_go(t);
        plock__end_step();
        if (!t) return;
        interest.deadline = deadline;
        if (status == PLOCK_AGAIN && plock_now() < deadline)
            (void)plock_await(&interest, NULL); /* until bytes arrive, which the next round reads */
    }
}

/* --- the beginning of a trail --- */

static trailing *make(plock_redis_lease *lease, const plock_request *request) {
    trailing *t = plock__allocate(sizeof *t);
    if (!t) return NULL;
    *t = (trailing){.trail = {.ends = ends, .key = lease->subject.key},
                    .later = {.keep = keep, .begin = begin_look},
                    .references = 2, /* the second one is the caller's */
                    .generation = plock__generation(),
                    .script = request->script,
                    .silent_at = plock_after(plock_now(), lease->node->config->command_timeout),
                    .node = plock__node_retain(lease->node),
                    .lease = lease};
    return t;
}

plock_status plock__trailing_begin(plock_redis_lease *lease, const plock_request *request) {
    plock__lease_route(lease);
    plock_pool *pool = &lease->node->pool;
    plock_error ignored;
    /* If the server does not know the script, it refuses the request. The lock would then be
     * released only later, as a debt. */
    if (!plock__node_knew(lease->node, request->script)) return PLOCK_AGAIN;
    trailing *t = make(lease, request);
    plock_connection *connection = t ? plock__pool_take_idle(pool) : NULL;
    const bool may = connection && !plock__later_enter(&t->later, &ignored);
    if (may && plock__call_send(t->node, connection, request, &ignored) == PLOCK_OK &&
        plock__connection_flushed(connection)) {
        plock__enter();
        insert(t, connection);
        plock__leave();
        plock__connection_leave_trail(connection, &t->trail);
        plock__pool_give(pool, connection, true);
        look_later(t);
        let_go(t);
        return PLOCK_OK;
    }
    /* if a part of the request may have left, the connection is closed */
    if (connection) plock__pool_give(pool, connection, !may);
    if (t) {
        plock__enter();
        plock__later_leave(&t->later);
        t->references--; /* the trail's reference */
        plock__leave();
        let_go(t);
    }
    return PLOCK_AGAIN;
}

/* In a forked child: the connections belong to the parent. Each trail ends when its connection is
 * freed. */
void plock__trailing_in_child(void) { all = NULL; }
