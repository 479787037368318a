#include "local/local_lease.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "runtime/notice.h"

#include <string.h>

/* How long an operation may find the section taken, if its own patience is not longer. Who is inside may wait for a disk: where the file
 * is not in memory only, the system writes its pages back from time to time, and has whoever touches one of them then wait. */
static const plock_ns SECTION_PATIENCE = PLOCK_LOCAL_PATIENCE;

/* Beyond those of leases on servers, so that a notice is never taken for another lease's; and still a small number for Ruby. */
static const uint64_t FIRST_ID = UINT64_C(1) << 60;

plock_status plock_local_lease_new(plock_local_lease **out, plock_local *store, const char *key, size_t length) {
    static _Atomic uint64_t made;
    *out = NULL;
    if (length == 0) return PLOCK_MISUSE;
    plock_local_lease *lease = plock__allocate(sizeof *lease + length);
    if (!lease) return PLOCK_NO_MEMORY;
    memcpy(lease->key, key, length);
    lease->key_length = length;
    const plock_status status = plock__local_name_key(&lease->name, plock__text(lease->key, length));
    if (status) {
        plock__free(lease);
        return status;
    }
    if (lease->name.digested) lease->name.text.bytes = lease->name.digest;
    lease->id = FIRST_ID + atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
    lease->generation = plock__generation();
    lease->references = 1;
    lease->store = store;
    plock__enter();
    store->references++;
    plock__leave();
    *out = lease;
    return PLOCK_OK;
}

/* --- beginning --- */

static bool is_ttl(plock_ns ttl) {
    return ttl >= PLOCK_TTL_MIN && ttl <= PLOCK_TTL_MAX;
}

static bool reasonable(const plock_local_terms *terms) {
    return is_ttl(terms->ttl) && terms->wait >= 0 && terms->at_least >= 0 && terms->at_least <= PLOCK_TTL_MAX && terms->max_hold >= 0 &&
           terms->limit <= UINT16_MAX && terms->label_length <= PLOCK_LOCAL_LABEL_MAX;
}

static bool own(const plock_local_lease *lease) {
    return lease->generation == plock__generation();
}

static plock_status begin(plock_local_lease *lease, enum plock__local_operation doing, plock_ns now) {
    lease->doing = doing;
    lease->began_at = now;
    lease->away_since = 0;
    lease->deadline = plock_after(now, SECTION_PATIENCE);
    lease->error.status = PLOCK_OK;
    *lease->error.message = 0;
    return PLOCK_OK;
}

/* --- who owns it --- */

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

static plock_status name_owner(plock_local_lease *lease, const plock_local_terms *terms) {
    if (terms->owner) return bring(lease, terms->owner, terms->owner_length);
    plock__free(lease->brought);
    lease->brought = NULL;
    lease->owner_length = sizeof lease->token;
    return plock_token(lease->token);
}

/* Has the native thread nothing to do with it any more? Then nothing refers to the file. */
static bool put_down(plock_local_lease *lease) {
    if (!lease->began_at) return true; /* it never had anything to do with it */
    if (own(lease)) plock__local_has_used(lease);
    plock__enter();
    const bool off = !lease->map;
    plock__leave();
    return off;
}

/* Lets go of what an earlier operation left. */
static plock_status begin_afresh(plock_local_lease *lease, const plock_local_terms *terms, bool (*terms_are)(const plock_local_terms *)) {
    if (lease->doing || lease->held || !terms_are(terms) || !put_down(lease)) return PLOCK_MISUSE;
    const plock_status status = name_owner(lease, terms);
    if (status) return status;
    if (!own(lease)) { /* they are of the parent's threads, and among what is the parent's */
        lease->turns = NULL;
        lease->later.listed = false;
    }
    lease->generation = plock__generation();
    lease->terms = *terms;
    lease->place = PLOCK__NOBODY;
    lease->contended = false;
    lease->mode = terms->mode;
    lease->ttl = terms->ttl > terms->at_least ? terms->ttl : terms->at_least;
    lease->care = terms->renews && terms->automatic ? PLOCK__WATCHED_LATER : terms->renews || terms->watched ? PLOCK__WATCHED : PLOCK__UNWATCHED;
    return PLOCK_OK;
}

plock_status plock_local_lease_acquire(plock_local_lease *lease, const plock_local_terms *terms) {
    const plock_status status = begin_afresh(lease, terms, reasonable);
    if (status) return status;
    const plock_ns now = plock_now();
    lease->patience_ends = plock_after(now, terms->wait);
    (void)begin(lease, PLOCK__ASKS, now);
    if (lease->deadline < lease->patience_ends) lease->deadline = lease->patience_ends;
    return PLOCK_OK;
}

