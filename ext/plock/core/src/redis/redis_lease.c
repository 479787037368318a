#include "redis/redis_lease.h"

#include "base/expiry.h"
#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "runtime/notice.h"

#include <stddef.h>
#include <string.h>

/* --- dates and watch --- */

void plock__lease_date(plock_redis_lease *lease, plock_ns asked_at, plock_ns now) {
    lease->base.ttl = lease->new_ttl;
    lease->valid_until = plock__expiry(asked_at, lease->base.ttl);
    lease->gone_by = now + lease->base.ttl;
}

plock_status plock__lease_prepare_watch(plock_redis_lease *lease) {
    if (!lease->watched || lease->watch) return PLOCK_OK;
    const plock_watching wanted = {.id = lease->base.id,
                                   .renews = lease->renews,
                                   .told = lease->told,
                                   .automatic = lease->automatic};
    lease->watch = plock__watch_new(lease->store, &lease->subject, &wanted);
    if (!lease->watch) return plock__fail_plainly(&lease->base.error, PLOCK_NO_MEMORY);
    const plock_status status =
        plock__watch_prepare(lease->watch, &lease->subject.owner, &lease->base.error);
    if (!lease->automatic)
        lease->subject.owner.channel =
            plock__text(lease->watch->channel, sizeof lease->watch->channel);
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
    lease->subject.owner.channel = plock__text(NULL, 0); /* it stood in the watch */
}

/* --- life --- */

static const plock_lease_kind KIND;

static plock_redis_lease *make(plock_store *store, plock_text key) {
    plock_redis_lease *lease = plock__allocate(sizeof *lease + plock__names_room(key.length));
    if (!lease) return NULL;
    plock__subject_name(&lease->subject, lease->names, key, store->config->fence_ttl);
    lease->base = (plock_lease){.kind = &KIND,
                                .key = lease->subject.key,
                                .id = plock__lease_number(),
                                .generation = plock__generation()};
    lease->store = plock__store_retain(store);
    return lease;
}

plock_status plock_lease_new(plock_lease **out, plock_store *store, const char *key,
                             size_t length) {
    *out = NULL;
    if (length == 0) return PLOCK_MISUSE;
    plock_redis_lease *lease = make(store, plock__text(key, length));
    if (!lease) return PLOCK_NO_MEMORY;
    *out = &lease->base;
    return PLOCK_OK;
}

