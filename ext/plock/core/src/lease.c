#include "lease.h"

#include "failure.h"
#include "memory.h"
#include "notice.h"
#include "process.h"
#include "term.h"

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
    lease->watch = plock__watch_new(lease->store, &lease->subject, lease->id, lease->renews);
    if (!lease->watch) return plock__fail_plainly(&lease->error, PLOCK_NO_MEMORY);
    const plock_status status = plock__watch_prepare(lease->watch, &lease->subject.owner, &lease->error);
    lease->subject.owner.channel = plock__text(lease->watch->channel, sizeof lease->watch->channel);
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
    plock__subject_name(&lease->subject, lease->names, plock__text(key, length));
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

static void begin_release(plock_lease *lease, plock_ns now) {
    const bool kept = lease->taken_until > now;
    const plock_request request = kept ? plock__release_request(&lease->subject, plock__store_window(lease->store, lease->shares), lease->taken_until - now)
                                       : plock__lease_undo_request(lease);
    begin(lease, RELEASING);
    plock__errand_begin(&lease->errand, lease->store, &request, plock_after(now, lease->store->config->release_timeout), true);
}

/* --- a release in the background --- */

/* The lease as a job of the native thread: whatever was under way is broken off, and what it has is released. */
static plock_status background_step(plock_job *job, plock_want *want) {
    plock_lease *lease = (plock_lease *)(void *)job;
    if (!lease->letting_go) {
        lease->letting_go = true;
        plock__errand_cancel(&lease->errand);
        begin_release(lease, plock_now());
    }
    return plock__errand_step(&lease->errand, want, &lease->error);
}

static void background_destroy(plock_job *job) {
    plock_lease *lease = (plock_lease *)(void *)job;
    plock__errand_cancel(&lease->errand);
    destroy(lease);
}

static void hand_over(plock_lease *lease) {
    lease->job.step = background_step;
    lease->job.destroy = background_destroy;
    plock__worker_submit(&lease->job);
}

void plock__lease_release_in_background(const plock_lease *lease) {
    const plock_text key = lease->subject.key;
    plock_lease *copy;
    if (plock_lease_new(&copy, lease->store, key.bytes, key.length)) return;
    copy->undoes = lease->undoes;
    copy->shares = lease->shares;
    copy->taken_until = lease->taken_until;
    if (plock__subject_copy(&copy->subject, copy->names, &lease->subject)) destroy(copy);
    else hand_over(copy);
}

/* --- giving up --- */

static void give_up(plock_lease *lease) {
    const bool own = lease->generation == plock__generation(), left = plock__acquire_asked(lease);
    if (lease->doing == ACQUIRING) plock__acquire_give_up(lease, own && left, false);
    if (lease->doing == RELEASING && own) plock__lease_release_in_background(lease);
    if (lease->doing == EXTENDING && lease->watch) plock__watch_resume(lease->watch, 0, 0);
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
    return plock__lease_finish(lease, status == PLOCK_NOT_OWNER && lease->errand.doubt ? PLOCK_OK : status);
}

/* The server says that it is not ours any more. */
static void lose(plock_lease *lease) {
    lease->held = !(lease->lost = true);
    plock__lease_drop_watch(lease);
}

