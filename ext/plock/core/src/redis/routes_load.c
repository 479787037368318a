/* Loading the map of a cluster, on a thread of its own. */
#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "redis/routes.h"
#include "runtime/interest.h"
#include "runtime/waker.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* The shortest time between two loads of the map. */
static const plock_ns LOADS_EVERY = 100 * PLOCK_MILLISECOND;

/* How long after a move a node's map may be out of date. The other nodes report the move in their
 * messages, and each of them sends several messages per second. */
static const plock_ns MAP_LAGS = PLOCK_SECOND;

/* How many nodes of the URL a load asks, in addition to the nodes of the last map. If no node of
 * the last map can be reached, the nodes of the URL may still be reachable. */
enum { SEEDS_ASKED = 4 };

/* One load of the map. Its thread and all callers that wait for the load share it, and count their
 * references under the mutex. */
struct plock_load {
    unsigned references, generation;
    plock_ns pause; /* The load waits this long before it asks. */
    bool asks, done;
    bool doubted;       /* The map was doubted after the load had asked, so another load follows. */
    plock_error so_far; /* Why the map is not known yet. Status PLOCK_OK: no reason is known. */
    plock_error error;  /* Status PLOCK_OK: the map was loaded. */
    plock_waker *waker; /* Woken at the end and never cleared, so that all callers see it. */
    plock_store *store; /* NULL: the store is gone. */
    plock_config *config;
    unsigned count;
    plock_node_name asked[PLOCK__MAP_ASKED_MAX];
    plock_slot_map map;
};

static void release(plock_load *load) {
    if (!plock__drop_reference(&load->references)) return;
    plock_waker_give(load->waker);
    plock_config_free(load->config);
    plock__free(load);
}

/* --- on the thread --- */

static bool is_recent(plock_ns moved_at, plock_ns now) {
    return moved_at && now - moved_at < MAP_LAGS;
}

static void apply(plock_store *store, const plock_slot_map *map) {
    plock_node *nodes[PLOCK__MAPPED_NODES_MAX];
    bool changes = false;
    for (unsigned i = 0; i < map->count; i++) nodes[i] = plock__routes_node(store, &map->nodes[i]);
    plock__enter();
    const plock_ns now = plock_now();
    for (unsigned slot = 0; slot < PLOCK__SLOTS; slot++) {
        const unsigned owner = map->owners[slot];
        plock_node *node = owner ? nodes[owner - 1] : NULL;
        /* if the map has no node for the slot, or memory has run out, the old route may still be
         * right */
        if (!node || node == atomic_load(&store->routes->slots[slot])) continue;
        if (is_recent(store->routes->moved_at[slot], now)) continue;
        atomic_store(&store->routes->slots[slot], node);
        changes = true;
    }
    atomic_store(&store->routes->mapped, true);
    if (changes) plock__routes_changed(store);
    plock__leave();
}

/* Takes a reference to the store and returns the store. Returns NULL if the store is gone, or if
 * its last reference is gone, so that another thread is about to free it. */
static plock_store *hold_store(plock_load *load) {
    plock__enter();
    plock_store *store = load->store && load->store->references > 0 ? load->store : NULL;
    if (store) store->references++;
    plock__leave();
    return store;
}

static void finish(plock_load *load, plock_status status) {
    plock__begin_step();
    plock_store *store = hold_store(load);
    if (store && !status) apply(store, &load->map);
    plock__enter();
    load->error.status = status;
    load->done = true;
    if (load->store && load->store->routes->running == load) load->store->routes->running = NULL;
    load->store = NULL;
    const bool doubted = load->doubted;
    if (store) plock__store_review(store);
    plock__leave();
    plock_waker_wake(load->waker);
    if (store && doubted) plock__routes_doubt(store);
    if (store) plock__store_release(store);
    release(load);
    plock__end_step();
}

static void *run(void *argument) {
    plock_load *load = argument;
    plock__name_thread("plock-resolver");
    if (load->pause) (void)poll(NULL, 0, (int)(load->pause / PLOCK_MILLISECOND) + 1);
    plock__enter();
    load->asks = true;
    plock__leave();
    finish(load, plock__ask_for_slots(load->config, load->asked, load->count, &load->map,
                                      &load->so_far, &load->error));
    return NULL;
}

