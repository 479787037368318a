/* The steps of release, extend, downgrade and leave, on a lease that this process holds. Also the
 * steps of adopt and of a release by owner, which find the claim by its owner. */
#include "local/local_lease.h"

#include "base/failure.h"
#include "base/process.h"

#include <string.h>

static plock_status finish(plock_local_lease *lease, plock_status status) {
    lease->operation = PLOCK__OP_NONE;
    return status;
}

plock_status plock__local_finish_without(plock_local_lease *lease, plock_status status) {
    plock__local_has_used(lease);
    return finish(lease, status);
}

/* --- operations on a held lease --- */

void plock__local_keep(plock__local_map *map, plock__local_claim *held, plock_ns until) {
    plock__local_outlives(map, until);
    plock__local_first_looks(map, plock__key(map, held->key));
    PLOCK__FAULT();
    held->kept_until = until;
    PLOCK__FAULT();
    atomic_store(&held->until, until);
    PLOCK__FAULT();
    atomic_store(&held->word, plock__word(plock__serial(held), PLOCK__KEPT));
}

static void release(plock_local_lease *lease, plock_ns now) {
    plock__local_map *map = lease->map;
    if (lease->span) {
        map->lease_of[lease->claim] = NULL;
        plock__local_keep(map, &map->claims[lease->claim], plock_after(now, lease->span));
        return;
    }
    map->calls_later = true;
    plock__local_give_up_claim(map, lease->claim, now);
    map->calls_later = false;
}

/* Gives the claim a new ttl and expiry. Clears at_least, because kept_until already records how
 * long the key must stay taken. */
static void give_span(plock__local_claim *held, plock_ns ttl, plock_ns until) {
    atomic_store(&held->until, until);
    held->ttl = held->lasts = ttl;
    held->at_least = 0;
}

static void extend(plock_local_lease *lease, plock_ns now) {
    plock__local_claim *held = &lease->map->claims[lease->claim];
    const plock_ns wanted = plock_after(now, lease->span), before = atomic_load(&held->until);
    /* the claim of a renewed lease lasts until its process ends or until max_hold, so an extension
     * must not shorten the claim */
    const plock_ns until = lease->terms.renews && wanted < before ? before : wanted;
    if (until < before) plock__local_first_looks(lease->map, plock__key(lease->map, held->key));
    PLOCK__FAULT();
    give_span(held, lease->span, until);
    plock__enter();
    lease->base.ttl = lease->span;
    plock__local_seen_until(lease, until, now);
    lease->renew_at = 0;
    if (lease->job_state) plock__worker_schedule(&lease->job);
    if (lease->later.listed)
        plock__later_by(&lease->later,
                        plock__later_than(now, now + lease->span / PLOCK__RENEWALS_PER_TTL));
    plock__leave();
}

static void downgrade(plock_local_lease *lease, plock_ns now) {
    plock__local_claim *held = &lease->map->claims[lease->claim];
    held->mode = lease->mode = 'r';
    PLOCK__FAULT();
    plock__local_tidy(lease->map, held->key, now);
}

/* Detaches the claim from this process. The claim then no longer ends with the process, so it needs
 * an expiry. The watch ends here and not earlier, because an operation that fails earlier leaves
 * the lease to this process. */
static void leave(plock_local_lease *lease, plock_ns now) {
    plock__local_map *map = lease->map;
    plock__local_dismiss(lease);
    plock__local_claim *held = &map->claims[lease->claim];
    const plock_ns alone = plock_after(now, lease->base.ttl);
    const plock_ns until = alone > held->kept_until ? alone : held->kept_until;
    if (lease->terms.renews && until < atomic_load(&held->until)) atomic_store(&held->until, until);
    plock__local_outlives(map, atomic_load(&held->until));
    plock__local_first_looks(map, plock__key(map, held->key));
    PLOCK__FAULT();
    map->lease_of[lease->claim] = NULL;
    held->watched = 0;
    atomic_store(&held->process, 0);
    plock__local_seen_until(lease, atomic_load(&held->until), now);
    lease->base.held = false;
}

/* Carries out the operation on the claim, and leaves the critical section. Wakes the next waiter
 * before it checks that the file is in its place, which takes longer than everything else. Returns
 * PLOCK_OK, PLOCK_NOT_OWNER, or a failure of plock__local_leave or plock__local_check. */
