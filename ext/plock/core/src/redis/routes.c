#include "redis/routes.h"

#include "base/memory.h"
#include "base/process.h"
#include "redis/coordinator.h"

bool plock__is_no_server(const plock_node *node) {
    return node->store->routes && node == &node->store->node;
}

/* --- nodes --- */

/* Works with or without the mutex, because the list only grows, and its nodes do not change. */
static plock_node *find(const plock_routes *routes, const plock_node_name *name) {
    plock_node *node = atomic_load(&routes->first);
    while (node && !plock__same_node(&node->name, name)) node = atomic_load(&node->next);
    return node;
}

/* Call with the mutex held. */
static void append(plock_routes *routes, plock_node *node) {
    node->number = routes->count++;
    if (routes->last)
        atomic_store(&routes->last->next, node);
    else
        atomic_store(&routes->first, node);
    routes->last = node;
}

static void discard(plock_node *node) {
    plock__node_clear(node);
    plock__free(node);
}

plock_node *plock__routes_node(plock_store *store, const plock_node_name *name) {
    plock_routes *routes = store->routes;
    plock_node *node = find(routes, name);
    if (node) return node;
    plock_node *made = plock__allocate(sizeof *made);
    if (!made) return NULL;
    plock__node_start(made, store, name);
    if (plock__pool_closed(&store->node.pool)) plock__pool_close(&made->pool);
    plock__enter();
    node = find(routes, name); /* another thread may have been quicker */
    const bool adds = !node && routes->count < PLOCK__NODES_MAX;
    if (adds) append(routes, made);
    plock__leave();
    if (!adds) discard(made);
    return adds ? made : node;
}

bool plock__routes_full(const plock_store *store) {
    plock__enter();
    const bool full = store->routes->count == PLOCK__NODES_MAX;
    plock__leave();
    return full;
}

void plock__routes_free(plock_store *store) {
    plock_routes *routes = store->routes;
    if (!routes) return;
    plock__routes_leave_load(routes);
    for (plock_node *node = atomic_load(&routes->first), *next; node; node = next) {
        next = atomic_load(&node->next);
        discard(node);
    }
    plock__free(routes);
}

/* --- routes --- */

static plock_node *at(const plock_routes *routes, unsigned slot) {
    return atomic_load_explicit(&routes->slots[slot], memory_order_acquire);
}

plock_node *plock__slot_node(plock_store *store, unsigned slot) {
    plock_node *node = store->routes ? at(store->routes, slot) : NULL;
    return node ? node : &store->node;
}

plock_node *plock__store_node(plock_store *store, plock_text key) {
    return plock__slot_node(store, store->routes ? plock__slot(key) : 0);
}

plock_node *plock__routes_primary(plock_store *store, unsigned number) {
    plock_node *first = NULL;
    for (unsigned slot = 0; slot < PLOCK__SLOTS; slot++) {
        plock_node *node = at(store->routes, slot);
        if (node && node->number >= number && (!first || node->number < first->number))
            first = node;
    }
    return first;
}

static bool tell(const plock_node *node, const char **host, const char **port) {
    if (!node) return false;
    *host = node->name.host;
    *port = node->name.port;
    return true;
}

bool plock_store_primary(plock_store *store, unsigned *number, const char **host,
                         const char **port) {
    const plock_node *node = store->routes ? plock__routes_primary(store, *number) : NULL;
    if (node) *number = node->number + 1;
    return tell(node, host, port);
}

bool plock_store_node_of(plock_store *store, const char *key, size_t length, const char **host,
                         const char **port) {
    const plock_text text = plock__text(key, length);
    return tell(store->routes ? at(store->routes, plock__slot(text)) : NULL, host, port);
}

plock_node *plock__route(plock_store *store, const plock_request *request) {
    if (request->keys)
        return plock__store_node(store, request->list ? request->list[0] : request->texts[0]);
    plock_node *node = plock__routes_primary(store, request->primary);
    return node ? node : &store->node;
}

void plock__routes_changed(plock_store *store) {
    (void)atomic_fetch_add(&store->routes->version, 1);
    plock__store_review(store);
}

void plock__routes_move(plock_store *store, unsigned slot, plock_node *to) {
    plock__enter();
    const bool changes = at(store->routes, slot) != to;
    store->routes->moved_at[slot] = store->routes->last_moved_at = plock_now();
    if (changes) atomic_store(&store->routes->slots[slot], to);
    if (changes) plock__routes_changed(store);
    plock__leave();
}
