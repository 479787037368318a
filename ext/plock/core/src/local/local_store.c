#include "local/local_lease.h"
#include "local/local_make.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "plock/process.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* How often a call that must open the file tries again. */
static const plock_ns LOOKS_EVERY = 5 * PLOCK_MILLISECOND;

/* How long a process may wait for the critical section when it opens a store. */
static const plock_ns START_TAKES = 3 * PLOCK_SECOND;

static plock_local *stores; /* all stores of this process; under the mutex */

static void start(void) { plock__on_fork(plock__local_in_child); }

plock__local_unneeded plock__local_retire(plock__local_map *map) {
    plock__local_unneeded unneeded = {.map = map};
    for (plock_local *store = stores; store; store = store->next) {
        if (store->map != map) continue;
        store->map = NULL;
        unneeded.count++;
    }
    return unneeded;
}

/* Retains the store's map, and sets *out to it. Sets *out to NULL if the store has no usable map.
 * The store gives up a lost map as soon as this process holds no lease in it, and waits for none.
 * Until then, this function returns the loss. In all other cases, it returns PLOCK_OK. */
static plock_status current(plock_local *store, plock__local_map **out, plock_error *error) {
    plock__enter();
    plock__local_map *map = *out = store->map;
    store->disconnected = false;
    if (map) map->references++;
    const bool own = map && map->generation == plock__generation();
    plock__leave();
    if (!map) return PLOCK_OK;
    const plock_status checked = own ? plock__local_check(map, plock_now(), error) : PLOCK_OK;
    if (own && !checked) return PLOCK_OK;
    plock__enter();
    const bool stays = own && map->users > 0;
    unsigned left = stays ? 1 : 1 + plock__local_retire(map).count;
    plock__leave();
    *out = NULL;
    for (; left > 0; left--) plock__local_release(map);
    return stays ? checked : PLOCK_OK;
}

/* Retains the store's map. Opens the file if the store has no map, in one attempt. Returns the same
 * as plock__local_attach. */
static plock_status try_to_use(plock_local *store, plock__local_map **out, plock_error *error) {
    plock_status status = current(store, out, error);
    if (status || *out) return status;
    status = plock__local_attach(out, store->path, store->keys, error);
    if (status) return status;
    plock__enter();
    plock__local_map *old = store->map; /* not NULL if another thread attached a map first */
    store->map = *out;
    store->map->references++;
    if (store->map->remade) store->remade = store->map->remade;
    plock__leave();
    if (old) plock__local_release(old);
    return PLOCK_OK;
}

static plock_status is_being_made(const plock_local *store, plock_error *error) {
    return plock__local_refuse(error, PLOCK_SILENT, store->path,
                               "another process has been opening it for a second: is it stopped?",
                               "");
}

plock_status plock__local_use(plock_local *store, plock__local_map **out, plock_ns deadline,
                              plock_interest *interest, plock_error *error) {
    const plock_status status = try_to_use(store, out, error);
    if (status != PLOCK_AGAIN && status != PLOCK_SILENT) return status;
    const plock_ns now = plock_now();
    if (now >= deadline) return status == PLOCK_AGAIN ? is_being_made(store, error) : status;
    *interest = (plock_interest){.fd = -1, .deadline = now + LOOKS_EVERY};
    return PLOCK_AGAIN;
}

/* Does the same as plock__local_use, but blocks the thread instead of returning PLOCK_AGAIN. If a
 * thousand processes start at once, the one in the critical section gets CPU time only if the
 * others sleep between attempts, and the last ones need more than a second. A fork need not wait
 * for the sleeps, because they are outside of steps. */
