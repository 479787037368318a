#include "redis/lease.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/term.h"
#include "runtime/notice.h"

#include <stdatomic.h>
#include <string.h>

/* --- dates and watch --- */

void plock__lease_date(plock_lease *lease, plock_ns asked_at, plock_ns now) {
    lease->ttl = lease->new_ttl;
    lease->valid_until = plock__reliable(asked_at, lease->ttl);
    lease->gone_by = now + lease->ttl;
}

plock_status plock__lease_prepare_watch(plock_lease *lease) {
    if (!lease->watched || lease->watch) return PLOCK_OK;
    const plock_watching wanted = {.id = lease->id, .renews = lease->renews, .told = lease->told, .automatic = lease->automatic};
    lease->watch = plock__watch_new(lease->store, &lease->subject, &wanted);
    if (!lease->watch) return plock__fail_plainly(&lease->error, PLOCK_NO_MEMORY);
    const plock_status status = plock__watch_prepare(lease->watch, &lease->subject.owner, &lease->error);
    if (!lease->automatic) lease->subject.owner.channel = plock__text(lease->watch->channel, sizeof lease->watch->channel);
    return status;
}

void plock__lease_start_watch(plock_lease *lease) {
    if (lease->watch)
        plock__watch_start(lease->watch, &lease->subject, lease->ttl, lease->valid_until, plock_after(lease->acquired_at, lease->max_hold));
}

void plock__lease_drop_watch(plock_lease *lease) {
    if (!lease->watch) return;
    plock__watch_end(lease->watch);
    plock__watch_release(lease->watch);
    lease->watch = NULL;
    lease->subject.owner.channel = plock__text(NULL, 0); /* it stood in the watch */
}

/* --- life --- */

plock_status plock_lease_new(plock_lease **out, plock_store *store, const char *key, size_t length) {
    *out = NULL;
    if (length == 0) return PLOCK_MISUSE;
    plock_lease *lease = plock__allocate(sizeof *lease + plock__names_room(length));
    if (!lease) return PLOCK_NO_MEMORY;
    plock__subject_name(&lease->subject, lease->names, plock__text(key, length), store->config->fence_ttl);
    static atomic_ulong last_id;
    lease->id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
    lease->store = plock__store_retain(store);
    lease->generation = plock__generation();
    *out = lease;
    return PLOCK_OK;
}

static void destroy(plock_lease *lease) {
    plock__lease_drop_watch(lease);
    plock__store_release(lease->store);
    plock__owner_clear(&lease->subject.owner);
    plock__free(lease->left_copy);
    plock__free(lease);
}

plock_status plock_lease_own(plock_lease *lease, const char *owner, size_t length) {
    return lease->doing || lease->held ? PLOCK_MISUSE : plock__owner_bring(&lease->subject.owner, plock__text(owner, length));
}

plock_request plock__lease_undo_request(plock_lease *lease) {
    return lease->undoes ? plock__undo_request(&lease->subject) : plock__release_request(&lease->subject, plock__store_window(lease->store, lease->shares), 0);
}

/* An operation begins: what went wrong in an earlier one is forgotten. */
static void begin(plock_lease *lease, enum plock__operation doing) {
    lease->doing = doing;
    lease->error.status = PLOCK_OK;
    *lease->error.message = 0;
}

static plock_request release_request(plock_lease *lease, plock_ns now) {
    if (lease->taken_until <= now) return plock__lease_undo_request(lease);
    const plock_ns window = plock__store_window(lease->store, lease->shares);
    return plock__release_request(&lease->subject, window, lease->taken_until - now);
}

static void begin_release(plock_lease *lease, plock_ns now) {
    const plock_request request = release_request(lease, now);
    begin(lease, RELEASING);
    plock__errand_begin(&lease->errand, lease->store, &request, plock_after(now, lease->store->config->release_timeout), true);
}

/* --- a release in the background --- */

static plock_request owed_request(plock_debt *debt, plock_ns now) {
    return release_request((plock_lease *)(void *)debt, now);
}

static void settle(plock_debt *debt, plock_status status) {
    plock_lease *lease = (plock_lease *)(void *)debt;
    const bool failed = status && status != PLOCK_NOT_OWNER && status != PLOCK_FORKED;
    if (failed && lease->tells)
        plock__notice_post(PLOCK_UNRELEASED, lease->id, lease->subject.key, lease->fence, 0);
    destroy(lease);
}

/* No request that extends it leaves any more, so the server lets go of it within one ttl. */
static plock_ns time_to_release(const plock_lease *lease) {
    if (lease->subject.owner.brought && !lease->undoes) return lease->store->config->release_timeout;
    return lease->ttl > lease->new_ttl ? lease->ttl : lease->new_ttl;
}