static plock_status change(plock_local_lease *lease, plock_ns now) {
    plock__local_map *map = lease->map;
    const bool valid = plock__local_still(lease, PLOCK__HELD) &&
                       now < atomic_load(&map->claims[lease->claim].until);
    /* Checks the claim again, because another thread may find the file lost at any time. */
    const bool expired = !valid && plock__local_still(lease, PLOCK__HELD);
    if (expired) plock__local_give_up_claim(map, lease->claim, now);
    if (valid && lease->operation == PLOCK__OP_RELEASES) release(lease, now);
    if (valid && lease->operation == PLOCK__OP_EXTENDS) extend(lease, now);
    if (valid && lease->operation == PLOCK__OP_DOWNGRADES) downgrade(lease, now);
    if (valid && lease->operation == PLOCK__OP_LEAVES) leave(lease, now);
    const plock__local_calls calls = map->calls;
    map->calls.count = 0;
    plock_status status = plock__local_leave(map, &lease->base.error);
    plock__local_call(map, &calls);
    if (!status) status = plock__local_check(map, now, &lease->base.error);
    return status ? status : valid ? PLOCK_OK : PLOCK_NOT_OWNER;
}

static plock_status held_step(plock_local_lease *lease, plock_interest *interest) {
    /* the program let go of the lease after this operation had begun; for a release, `held` is
     * false from the beginning */
    if (!lease->base.held && lease->operation != PLOCK__OP_RELEASES)
        return plock__local_finish_without(lease, PLOCK_MISUSE);
    plock__local_map *map = lease->map;
    const plock_ns now = plock_now();
    plock_status status = lease->operation == PLOCK__OP_RELEASES
                              ? PLOCK_OK
                              : plock__local_check(map, now, &lease->base.error);
    if (!status)
        status = plock__local_go_in(map, now, lease->deadline, interest, &lease->base.error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status == PLOCK_SILENT && lease->operation == PLOCK__OP_RELEASES) {
        lease->kept_until = lease->span ? plock_after(lease->began_at, lease->span) : 0;
        plock__local_hand_over(lease);
    }
    if (status && !plock__local_lost(map))
        return lease->base.held ? finish(lease, status)
                                : plock__local_finish_without(lease, status);
    if (!status) status = change(lease, now);
    const bool lost = plock__local_lost(map) || status == PLOCK_NOT_OWNER;
    if (lost) {
        const bool leaves = lease->operation == PLOCK__OP_LEAVES;
        plock__local_has_lost(lease, lease->base.held && !leaves);
        if (leaves) lease->base.held = false;
    }
    if (lost) status = PLOCK_NOT_OWNER;
    return lease->base.held ? finish(lease, status) : plock__local_finish_without(lease, status);
}

/* --- operations on a lease that is found by its owner --- */

/* Returns the claim with which this owner holds the key, or PLOCK__LOCAL_NONE. Call in the critical
 * section. */
static uint32_t held_by(plock_local_lease *lease, plock_text owner, bool digested, plock_ns now) {
    plock__local_map *map = lease->map;
    const uint32_t number = plock__local_find(map, &lease->name);
    if (number == PLOCK__LOCAL_NONE) return PLOCK__LOCAL_NONE;
    plock__local_tidy(map, number, now);
    const plock__local_key *key = plock__key(map, number);
    uint32_t at = key->length ? key->first_holder : PLOCK__LOCAL_NONE;
    for (uint32_t steps = 0; plock__walks(map, at, &steps); at = plock__claim(map, at)->next) {
        const plock__local_claim *held = plock__claim(map, at);
        if (plock__state(held) == PLOCK__HELD && held->owner_length == owner.length &&
            held->owner_digested == digested && !memcmp(held->owner, owner.bytes, owner.length))
            return at;
    }
    return PLOCK__LOCAL_NONE;
}

/* Gives the claim a different owner and a greater fence. If the process dies halfway, the claim
 * ends with it, because it already belongs to this process. */
static void change_hands(plock_local_lease *lease, plock__local_claim *held, plock_text owner,
                         bool digested) {
    held->fence = plock__local_next_fence(lease->map, plock__local_wall());
    PLOCK__FAULT();
    held->owner_length = (uint8_t)owner.length;
    held->owner_digested = digested;
    PLOCK__FAULT();
    memcpy(held->owner, owner.bytes, owner.length);
}

/* Applies the adopter's at_least. This never shortens the time for which the key must stay taken,
 * because an earlier at_least of the claim still counts. */
static void keep_on(plock_local_lease *lease, plock__local_claim *held, plock_ns now) {
    const plock_ns until = lease->terms.at_least ? plock_after(now, lease->terms.at_least) : 0;
    if (until <= held->kept_until) return;
    plock__local_outlives(lease->map, until);
    held->kept_until = until;
}

/* Returns the claim's new ttl, which is at least as long as the key must stay taken. Returns 0 if
 * the claim keeps its ttl. */
static plock_ns new_span(const plock_local_lease *lease, const plock__local_claim *held,
                         plock_ns now) {
    const plock_ns ttl = lease->terms.ttl, kept = held->kept_until - now;
    if (!ttl && (!lease->terms.at_least || atomic_load(&held->until) >= held->kept_until)) return 0;
    return ttl > kept ? ttl : kept;
}

