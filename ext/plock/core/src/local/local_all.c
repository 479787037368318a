/* Acquires several keys of a local store at once: all of them, or none. */
#include "local/local_lease.h"

#include "base/process.h"

typedef struct group {
    plock_local_lease *const *leases;
    size_t count;
    plock__local_map *map;
    plock_ns patience; /* how long the calls for one attempt may take */
} group;

static size_t first_taken(const group *p, plock_ns now) {
    for (size_t i = 0; i < p->count; i++) {
        const uint32_t key = plock__local_find(p->map, &p->leases[i]->name);
        if (key == PLOCK__LOCAL_NONE) continue;
        plock__local_tidy(p->map, key, now);
        const plock__local_key *found = plock__key(p->map, key);
        if (found->length && !plock__local_admits(p->map, found, 0, 0)) return i;
    }
    return p->count;
}

static plock_status take_one(const group *p, size_t number,
                             const plock__local_wait_request *wait_request, plock_ns now,
                             plock_error *error) {
    plock_local_lease *lease = p->leases[number];
    uint32_t claim, key = plock__local_find(p->map, &lease->name);
    /* first_taken() has found that a known key has no holder, and that each of its waiters belongs
     * to a silent or dead process */
    plock_status status = PLOCK_OK;
    if (key == PLOCK__LOCAL_NONE) status = plock__local_make_key(p->map, &lease->name, &key, error);
    if (!status)
        status = plock__local_claim_key(p->map, key, wait_request, false, now, &claim, error);
    if (!status) plock__local_has_claim(lease, claim);
    return status;
}

/* Makes the keys stay taken for at_least, even if this process dies, or if max_hold ends the
 * renewal earlier. */
static void keep(const group *p, plock_ns at_least, plock_ns now) {
    const plock_ns until = plock_after(now, at_least);
    plock__local_outlives(p->map, until);
    for (size_t i = 0; i < p->count; i++) {
        plock__local_claim *claim = &p->map->claims[p->leases[i]->claim];
        claim->at_least = at_least;
        if (atomic_load(&claim->until) < until) atomic_store(&claim->until, until);
        claim->kept_until = until;
    }
}

static plock_status take(const group *p, const plock__local_wait_request *wait_requests,
                         plock_ns now, plock_error *error) {
    plock_status status = PLOCK_OK;
    size_t taken = 0;
    while (taken < p->count && !(status = take_one(p, taken, &wait_requests[taken], now, error)))
        taken++;
    for (size_t i = 0; i < taken && status; i++)
        plock__local_give_up_claim(p->map, p->leases[i]->claim, now);
    if (status) return status;
    const plock_ns at_least = p->leases[0]->terms.at_least;
    if (at_least) keep(p, at_least, now);
    for (size_t i = 0; i < p->count; i++) plock__local_date(p->leases[i], now);
    return PLOCK_OK;
}

/* If there is no room, take() gives the acquired keys back, and a sweep makes room. Both may admit
 * waiters, so first_taken() must check the keys again before the next attempt. */
static plock_status take_if_free(const group *p, const plock__local_wait_request *wait_requests,
                                 plock_ns now, size_t *refused, plock_error *error) {
    plock_status status;
    do {
        *refused = first_taken(p, now);
        if (*refused < p->count) return PLOCK_REFUSED;
        status = take(p, wait_requests, now, error);
    } while (status == PLOCK_STORE_FULL && plock__local_sweep(p->map, now));
    return status;
}

static plock_status prepare(const group *p, plock__local_wait_request *wait_requests,
                            char rooms[][PLOCK_DIGEST_HEX], plock_error *error) {
    plock_status status = PLOCK_OK;
    for (size_t i = 0; i < p->count && !status; i++) {
        plock__local_uses(p->leases[i], plock__local_retain(p->map));
        status = plock__local_wait_request_of(p->leases[i], &wait_requests[i], rooms[i]);
        /* if the process dies before it has all keys, none of them may stay taken */
        wait_requests[i].at_least = 0;
        if (!status && (status = plock__local_prepare_watch(p->leases[i])))
            *error = p->leases[i]->base.error;
    }
    return status;
}

static void forget(const group *p) {
    for (size_t i = 0; i < p->count; i++) {
        plock_local_lease *lease = p->leases[i];
        lease->base.held = false;
        plock__local_has_used(lease);
        lease->operation = PLOCK__OP_NONE;
    }
}

static void start(plock_local_lease *lease) {
    plock__local_set_state(lease, PLOCK__LEASE_HELD);
    lease->operation = PLOCK__OP_NONE;
    plock__local_has_begun(lease);
}

static plock_status acquire(group *p, size_t *refused, plock_interest *interest,
                            plock_error *error) {
    plock__local_wait_request wait_requests[PLOCK_LOCAL_AT_ONCE_MAX];
    char rooms[PLOCK_LOCAL_AT_ONCE_MAX][PLOCK_DIGEST_HEX];
    *refused = p->count;
    const plock_ns deadline = plock_after(p->leases[0]->began_at, p->patience);
    plock_status status = plock__local_use(p->leases[0]->store, &p->map, deadline, interest, error);
    if (!status) status = prepare(p, wait_requests, rooms, error);
    const plock_ns now = plock_now();
    if (!status) status = plock__local_go_in(p->map, now, deadline, interest, error);
    if (!status) {
        const plock_status taken = take_if_free(p, wait_requests, now, refused, error);
        status = plock__local_leave(p->map, error);
        if (!status) status = taken;
    }
    if (p->map && plock__local_may_retry(p->map, status, deadline, interest)) status = PLOCK_AGAIN;
    if (p->map) plock__local_release(p->map);
    for (size_t i = 0; i < p->count && !status; i++) start(p->leases[i]);
    if (status) forget(p);
    return status;
}

plock_status plock_local_acquire_all(plock_lease *const *bases, size_t count,
                                     const plock_local_acquire_options *terms, size_t *refused,
                                     plock_interest *interest, plock_error *error) {
    plock_local_acquire_options once = *terms;
    once.wait = 0;
    if (count == 0 || count > PLOCK_LOCAL_AT_ONCE_MAX) return PLOCK_MISUSE;
    plock_local_lease *leases[PLOCK_LOCAL_AT_ONCE_MAX];
    for (size_t i = 0; i < count; i++) leases[i] = plock__local_lease(bases[i]);
    /* when the first of the repeated calls began; 0: this is the first call */
    const plock_ns began_at = leases[0]->goes_on ? leases[0]->began_at : 0;
    for (size_t i = 0; i < count; i++) {
        const plock_status status = plock_local_lease_acquire(bases[i], &once);
        if (status) {
            forget(&(group){.leases = leases, .count = i});
            return status;
        }
        if (began_at) leases[i]->began_at = began_at;
    }
    group p = {.leases = leases,
               .count = count,
               .patience = terms->wait > PLOCK_LOCAL_PATIENCE ? terms->wait : PLOCK_LOCAL_PATIENCE};
    plock__begin_step();
    const plock_status status = acquire(&p, refused, interest, error);
    leases[0]->goes_on = status == PLOCK_AGAIN;
    plock__end_step();
    return status;
}
