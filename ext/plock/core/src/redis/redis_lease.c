/* A lease on Redis: its creation and its end, the beginning of an acquire, and its state. */
#include "redis/redis_lease.h"

#include "base/expiry.h"
#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/slot.h"

#include <string.h>

/* --- when the lease expires, and its watch --- */

void plock__lease_date(plock_redis_lease *lease, plock_ns asked_at, plock_ns now) {
    lease->base.ttl = lease->new_ttl;
    lease->valid_until = plock__expiry(asked_at, lease->base.ttl);
    lease->gone_by = now + lease->base.ttl;
}

plock_status plock__lease_prepare_watch(plock_redis_lease *lease) {
    if (lease->watch || !(lease->watching.renews || lease->watching.told)) return PLOCK_OK;
    lease->watch = plock__watch_new(lease->node, &lease->subject, &lease->watching);
    if (!lease->watch) return plock__fail_plainly(&lease->base.error, PLOCK_NO_MEMORY);
    const plock_status status = plock__watch_prepare(lease->watch, &lease->base.error);
    if (!lease->watching.automatic)
        lease->subject.owner.channel =
            plock__text(lease->watch->channel, lease->watch->channel_length);
    return status;
}

void plock__lease_start_watch(plock_redis_lease *lease) {
    if (lease->watch)
        plock__watch_start(lease->watch, &lease->subject, lease->base.ttl, lease->valid_until,
                           plock_after(lease->base.acquired_at, lease->max_hold));
}

void plock__lease_drop_watch(plock_redis_lease *lease) {
    if (!lease->watch) return;
    plock__watch_end(lease->watch);
    plock__watch_release(lease->watch);
    lease->watch = NULL;
    lease->subject.owner.channel = plock__text(NULL, 0); /* its bytes were in the watch */
}

/* --- lifecycle --- */

static const plock_lease_kind KIND;

plock_redis_lease *plock__lease_make(plock_store *store, plock_text key) {
    plock_redis_lease *lease = plock__allocate(sizeof *lease + key.length);
    if (!lease) return NULL;
    plock__subject_name(&lease->subject, lease->names, key, store->config->fence_ttl);
    lease->base = (plock_lease){.kind = &KIND,
                                .key = lease->subject.key,
                                .id = plock__lease_number(),
                                .generation = plock__generation()};
    lease->store = plock__store_retain(store);
    if (store->routes) lease->slot = plock__slot(key);
    plock__lease_route(lease);
    return lease;
}

void plock__lease_route(plock_redis_lease *lease) {
    lease->node = plock__slot_node(lease->store, lease->slot);
}

plock_status plock_lease_new(plock_lease **out, plock_store *store, const char *key,
                             size_t length) {
    *out = NULL;
    if (length == 0) return PLOCK_MISUSE;
    plock_redis_lease *lease = plock__lease_make(store, plock__text(key, length));
    if (!lease) return PLOCK_NO_MEMORY;
    *out = &lease->base;
    return PLOCK_OK;
}

void plock__lease_destroy(plock_redis_lease *lease) {
    plock__lease_drop_watch(lease);
    plock__store_release(lease->store);
    plock__owner_clear(&lease->subject.owner);
    plock__free(lease->left_copy);
    plock__free(lease);
}

plock_status plock_lease_own(plock_lease *base, const char *owner, size_t length) {
    plock_redis_lease *lease = plock__redis_lease(base);
    return lease->doing || lease->base.held
               ? PLOCK_MISUSE
               : plock__owner_bring(&lease->subject.owner, plock__text(owner, length));
}

void plock__lease_begin(plock_redis_lease *lease, enum plock__operation doing) {
    lease->doing = doing;
    plock__lease_forget_error(&lease->base);
}

/* --- giving up --- */

static void give_up(plock_redis_lease *lease) {
    const bool own = !plock_lease_inherited(&lease->base), left = plock__acquire_asked(lease);
    if (lease->doing == ADOPTING && own) plock__lease_give_up_adopting(lease);
    const bool earlier = lease->subject.owner.brought && lease->doubt;
    if (lease->doing == ACQUIRING) plock__acquire_give_up(lease, own && (left || earlier));
    if (lease->doing == RELEASING && own) (void)plock__lease_release_in_background(lease, false);
    if (lease->doing == EXTENDING)
        plock__lease_doubt_extension(lease, plock__retry_in_doubt(&lease->retry));
    if (lease->doing == DOWNGRADING)
        plock__lease_doubt_downgrade(lease, plock__retry_in_doubt(&lease->retry));
    /* the watch was for an attempt that has ended */
    if (!lease->base.held) plock__lease_drop_watch(lease);
    plock__retry_cancel(&lease->retry);
    lease->doing = NOTHING;
}

