/* Releasing a lease on Redis: by an operation of the lease, and in the background. */
#include "redis/redis_lease.h"

#include "base/container.h"
#include "base/expiry.h"
#include "redis/trailing.h"
#include "runtime/notice.h"

plock_request plock__lease_undo_request(plock_redis_lease *lease) {
    return lease->undoes ? plock__undo_request(&lease->subject)
                         : plock__release_request(
                               &lease->subject, plock__node_window(lease->node, lease->shares), 0);
}

static plock_request release_request(plock_redis_lease *lease, plock_ns now) {
    if (lease->taken_until <= now)
        return *lease->subject.share && now < lease->valid_until
                   ? plock__release_valid_request(&lease->subject)
                   : plock__lease_undo_request(lease);
    const plock_ns window = plock__node_window(lease->node, lease->shares);
    return plock__release_request(&lease->subject, window, lease->taken_until - now);
}

static void keep_taken(plock_redis_lease *lease, plock_ns span) {
    if (span != PLOCK_KEEP_AT_LEAST)
        lease->taken_until = span > 0 ? plock_after(plock_now(), span) : 0;
}

/* --- in the background --- */

static plock_redis_lease *lease_of(plock_debt *debt) {
    return PLOCK__CONTAINER(plock_redis_lease, debt, debt);
}

static plock_request owed_request(plock_debt *debt, plock_ns now) {
    return release_request(lease_of(debt), now);
}

static void settle(plock_debt *debt, plock_status status) {
    plock_redis_lease *lease = lease_of(debt);
    const bool failed = status && status != PLOCK_NOT_OWNER && status != PLOCK_FORKED;
    if (failed && lease->tells)
        plock__notice_post(PLOCK_UNRELEASED, lease->base.id, lease->base.key, lease->base.fence, 0);
    plock__lease_destroy(lease);
}

/* Returns how long the worker thread tries to release the lease. After one TTL, the lease has
 * expired, because no request extends it any more. */
static plock_ns time_to_release(const plock_redis_lease *lease) {
    if (lease->subject.owner.brought && !lease->undoes)
        return lease->store->config->release_timeout;
    return lease->base.ttl > lease->new_ttl ? lease->base.ttl : lease->new_ttl;
}

void plock__lease_hand_over(plock_redis_lease *lease) {
    plock__retry_cancel(&lease->retry);
    lease->debt.request = owed_request;
    lease->debt.settle = settle;
    lease->debt.until = plock_after(plock_now(), time_to_release(lease));
    plock__debt_submit(lease->node, &lease->debt);
}

/* Makes a copy that releases the lock while the program continues to use the lease itself. Returns
 * NULL if memory runs out. */
static plock_redis_lease *copy_to_release(const plock_redis_lease *lease, bool tells) {
    plock_redis_lease *copy = plock__lease_make(lease->store, lease->base.key);
    if (!copy) return NULL;
    copy->undoes = lease->undoes;
    copy->shares = lease->shares;
    copy->base.fence = lease->base.fence;
    copy->base.ttl = lease->base.ttl;
    copy->new_ttl = lease->new_ttl;
    copy->taken_until = lease->taken_until;
    copy->valid_until = lease->valid_until;
    copy->tells = tells;
    if (!plock__subject_copy(&copy->subject, copy->names, &lease->subject)) return copy;
    plock__lease_destroy(copy);
    return NULL;
}

bool plock__lease_release_in_background(const plock_redis_lease *lease, bool tells) {
    plock_redis_lease *copy = copy_to_release(lease, tells);
    if (copy) plock__lease_hand_over(copy);
    return copy;
}

plock_status plock__lease_release_trailing(plock_lease *base, plock_ns keep) {
    const plock_status status = plock__lease_free_to_begin(base);
    if (status) return status;
    plock_redis_lease *lease = plock__redis_lease(base);
    /* if the lease has expired, the caller must release it and wait for the answer, which tells
     * whether the lease was lost */
    if (!plock_lease_valid(base)) return PLOCK_AGAIN;
    const plock_ns taken_until = lease->taken_until;
    keep_taken(lease, keep);
    plock_redis_lease *copy = copy_to_release(lease, true);
    const plock_request request =
        copy ? release_request(copy, plock_now()) : (plock_request){.keys = 0};
    if (!copy || plock__trailing_begin(copy, &request)) {
        if (copy) plock__lease_destroy(copy);
        lease->taken_until = taken_until;
        return PLOCK_AGAIN;
    }
    lease->base.held = false;
    plock__lease_drop_watch(lease);
    return PLOCK_OK;
}

bool plock__lease_carries_on(const plock_redis_lease *lease, plock_status status) {
    return !lease->subject.owner.brought && plock_status_retries(status) &&
           !plock_lease_inherited(&lease->base);
}

/* --- the operation --- */

static void begin_release(plock_redis_lease *lease, plock_ns now) {
    const plock_request request = release_request(lease, now);
    plock__lease_begin(lease, RELEASING);
    plock__retry_begin(&lease->retry, lease->node, &request,
                       plock_after(now, lease->store->config->release_timeout), true);
}

plock_status plock__lease_release(plock_lease *base, plock_ns keep) {
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
    plock__store_use(lease->store);
    lease->base.generation = plock__generation();
    lease->undoes = false;
    lease->taken_until = 0;
    begin_release(lease, plock_now());
    return PLOCK_OK;
}

void plock__lease_let_go(plock_lease *base, plock_ns keep) {
    plock_redis_lease *lease = plock__redis_lease(base);
    keep_taken(lease, keep);
    lease->base.held = false;
    plock__lease_drop_watch(lease);
    (void)plock__lease_release_in_background(lease, false);
}

plock_status plock__lease_released(plock_redis_lease *lease, plock_status status) {
    /* an earlier attempt, whose answer was lost, may have released the lease */
    const bool unheard = status == PLOCK_NOT_OWNER && lease->retry.doubt;
    if (unheard) return plock__lease_finish(lease, PLOCK_OK);
    /* If the pool had no free connection, the server has not failed. The release then goes on in
     * the background, and this operation succeeds. If the background release fails, a notice
     * reports that failure. */
    const bool hides = status == PLOCK_SATURATED;
    bool goes_on = plock__lease_carries_on(lease, status);
    if (goes_on) goes_on = plock__lease_release_in_background(lease, hides);
    return plock__lease_finish(lease, goes_on && hides ? PLOCK_OK : status);
}
