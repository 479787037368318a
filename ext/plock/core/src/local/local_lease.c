#include "local/local_lease.h"

#include "base/memory.h"
#include "base/process.h"

#include <string.h>

static const plock_lease_kind KIND;

plock_status plock_local_lease_new(plock_lease **out, plock_local *store, const char *key,
                                   size_t length) {
    *out = NULL;
    if (length == 0) return PLOCK_MISUSE;
    plock_local_lease *lease = plock__allocate(sizeof *lease + length);
    if (!lease) return PLOCK_NO_MEMORY;
    memcpy(lease->key, key, length);
    lease->base = (plock_lease){.kind = &KIND,
                                .key = plock__text(lease->key, length),
                                .id = plock__lease_number(),
                                .generation = plock__generation()};
    const plock_status status = plock__local_name_key(&lease->name, lease->base.key);
    if (status) {
        plock__free(lease);
        return status;
    }
    if (lease->name.digested) lease->name.text.bytes = lease->name.digest;
    lease->references = 1;
    lease->store = store;
    plock__enter();
    store->references++;
    plock__leave();
    *out = &lease->base;
    return PLOCK_OK;
}

/* --- beginning --- */

static bool adoptable(const plock_local_acquire_options *terms) {
    return (terms->ttl == 0 || plock__is_ttl(terms->ttl)) && terms->at_least >= 0 &&
           terms->at_least <= PLOCK_TTL_MAX && terms->max_hold >= 0;
}

static bool reasonable(const plock_local_acquire_options *terms) {
    return adoptable(terms) && terms->ttl && terms->wait >= 0 && terms->limit <= UINT16_MAX &&
           terms->label_length <= PLOCK_LOCAL_LABEL_MAX;
}

static bool own(const plock_local_lease *lease) { return !plock_lease_inherited(&lease->base); }

static plock_status begin(plock_local_lease *lease, enum plock__local_operation operation,
                          plock_ns now) {
    lease->operation = operation;
    lease->began_at = now;
    lease->away_since = 0;
    lease->goes_on = false;
    /* The process in the critical section may be waiting for a disk. This happens if the file is on
     * a disk and the system is just writing the accessed page back. */
    lease->deadline = plock_after(now, PLOCK_LOCAL_PATIENCE);
    plock__lease_forget_error(&lease->base);
    return PLOCK_OK;
}

/* --- the owner --- */

static plock_status copy_owner(char **copy, size_t *copied, const char *owner, size_t length) {
    char *bytes = length ? plock__copy(owner, length) : NULL;
    if (!bytes) return length ? PLOCK_NO_MEMORY : PLOCK_MISUSE;
    plock__free(*copy);
    *copy = bytes;
    *copied = length;
    return PLOCK_OK;
}

static plock_status bring(plock_local_lease *lease, const char *owner, size_t length) {
    return copy_owner(&lease->brought, &lease->owner_length, owner, length);
}

static plock_status name_owner(plock_local_lease *lease, const plock_local_acquire_options *terms) {
    if (terms->owner) return bring(lease, terms->owner, terms->owner_length);
    plock__free(lease->brought);
    lease->brought = NULL;
    lease->owner_length = sizeof lease->token;
    return plock_token(lease->token);
}

/* Makes the lease let go of its map. Returns false if the lease's job still needs that map. */
static bool put_down(plock_local_lease *lease) {
    if (!lease->began_at) return true; /* the lease has never begun an operation */
    if (own(lease)) plock__local_has_used(lease);
    plock__enter();
    const bool off = !lease->map;
    plock__leave();
    return off;
}

/* Ends what is left of an earlier operation, and prepares the lease for a new one. */
static plock_status begin_new(plock_local_lease *lease, const plock_local_acquire_options *terms,
                              bool (*terms_are)(const plock_local_acquire_options *)) {
    if (lease->operation || lease->base.held || !terms_are(terms) || !put_down(lease))
        return PLOCK_MISUSE;
    const plock_status status = name_owner(lease, terms);
    if (status) return status;
    if (!own(lease)) { /* the turns and the list of later work belong to the parent process */
        lease->base.turns = NULL;
        lease->later.listed = false;
    }
    lease->base.generation = plock__generation();
    lease->terms = *terms;
    plock__local_set_state(lease, PLOCK__LEASE_NONE);
    lease->base.contended = false;
    lease->mode = terms->mode;
    lease->base.ttl = terms->ttl > terms->at_least ? terms->ttl : terms->at_least;
    lease->watching = terms->renews && terms->automatic ? PLOCK__WATCHED_LATER
                      : terms->renews || terms->watched ? PLOCK__WATCHED
                                                        : PLOCK__UNWATCHED;
    return PLOCK_OK;
}

