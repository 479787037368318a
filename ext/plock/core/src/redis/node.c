#include "redis/store.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "net/dial.h"
#include "net/sentinel.h"
#include "redis/coordinator.h"
#include "redis/trim.h"

#include <stdio.h>
#include <string.h>

/* Call with the mutex held. */
static void moved(void *of) {
    plock_node *node = of;
    node->moved_in = ++node->pool.epoch;
    plock__coordinator_review(node);
}

/* A node with sentinels is not marked astray, because each new connection asks the server for its
 * role. */
void plock__node_moved(plock_node *node) {
    plock__enter();
    moved(node);
    atomic_store(&node->astray, !node->config->sentinels);
    plock__leave();
}

void plock__node_served(plock_node *node, const plock_connection *connection) {
    if (!atomic_load_explicit(&node->astray, memory_order_relaxed)) return;
    plock__enter();
    const bool found = atomic_load(&node->astray) && !plock__node_left(node, connection);
    if (found) {
        atomic_store(&node->astray, false);
        moved(node);
    }
    plock__leave();
}

bool plock__node_left(const plock_node *node, const plock_connection *connection) {
    /* the epochs may wrap around */
    return (int)(node->moved_in - connection->epoch) > 0;
}

static void name_display(plock_node *node) {
    const plock_node_name *name = &node->name;
    const char *scheme =
        node->config->scheme == PLOCK_TCP ? "redis+cluster://" : "rediss+cluster://";
    const bool v6 = strchr(name->host, ':');
    char text[sizeof *name + 32];
    const int length = snprintf(text, sizeof text, "%s%s%s%s:%s", scheme, v6 ? "[" : "", name->host,
                                v6 ? "]" : "", name->port);
    node->display = length > 0 ? plock__copy(text, (size_t)length) : NULL;
}

void plock__node_start(plock_node *node, plock_store *store, const plock_node_name *name) {
    plock_config *config = node->config = store->config;
    node->store = store;
    if (name) {
        node->name = *name;
        node->resolver = (plock_resolver){.host = node->name.host, .port = node->name.port};
        name_display(node);
#ifdef PLOCK_TESTING
        node->make_transport = store->node.make_transport;
#endif
    } else {
        node->resolver = (plock_resolver){.host = config->server.host,
                                          .port = config->server.port,
                                          .find = config->sentinels ? plock__find_primary : NULL,
                                          .config = config,
                                          .moved = moved,
                                          .of = node};
    }
    plock__pool_start(&node->pool, config->pool_size);
}

/* Copies the address of the server at the other end of the connection to `name`. Returns false if
 * that address is not known. */
static bool knows_address(plock_node *node, const plock_connection *connection,
                          plock_node_name *name) {
    const plock_addresses *found = &node->resolver.found;
    plock__enter();
    const bool known = *found->host && !plock__node_left(node, connection);
    memcpy(name->host, found->host, sizeof name->host);
    memcpy(name->port, found->port, sizeof name->port);
    plock__leave();
    return known;
}

plock_status plock__node_fail(plock_node *node, const plock_connection *connection,
                              plock_status status, const char *what, plock_error *error) {
    const char *url = node->display ? node->display : plock_config_display(node->config);
    plock_node_name primary;
    if (connection && knows_address(node, connection, &primary))
        return plock__fail(error, status, "%.80s: primary %.50s:%s: %s", url, primary.host,
                           primary.port, what);
    return plock__fail(error, status, "%.80s: %s", url, what);
}

void plock__node_clear(plock_node *node) {
    plock__pool_clear(&node->pool);
    plock__resolver_clear(&node->resolver);
    plock__free(node->display);
}

plock_node *plock__node_retain(plock_node *node) {
    (void)plock__store_retain(node->store);
    return node;
}

void plock__node_release(plock_node *node) { plock__store_release(node->store); }

/* Processes of the older implementation poll every 35 to 65 ms. If such a process was seen lately,
 * the window (plock__node_window) is longer than its longest pause, so that it polls within the
 * window. */
static const plock_ns WINDOW = 5 * PLOCK_MILLISECOND, WINDOW_SEEN = 68 * PLOCK_MILLISECOND,
                      SEEN_LATELY = 600 * PLOCK_SECOND;

plock_ns plock__node_window(const plock_node *node, bool shares) {
    if (!shares) return 0;
    const plock_ns seen = atomic_load_explicit(&node->older_seen_at, memory_order_relaxed);
    return seen && plock_now() - seen < SEEN_LATELY ? WINDOW_SEEN : WINDOW;
}

/* A cache line that every thread writes is expensive, so a new time is written only if it is at
 * least OUTDATED later than the old one. */
void plock__node_reached(plock_node *node, plock_ns moment) {
    static const plock_ns OUTDATED = 10 * PLOCK_MILLISECOND;
    if (moment - atomic_load_explicit(&node->reached_at, memory_order_relaxed) >= OUTDATED)
        atomic_store_explicit(&node->reached_at, moment, memory_order_relaxed);
}

void plock__node_knows(plock_node *node, unsigned script, bool knows) {
    if (!knows)
        atomic_store(&node->known_scripts, 0);
    else if (!plock__node_knew(node, script))
        (void)atomic_fetch_or(&node->known_scripts, 1U << script);
}

bool plock__node_knew(const plock_node *node, unsigned script) {
    return atomic_load_explicit(&node->known_scripts, memory_order_relaxed) & 1U << script;
}

static plock_status make_connection(plock_node *node, plock_connection **connection,
                                    plock_error *error) {
#ifdef PLOCK_TESTING
    if (node->make_transport) {
        plock_transport *transport = node->make_transport(node);
        *connection = transport ? plock__connection_new(node->config, transport) : NULL;
        return *connection ? PLOCK_OK : plock__fail_plainly(error, PLOCK_NO_MEMORY);
    }
#endif
    return plock__dial(connection, node->config, &node->resolver, error);
}

/* Makes the node's coordinator if the node has sentinels, because the coordinator listens to them.
 * If memory runs out, the next connection tries again. */
static void attend_failovers(plock_node *node) {
    plock_coordinator *coordinator, *start;
    plock_error ignored;
    if (!node->config->sentinels || atomic_load(&node->coordinator)) return;
    if (plock__coordinator_find(node, &coordinator, &start, &ignored)) return;
    plock__leave();
    if (start) plock__coordinator_start(start);
}

plock_status plock__node_connect(plock_node *node, plock_connection **connection,
                                 plock_error *error) {
    attend_failovers(node);
    const plock_status status = make_connection(node, connection, error);
    if (status)
        plock__pool_give_room(&node->pool);
    else
        plock__pool_add(&node->pool, *connection);
    if (node->store->routes) plock__trim_attend(node->store);
    return status;
}

plock_status plock__node_connect_beside(plock_node *node, plock_connection **connection,
                                        plock_error *error) {
    const plock_status status = make_connection(node, connection, error);
    if (!status) plock__pool_add_beside(&node->pool, *connection);
    return status;
}