static void hand_over(plock_lease *lease) {
    plock__errand_cancel(&lease->errand);
    lease->debt.request = owed_request;
    lease->debt.settle = settle;
    lease->debt.until = plock_after(plock_now(), time_to_release(lease));
    plock__debt_submit(lease->store, &lease->debt);
}

bool plock__lease_release_in_background(const plock_lease *lease, bool tells) {
    const plock_text key = lease->subject.key;
    plock_lease *copy;
    if (plock_lease_new(&copy, lease->store, key.bytes, key.length)) return false;
    copy->undoes = lease->undoes;
    copy->shares = lease->shares;
    copy->fence = lease->fence;
    copy->ttl = lease->ttl;
    copy->new_ttl = lease->new_ttl;
    copy->taken_until = lease->taken_until;
    copy->tells = tells;
    const bool copied = !plock__subject_copy(&copy->subject, copy->names, &lease->subject);
    if (copied) hand_over(copy);
    else destroy(copy);
    return copied;
}

bool plock__lease_carries_on(const plock_lease *lease, plock_status status) {
    return !lease->subject.owner.brought && plock_status_retries(status) && lease->generation == plock__generation();
}

/* --- giving up --- */

/* An adoption ends without our knowing whether the server has carried it out. Nothing else knows the fresh token, so what it may have
 * got is given back. An owner that was named is known to others: they can adopt it. */
static void give_adopted_back(plock_lease *lease) {
    if (!lease->subject.owner.brought) (void)plock__lease_release_in_background(lease, false);
}

/* Behind the adoption, should the server come to it later. */
static bool undo_adoption(void *adopting, plock_request *undo) {
    plock_lease *lease = adopting;
    if (lease->subject.owner.brought) return false;
    *undo = plock__lease_undo_request(lease);
    return true;
}

static void give_up_adopting(plock_lease *lease) {
    const bool doubt = plock__errand_in_doubt(&lease->errand);
    plock__errand_cancel(&lease->errand);
    if (doubt) give_adopted_back(lease);
}

static bool shortens(const plock_lease *lease) {
    return lease->new_ttl < lease->ttl;
}

/* The server may come to it after another extension has been answered, which it would cut short. So the old time comes behind it. */
static bool undo_extension(void *extending, plock_request *undo) {
    plock_lease *lease = extending;
    if (!shortens(lease)) return false;
    *undo = plock__renew_request(&lease->subject, lease->ttl, plock__text("", 0));
    return true;
}

/* From now on it may be shorter, answered or not. */
static void shorten(void *extending, plock_ns at) {
    plock_lease *lease = extending;
    const plock_ns until = plock__reliable(at, lease->new_ttl);
    if (lease->valid_until > until) lease->valid_until = until;
    if (lease->watch) plock__watch_pause(lease->watch, until);
}

/* An extension ends without success: the server may have carried it out, or may yet. */
static void doubt_extension(plock_lease *lease, bool doubt) {
    const plock_ns by = plock_now() + (shortens(lease) ? lease->ttl : lease->new_ttl);
    if (doubt && lease->gone_by < by) lease->gone_by = by;
    if (lease->watch) plock__watch_resume_as_it_was(lease->watch, doubt ? lease->new_ttl : PLOCK_NEVER);
}

static void give_up(plock_lease *lease) {
    const bool own = lease->generation == plock__generation(), left = plock__acquire_asked(lease);
    if (lease->doing == ADOPTING && own) give_up_adopting(lease);
    const bool earlier = lease->subject.owner.brought && lease->doubt;
    if (lease->doing == ACQUIRING) plock__acquire_give_up(lease, own && (left || earlier), false);
    if (lease->doing == RELEASING && own) (void)plock__lease_release_in_background(lease, false);
    if (lease->doing == EXTENDING) doubt_extension(lease, plock__errand_in_doubt(&lease->errand));
    if (!lease->held) plock__lease_drop_watch(lease); /* of what is not to be had */
    plock__errand_cancel(&lease->errand);
    lease->doing = NOTHING;
}

void plock_lease_cancel(plock_lease *lease) {
    plock__begin_step();
    give_up(lease);
    plock__end_step();
}

void plock_lease_free(plock_lease *lease) {
    if (!lease) return;
    plock__begin_step();
    const bool releasing = lease->doing == RELEASING; /* the same lease goes on with it */
    if (!releasing) give_up(lease);
    const bool owes = releasing || (lease->held && (lease->watch || plock_now() < lease->gone_by));
    plock__lease_drop_watch(lease);
    if (owes && lease->generation == plock__generation()) {
        hand_over(lease);
    } else {
        plock__errand_cancel(&lease->errand);
        destroy(lease);
    }
    plock__end_step();
}

