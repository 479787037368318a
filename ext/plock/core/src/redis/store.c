#include "redis/store.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "plock/process.h"
#include "redis/coordinator.h"
#include "runtime/worker.h"

static void start(void) {
    plock__on_fork(plock__pools_in_child);
    plock__on_fork(plock__coordinators_in_child);
    plock__on_fork(plock__debts_in_child);
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
    if (!status && !store) status = plock__fail_plainly(error, PLOCK_NO_MEMORY);
    if (status) {
        plock_config_free(config);
        return status;
    }
    store->references = 1;
    store->config = config;
    plock__node_start(&store->node, store, config);
    *out = store;
    return PLOCK_OK;
}

const plock_config *plock_store_config(const plock_store *store) { return store->config; }

void plock_store_disconnect(plock_store *store) {
    plock__begin_step();
    plock__pool_close(&store->node.pool);
    plock__enter();
    plock__coordinator_review(&store->node);
    plock__leave();
    plock__end_step();
}

bool plock_store_disconnected(const plock_store *store) {
    return plock__pool_closed(&store->node.pool);
}

plock_node *plock__store_node(plock_store *store, plock_text key) {
    (void)key;
    return &store->node;
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
    if (store->references == 1) plock__coordinator_review(&store->node);
    plock__leave();
    if (!last) return;
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
    plock__debts_hurry();
    plock__worker_await(deadline);
}

void plock_drain(plock_ns deadline) {
    plock__debts_hurry();
    plock__worker_drain(deadline);
}