/* Sets the claim's expiry by the adopter's options. A claim that was bound to its earlier process
 * may have had no expiry. */
static void end_with(const plock_local_lease *lease, plock__local_claim *held, plock_ns now) {
    const plock_ns most = held->ttl > held->at_least ? held->ttl : held->at_least,
                   alone = plock_after(now, most);
    const plock_ns bounded =
        lease->terms.max_hold ? plock_after(now, lease->terms.max_hold) : PLOCK_NEVER;
    const plock_ns until = lease->terms.renews                 ? bounded
                           : alone < atomic_load(&held->until) ? alone
                                                               : atomic_load(&held->until);
    atomic_store(&held->until, until > held->kept_until ? until : held->kept_until);
}

static void take_over(plock_local_lease *lease, uint32_t number, plock_text owner, bool digested,
                      plock_ns now) {
    plock__local_map *map = lease->map;
    plock__local_claim *held = plock__claim(map, number);
    plock__local_first_looks(map, plock__key(map, held->key));
    keep_on(lease, held, now);
    held->watched = lease->watching == PLOCK__WATCHED;
    held->pid = map->processes[map->slot].pid;
    held->thread = (int64_t)plock__thread_number();
    PLOCK__FAULT();
    map->lease_of[number] = lease->watching ? lease : NULL;
    atomic_store(&held->process, map->process);
    PLOCK__FAULT();
    change_hands(lease, held, owner, digested);
    PLOCK__FAULT();
    const plock_ns span = new_span(lease, held, now);
    if (span) give_span(held, span, plock_after(now, span));
    PLOCK__FAULT();
    end_with(lease, held, now);
    PLOCK__FAULT();
    /* the new serial number shows the earlier owner that it has lost the claim */
    atomic_store(&held->word, plock__word(++map->header->serial, PLOCK__HELD));
    plock__local_has_claim(lease, number);
    lease->base.held = true;
    lease->mode = held->mode;
    lease->base.fence = held->fence;
    plock__local_set_state(lease, PLOCK__LEASE_HELD);
    lease->base.ttl = held->ttl > held->at_least ? held->ttl : held->at_least;
    lease->base.acquired_at = now;
    plock__local_seen_until(lease, atomic_load(&held->until), now);
}

static plock_status owner_step(plock_local_lease *lease, plock_interest *interest) {
    char room[PLOCK_DIGEST_HEX], new_room[PLOCK_DIGEST_HEX];
    plock_text owner, new_owner;
    bool digested, new_digested;
    const bool adopts = lease->operation == PLOCK__OP_ADOPTS;
    plock_status status = plock__local_use_for(lease, interest);
    const plock_text named =
        adopts ? plock__text(lease->left, lease->left_length) : plock__local_owner(lease);
    if (!status) status = plock__local_owner_text(named, room, &owner, &digested);
    if (!status)
        status =
            plock__local_owner_text(plock__local_owner(lease), new_room, &new_owner, &new_digested);
    if (!status && adopts) status = plock__local_prepare_watch(lease);
    const plock_ns now = plock_now();
    if (!status)
        status = plock__local_go_in(lease->map, now, lease->deadline, interest, &lease->base.error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    status = plock__local_retry_if_lost(lease, status, interest);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status) return plock__local_finish_without(lease, status);
    const uint32_t number = held_by(lease, owner, digested, now);
    const bool found = number != PLOCK__LOCAL_NONE;
    if (found && adopts)
        take_over(lease, number, new_owner, new_digested, now);
    else if (found)
        plock__local_give_up_claim(lease->map, number, now);
    status = plock__local_retry_if_lost(lease, plock__local_leave(lease->map, &lease->base.error),
                                        interest);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status || !found || !adopts) {
        lease->base.held = false;
        return plock__local_finish_without(
            lease, status  ? status
                   : found ? PLOCK_OK
                           : plock__fail_plainly(&lease->base.error, PLOCK_NOT_OWNER));
    }
    plock__local_has_begun(lease);
    return finish(lease, PLOCK_OK);
}

/* --- step --- */

plock_status plock__local_step(plock_lease *base, plock_interest *interest) {
    plock_local_lease *lease = plock__local_lease(base);
    if (!lease->operation) return PLOCK_MISUSE;
    if (plock_lease_inherited(&lease->base))
        return finish(lease, plock__fail_plainly(&lease->base.error, PLOCK_FORKED));
    switch (lease->operation) {
    case PLOCK__OP_ASKS:
    case PLOCK__OP_WAITS: return plock__local_acquire_step(lease, interest);
    case PLOCK__OP_ADOPTS:
    case PLOCK__OP_RELEASES_OWNED: return owner_step(lease, interest);
    default: return held_step(lease, interest);
    }
}