plock_status plock_local_lease_acquire(plock_lease *base,
                                       const plock_local_acquire_options *terms) {
    plock_local_lease *lease = plock__local_lease(base);
    const plock_status status = begin_new(lease, terms, reasonable);
    if (status) return status;
    const plock_ns now = plock_now();
    lease->patience_ends = plock_after(now, terms->wait);
    (void)begin(lease, PLOCK__OP_ASKS, now);
    if (lease->deadline < lease->patience_ends) lease->deadline = lease->patience_ends;
    return PLOCK_OK;
}

plock_status plock_local_lease_adopt(plock_lease *base, const char *left, size_t length,
                                     const plock_local_acquire_options *terms) {
    plock_local_lease *lease = plock__local_lease(base);
    plock_status status = begin_new(lease, terms, adoptable);
    if (!status) status = copy_owner(&lease->left, &lease->left_length, left, length);
    if (status) return status;
    return begin(lease, PLOCK__OP_ADOPTS, plock_now());
}

plock_status plock_local_lease_release_owned(plock_lease *base, const char *owner, size_t length) {
    plock_local_lease *lease = plock__local_lease(base);
    if (lease->operation || lease->base.held) return PLOCK_MISUSE;
    const plock_status status = bring(lease, owner, length);
    lease->base.generation = plock__generation();
    return status ? status : begin(lease, PLOCK__OP_RELEASES_OWNED, plock_now());
}

static bool busy(const plock_lease *base) {
    return plock__known_local_lease(base)->operation != PLOCK__OP_NONE;
}

/* Returns the rest of at_least, for which the key must stay taken. */
static plock_ns left_to_keep(const plock_local_lease *lease) {
    const plock_ns left = plock_after(lease->base.acquired_at, lease->terms.at_least) - plock_now();
    return lease->terms.at_least && left > 0 ? left : 0;
}

static plock_status release(plock_lease *base, plock_ns keep) {
    plock_local_lease *lease = plock__local_lease(base);
    if (keep == PLOCK_KEEP_AT_LEAST) keep = left_to_keep(lease);
    const plock_status status =
        keep < 0 || keep > PLOCK_TTL_MAX ? PLOCK_MISUSE : plock__lease_free_to_begin(base);
    if (status) return status;
    if (lease->watching) plock__local_dismiss(lease);
    lease->base.held = false;
    lease->span = keep;
    return begin(lease, PLOCK__OP_RELEASES, plock_now());
}

static plock_status extend(plock_lease *base, plock_ns ttl) {
    const plock_status status =
        plock__is_ttl(ttl) ? plock__lease_free_to_begin(base) : PLOCK_MISUSE;
    if (status) return status;
    plock_local_lease *lease = plock__local_lease(base);
    lease->span = ttl;
    return begin(lease, PLOCK__OP_EXTENDS, plock_now());
}

static plock_status downgrade(plock_lease *base) {
    plock_local_lease *lease = plock__local_lease(base);
    const plock_status status =
        lease->mode == 'w' || lease->mode == 'r' ? plock__lease_free_to_begin(base) : PLOCK_MISUSE;
    if (status) return status;
    return begin(lease, PLOCK__OP_DOWNGRADES, plock_now());
}

static plock_status leave(plock_lease *base) {
    const plock_status status = plock__lease_free_to_begin(base);
    if (status) return status;
    return begin(plock__local_lease(base), PLOCK__OP_LEAVES, plock_now());
}

static void hurry(plock_lease *base, plock_ns deadline) {
    plock_local_lease *lease = plock__local_lease(base);
    if (deadline < lease->deadline) lease->deadline = deadline;
    if (deadline < lease->patience_ends) lease->patience_ends = deadline;
}

/* --- the end of the lease --- */

static void end_claim(const plock_local_lease *lease, plock_ns now) {
    plock__local_map *map = lease->map;
    if (!plock__local_has_place(lease)) return;
    plock__local_claim *claim = &map->claims[lease->claim];
    const plock_ns until =
        lease->kept_until == PLOCK_KEEP_AT_LEAST ? claim->kept_until : lease->kept_until;
    map->lease_of[lease->claim] = NULL;
    if (until > now && plock__local_still(lease, PLOCK__HELD))
        plock__local_keep(map, claim, until);
    else
        plock__local_end_claim(map, lease->claim, now);
}

bool plock__local_end_own_claim(const plock_local_lease *lease, plock_ns now) {
    const plock_status status = plock__local_enter(lease->map, now, NULL);
    if (status) return status != PLOCK_AGAIN;
    end_claim(lease, now);
    (void)(plock__local_leave(lease->map, NULL) == PLOCK_OK);
    return true;
}

