/* The operations on a held lease on Redis: extend, downgrade, adopt. */
#include "redis/redis_lease.h"

#include "base/expiry.h"
#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"

#include <string.h>

static void begin_asking(plock_redis_lease *lease, plock_request request, plock_ns now) {
    plock__retry_begin(&lease->retry, lease->node, &request,
                       plock_after(now, lease->store->config->command_timeout), false);
}

/* The server has answered that another owner holds the key, or that no owner does. */
static void lose(plock_redis_lease *lease) {
    lease->base.held = !(lease->lost = true);
    plock__lease_drop_watch(lease);
}

/* Ends an operation on a held lease. A lease that was released in the meantime is not lost. */
static plock_status finish_of_held(plock_redis_lease *lease, plock_status status) {
    if (status == PLOCK_NOT_OWNER && !lease->base.held)
        return plock__lease_finish(lease, PLOCK_MISUSE);
    if (status == PLOCK_NOT_OWNER) lose(lease);
    return plock__lease_finish(lease, status);
}

/* --- extending --- */

static bool shortens(const plock_redis_lease *lease) { return lease->new_ttl < lease->base.ttl; }

/* The server may execute a cancelled extension after a newer extension, and so shorten the lease.
 * To prevent that, a request with the old TTL follows the cancelled one on the same connection. */
static bool undo_extension(void *extending, plock_request *undo) {
    plock_redis_lease *lease = extending;
    if (!shortens(lease)) return false;
    *undo = plock__renew_request(&lease->subject, lease->base.ttl, plock__text("", 0));
    return true;
}

/* Called when the request is about to be sent. From now on the lease may be shorter, even if no
 * answer comes. */
static void shorten(void *extending, plock_ns at) {
    plock_redis_lease *lease = extending;
    const plock_ns until = plock__expiry(at, lease->new_ttl);
    if (lease->valid_until > until) lease->valid_until = until;
    if (lease->watch) plock__watch_pause(lease->watch, until);
}

void plock__lease_doubt_extension(plock_redis_lease *lease, bool doubt) {
    const plock_ns by = plock_now() + (shortens(lease) ? lease->base.ttl : lease->new_ttl);
    if (doubt && lease->gone_by < by) lease->gone_by = by;
    if (lease->watch)
        plock__watch_resume_as_it_was(lease->watch, doubt ? lease->new_ttl : PLOCK_NEVER);
}

plock_status plock__lease_extend(plock_lease *base, plock_ns ttl) {
    const plock_status status =
        plock__is_ttl(ttl) ? plock__lease_free_to_begin(base) : PLOCK_MISUSE;
    if (status) return status;
    plock_redis_lease *lease = plock__redis_lease(base);
    const plock_ns now = plock_now();
    plock__lease_begin(lease, EXTENDING);
    lease->new_ttl = ttl;
    if (lease->watch) plock__watch_pause(lease->watch, PLOCK_NEVER);
    lease->yields_until = plock_after(now, lease->store->config->command_timeout / 2);
    begin_asking(lease, plock__extend_request(&lease->subject, ttl), now);
    plock__retry_heed(&lease->retry, NULL, undo_extension, shorten, lease);
    return PLOCK_OK;
}

bool plock__lease_yields_to_renewal(plock_redis_lease *lease, plock_interest *interest) {
    const plock_ns now = plock_now();
    const bool yields = now < lease->yields_until && lease->watch &&
                        plock__watch_renews_beyond(lease->watch, lease->new_ttl);
    if (!yields) lease->yields_until = 0;
    *interest = (plock_interest){.fd = -1, .deadline = now + PLOCK_MILLISECOND};
    return yields;
}

plock_status plock__lease_extended(plock_redis_lease *lease, plock_status status) {
    if (status) {
        plock__lease_doubt_extension(lease, lease->retry.doubt);
    } else {
        plock__lease_date(lease, lease->retry.call.left_at, plock_now());
        if (lease->watch) plock__watch_resume(lease->watch, lease->base.ttl, lease->valid_until);
    }
    return finish_of_held(lease, status);
}