/* --- beginning a load --- */

static void add(plock_load *load, const plock_node_name *name) {
    for (unsigned i = 0; i < load->count; i++)
        if (plock__same_node(&load->asked[i], name)) return;
    if (load->count < PLOCK__MAP_ASKED_MAX) load->asked[load->count++] = *name;
}

static void add_seeds(plock_load *load, unsigned turn, unsigned most) {
    const plock_endpoints *seeds = load->config->cluster;
    for (unsigned i = 0; i < seeds->count && i < most; i++) {
        const plock_endpoint *place = &seeds->list[(turn + i) % seeds->count];
        plock_node_name name = {0};
        /* a host that is too long for a name has no address anyway */
        (void)snprintf(name.host, sizeof name.host, "%s", place->host);
        memcpy(name.port, place->port, sizeof name.port);
        add(load, &name);
    }
}

/* If `serving` is true, adds the nodes that serve a slot. Otherwise adds the nodes that serve none.
 * Leaves room for `rest` more nodes. */
static void add_nodes(plock_load *load, plock_routes *routes, unsigned turn, unsigned count,
                      bool serving, unsigned rest) {
    bool serves[PLOCK__NODES_MAX] = {false};
    for (unsigned slot = 0; slot < PLOCK__SLOTS; slot++) {
        const plock_node *node = atomic_load_explicit(&routes->slots[slot], memory_order_acquire);
        if (node) serves[node->number] = true;
    }
    plock_node *node = atomic_load(&routes->first);
    for (unsigned i = 0; count && i < turn % count; i++) node = atomic_load(&node->next);
    for (unsigned i = 0; i < count && load->count < PLOCK__MAP_ASKED_MAX - rest; i++) {
        if (!node) node = atomic_load(&routes->first);
        if (serves[node->number] == serving) add(load, &node->name);
        node = atomic_load(&node->next);
    }
}

/* Chooses the nodes to ask. Each load begins with a different node, because a node may be silent or
 * unreachable. Nodes that no longer serve a slot come last, because they may belong to another
 * cluster now. */
static void choose(plock_load *load, plock_routes *routes) {
    plock__enter();
    const unsigned turn = routes->turn++, count = routes->count;
    plock__leave();
    add_nodes(load, routes, turn, count, true, SEEDS_ASKED);
    add_seeds(load, turn, load->count ? SEEDS_ASKED : PLOCK__ENDPOINTS_MAX);
    add_nodes(load, routes, turn, count, false, 0);
}

static plock_load *new_load(plock_store *store, plock_ns pause, plock_error *error) {
    plock_load *load = plock__allocate(sizeof *load);
    if (!load) {
        (void)plock__fail_plainly(error, PLOCK_NO_MEMORY);
        return NULL;
    }
    load->waker = plock__waker_take_open();
    if (!load->waker) {
        (void)plock__fail_errno(error, PLOCK_NO_MEMORY, "loading the map of the cluster", errno);
        plock__free(load);
        return NULL;
    }
    load->references = 1;
    load->pause = pause;
    load->generation = plock__generation();
    load->store = store;
    load->config = plock__config_retain(store->config);
    choose(load, store->routes);
    return load;
}

/* Returns the load that is running. If none is running, publishes `made` and returns it. *joins:
 * true if a load was running. */
static plock_load *join_or_publish(plock_routes *routes, plock_load *made, bool *joins) {
    plock__enter();
    plock_load *load = routes->running;
    /* a load of the parent process */
    plock_load *orphan = load && load->generation != plock__generation() ? load : NULL;
    if (orphan) load = routes->running = NULL;
    *joins = load;
    if (load) load->references++;
    if (!load && made) {
        load = routes->running = made;
        made->references++; /* the thread's reference */
        routes->loaded_at = plock_after(plock_now(), made->pause);
    }
    plock__leave();
    if (orphan) release(orphan);
    return load;
}

/* Joins the load that is running, or starts one that asks after the pause. Returns NULL and the
 * error if no load can be made. */