static bool adoptable(const plock_local_terms *terms) {
    return (terms->ttl == 0 || is_ttl(terms->ttl)) && terms->at_least >= 0 && terms->max_hold >= 0;
}

plock_status plock_local_lease_adopt(plock_local_lease *lease, const char *left, size_t length, const plock_local_terms *terms) {
    plock_status status = begin_afresh(lease, terms, adoptable);
    if (!status) status = copy_owner(&lease->left, &lease->left_length, left, length);
    if (status) return status;
    return begin(lease, PLOCK__ADOPTS, plock_now());
}

plock_status plock_local_lease_release_owned(plock_local_lease *lease, const char *owner, size_t length) {
    if (lease->doing || lease->held) return PLOCK_MISUSE;
    const plock_status status = bring(lease, owner, length);
    lease->generation = plock__generation();
    return status ? status : begin(lease, PLOCK__RELEASES_OWNED, plock_now());
}

/* May an operation on what is held begin? */
static plock_status free_to_begin(const plock_local_lease *lease) {
    if (!lease->held || !own(lease)) return PLOCK_MISUSE;
    return lease->doing ? PLOCK_IN_USE : PLOCK_OK;
}

plock_status plock_local_lease_release(plock_local_lease *lease, plock_ns keep) {
    const plock_status status = keep < 0 || keep > PLOCK_TTL_MAX ? PLOCK_MISUSE : free_to_begin(lease);
    if (status) return status;
    if (lease->care) plock__local_dismiss(lease);
    lease->held = false;
    lease->span = keep;
    return begin(lease, PLOCK__RELEASES, plock_now());
}

plock_status plock_local_lease_extend(plock_local_lease *lease, plock_ns ttl) {
    const plock_status status = is_ttl(ttl) ? free_to_begin(lease) : PLOCK_MISUSE;
    if (status) return status;
    lease->span = ttl;
    return begin(lease, PLOCK__EXTENDS, plock_now());
}

plock_status plock_local_lease_downgrade(plock_local_lease *lease) {
    const plock_status status = lease->mode == 'w' ? free_to_begin(lease) : PLOCK_MISUSE;
    if (status) return status;
    return begin(lease, PLOCK__DOWNGRADES, plock_now());
}

plock_status plock_local_lease_leave(plock_local_lease *lease) {
    const plock_status status = free_to_begin(lease);
    if (status) return status;
    plock__local_dismiss(lease);
    return begin(lease, PLOCK__LEAVES, plock_now());
}

void plock_local_lease_hurry(plock_local_lease *lease, plock_ns deadline) {
    if (deadline < lease->deadline) lease->deadline = deadline;
    if (deadline < lease->patience_ends) lease->patience_ends = deadline;
}

/* --- its end --- */

void plock__local_let_go(plock_local_lease *lease, bool keeps) {
    plock__local_map *map = lease->map;
    plock_error ignored = {.status = PLOCK_OK};
    lease->held = false;
    if (!map || !own(lease)) return;
    plock__local_dismiss(lease);
    const plock_ns now = plock_now();
    const plock_status status = plock__local_enter(map, now, &ignored);
    if (status == PLOCK_AGAIN) plock__local_hand_over(lease);
    if (status) return; /* or it has ended with the file */
    if (plock__local_has_place(lease)) {
        plock__local_claim *claim = &map->claims[lease->claim];
        const plock_ns kept_until = keeps && plock__local_still(lease, PLOCK__HELD) ? claim->kept_until : 0;
        map->lease_of[lease->claim] = NULL;
        if (kept_until > now) plock__local_keep(map, claim, kept_until);
        else plock__local_end_claim(map, lease->claim, now);
    }
    (void)(plock__local_leave(map, &ignored) == PLOCK_OK); /* where it is damaged there is nothing left to end */
}

void plock__local_give_bell_back(plock_local_lease *lease) {
    if (!lease->bell) return; /* only the program's side of a lease sets it */
    plock__enter();
    plock_waker *bell = lease->bell;
    lease->bell = NULL;
    plock__leave();
    if (own(lease)) plock_waker_give(bell);
}

static void give_up(plock_local_lease *lease) {
    const bool ends = lease->doing == PLOCK__ASKS || lease->doing == PLOCK__STANDS_IN_LINE || lease->doing == PLOCK__RELEASES;
    if (ends) plock__local_let_go(lease, false);
    plock__local_give_bell_back(lease);
    lease->doing = PLOCK__IDLE;
    if (!lease->held) plock__local_has_used(lease);
}

void plock_local_lease_cancel(plock_local_lease *lease) {
    plock__begin_step();
    give_up(lease);
    plock__end_step();
}