/* --- downgrading --- */

plock_status plock__lease_downgrade(plock_lease *base) {
    plock_redis_lease *lease = plock__redis_lease(base);
    const char share = *lease->subject.share;
    const plock_status status =
        share == 'w' || share == 'r' ? plock__lease_free_to_begin(base) : PLOCK_MISUSE;
    if (status) return status;
    plock__lease_begin(lease, DOWNGRADING);
    begin_asking(lease, plock__downgrade_request(&lease->subject), plock_now());
    return PLOCK_OK;
}

void plock__lease_doubt_downgrade(plock_redis_lease *lease, bool doubt) {
    if (doubt) *lease->subject.share = 'r';
}

plock_status plock__lease_downgraded(plock_redis_lease *lease, plock_status status) {
    plock__lease_doubt_downgrade(lease, status == PLOCK_OK || lease->retry.doubt);
    return finish_of_held(lease, status);
}

/* --- adopting --- */

/* An adoption has failed, but the server may have executed it. If the token is fresh, only this
 * process knows it, so this process must release the lock. A brought owner keeps the lock, because
 * other processes may know the owner's value, and adopt the lease. */
static void give_adopted_back(plock_redis_lease *lease) {
    if (!lease->subject.owner.brought) (void)plock__lease_release_in_background(lease, false);
}

/* The undo follows the adoption on the same connection, because the server may execute the adoption
 * late. */
static bool undo_adoption(void *adopting, plock_request *undo) {
    plock_redis_lease *lease = adopting;
    if (lease->subject.owner.brought) return false;
    *undo = plock__lease_undo_request(lease);
    return true;
}

void plock__lease_give_up_adopting(plock_redis_lease *lease) {
    const bool doubt = plock__retry_in_doubt(&lease->retry);
    plock__retry_cancel(&lease->retry);
    if (doubt) give_adopted_back(lease);
}

static plock_status read_adopted(void *adopting, const plock_value *answer, plock_error *error) {
    plock_redis_lease *lease = adopting;
    if (plock__read_number(answer, &lease->base.fence)) return PLOCK_OK;
    if (answer->type != PLOCK__INTEGER || answer->integer != 0) return plock__not_our_answer(error);
    return plock__fail_plainly(error, PLOCK_NOT_OWNER);
}

static plock_status keep_left(plock_redis_lease *lease, const char *value, size_t length) {
    char *copy = length ? plock__copy(value, length) : NULL;
    if (!copy) return length ? PLOCK_NO_MEMORY : PLOCK_MISUSE;
    plock__free(lease->left_copy);
    lease->left_copy = copy;
    return PLOCK_OK;
}

plock_status plock_lease_adopt(plock_lease *base, const char *left, size_t length,
                               const plock_acquire_options *patience) {
    plock_redis_lease *lease = plock__redis_lease(base);
    if (lease->doing || lease->base.held || !plock__lease_reasonable(patience, false))
        return PLOCK_MISUSE;
    plock_status status = keep_left(lease, left, length);
    if (status) return status;
    plock__store_use(lease->store);
    plock__lease_begin_afresh(lease, ADOPTING, patience);
    lease->base.fence = 0;
    lease->taken_until = 0;
    lease->subject.owner.label = plock__text(NULL, 0);
    status = plock__acquire_prepare(lease);
    lease->undoes = false;
    if (status) return plock__lease_finish(lease, status);
    const plock_text left_value = plock__text(lease->left_copy, length);
    begin_asking(lease, plock__adopt_request(&lease->subject, left_value, lease->new_ttl),
                 plock_now());
    plock__retry_heed(&lease->retry, read_adopted, undo_adoption, NULL, lease);
    return PLOCK_OK;
}

plock_status plock__lease_adopted(plock_redis_lease *lease, plock_status status) {
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