static void cancel(plock_lease *base) { give_up(plock__redis_lease(base)); }

static void free_lease(plock_lease *base) {
    plock_redis_lease *lease = plock__redis_lease(base);
    const bool releasing = lease->doing == RELEASING; /* this lease itself continues the release */
    if (!releasing) give_up(lease);
    const bool owes =
        releasing || (lease->base.held && (lease->watch || plock_now() < lease->gone_by));
    plock__lease_drop_watch(lease);
    if (owes && !plock_lease_inherited(&lease->base)) {
        plock__lease_hand_over(lease);
    } else {
        plock__retry_cancel(&lease->retry);
        plock__lease_destroy(lease);
    }
}

static plock_status step(plock_lease *base, plock_interest *interest) {
    plock_redis_lease *lease = plock__redis_lease(base);
    if (!lease->doing) return PLOCK_MISUSE;
    if (plock_lease_inherited(&lease->base)) { /* the parent of this process began the operation */
        give_up(lease);
        return plock__fail_plainly(&lease->base.error, PLOCK_FORKED);
    }
    if (lease->doing == ACQUIRING) return plock__acquire_step(lease, interest);
    if (lease->doing == LEAVING) return plock__lease_finish(lease, PLOCK_OK);
    if (lease->doing == EXTENDING && plock__lease_yields_to_renewal(lease, interest))
        return PLOCK_AGAIN;
    const plock_status status = plock__retry_step(&lease->retry, interest, &lease->base.error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    switch (lease->doing) {
    case RELEASING: return plock__lease_released(lease, status);
    case ADOPTING: return plock__lease_adopted(lease, status);
    case DOWNGRADING: return plock__lease_downgraded(lease, status);
    default: return plock__lease_extended(lease, status);
    }
}

/* --- beginning --- */

bool plock__lease_reasonable(const plock_acquire_options *patience, bool brought) {
    return plock__is_ttl(patience->ttl) && patience->wait >= 0 && patience->asking >= 0 &&
           patience->at_least >= 0 && patience->at_least <= PLOCK_TTL_MAX &&
           patience->max_hold >= 0 &&
           (!patience->label || strlen(patience->label) <= PLOCK_LABEL_MAX) &&
           !(brought && patience->wait);
}

void plock__lease_begin_afresh(plock_redis_lease *lease, enum plock__operation doing,
                               const plock_acquire_options *patience) {
    plock__lease_begin(lease, doing);
    /* in a forked child, these turns belong to the parent's threads */
    if (plock_lease_inherited(&lease->base)) lease->base.turns = NULL;
    lease->base.generation = plock__generation();
    lease->lost = lease->undoes = false;
    lease->new_ttl = patience->ttl > patience->at_least ? patience->ttl : patience->at_least;
    lease->watching =
        (plock_watching){.id = lease->base.id,
                         .renews = patience->renews,
                         .automatic = patience->renews && patience->automatic,
                         .told = patience->watched || (patience->renews && !patience->automatic)};
    lease->max_hold = patience->max_hold ? patience->max_hold : PLOCK_NEVER;
    const bool none = patience->replicas == PLOCK_NO_REPLICAS;
    lease->subject.replicas = none                 ? 0
                              : patience->replicas ? patience->replicas
                                                   : lease->store->config->replicas;
    plock__lease_drop_watch(lease);
}

plock_ns plock__lease_attempt(const plock_store *store, const plock_acquire_options *patience) {
    /* a healthy server answers within this time */
    static const plock_ns LEAST = 20 * PLOCK_MILLISECOND;
    const plock_ns whole = store->config->attempt_timeout, least = whole < LEAST ? whole : LEAST;
    const plock_ns left = patience->asking < whole - least ? whole - patience->asking : least;
    return patience->wait > left ? patience->wait : left;
}

plock_status plock_lease_acquire(plock_lease *base, const plock_acquire_options *patience) {
    plock_redis_lease *lease = plock__redis_lease(base);
    if (lease->doing || lease->base.held ||
        !plock__lease_reasonable(patience, lease->subject.owner.brought))
        return PLOCK_MISUSE;
    plock__store_use(lease->store);
    const plock_ns now = plock_now(), least = plock__lease_attempt(lease->store, patience);
    plock__lease_begin_afresh(lease, ACQUIRING, patience);
    lease->phase = TO_TRY;
    lease->reconnected = lease->doubt = lease->base.contended = false;
    lease->pauses = 0;
    lease->ticket = 0;
    lease->began_at = now;
    lease->taken_until = patience->at_least ? plock_after(now, patience->at_least) : 0;
    lease->patient = patience->wait > 0;
    lease->insists = patience->insists;
    lease->endures = patience->endures || patience->insists;
    lease->unanswered_since = 0;
    lease->outage = PLOCK_OK;
    lease->shares = patience->shares;
    lease->subject.owner.label =
        plock__text(patience->label, patience->label ? strlen(patience->label) : 0);
    lease->patience_ends = plock_after(now, patience->wait);
    lease->deadline = plock_after(now, least);
    return PLOCK_OK;
}

static bool busy(const plock_lease *base) {
    return plock__known_redis_lease(base)->doing != NOTHING;
}

/* Do the scripts understand the share? The limit that follows "s" has no leading zeros. */
static bool is_share(const char *share) {
    if (!strcmp(share, "r") || !strcmp(share, "w")) return true;
    if (*share != 's' || share[1] == '0') return false;
    const size_t digits = strspn(share + 1, "0123456789");
    return digits > 0 && digits < PLOCK_SHARE_MAX && !share[1 + digits];
}

plock_status plock_lease_share(plock_lease *base, const char *share) {
    plock_redis_lease *lease = plock__redis_lease(base);
    if (lease->doing || lease->base.held || lease->subject.owner.brought || !is_share(share))
        return PLOCK_MISUSE;
    (void)strcpy(lease->subject.share, share);
    return PLOCK_OK;
}

/* Stops holding the lease without releasing it. No request is needed, because nothing changes on
 * the server. */
static plock_status leave(plock_lease *base) {
    const plock_status status = plock__lease_free_to_begin(base);
    if (status) return status;
    plock_redis_lease *lease = plock__redis_lease(base);
    plock__lease_begin(lease, LEAVING);
    lease->base.held = false;
    plock__lease_drop_watch(lease);
    return PLOCK_OK;
}

static void hurry(plock_lease *base, plock_ns deadline) {
    plock_redis_lease *lease = plock__redis_lease(base);
    if (deadline < lease->deadline) lease->deadline = deadline;
    if (deadline < lease->patience_ends) lease->patience_ends = deadline;
    if (deadline < lease->call.deadline) lease->call.deadline = deadline;
    plock__retry_hurry(&lease->retry, deadline);
}

static plock_ns budget(const plock_lease *base, bool releases) {
    const plock_config *config = plock__known_redis_lease(base)->store->config;
    return releases ? config->release_timeout : config->command_timeout;
}

/* --- the state of a lease, without a request --- */

static plock_ns read_valid_until(const plock_redis_lease *lease, bool *lost) {
    return lease->watch ? plock__watch_valid_until(lease->watch, lost) : lease->valid_until;
}

static plock_ns valid_until(const plock_lease *base) {
    bool lost;
    return read_valid_until(plock__known_redis_lease(base), &lost);
}

static bool valid(const plock_lease *base) {
    bool lost = false;
    return plock_now() < read_valid_until(plock__known_redis_lease(base), &lost) && !lost;
}

static bool is_lost(const plock_lease *base) {
    return plock__known_redis_lease(base)->lost || (base->held && !valid(base));
}

static plock_text owner(const plock_lease *base) {
    return plock__owner_name(&plock__known_redis_lease(base)->subject.owner);
}

static plock_text value(const plock_lease *base) {
    return plock__known_redis_lease(base)->subject.owner.value;
}

static char mode(const plock_lease *base) { return *plock__known_redis_lease(base)->subject.share; }

const char *plock_lease_shares(const plock_lease *base) {
    return plock__known_redis_lease(base)->subject.share;
}

static const plock_lease_kind KIND = {
    .release = plock__lease_release,
    .extend = plock__lease_extend,
    .downgrade = plock__lease_downgrade,
    .leave = leave,
    .step = step,
    .hurry = hurry,
    .cancel = cancel,
    .let_go = plock__lease_let_go,
    .release_trailing = plock__lease_release_trailing,
    .budget = budget,
    .free = free_lease,
    .busy = busy,
    .valid = valid,
    .lost = is_lost,
    .valid_until = valid_until,
    .owner = owner,
    .value = value,
    .mode = mode,
};