static plock_load *begin(plock_store *store, plock_ns pause, plock_error *error) {
    bool joins;
    plock_load *load = join_or_publish(store->routes, NULL, &joins);
    if (load) return load;
    plock_load *made = new_load(store, pause, error);
    if (!made) return NULL;
    load = join_or_publish(store->routes, made, &joins);
    if (joins) { /* another thread published first */
        release(made);
        return load;
    }
    pthread_t thread;
    const int failed = plock__start_thread(&thread, run, load);
    if (!failed) {
        (void)pthread_detach(thread);
        return load;
    }
    const plock_status status =
        plock__fail_errno(&load->error, PLOCK_DESCRIPTORS, "starting a thread", failed);
    plock__enter();
    load->error.status = status;
    load->done = true;
    load->store = NULL;
    store->routes->running = NULL;
    plock__leave();
    plock_waker_wake(load->waker);
    release(load); /* the thread's reference */
    return load;
}

void plock__routes_leave_load(plock_routes *routes) {
    plock__enter();
    plock_load *load = routes->running;
    const bool orphan = load && load->generation != plock__generation();
    if (load) load->store = NULL;
    routes->running = NULL;
    plock__leave();
    if (orphan) release(load);
}

void plock__routes_doubt(plock_store *store) {
    plock_routes *routes = store->routes;
    plock_error ignored;
    plock__enter();
    const plock_ns now = plock_now(), next = plock_after(routes->loaded_at, LOADS_EVERY);
    plock_load *running = routes->running;
    if (running && running->generation != plock__generation()) running = NULL;
    if (running && running->asks) running->doubted = true;
    const plock_ns pause = routes->loaded_at && next > now ? next - now : 0;
    plock__leave();
    /* Before the first map is loaded, a caller that waits for the map begins a load without a
     * pause. So this function begins no load that would pause first. */
    const bool begins = !running && (!pause || atomic_load(&routes->mapped));
    plock_load *load = begins ? begin(store, pause, &ignored) : NULL;
    if (load) release(load);
}

void plock__routes_distrust(plock_node *node) {
    plock_routes *routes = node->store->routes;
    plock__enter();
    /* many callers may fail at once, so the loop runs only if a slot has moved lately */
    const bool any = is_recent(routes->last_moved_at, plock_now());
    for (unsigned slot = 0; any && slot < PLOCK__SLOTS; slot++)
        if (atomic_load(&routes->slots[slot]) == node) routes->moved_at[slot] = 0;
    plock__leave();
    plock__routes_doubt(node->store);
}

plock_load *plock__routes_renew(plock_store *store) {
    plock_routes *routes = store->routes;
    plock_error ignored;
    plock__enter();
    const bool fresh = !routes->running && atomic_load(&routes->mapped) &&
                       plock_now() - routes->loaded_at < LOADS_EVERY;
    plock__leave();
    return fresh ? NULL : begin(store, 0, &ignored);
}

plock_status plock__routes_await(plock_store *store, plock_load **load, plock_interest *interest,
                                 plock_error *error) {
    if (!*load) {
        if (atomic_load(&store->routes->mapped)) return PLOCK_OK;
        *load = begin(store, 0, error);
        if (!*load) return error->status;
    }
    plock__enter();
    const bool done = (*load)->done;
    plock__leave();
    if (!done) {
        plock__interest_set(interest, plock_waker_descriptor((*load)->waker), POLLIN);
        return PLOCK_AGAIN;
    }
    const plock_status status = (*load)->error.status;
    if (status) *error = (*load)->error;
    plock__routes_abandon(load);
    return status;
}

plock_status plock__routes_unknown_yet(const plock_config *config, const plock_load *load,
                                       plock_error *error) {
    plock_error known = {.status = PLOCK_OK};
    plock__enter();
    if (load) known = load->so_far;
    plock__leave();
    if (!known.status)
        return plock__fail(error, PLOCK_SILENT, "no node of the cluster told its slots in time%s",
                           plock__config_tls_question(config));
    *error = known;
    return known.status;
}

void plock__routes_abandon(plock_load **load) {
    if (*load) release(*load);
    *load = NULL;
}