static plock_status await_use(plock_local *store, plock__local_map **out, plock_error *error) {
    const plock_ns began_at = plock_now();
    struct timespec pause = {.tv_nsec = PLOCK_MILLISECOND};
    for (;;) {
        plock__begin_step();
        const plock_status status = try_to_use(store, out, error);
        plock__end_step();
        if (status != PLOCK_AGAIN && status != PLOCK_SILENT) return status;
        const plock_ns passed = plock_now() - began_at;
        if (status == PLOCK_AGAIN && passed >= PLOCK_LOCAL_PATIENCE)
            return is_being_made(store, error);
        if (passed >= START_TAKES) return status;
        (void)nanosleep(&pause, NULL);
        if (pause.tv_nsec < 64 * PLOCK_MILLISECOND) pause.tv_nsec *= 2;
    }
}

/* Does the path lead to a file or folder? If not, the user has probably passed a wrong path. */
static bool leads_somewhere(const char *path) {
    struct stat found;
    return path && stat(path, &found) == 0;
}

plock_status plock_local_open(plock_local **out, const char *path, unsigned keys,
                              plock_error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    *out = NULL;
    if (keys && (keys < PLOCK_LOCAL_KEYS_MIN || keys > PLOCK_LOCAL_KEYS_MAX))
        return plock__fail(error, PLOCK_BAD_CONFIG, "keys: must be from %d to %d",
                           PLOCK_LOCAL_KEYS_MIN, PLOCK_LOCAL_KEYS_MAX);
    plock_status status = plock_initialize();
    if (!status) (void)pthread_once(&once, start);
    plock_local *store = status ? NULL : plock__allocate(sizeof *store);
    if (!store) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    store->references = 1;
    store->keys = keys;
    plock__enter();
    store->next = stores;
    stores = store;
    plock__leave();
    if (!path)
        status = plock__local_default_path(&store->path, error);
    else if (!(store->path = plock__copy(path, strlen(path))))
        status = plock__fail_plainly(error, PLOCK_NO_MEMORY);
    plock__local_map *map = NULL;
    if (!status) status = await_use(store, &map, error);
    plock__begin_step();
    if (map) plock__local_release(map);
    plock__end_step();
    if (status == PLOCK_DISCONNECTED && !leads_somewhere(store->path))
        status = error->status = PLOCK_BAD_CONFIG;
    if (status)
        plock_local_close(store);
    else
        *out = store;
    return status;
}

const char *plock_local_path(const plock_local *store) { return store->path; }

const char *plock_local_remade(const plock_local *store) {
    plock__enter();
    const char *remade = store->remade;
    plock__leave();
    return remade;
}

/* Makes the lease a user of the map. Returns true if the map has a lookout. Call with the
 * mutex held. */
static bool begin_use(plock_local_lease *lease, plock__local_map *map) {
    lease->map = map;
    lease->uses = true;
    map->users++;
    return map->lookout;
}

/* Makes the lease a user of the store's map. Returns false if the store has no map of this process,
 * or if the map is lost. The caller must then call plock__local_use, which can attach a new map. */
static bool use_current(plock_local_lease *lease) {
    plock__enter();
    plock__local_map *map = lease->store->map;
    const bool own = map && map->generation == plock__generation();
    bool looked_at = true;
    if (own) {
        map->references++;
        looked_at = begin_use(lease, map);
        lease->store->disconnected = false;
    }
    plock__leave();
    if (!looked_at) plock__local_post_lookout(map);
    if (own && !plock__local_check(map, plock_now(), NULL)) return true;
    if (own) plock__local_has_used(lease);
    return false;
}

plock_status plock__local_use_for(plock_local_lease *lease, plock_interest *interest) {
    plock__local_map *map = NULL;
    if (lease->map || use_current(lease)) return PLOCK_OK;
    const plock_status status =
        plock__local_use(lease->store, &map, lease->deadline, interest, &lease->base.error);
    if (!status) plock__local_uses(lease, map);
    return status;
}

void plock__local_uses(plock_local_lease *lease, plock__local_map *map) {
    plock__enter();
    const bool looked_at = begin_use(lease, map);
    plock__leave();
    if (!looked_at) plock__local_post_lookout(map);
}

