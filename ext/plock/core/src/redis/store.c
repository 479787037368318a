#include "redis/store.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "plock/process.h"
#include "redis/coordinator.h"
#include "redis/routes.h"
#include "redis/trailing.h"
#include "redis/trim.h"
#include "runtime/worker.h"

static void start(void) {
    plock__on_fork(plock__pools_in_child);
    plock__on_fork(plock__coordinators_in_child);
    plock__on_fork(plock__debts_in_child);
    plock__on_fork(plock__trailing_in_child);
}

static plock_status initialize(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const plock_status status = plock_initialize();
    if (!status) (void)pthread_once(&once, start);
    return status;
}

plock_status plock_store_open(plock_store **out, plock_config *config, plock_error *error) {
    *out = NULL;
    plock_status status = plock__config_check(config, error);
    if (!status) status = initialize();
    plock_store *store = status ? NULL : plock__allocate(sizeof *store);
    if (store && config->cluster) store->routes = plock__allocate(sizeof *store->routes);
    const bool whole = store && (store->routes || !config->cluster);
    if (!status && !whole) status = plock__fail_plainly(error, PLOCK_NO_MEMORY);
    if (status) {
        plock__free(store);
        plock_config_free(config);
        return status;
    }
    store->references = 1;
    store->config = config;
    plock__node_start(&store->node, store, NULL);
    *out = store;
    return PLOCK_OK;
}

const plock_config *plock_store_config(const plock_store *store) { return store->config; }

/* How long plock_store_disconnect waits for the answers to trailing releases. Such an answer may
 * say that a lease was lost. */
static const plock_ns LAST_LOOK = 20 * PLOCK_MILLISECOND;

void plock_store_disconnect(plock_store *store) {
    plock__trailing_settle(store, plock_after(plock_now(), LAST_LOOK));
    plock__begin_step();
    for (plock_node *node = NULL; (node = plock__store_nodes(store, node));)
        plock__pool_close(&node->pool);
    plock__enter();
    plock__store_review(store);
    plock__leave();
    plock__end_step();
}

bool plock_store_disconnected(const plock_store *store) {
    return plock__pool_closed(&store->node.pool);
}

plock_node *plock__store_nodes(plock_store *store, const plock_node *after) {
    if (!after) return &store->node;
    if (after != &store->node) return atomic_load(&after->next);
    return store->routes ? atomic_load(&store->routes->first) : NULL;
}

/* Adds up the pools, because each node of a cluster has one. */
plock_pool_status plock_store_pool_status(plock_store *store) {
    plock_pool_status status = {.size = store->config->pool_size};
    plock__enter();
    if (store->routes && store->routes->count) status.size *= store->routes->count;
    for (plock_node *node = NULL; (node = plock__store_nodes(store, node));) {
        const unsigned idle = plock__pool_idle(&node->pool);
        status.used += node->pool.open - idle;
        status.idle += idle;
        status.waiting += node->pool.waiting;
        status.waits += node->pool.waits;
    }
    plock__leave();
    return status;
}

/* The pool of the store's own node shows whether all pools are closed. */
void plock__store_use(plock_store *store) {
    if (store->routes && plock__pool_closed(&store->node.pool))
        for (plock_node *node = NULL; (node = plock__store_nodes(store, node));)
            plock__pool_use(&node->pool);
    plock__pool_use(&store->node.pool);
}

void plock__store_review(plock_store *store) {
    for (plock_node *node = NULL; (node = plock__store_nodes(store, node));)
        plock__coordinator_review(node);
    if (store->routes) plock__trim_review(store);
}

plock_node *plock__store_attend(plock_node *node) {
    plock__enter();
    node->store->references++;
    node->store->attendants++;
    plock__leave();
    return node;
}

void plock__store_unattend(plock_node *node) {
    plock__enter();
    node->store->attendants--;
    plock__leave();
    plock__store_release(node->store);
}

bool plock__store_unused(const plock_store *store) {
    return store->references == store->attendants;
}

plock_store *plock__store_retain(plock_store *store) {
    plock__enter();
    store->references++;
    plock__leave();
    return store;
}

void plock__store_release(plock_store *store) {
    plock__enter();
    const bool last = --store->references == 0;
    if (plock__store_unused(store)) plock__store_review(store);
    plock__leave();
    if (!last) return;
    plock__routes_free(store);
    plock__node_clear(&store->node);
    plock_config_free(store->config);
    plock__free(store);
}

void plock_store_close(plock_store *store) {
    if (!store) return;
    plock__begin_step();
    plock__store_release(store);
    plock__end_step();
}

void plock_settle(plock_ns deadline) {
    plock__trailing_settle(NULL, deadline);
    plock__debts_hurry();
    plock__worker_await(deadline);
}

void plock_drain(plock_ns deadline) {
    plock__trailing_settle(NULL, deadline);
    plock__debts_hurry();
    plock__worker_drain(deadline);
}