void plock__local_let_go(plock_local_lease *lease, plock_ns keep) {
    lease->base.held = false;
    if (!lease->map || !own(lease)) return;
    plock__local_dismiss(lease);
    const plock_ns now = plock_now();
    lease->kept_until = keep > 0 ? plock_after(now, keep) : keep;
    if (!plock__local_end_own_claim(lease, now)) plock__local_hand_over(lease);
}

void plock__local_give_waker_back(plock_local_lease *lease) {
    /* no lock is needed, because only the program's threads set `waker` */
    if (!lease->waker) return;
    plock__enter();
    plock_waker *waker = lease->waker;
    lease->waker = NULL;
    plock__leave();
    if (own(lease)) plock_waker_give(waker);
}

static void cancel(plock_lease *base) {
    plock_local_lease *lease = plock__local_lease(base);
    const bool releases = lease->operation == PLOCK__OP_RELEASES;
    const bool asks = lease->operation == PLOCK__OP_ASKS || lease->operation == PLOCK__OP_WAITS;
    if (asks || releases) plock__local_let_go(lease, releases ? lease->span : 0);
    plock__local_give_waker_back(lease);
    lease->operation = PLOCK__OP_NONE;
    if (!lease->base.held) plock__local_has_used(lease);
}

static void free_lease(plock_lease *base) {
    plock_local_lease *lease = plock__local_lease(base);
    if (lease->operation) cancel(base);
    if (lease->base.held) plock__local_let_go(lease, PLOCK_KEEP_AT_LEAST);
    plock__enter();
    if (own(lease)) /* an acquire that failed may have added the lease to the list of later work */
        plock__later_leave(&lease->later);
    const plock__local_unneeded unneeded = plock__local_end_use(lease);
    const bool last = --lease->references == 0;
    plock__leave();
    plock__local_let_maps_go(&unneeded);
    if (last) plock__local_lease_destroy(lease);
}

void plock_local_lease_forget(plock_lease *base) {
    plock_local_lease *lease = plock__local_lease(base);
    plock__local_map *map = lease->map;
    /* if a lease is watched or has waited, the map may still refer to it, so its claim cannot be
     * forgotten */
    if (!lease->base.held || !own(lease) || lease->watching || lease->terms.wait) return;
    plock__begin_step();
    plock__enter();
    if (!map->pinned) map->references++;
    map->pinned = true;
    plock__leave();
    lease->base.held = false;
    plock__local_has_used(lease);
    plock__end_step();
}

static void let_go(plock_lease *base, plock_ns keep) {
    plock_local_lease *lease = plock__local_lease(base);
    plock__local_let_go(lease, keep);
    if (!lease->operation) plock__local_has_used(lease);
}

static plock_ns budget(const plock_lease *base, bool releases) {
    (void)base, (void)releases;
    return PLOCK_LOCAL_PATIENCE;
}

/* --- answers without an operation --- */

static bool valid(const plock_lease *base) {
    const plock_local_lease *lease = plock__known_local_lease(base);
    if (plock__local_check(lease->map, plock_now(), NULL)) return false;
    plock__local_make_readable(lease->map);
    const plock_ns until = atomic_load(&lease->map->claims[lease->claim].until);
    /* The state is checked after `until` was read. If another lease got the claim's record before
     * that, `until` is the other lease's, and the check returns false. */
    return plock_now() < until && plock__local_still(lease, PLOCK__HELD);
}

static bool is_lost(const plock_lease *base) {
    if (plock_lease_held(base)) return !valid(base);
    plock__enter();
    const bool lost = plock__known_local_lease(base)->state == PLOCK__LEASE_LOST;
    plock__leave();
    return lost && !plock_lease_inherited(base);
}

static plock_ns valid_until(const plock_lease *base) {
    return atomic_load(&plock__known_local_lease(base)->valid_until);
}

static plock_text owner(const plock_lease *base) {
    return plock__local_owner(plock__known_local_lease(base));
}

static char mode(const plock_lease *base) { return plock__known_local_lease(base)->mode; }

static const plock_lease_kind KIND = {
    .release = release,
    .extend = extend,
    .downgrade = downgrade,
    .leave = leave,
    .step = plock__local_step,
    .hurry = hurry,
    .cancel = cancel,
    .let_go = let_go,
    .budget = budget,
    .free = free_lease,
    .busy = busy,
    .valid = valid,
    .lost = is_lost,
    .valid_until = valid_until,
    .owner = owner,
    .value = owner,
    .mode = mode,
};