void plock_local_lease_free(plock_local_lease *lease) {
    if (!lease) return;
    plock__begin_step();
    if (lease->doing) give_up(lease);
    if (lease->held) plock__local_let_go(lease, true);
    plock__enter();
    if (own(lease)) plock__later_leave(&lease->later); /* one that was never had */
    const plock__local_unneeded unneeded = plock__local_end_use(lease);
    const bool last = --lease->references == 0;
    plock__leave();
    plock__local_let_maps_go(&unneeded);
    if (last) plock__local_lease_destroy(lease);
    plock__end_step();
}

void plock_local_lease_forget(plock_local_lease *lease) {
    plock__local_map *map = lease->map;
    if (!lease->held || !own(lease) || lease->care || lease->terms.wait) return; /* else the map refers to it */
    plock__begin_step();
    plock__enter();
    if (!map->pinned) map->references++;
    map->pinned = true;
    plock__leave();
    lease->held = false;
    plock__local_has_used(lease);
    plock__end_step();
}

void plock_local_lease_abandon(plock_local_lease *lease) {
    if (lease && plock_local_lease_valid(lease))
        plock__notice_post(PLOCK_ABANDONED, lease->id, plock__text(lease->key, lease->key_length), lease->fence, 0);
    plock_local_lease_free(lease);
}

void plock_local_lease_let_go(plock_local_lease *lease, bool keeps) {
    if (!lease->held || !own(lease)) return;
    plock__begin_step();
    plock__local_let_go(lease, keeps);
    if (!lease->doing) plock__local_has_used(lease);
    plock__end_step();
}

static bool is_busy(const void *lease) {
    const plock_local_lease *used = lease;
    return used->doing && used->held && own(used);
}

plock_place_in_turn plock_local_lease_turn(plock_local_lease *lease) {
    return (plock_place_in_turn){.line = own(lease) ? &lease->turns : NULL, .lease = lease, .busy = is_busy};
}

static plock_status step_any(void *lease, plock_want *want) {
    return plock_local_lease_step(lease, want);
}

static void cancel_any(void *lease) {
    plock_local_lease_cancel(lease);
}

static void hurry_any(void *lease, plock_ns deadline) {
    plock_local_lease_hurry(lease, deadline);
}

plock_operation plock_local_lease_operation(plock_local_lease *lease) {
    return (plock_operation){.of = lease, .step = step_any, .cancel = cancel_any, .hurry = hurry_any};
}

/* --- what it knows --- */

static bool held_here(const plock_local_lease *lease) {
    return lease->held && own(lease);
}

/* Is the file there that its claim is in? */
static bool stands(const plock_local_lease *lease) {
    plock_error ignored;
    return plock__local_check(lease->map, plock_now(), &ignored) == PLOCK_OK;
}

bool plock_local_lease_held(const plock_local_lease *lease) {
    return held_here(lease);
}

bool plock_local_lease_inherited(const plock_local_lease *lease) {
    return !own(lease);
}

bool plock_local_lease_valid(const plock_local_lease *lease) {
    if (!held_here(lease) || !stands(lease)) return false;
    plock__local_make_readable(lease->map);
    const plock_ns until = atomic_load(&lease->map->claims[lease->claim].until);
    return plock_now() < until && plock__local_still(lease, PLOCK__HELD); /* else it may have become another's in between */
}

bool plock_local_lease_lost(const plock_local_lease *lease) {
    if (held_here(lease)) return !plock_local_lease_valid(lease);
    plock__enter();
    const bool lost = lease->place == PLOCK__LOST;
    plock__leave();
    return lost && own(lease);
}

plock_ns plock_local_lease_valid_until(const plock_local_lease *lease) {
    return atomic_load(&lease->valid_until);
}

bool plock_local_lease_contended(const plock_local_lease *lease) {
    return lease->contended;
}

uint64_t plock_local_lease_id(const plock_local_lease *lease) {
    return lease->id;
}

const char *plock_local_lease_key(const plock_local_lease *lease, size_t *length) {
    *length = lease->key_length;
    return lease->key;
}

const char *plock_local_lease_owner(const plock_local_lease *lease, size_t *length) {
    *length = lease->owner_length;
    return lease->brought ? lease->brought : lease->token;
}

int64_t plock_local_lease_fence(const plock_local_lease *lease) {
    return lease->fence;
}

plock_ns plock_local_lease_ttl(const plock_local_lease *lease) {
    return lease->ttl;
}

plock_ns plock_local_lease_waited(const plock_local_lease *lease) {
    return lease->waited;
}

plock_ns plock_local_lease_acquired_at(const plock_local_lease *lease) {
    return lease->acquired_at;
}

char plock_local_lease_mode(const plock_local_lease *lease) {
    return lease->mode;
}

const plock_error *plock_local_lease_error(const plock_local_lease *lease) {
    return &lease->error;
}