static plock_status extend_step(plock_lease *lease, plock_want *want) {
    const plock_status status = plock__errand_step(&lease->errand, want, &lease->error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    const plock_ns now = plock_now();
    if (status == PLOCK_OK) plock__lease_date(lease, lease->errand.exchange.left_at, now);
    else if (lease->errand.doubt && lease->gone_by < now + lease->new_ttl) lease->gone_by = now + lease->new_ttl;
    if (lease->watch) plock__watch_resume(lease->watch, status ? 0 : lease->ttl, lease->valid_until);
    if (status == PLOCK_NOT_OWNER) lose(lease);
    return plock__lease_finish(lease, status);
}

static plock_status downgrade_step(plock_lease *lease, plock_want *want) {
    const plock_status status = plock__errand_step(&lease->errand, want, &lease->error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status == PLOCK_OK) *lease->subject.share = 'r';
    if (status == PLOCK_NOT_OWNER) lose(lease);
    return plock__lease_finish(lease, status);
}

static plock_status adopt_step(plock_lease *lease, plock_want *want) {
    const plock_status status = plock__errand_step(&lease->errand, want, &lease->error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status) {
        plock__lease_drop_watch(lease);
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
    return is_ttl(patience->ttl) && patience->wait >= 0 && patience->at_least >= 0 && patience->at_least <= PLOCK_TTL_MAX &&
           patience->max_hold >= 0 && (!patience->label || strlen(patience->label) <= PLOCK_LABEL_MAX) && !(brought && patience->wait);
}

static void begin_afresh(plock_lease *lease, enum plock__operation doing, const plock_patience *patience) {
    begin(lease, doing);
    lease->generation = plock__generation();
    lease->lost = lease->undoes = false;
    lease->new_ttl = patience->ttl > patience->at_least ? patience->ttl : patience->at_least;
    lease->renews = patience->renews;
    lease->watched = patience->renews || patience->watched;
    lease->max_hold = patience->max_hold ? patience->max_hold : PLOCK_NEVER;
    plock__lease_drop_watch(lease);
}

plock_status plock_lease_acquire(plock_lease *lease, const plock_patience *patience) {
    if (lease->doing || lease->held || !reasonable(patience, lease->subject.owner.brought)) return PLOCK_MISUSE;
    plock__pool_use(&lease->store->pool);
    const plock_ns now = plock_now(), least = lease->store->config->attempt_timeout;
    begin_afresh(lease, ACQUIRING, patience);
    lease->phase = TO_TRY;
    lease->reconnected = lease->doubt = lease->contended = false;
    lease->pauses = 0;
    lease->ticket = 0;
    lease->began_at = now;
    lease->taken_until = patience->at_least ? plock_after(now, patience->at_least) : 0;
    lease->patient = patience->wait > 0;
    lease->insists = patience->insists;
    lease->shares = patience->shares;
    lease->subject.owner.label = plock__text(patience->label, patience->label ? strlen(patience->label) : 0);
    lease->patience_ends = plock_after(now, patience->wait);
    lease->deadline = plock_after(now, patience->wait > least ? patience->wait : least);
    return PLOCK_OK;
}

plock_status plock_lease_release(plock_lease *lease) {
    if (lease->doing || !lease->held || plock_lease_inherited(lease)) return PLOCK_MISUSE;
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

static void ask_for_new_ttl(plock_lease *lease, const plock_request *request, plock_ns now) {
    plock__errand_begin(&lease->errand, lease->store, request, plock_after(now, lease->store->config->command_timeout), false);
}

plock_status plock_lease_extend(plock_lease *lease, plock_ns ttl) {
    if (lease->doing || !lease->held || plock_lease_inherited(lease) || !is_ttl(ttl)) return PLOCK_MISUSE;
    const plock_ns now = plock_now(), until = plock__reliable(now, ttl);
    begin(lease, EXTENDING);
    lease->new_ttl = ttl;
    if (lease->valid_until > until) lease->valid_until = until; /* it may shorten it, answered or not */
    if (lease->watch) plock__watch_pause(lease->watch, until);
    const plock_request request = plock__extend_request(&lease->subject, ttl);
    ask_for_new_ttl(lease, &request, now);
    return PLOCK_OK;
}

plock_status plock_lease_adopt(plock_lease *lease, const char *owner, size_t length, int64_t fence, const plock_patience *patience) {
    if (lease->doing || lease->held || !reasonable(patience, false)) return PLOCK_MISUSE;
    plock_status status = plock__owner_bring(&lease->subject.owner, plock__text(owner, length));
    if (status) return status;
    plock__pool_use(&lease->store->pool);
    begin_afresh(lease, ADOPTING, patience);
    lease->fence = fence;
    lease->taken_until = 0;
    status = plock__lease_prepare_watch(lease);
    if (status) return plock__lease_finish(lease, status);
    const plock_request request = plock__adopt_request(&lease->subject, lease->new_ttl);
    ask_for_new_ttl(lease, &request, plock_now());
    return PLOCK_OK;
}

plock_status plock_lease_downgrade(plock_lease *lease) {
    if (lease->doing || !lease->held || plock_lease_inherited(lease) || strcmp(lease->subject.share, "w")) return PLOCK_MISUSE;
    begin(lease, DOWNGRADING);
    const plock_request request = plock__downgrade_request(&lease->subject);
    plock__errand_begin(&lease->errand, lease->store, &request, plock_after(plock_now(), lease->store->config->command_timeout), false);
    return PLOCK_OK;
}

void plock_lease_hurry(plock_lease *lease, plock_ns deadline) {
    if (deadline < lease->deadline) lease->deadline = deadline;
    if (deadline < lease->patience_ends) lease->patience_ends = deadline;
    if (deadline < lease->exchange.deadline) lease->exchange.deadline = deadline;
    plock__errand_hurry(&lease->errand, deadline);
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
