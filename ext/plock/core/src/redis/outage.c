#include "redis/outage.h"

#include "base/failure.h"

/* Finds the node each time, because the key's slot may move to another node while the lease
 * waits. */
static plock_node *node_of(const plock_redis_lease *lease) {
    return plock__slot_node(lease->store, lease->slot);
}

static plock_ns reached_at(const plock_redis_lease *lease) {
    return atomic_load_explicit(&node_of(lease)->reached_at, memory_order_relaxed);
}

plock_ns plock__outage_limit(const plock_redis_lease *lease) {
    const plock_config *config = lease->store->config;
    const plock_ns first = plock_after(lease->began_at, config->attempt_timeout);
    if (lease->endures || !lease->unanswered_since) return PLOCK_NEVER;
    const plock_ns reached = reached_at(lease);
    const plock_ns since = reached > lease->unanswered_since ? reached : lease->unanswered_since;
    const plock_ns at = plock_after(since, config->unavailable_timeout);
    return at > first ? at : first;
}

bool plock__outage_too_long(const plock_redis_lease *lease, plock_interest *interest) {
    plock_ns at = plock__outage_limit(lease);
    if (at == PLOCK_NEVER) return false;
    const plock_ns least = plock_after(lease->tried_at, PLOCK__LAST_ATTEMPT);
    if (at < least) at = least;
    if (interest->deadline > at) interest->deadline = at;
    return plock_now() >= at;
}

bool plock__outage_too_long_in_queue(plock_redis_lease *lease, plock_interest *interest) {
    const plock_owing owing = plock__waiter_owing(lease->waiter);
    if (!owing.since) {
        plock__outage_end(lease);
        lease->base.error.status = PLOCK_OK;
    } else if (!lease->unanswered_since || owing.known) {
        lease->unanswered_since = owing.since;
    }
    if (owing.since && owing.why.status) {
        lease->outage = owing.why.status;
        lease->base.error = owing.why;
    }
    return plock__outage_too_long(lease, interest);
}

bool plock__outage_of_server(plock_redis_lease *lease) {
    const plock_owing owing = plock__waiter_owing(lease->waiter);
    if (!owing.since || !owing.why.status)
        return owing.since && plock_now() - owing.since >= lease->store->config->attempt_timeout;
    if (reached_at(lease) <= owing.since) return true;
    lease->base.error.status = PLOCK_OK; /* the server has answered another request since */
    return false;
}

bool plock__outage_is_news(plock_redis_lease *lease) {
    if (!lease->endures || !lease->outage) return false;
    const unsigned failures = plock__waiter_owing(lease->waiter).failures;
    const bool news = failures != lease->failures_told;
    lease->failures_told = failures;
    return news;
}

void plock__outage_note(plock_redis_lease *lease, plock_ns now) {
    if (lease->unanswered_since) return;
    const plock_ns since = lease->waiter ? plock__waiter_owing(lease->waiter).since : 0;
    lease->unanswered_since = since ? since : now;
}

void plock__outage_end(plock_redis_lease *lease) {
    lease->unanswered_since = 0;
    lease->outage = PLOCK_OK;
}

plock_status plock__outage_silence(plock_redis_lease *lease) {
    if (lease->outage) return lease->base.error.status = lease->outage;
    return plock__node_fail(node_of(lease), plock__call_reached(&lease->call), PLOCK_SILENT,
                            plock_status_text(PLOCK_SILENT), &lease->base.error);
}

plock_status plock__outage_give_up(plock_redis_lease *lease, plock_status status) {
    const plock_ns span = lease->store->config->unavailable_timeout;
    plock_error cause = lease->base.error;
    plock__shorten(cause.message, 200);
    return plock__fail(&lease->base.error, status, "%s (gave up after %g s: unavailable_timeout)",
                       cause.message, (double)span / (double)PLOCK_SECOND);
}