plock__local_map *plock__local_unused(plock_local_lease *lease) {
    plock__local_map *map = lease->uses || lease->job_state ? NULL : lease->map;
    if (map) lease->map = NULL;
    return map;
}

/* When the last user of a lost map ends its use, the stores give up the map. If they kept the map,
 * and the file were put back in its place, this process would still count as alive in the file.
 * Call with the mutex held. */
plock__local_unneeded plock__local_end_use(plock_local_lease *lease) {
    plock__local_unneeded unneeded = {.map = lease->map};
    const bool last = lease->uses && --lease->map->users == 0;
    lease->uses = false;
    if (lease->state != PLOCK__LEASE_LOST) plock__local_set_state(lease, PLOCK__LEASE_NONE);
    if (last && plock__local_lost(lease->map)) unneeded = plock__local_retire(lease->map);
    if (plock__local_unused(lease)) unneeded.count++;
    return unneeded;
}

void plock__local_has_used(plock_local_lease *lease) {
    plock__enter();
    const plock__local_unneeded unneeded = plock__local_end_use(lease);
    plock__leave();
    plock__local_let_maps_go(&unneeded);
}

void plock__local_let_maps_go(const plock__local_unneeded *unneeded) {
    for (unsigned left = unneeded->count; left > 0; left--) plock__local_release(unneeded->map);
}

plock_status plock__local_go_in(plock__local_map *map, plock_ns began, plock_ns deadline,
                                plock_interest *interest, plock_error *error) {
    const plock_status status = plock__local_enter(map, began, error);
    if (status != PLOCK_AGAIN) return status;
    const plock_ns now = plock_now();
    if (now >= deadline) return plock__local_occupied(map, error);
    *interest = (plock_interest){.fd = -1, .deadline = now + PLOCK_MILLISECOND};
    return PLOCK_AGAIN;
}

bool plock__local_may_retry(const plock__local_map *map, plock_status status, plock_ns deadline,
                            plock_interest *interest) {
    const bool told = atomic_load(&map->loss) == PLOCK__LOCAL_ABSURD ||
                      (status != PLOCK_DISCONNECTED && status != PLOCK_PROTOCOL);
    if (told || !plock__local_lost(map) || plock_now() >= deadline) return false;
    *interest = (plock_interest){.fd = -1};
    return true;
}

plock_status plock__local_retry_if_lost(plock_local_lease *lease, plock_status status,
                                        plock_interest *interest) {
    if (!lease->map || !plock__local_may_retry(lease->map, status, lease->deadline, interest))
        return status;
    lease->base.held = false;
    if (!plock__local_start_over(lease)) interest->deadline = plock_now() + PLOCK_MILLISECOND;
    return PLOCK_AGAIN;
}

int plock_local_liveness(plock_local *store, plock_error *error) {
    plock__local_map *map = NULL;
    const plock_status status = await_use(store, &map, error);
    plock__begin_step();
    const int fd = status || !plock__local_life_is_shared() ? -1 : map->fd;
    if (map) plock__local_release(map);
    plock__end_step();
    return fd;
}

void plock_local_disconnect(plock_local *store) {
    plock__begin_step();
    plock__enter();
    plock__local_map *map = store->map;
    store->map = NULL;
    store->disconnected = true;
    plock__leave();
    if (map) plock__local_release(map);
    plock__end_step();
}

bool plock_local_disconnected(const plock_local *store) {
    plock__enter();
    const bool yes = store->disconnected;
    plock__leave();
    return yes;
}

void plock__local_store_release(plock_local *store) {
    plock__enter();
    const bool last = --store->references == 0;
    for (plock_local **link = &stores; last && *link; link = &(*link)->next)
        if (*link == store) {
            *link = store->next;
            break;
        }
    plock__leave();
    if (!last) return;
    if (store->map) plock__local_release(store->map);
    plock__free(store->path);
    plock__free(store);
}

void plock_local_close(plock_local *store) {
    if (!store) return;
    plock__begin_step();
    plock__local_store_release(store);
    plock__end_step();
}