static void destroy(plock_redis_lease *lease) {
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

plock_request plock__lease_undo_request(plock_redis_lease *lease) {
    return lease->undoes
               ? plock__undo_request(&lease->subject)
               : plock__release_request(&lease->subject,
                                        plock__store_window(lease->store, lease->shares), 0);
}

/* An operation begins: what went wrong in an earlier one is forgotten. */
static void begin(plock_redis_lease *lease, enum plock__operation doing) {
    lease->doing = doing;
    plock__lease_forget_error(&lease->base);
}

static plock_request release_request(plock_redis_lease *lease, plock_ns now) {
    if (lease->taken_until <= now) return plock__lease_undo_request(lease);
    const plock_ns window = plock__store_window(lease->store, lease->shares);
    return plock__release_request(&lease->subject, window, lease->taken_until - now);
}

static void begin_release(plock_redis_lease *lease, plock_ns now) {
    const plock_request request = release_request(lease, now);
    begin(lease, RELEASING);
    plock__retry_begin(&lease->retry, lease->store, &request,
                       plock_after(now, lease->store->config->release_timeout), true);
}

/* --- a release in the background --- */

static plock_redis_lease *lease_of(plock_debt *debt) {
    return (plock_redis_lease *)(void *)((char *)debt - offsetof(plock_redis_lease, debt));
}

static plock_request owed_request(plock_debt *debt, plock_ns now) {
    return release_request(lease_of(debt), now);
}

static void settle(plock_debt *debt, plock_status status) {
    plock_redis_lease *lease = lease_of(debt);
    const bool failed = status && status != PLOCK_NOT_OWNER && status != PLOCK_FORKED;
    if (failed && lease->tells)
        plock__notice_post(PLOCK_UNRELEASED, lease->base.id, lease->base.key, lease->base.fence, 0);
    destroy(lease);
}

/* No request that extends it leaves any more, so the server lets go of it within one ttl. */
static plock_ns time_to_release(const plock_redis_lease *lease) {
    if (lease->subject.owner.brought && !lease->undoes)
        return lease->store->config->release_timeout;
    return lease->base.ttl > lease->new_ttl ? lease->base.ttl : lease->new_ttl;
}

static void hand_over(plock_redis_lease *lease) {
    plock__retry_cancel(&lease->retry);
    lease->debt.request = owed_request;
    lease->debt.settle = settle;
    lease->debt.until = plock_after(plock_now(), time_to_release(lease));
    plock__debt_submit(lease->store, &lease->debt);
}

bool plock__lease_release_in_background(const plock_redis_lease *lease, bool tells) {
    plock_redis_lease *copy = make(lease->store, lease->base.key);
    if (!copy) return false;
    copy->undoes = lease->undoes;
    copy->shares = lease->shares;
    copy->base.fence = lease->base.fence;
    copy->base.ttl = lease->base.ttl;
    copy->new_ttl = lease->new_ttl;
    copy->taken_until = lease->taken_until;
    copy->tells = tells;
    const bool copied = !plock__subject_copy(&copy->subject, copy->names, &lease->subject);
    if (copied)
        hand_over(copy);
    else
        destroy(copy);
    return copied;
}

bool plock__lease_carries_on(const plock_redis_lease *lease, plock_status status) {
    return !lease->subject.owner.brought && plock_status_retries(status) &&
           !plock_lease_inherited(&lease->base);
}

/* --- giving up --- */

/* An adoption ends without our knowing whether the server has carried it out. Nothing else knows
 * the fresh token, so what it may have got is given back. An owner that was named is known to
 * others: they can adopt it. */
static void give_adopted_back(plock_redis_lease *lease) {
    if (!lease->subject.owner.brought) (void)plock__lease_release_in_background(lease, false);
}

/* Behind the adoption, should the server come to it later. */
static bool undo_adoption(void *adopting, plock_request *undo) {
    plock_redis_lease *lease = adopting;
    if (lease->subject.owner.brought) return false;
    *undo = plock__lease_undo_request(lease);
    return true;
}

static void give_up_adopting(plock_redis_lease *lease) {
    const bool doubt = plock__retry_in_doubt(&lease->retry);
    plock__retry_cancel(&lease->retry);
    if (doubt) give_adopted_back(lease);
}

static bool shortens(const plock_redis_lease *lease) { return lease->new_ttl < lease->base.ttl; }

/* The server may come to it after another extension has been answered, which it would cut short. So
 * the old time comes behind it. */
static bool undo_extension(void *extending, plock_request *undo) {
    plock_redis_lease *lease = extending;
    if (!shortens(lease)) return false;
    *undo = plock__renew_request(&lease->subject, lease->base.ttl, plock__text("", 0));
    return true;
}

/* From now on it may be shorter, answered or not. */
static void shorten(void *extending, plock_ns at) {
    plock_redis_lease *lease = extending;
    const plock_ns until = plock__expiry(at, lease->new_ttl);
    if (lease->valid_until > until) lease->valid_until = until;
    if (lease->watch) plock__watch_pause(lease->watch, until);
}

/* An extension ends without success: the server may have carried it out, or may yet. */
static void doubt_extension(plock_redis_lease *lease, bool doubt) {
    const plock_ns by = plock_now() + (shortens(lease) ? lease->base.ttl : lease->new_ttl);
    if (doubt && lease->gone_by < by) lease->gone_by = by;
    if (lease->watch)
        plock__watch_resume_as_it_was(lease->watch, doubt ? lease->new_ttl : PLOCK_NEVER);
}

static void give_up(plock_redis_lease *lease) {
    const bool own = !plock_lease_inherited(&lease->base), left = plock__acquire_asked(lease);
    if (lease->doing == ADOPTING && own) give_up_adopting(lease);
    const bool earlier = lease->subject.owner.brought && lease->doubt;
    if (lease->doing == ACQUIRING) plock__acquire_give_up(lease, own && (left || earlier), false);
    if (lease->doing == RELEASING && own) (void)plock__lease_release_in_background(lease, false);
    if (lease->doing == EXTENDING) doubt_extension(lease, plock__retry_in_doubt(&lease->retry));
    if (!lease->base.held) plock__lease_drop_watch(lease); /* of what is not to be had */
    plock__retry_cancel(&lease->retry);
    lease->doing = NOTHING;
}

static void cancel(plock_lease *base) { give_up(plock__redis_lease(base)); }

static void free_lease(plock_lease *base) {
    plock_redis_lease *lease = plock__redis_lease(base);
    const bool releasing = lease->doing == RELEASING; /* the same lease goes on with it */
    if (!releasing) give_up(lease);
    const bool owes =
        releasing || (lease->base.held && (lease->watch || plock_now() < lease->gone_by));
    plock__lease_drop_watch(lease);
    if (owes && !plock_lease_inherited(&lease->base)) {
        hand_over(lease);
    } else {
        plock__retry_cancel(&lease->retry);
        destroy(lease);
    }
}

/* --- the other operations --- */

static plock_status release_step(plock_redis_lease *lease, plock_interest *interest) {
    const plock_status status = plock__retry_step(&lease->retry, interest, &lease->base.error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    /* A release that was answered to nobody is why it is not ours any more. */
    const bool unheard = status == PLOCK_NOT_OWNER && lease->retry.doubt;
    if (unheard) return plock__lease_finish(lease, PLOCK_OK);
    /* The server has not failed if the pool was too small: then the program hears only of a failure
     * in the background. */
    const bool hides = status == PLOCK_SATURATED;
    bool goes_on = plock__lease_carries_on(lease, status);
    if (goes_on) goes_on = plock__lease_release_in_background(lease, hides);
    return plock__lease_finish(lease, goes_on && hides ? PLOCK_OK : status);
}

/* The server says that it is not ours any more. */
static void lose(plock_redis_lease *lease) {
    lease->base.held = !(lease->lost = true);
    plock__lease_drop_watch(lease);
}

/* Meanwhile it may have been let go of: then it is not lost. */
static plock_status finish_of_held(plock_redis_lease *lease, plock_status status) {
    if (status == PLOCK_NOT_OWNER && !lease->base.held)
        return plock__lease_finish(lease, PLOCK_MISUSE);
    if (status == PLOCK_NOT_OWNER) lose(lease);
    return plock__lease_finish(lease, status);
}

/* A renewal shortens nothing, so that one carried out later would leave the key for longer than was
 * asked for last. */
static bool yields_to_renewal(plock_redis_lease *lease, plock_interest *interest) {
    const plock_ns now = plock_now();
    const bool yields = now < lease->yields_until && lease->watch &&
                        plock__watch_renews_beyond(lease->watch, lease->new_ttl);
    if (!yields) lease->yields_until = 0;
    *interest = (plock_interest){.fd = -1, .deadline = now + PLOCK_MILLISECOND};
    return yields;
}

static plock_status extend_step(plock_redis_lease *lease, plock_interest *interest) {
    if (yields_to_renewal(lease, interest)) return PLOCK_AGAIN;
    const plock_status status = plock__retry_step(&lease->retry, interest, &lease->base.error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status) {
        doubt_extension(lease, lease->retry.doubt);
    } else {
        plock__lease_date(lease, lease->retry.call.left_at, plock_now());
        if (lease->watch) plock__watch_resume(lease->watch, lease->base.ttl, lease->valid_until);
    }
    return finish_of_held(lease, status);
}

static plock_status downgrade_step(plock_redis_lease *lease, plock_interest *interest) {
    const plock_status status = plock__retry_step(&lease->retry, interest, &lease->base.error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status == PLOCK_OK) *lease->subject.share = 'r';
    return finish_of_held(lease, status);
}

static plock_status adopt_step(plock_redis_lease *lease, plock_interest *interest) {
    const plock_status status = plock__retry_step(&lease->retry, interest, &lease->base.error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status) {
        plock__lease_drop_watch(lease);
        if (status != PLOCK_NOT_OWNER && lease->retry.doubt) give_adopted_back(lease);
        return plock__lease_finish(lease, status);
    }
    lease->base.held = true;
    lease->base.acquired_at = lease->retry.call.left_at;
    plock__lease_date(lease, lease->base.acquired_at, plock_now());
    plock__lease_start_watch(lease);
    return plock__lease_finish(lease, PLOCK_OK);
}

static plock_status step(plock_lease *base, plock_interest *interest) {
    plock_redis_lease *lease = plock__redis_lease(base);
    if (!lease->doing) return PLOCK_MISUSE;
    if (plock_lease_inherited(&lease->base)) { /* the parent of this process began it */
        give_up(lease);
        return plock__fail_plainly(&lease->base.error, PLOCK_FORKED);
    }
    switch (lease->doing) {
    case ACQUIRING: return plock__acquire_step(lease, interest);
    case RELEASING: return release_step(lease, interest);
    case ADOPTING: return adopt_step(lease, interest);
    case DOWNGRADING: return downgrade_step(lease, interest);
    case LEAVING: return plock__lease_finish(lease, PLOCK_OK);
    default: return extend_step(lease, interest);
    }
}

/* --- beginning --- */

static bool reasonable(const plock_acquire_options *patience, bool brought) {
    return plock__is_ttl(patience->ttl) && patience->wait >= 0 && patience->asking >= 0 &&
           patience->at_least >= 0 && patience->at_least <= PLOCK_TTL_MAX &&
           patience->max_hold >= 0 &&
           (!patience->label || strlen(patience->label) <= PLOCK_LABEL_MAX) &&
           !(brought && patience->wait);
}

static void begin_afresh(plock_redis_lease *lease, enum plock__operation doing,
                         const plock_acquire_options *patience) {
    begin(lease, doing);
    /* they are of the parent's threads */
    if (plock_lease_inherited(&lease->base)) lease->base.turns = NULL;
    lease->base.generation = plock__generation();
    lease->lost = lease->undoes = false;
    lease->new_ttl = patience->ttl > patience->at_least ? patience->ttl : patience->at_least;
    lease->renews = patience->renews;
    lease->automatic = patience->renews && patience->automatic;
    lease->watched = patience->renews || patience->watched;
    lease->told = patience->watched || !lease->automatic;
    lease->max_hold = patience->max_hold ? patience->max_hold : PLOCK_NEVER;
    plock__lease_drop_watch(lease);
}

plock_ns plock__lease_attempt(const plock_store *store, const plock_acquire_options *patience) {
    /* a server that is well answers by then */
    static const plock_ns LEAST = 20 * PLOCK_MILLISECOND;
    const plock_ns whole = store->config->attempt_timeout, least = whole < LEAST ? whole : LEAST;
    const plock_ns left = patience->asking < whole - least ? whole - patience->asking : least;
    return patience->wait > left ? patience->wait : left;
}

plock_status plock_lease_acquire(plock_lease *base, const plock_acquire_options *patience) {
    plock_redis_lease *lease = plock__redis_lease(base);
    if (lease->doing || lease->base.held || !reasonable(patience, lease->subject.owner.brought))
        return PLOCK_MISUSE;
    plock__pool_use(&lease->store->pool);
    const plock_ns now = plock_now(), least = plock__lease_attempt(lease->store, patience);
    begin_afresh(lease, ACQUIRING, patience);
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

static void keep_taken(plock_redis_lease *lease, plock_ns span) {
    if (span != PLOCK_KEEP_AT_LEAST)
        lease->taken_until = span > 0 ? plock_after(plock_now(), span) : 0;
}

static plock_status release(plock_lease *base, plock_ns keep) {
    const plock_status status = plock__lease_free_to_begin(base);
    if (status) return status;
    plock_redis_lease *lease = plock__redis_lease(base);
    keep_taken(lease, keep);
    lease->base.held = false;
    plock__lease_drop_watch(lease);
    begin_release(lease, plock_now());
    return PLOCK_OK;
}

plock_status plock_lease_release_owned(plock_lease *base) {
    plock_redis_lease *lease = plock__redis_lease(base);
    if (lease->doing || lease->base.held || !lease->subject.owner.brought) return PLOCK_MISUSE;
    plock__pool_use(&lease->store->pool);
    lease->base.generation = plock__generation();
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

plock_status plock_lease_share(plock_lease *base, const char *share) {
    plock_redis_lease *lease = plock__redis_lease(base);
    if (lease->doing || lease->base.held || lease->subject.owner.brought || !is_share(share))
        return PLOCK_MISUSE;
    (void)strcpy(lease->subject.share, share);
    return PLOCK_OK;
}

static void begin_asking(plock_redis_lease *lease, const plock_request *request, plock_ns now) {
    plock__retry_begin(&lease->retry, lease->store, request,
                       plock_after(now, lease->store->config->command_timeout), false);
}

static plock_status extend(plock_lease *base, plock_ns ttl) {
    const plock_status status =
        plock__is_ttl(ttl) ? plock__lease_free_to_begin(base) : PLOCK_MISUSE;
    if (status) return status;
    plock_redis_lease *lease = plock__redis_lease(base);
    const plock_ns now = plock_now();
    begin(lease, EXTENDING);
    lease->new_ttl = ttl;
    if (lease->watch) plock__watch_pause(lease->watch, PLOCK_NEVER);
    lease->yields_until = plock_after(now, lease->store->config->command_timeout / 2);
    const plock_request request = plock__extend_request(&lease->subject, ttl);
    begin_asking(lease, &request, now);
    plock__retry_heed(&lease->retry, NULL, undo_extension, shorten, lease);
    return PLOCK_OK;
}

static plock_status read_adopted(void *lease, const plock_value *answer, plock_error *error) {
    return plock__read_adopted(answer, &((plock_redis_lease *)lease)->base.fence, error);
}

static plock_status keep_left(plock_redis_lease *lease, const char *value, size_t length) {
    char *copy = length ? plock__copy(value, length) : NULL;
    if (!copy) return length ? PLOCK_NO_MEMORY : PLOCK_MISUSE;
    plock__free(lease->left_copy);
    lease->left_copy = copy;
    lease->left = plock__text(copy, length);
    return PLOCK_OK;
}

plock_status plock_lease_adopt(plock_lease *base, const char *left, size_t length,
                               const plock_acquire_options *patience) {
    plock_redis_lease *lease = plock__redis_lease(base);
    if (lease->doing || lease->base.held || !reasonable(patience, false)) return PLOCK_MISUSE;
    plock_status status = keep_left(lease, left, length);
    if (status) return status;
    plock__pool_use(&lease->store->pool);
    begin_afresh(lease, ADOPTING, patience);
    lease->base.fence = 0;
    lease->taken_until = 0;
    lease->subject.owner.label = plock__text(NULL, 0);
    status = plock__acquire_prepare(lease);
    lease->undoes = false;
    if (status) return plock__lease_finish(lease, status);
    const plock_request request =
        plock__adopt_request(&lease->subject, lease->left, lease->new_ttl);
    begin_asking(lease, &request, plock_now());
    plock__retry_heed(&lease->retry, read_adopted, undo_adoption, NULL, lease);
    return PLOCK_OK;
}

static plock_status downgrade(plock_lease *base) {
    plock_redis_lease *lease = plock__redis_lease(base);
    const plock_status status =
        strcmp(lease->subject.share, "w") ? PLOCK_MISUSE : plock__lease_free_to_begin(base);
    if (status) return status;
    begin(lease, DOWNGRADING);
    const plock_request request = plock__downgrade_request(&lease->subject);
    begin_asking(lease, &request, plock_now());
    return PLOCK_OK;
}

/* It is done at once: nothing in the store changes. */
static plock_status leave(plock_lease *base) {
    const plock_status status = plock__lease_free_to_begin(base);
    if (status) return status;
    plock_redis_lease *lease = plock__redis_lease(base);
    begin(lease, LEAVING);
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

static void let_go(plock_lease *base, plock_ns keep) {
    plock_redis_lease *lease = plock__redis_lease(base);
    keep_taken(lease, keep);
    lease->base.held = false;
    plock__lease_drop_watch(lease);
    (void)plock__lease_release_in_background(lease, false);
}

static plock_ns budget(const plock_lease *base, bool releases) {
    const plock_config *config = plock__known_redis_lease(base)->store->config;
    return releases ? config->release_timeout : config->command_timeout;
}

/* --- what it says of itself without asking --- */

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
    const plock_redis_lease *lease = plock__known_redis_lease(base);
    bool lost = lease->lost;
    return lost || (base->held && (plock_now() >= read_valid_until(lease, &lost) || lost));
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
    .release = release,
    .extend = extend,
    .downgrade = downgrade,
    .leave = leave,
    .step = step,
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
    .value = value,
    .mode = mode,
};