/* --- the other operations --- */

static plock_status release_step(plock_lease *lease, plock_want *want) {
    const plock_status status = plock__errand_step(&lease->errand, want, &lease->error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    /* A release that was answered to nobody is why it is not ours any more. */
    const bool unheard = status == PLOCK_NOT_OWNER && lease->errand.doubt;
    if (unheard) return plock__lease_finish(lease, PLOCK_OK);
    /* The server has not failed if the pool was too small: then the program hears only of a failure in the background. */
    const bool hides = status == PLOCK_SATURATED;
    bool goes_on = plock__lease_carries_on(lease, status);
    if (goes_on) goes_on = plock__lease_release_in_background(lease, hides);
    return plock__lease_finish(lease, goes_on && hides ? PLOCK_OK : status);
}

/* The server says that it is not ours any more. */
static void lose(plock_lease *lease) {
    lease->held = !(lease->lost = true);
    plock__lease_drop_watch(lease);
}

/* Meanwhile it may have been let go of: then it is not lost. */
static plock_status finish_of_held(plock_lease *lease, plock_status status) {
    if (status == PLOCK_NOT_OWNER && !lease->held) return plock__lease_finish(lease, PLOCK_MISUSE);
    if (status == PLOCK_NOT_OWNER) lose(lease);
    return plock__lease_finish(lease, status);
}

/* A renewal shortens nothing, so that one carried out later would leave the key for longer than was asked for last. */
static bool yields_to_renewal(plock_lease *lease, plock_want *want) {
    const plock_ns now = plock_now();
    const bool yields = now < lease->yields_until && lease->watch && plock__watch_renews_beyond(lease->watch, lease->new_ttl);
    if (!yields) lease->yields_until = 0;
    *want = (plock_want){.fd = -1, .deadline = now + PLOCK_MILLISECOND};
    return yields;
}

static plock_status extend_step(plock_lease *lease, plock_want *want) {
    if (yields_to_renewal(lease, want)) return PLOCK_AGAIN;
    const plock_status status = plock__errand_step(&lease->errand, want, &lease->error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status) {
        doubt_extension(lease, lease->errand.doubt);
    } else {
        plock__lease_date(lease, lease->errand.exchange.left_at, plock_now());
        if (lease->watch) plock__watch_resume(lease->watch, lease->ttl, lease->valid_until);
    }
    return finish_of_held(lease, status);
}

static plock_status downgrade_step(plock_lease *lease, plock_want *want) {
    const plock_status status = plock__errand_step(&lease->errand, want, &lease->error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status == PLOCK_OK) *lease->subject.share = 'r';
    return finish_of_held(lease, status);
}

static plock_status adopt_step(plock_lease *lease, plock_want *want) {
    const plock_status status = plock__errand_step(&lease->errand, want, &lease->error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status) {
        plock__lease_drop_watch(lease);
        if (status != PLOCK_NOT_OWNER && lease->errand.doubt) give_adopted_back(lease);
        return plock__lease_finish(lease, status);
    }
    lease->held = true;
    lease->acquired_at = lease->errand.exchange.left_at;
    plock__lease_date(lease, lease->acquired_at, plock_now());
    plock__lease_start_watch(lease);
    return plock__lease_finish(lease, PLOCK_OK);
}

static plock_status step(plock_lease *lease, plock_want *want) {
    if (!lease->doing) return PLOCK_MISUSE;
    if (lease->generation != plock__generation()) { /* the parent of this process began it */
        give_up(lease);
        return plock__fail_plainly(&lease->error, PLOCK_FORKED);
    }
    switch (lease->doing) {
    case ACQUIRING: return plock__acquire_step(lease, want);
    case RELEASING: return release_step(lease, want);
    case ADOPTING: return adopt_step(lease, want);
    case DOWNGRADING: return downgrade_step(lease, want);
    default: return extend_step(lease, want);
    }
}

plock_status plock_lease_step(plock_lease *lease, plock_want *want) {
    plock__begin_step();
    const plock_status status = step(lease, want);
    plock__end_step();
    return status;
}

/* --- beginning --- */

static bool is_ttl(plock_ns ttl) {
    return ttl >= PLOCK_TTL_MIN && ttl <= PLOCK_TTL_MAX;
}

static bool reasonable(const plock_patience *patience, bool brought) {
    return is_ttl(patience->ttl) && patience->wait >= 0 && patience->asking >= 0 && patience->at_least >= 0 && patience->at_least <= PLOCK_TTL_MAX &&
           patience->max_hold >= 0 && (!patience->label || strlen(patience->label) <= PLOCK_LABEL_MAX) && !(brought && patience->wait);
}

static void begin_afresh(plock_lease *lease, enum plock__operation doing, const plock_patience *patience) {
    begin(lease, doing);
    if (plock_lease_inherited(lease)) lease->turns = NULL; /* they are of the parent's threads */
    lease->generation = plock__generation();
    lease->lost = lease->undoes = false;
    lease->new_ttl = patience->ttl > patience->at_least ? patience->ttl : patience->at_least;
    lease->renews = patience->renews;
    lease->automatic = patience->renews && patience->automatic;
    lease->watched = patience->renews || patience->watched;
    lease->told = patience->watched || !lease->automatic;
    lease->max_hold = patience->max_hold ? patience->max_hold : PLOCK_NEVER;
    plock__lease_drop_watch(lease);
}

plock_ns plock__lease_attempt(const plock_store *store, const plock_patience *patience) {
    static const plock_ns LEAST = 20 * PLOCK_MILLISECOND; /* a server that is well answers by then */
    const plock_ns whole = store->config->attempt_timeout, least = whole < LEAST ? whole : LEAST;
    const plock_ns left = patience->asking < whole - least ? whole - patience->asking : least;
    return patience->wait > left ? patience->wait : left;
}

plock_status plock_lease_acquire(plock_lease *lease, const plock_patience *patience) {
    if (lease->doing || lease->held || !reasonable(patience, lease->subject.owner.brought)) return PLOCK_MISUSE;
    plock__pool_use(&lease->store->pool);
    const plock_ns now = plock_now(), least = plock__lease_attempt(lease->store, patience);
    begin_afresh(lease, ACQUIRING, patience);
    lease->phase = TO_TRY;
    lease->reconnected = lease->doubt = lease->contended = false;
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
    lease->subject.owner.label = plock__text(patience->label, patience->label ? strlen(patience->label) : 0);
    lease->patience_ends = plock_after(now, patience->wait);
    lease->deadline = plock_after(now, least);
    return PLOCK_OK;
}

/* May an operation on what is held begin? */
static plock_status free_to_begin(const plock_lease *lease) {
    if (!lease->held || plock_lease_inherited(lease)) return PLOCK_MISUSE;
    return lease->doing ? PLOCK_IN_USE : PLOCK_OK;
}

plock_status plock_lease_release(plock_lease *lease) {
    const plock_status status = free_to_begin(lease);
    if (status) return status;
    lease->held = false;
    plock__lease_drop_watch(lease);
    begin_release(lease, plock_now());
    return PLOCK_OK;
}

void plock_lease_keep_taken(plock_lease *lease, plock_ns span) {
    lease->taken_until = span > 0 ? plock_after(plock_now(), span) : 0;
}

plock_status plock_lease_release_owned(plock_lease *lease) {
    if (lease->doing || lease->held || !lease->subject.owner.brought) return PLOCK_MISUSE;
    plock__pool_use(&lease->store->pool);
    lease->generation = plock__generation();
    lease->undoes = false;
    lease->taken_until = 0;
    begin_release(lease, plock_now());
    return PLOCK_OK;
}

/* A number without leading zeros, or none at all: what scripts read as the bound of a mode. */
static bool is_share(const char *share) {
    if (!strcmp(share, "r") || !strcmp(share, "w")) return true;
    if (*share != 's' || share[1] == '0') return false;
    const size_t digits = strspn(share + 1, "0123456789");
    return digits > 0 && digits < PLOCK_SHARE_MAX && !share[1 + digits];
}

plock_status plock_lease_share(plock_lease *lease, const char *share) {
    if (lease->doing || lease->held || lease->subject.owner.brought || !is_share(share)) return PLOCK_MISUSE;
    (void)strcpy(lease->subject.share, share);
    return PLOCK_OK;
}

static void begin_asking(plock_lease *lease, const plock_request *request, plock_ns now) {
    plock__errand_begin(&lease->errand, lease->store, request, plock_after(now, lease->store->config->command_timeout), false);
}

plock_status plock_lease_extend(plock_lease *lease, plock_ns ttl) {
    const plock_status status = is_ttl(ttl) ? free_to_begin(lease) : PLOCK_MISUSE;
    if (status) return status;
    const plock_ns now = plock_now();
    begin(lease, EXTENDING);
    lease->new_ttl = ttl;
    if (lease->watch) plock__watch_pause(lease->watch, PLOCK_NEVER);
    lease->yields_until = plock_after(now, lease->store->config->command_timeout / 2);
    const plock_request request = plock__extend_request(&lease->subject, ttl);
    begin_asking(lease, &request, now);
    plock__errand_heed(&lease->errand, NULL, undo_extension, shorten, lease);
    return PLOCK_OK;
}

static plock_status read_adopted(void *lease, const plock_value *answer, plock_error *error) {
    return plock__read_adopted(answer, &((plock_lease *)lease)->fence, error);
}

static plock_status keep_left(plock_lease *lease, const char *value, size_t length) {
    char *copy = length ? plock__copy(value, length) : NULL;
    if (!copy) return length ? PLOCK_NO_MEMORY : PLOCK_MISUSE;
    plock__free(lease->left_copy);
    lease->left_copy = copy;
    lease->left = plock__text(copy, length);
    return PLOCK_OK;
}

plock_status plock_lease_adopt(plock_lease *lease, const char *left, size_t length, const plock_patience *patience) {
    if (lease->doing || lease->held || !reasonable(patience, false)) return PLOCK_MISUSE;
    plock_status status = keep_left(lease, left, length);
    if (status) return status;
    plock__pool_use(&lease->store->pool);
    begin_afresh(lease, ADOPTING, patience);
    lease->fence = 0;
    lease->taken_until = 0;
    lease->subject.owner.label = plock__text(NULL, 0);
    status = plock__acquire_prepare(lease);
    lease->undoes = false;
    if (status) return plock__lease_finish(lease, status);
    const plock_request request = plock__adopt_request(&lease->subject, lease->left, lease->new_ttl);
    begin_asking(lease, &request, plock_now());
    plock__errand_heed(&lease->errand, read_adopted, undo_adoption, NULL, lease);
    return PLOCK_OK;
}

plock_status plock_lease_downgrade(plock_lease *lease) {
    const plock_status status = strcmp(lease->subject.share, "w") ? PLOCK_MISUSE : free_to_begin(lease);
    if (status) return status;
    begin(lease, DOWNGRADING);
    const plock_request request = plock__downgrade_request(&lease->subject);
    begin_asking(lease, &request, plock_now());
    return PLOCK_OK;
}

void plock_lease_hurry(plock_lease *lease, plock_ns deadline) {
    if (deadline < lease->deadline) lease->deadline = deadline;
    if (deadline < lease->patience_ends) lease->patience_ends = deadline;
    if (deadline < lease->exchange.deadline) lease->exchange.deadline = deadline;
    plock__errand_hurry(&lease->errand, deadline);
}

void plock_lease_let_go(plock_lease *lease) {
    if (!lease->held || plock_lease_inherited(lease)) return;
    plock__begin_step();
    lease->held = false;
    plock__lease_drop_watch(lease);
    (void)plock__lease_release_in_background(lease, false);
    plock__end_step();
}

plock_ns plock_lease_budget(const plock_lease *lease, bool releases) {
    const plock_config *config = lease->store->config;
    return releases ? config->release_timeout : config->command_timeout;
}

void plock_lease_leave(plock_lease *lease) {
    lease->held = false;
    plock__lease_drop_watch(lease);
}

void plock_lease_abandon(plock_lease *lease) {
    if (lease && lease->held && !plock_lease_inherited(lease) && !plock_lease_lost(lease))
        plock__notice_post(PLOCK_ABANDONED, lease->id, lease->subject.key, lease->fence, 0);
    plock_lease_free(lease);
}

static bool is_busy(const void *lease) {
    const plock_lease *used = lease;
    return used->doing && used->held && !plock_lease_inherited(used);
}

plock_place_in_turn plock_lease_turn(plock_lease *lease) {
    return (plock_place_in_turn){.line = plock_lease_inherited(lease) ? NULL : &lease->turns, .lease = lease, .busy = is_busy};
}

static plock_status step_any(void *lease, plock_want *want) {
    return plock_lease_step(lease, want);
}

static void cancel_any(void *lease) {
    plock_lease_cancel(lease);
}

static void hurry_any(void *lease, plock_ns deadline) {
    plock_lease_hurry(lease, deadline);
}

plock_operation plock_lease_operation(plock_lease *lease) {
    return (plock_operation){.of = lease, .step = step_any, .cancel = cancel_any, .hurry = hurry_any};
}

plock_status plock_drive(plock_lease *lease, plock_wait wait, void *context) {
    const plock_operation operation = plock_lease_operation(lease);
    return plock_carry_on(&operation, wait, context);
}
