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
    store->resolver = (plock_resolver){.host = config->host, .port = config->port};
    plock__pool_start(&store->pool, config->pool_size);
    *out = store;
    return PLOCK_OK;
}

const plock_config *plock_store_config(const plock_store *store) { return store->config; }

void plock_store_disconnect(plock_store *store) {
    plock__begin_step();
    plock__pool_close(&store->pool);
    plock__enter();
    plock__coordinator_review(store);
    plock__leave();
    plock__end_step();
}

bool plock_store_disconnected(const plock_store *store) { return plock__pool_closed(&store->pool); }

/* Processes that poll do so every 35 to 65 ms. If one was seen lately, the window is longer than
 * that. */
static const plock_ns WINDOW = 5 * PLOCK_MILLISECOND, WINDOW_SEEN = 68 * PLOCK_MILLISECOND,
                      SEEN_LATELY = 600 * PLOCK_SECOND;

plock_ns plock__store_window(const plock_store *store, bool shares) {
    if (!shares) return 0;
    const plock_ns seen = atomic_load_explicit(&store->older_seen_at, memory_order_relaxed);
    return seen && plock_now() - seen < SEEN_LATELY ? WINDOW_SEEN : WINDOW;
}

/* Most calls find the time up to date and write nothing, because a cache line that every thread
 * writes to is expensive. */
void plock__store_reached(plock_store *store, plock_ns moment) {
    static const plock_ns OUTDATED = 10 * PLOCK_MILLISECOND;
    if (moment - atomic_load_explicit(&store->reached_at, memory_order_relaxed) >= OUTDATED)
        atomic_store_explicit(&store->reached_at, moment, memory_order_relaxed);
}

void plock__store_saw_older(plock_store *store, plock_ns now) {
    atomic_store(&store->older_seen_at, now);
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
    if (store->references == 1) plock__coordinator_review(store);
    plock__leave();
    if (!last) return;
    plock__pool_clear(&store->pool);
    plock__resolver_clear(&store->resolver);
    plock__tls_context_free(store->tls);
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

/* Reading certificates takes milliseconds, so it happens outside the lock. If two threads do it at
 * once, one result is dropped. */
static plock_status tls_of(plock_store *store, struct ssl_ctx_st **tls, plock_error *error) {
    plock__enter();
    *tls = store->tls;
    plock__leave();
    if (*tls) return PLOCK_OK;
    struct ssl_ctx_st *made;
    const plock_status status = plock__tls_context(&made, store->config, error);
    if (status) return status;
    plock__enter();
    if (!store->tls) {
        store->tls = made;
        made = NULL;
    }
    *tls = store->tls;
    plock__leave();
    plock__tls_context_free(made);
    return PLOCK_OK;
}

static plock_status make_transport(plock_store *store, plock_transport **transport,
                                   plock_error *error) {
#ifdef PLOCK_TESTING
    if (store->make_transport) {
        *transport = store->make_transport(store);
        return *transport ? PLOCK_OK : plock__fail_plainly(error, PLOCK_NO_MEMORY);
    }
#endif
    if (store->config->scheme != PLOCK_TLS_OVER_TCP) {
        *transport = plock__socket_transport(store->config, &store->resolver);
    } else {
        struct ssl_ctx_st *tls;
        const plock_status status = tls_of(store, &tls, error);
        if (status) return status;
        *transport = plock__tls_transport(store->config, &store->resolver, tls);
    }
    return *transport ? PLOCK_OK : plock__fail_plainly(error, PLOCK_NO_MEMORY);
}

static plock_status make_connection(plock_store *store, plock_connection **connection,
                                    plock_error *error) {
    plock_transport *transport = NULL;
    const plock_status status = make_transport(store, &transport, error);
    if (status) return status;
    *connection = plock__connection_new(store->config, transport);
    return *connection ? PLOCK_OK : plock__fail_plainly(error, PLOCK_NO_MEMORY);
}

plock_status plock__store_connect(plock_store *store, plock_connection **connection,
                                  plock_error *error) {
    const plock_status status = make_connection(store, connection, error);
    if (status)
        plock__pool_give_room(&store->pool);
    else
        plock__pool_add(&store->pool, *connection);
    return status;
}

plock_status plock__store_connect_beside(plock_store *store, plock_connection **connection,
                                         plock_error *error) {
    const plock_status status = make_connection(store, connection, error);
    if (!status) plock__pool_add_beside(&store->pool, *connection);
    return status;
}
