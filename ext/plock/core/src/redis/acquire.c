/* Acquires a lease: makes attempts until the lock is held, or until the caller's patience (its
 * `wait:`) ends. In an attempt, the lease asks the server for the lock. If the server refuses and
 * patience is left, the lease joins the wait queue (waiter.h), and waits there for the lock. If an
 * attempt fails, for example because the server cannot be reached, the lease pauses before the next
 * attempt. */
#include "redis/outage.h"

#include "base/expiry.h"
#include "base/failure.h"
#include "base/pause.h"
#include "base/process.h"

#include <string.h>

/* When its patience ends, a waiter leaves the queue on the server. Its caller waits until the
 * waiter has left, but at most this long, so that later queries do not show the waiter. */
static const plock_ns PARTING_SPAN = 20 * PLOCK_MILLISECOND;

/* --- the marks of the keys for which this process has an unanswered acquire ---
 *
 * While a key is marked, other acquires of the key join the wait queue without asking. A second
 * request would need another connection, and might overtake the first. */

/* Most keys are digests, whose bytes are close to random. So a simple hash is enough. */
static uint64_t hash(plock_text key) {
    /* the generation is included, so that the parent's marks do not count in a forked child */
    uint64_t value = (key.length + plock__generation()) * 0x9e3779b97f4a7c15u;
    for (size_t at = 0; at + sizeof value <= key.length; at += sizeof value) {
        uint64_t word;
        memcpy(&word, key.bytes + key.length - sizeof word - at, sizeof word);
        value = (value ^ word) * 0xff51afd7ed558ccdu;
        value ^= value >> 32;
    }
    return value | 1;
}

/* Marks the key, unless another key has the slot. Returns false if the key is already marked. This
 * lease must then wait behind the lease that marked the key. A share always asks the server,
 * because several shares can be held together. */
static bool looks_first(plock_redis_lease *lease) {
    if (*lease->subject.share) return true;
    const uint64_t mark = hash(lease->subject.key);
    _Atomic uint64_t *slot = &lease->store->looking[mark >> 32 & (PLOCK__LOOKING_SLOTS - 1)];
    uint64_t other = 0;
    if (atomic_compare_exchange_strong(slot, &other, mark)) lease->looking = slot;
    return other != mark;
}

static void stop_looking(plock_redis_lease *lease) {
    if (lease->looking) atomic_store(lease->looking, 0);
    lease->looking = NULL;
}

/* --- giving up --- */

bool plock__acquire_asked(const plock_redis_lease *lease) {
    return lease->phase == ASKING && plock__call_left(&lease->call);
}

void plock__acquire_give_up(plock_redis_lease *lease, bool doubt) {
    const bool asked = plock__acquire_asked(lease);
    stop_looking(lease);
    const plock_request undo = lease->waiter ? plock__leave_request(&lease->waiter->subject, true)
                                             : plock__lease_undo_request(lease);
    plock__call_cancel(&lease->call, &undo);
    if (lease->waiter) {
        lease->ticket = plock__waiter_give_up(lease->waiter, asked, doubt);
        lease->waiter = NULL;
    } else if (doubt) {
        (void)plock__lease_release_in_background(lease, false);
    }
}

/* --- attempts --- */

/* Makes the owner for a new attempt. A token that may have reached the server in an unanswered
 * request is never used again. The server could still execute that request after the lease was
 * released, and the lock would be taken again. */
static plock_status renew_owner(plock_redis_lease *lease) {
    if (!lease->subject.owner.brought) {
        const plock_status status =
            plock__owner_renew(&lease->subject.owner, lease->store->config->encoding);
        return status ? plock__fail_plainly(&lease->base.error, status) : PLOCK_OK;
    }
    /* all attempts with an owner that the caller brought share one number, so that a single undo
     * matches all of them */
    if (!lease->undoes) plock__owner_number(&lease->subject.owner);
    lease->undoes = true;
    return PLOCK_OK;
}

static void ask(plock_redis_lease *lease, plock_ns now) {
    const plock_request request =
        lease->waiter ? plock__waiter_request(lease->waiter)
                      : plock__acquire_request(&lease->subject, lease->new_ttl,
                                               lease->subject.owner.brought && lease->doubt);
    const plock_ns least = now + PLOCK__LAST_ATTEMPT;
    lease->phase = ASKING;
    lease->tried_at = now;
    if (!lease->unanswered_since) lease->unanswered_since = now;
    plock__call_begin(&lease->call, lease->node, &request,
                      lease->deadline > least ? lease->deadline : least);
}

plock_status plock__acquire_prepare(plock_redis_lease *lease) {
    const plock_status status = plock__lease_prepare_watch(lease);
    return status ? status : renew_owner(lease);
}

static plock_status attempt(plock_redis_lease *lease, plock_ns now) {
    bool asks = true;
    plock__lease_route(lease);
    plock_status status = plock__acquire_prepare(lease);
    if (!status && lease->patient) status = plock__waiter_join(lease, NULL, false, &asks);
    if (!status && lease->patient && !lease->waiter && !looks_first(lease))
        status = plock__waiter_join(lease, NULL, true, &asks);
    if (status) return status;
    lease->base.error.status = PLOCK_OK;
    lease->phase = RESTING;
    if (asks)
        ask(lease, now);
    else
        lease->base.contended = true;
    return PLOCK_AGAIN;
}

/* Has the granted lease already expired? That happens if the machine was suspended, or if this
 * thread stalled. */
static bool is_over(const plock_redis_lease *lease, const plock_grant *grant, plock_ns now) {
    bool lost = false;
    const plock_ns renewed = lease->watch ? plock__watch_valid_until(lease->watch, &lost) : 0;
    return lost || (now >= plock__expiry(grant->asked_at, lease->new_ttl) && now >= renewed);
}

plock_status plock__acquire_granted(plock_redis_lease *lease, const plock_grant *grant) {
    const plock_ns now = plock_now();
    if (is_over(lease, grant, now))
        return plock__fail(&lease->base.error, PLOCK_SILENT,
                           "the answer came when the lease was over");
    lease->base.fence = grant->fence;
    lease->base.acquired_at = grant->asked_at;
    lease->base.waited = now - lease->began_at;
    lease->base.held = true;
    lease->undoes = false;
    plock__lease_date(lease, grant->asked_at, now);
    plock__lease_start_watch(lease);
    if (lease->waiter) plock__waiter_finish(lease->waiter, grant);
    lease->waiter = NULL;
    return plock__lease_finish(lease, PLOCK_OK);
}

/* Handles a request of the waiter's own thread that could not reach the server. The waiter rests.
 * After a pause, the coordinator makes the waiters of the queue ask again. */
static plock_status unreached(plock_redis_lease *lease) {
    plock__call_cancel(&lease->call, NULL);
    lease->phase = RESTING;
    if (!plock__waiter_rest_unreached(lease->waiter, &lease->base.error)) ask(lease, plock_now());
    return PLOCK_AGAIN;
}

/* Handles a failed attempt. Returns PLOCK_AGAIN to continue at once, PLOCK_TRY_FAILED to report the
 * failure and continue after a pause, or the final status. */
static plock_status failed(plock_redis_lease *lease, plock_status status) {
    const bool doubt = lease->phase == ASKING && plock__call_left(&lease->call) &&
                       plock_status_leaves_doubt(status);
    const bool brought = lease->subject.owner.brought;
    const plock_ns now = plock_now();
    const bool too_few = status == PLOCK_UNREPLICATED;
    /* If the server has closed an idle connection, that does not count as a failure. */
    const bool reconnects = lease->phase == ASKING && status == PLOCK_DISCONNECTED &&
                            lease->call.reused && !lease->reconnected && now < lease->deadline;
    if (too_few)
        plock__outage_end(lease);
    else
        plock__outage_note(lease, now);
    lease->doubt = lease->doubt || doubt;
    if (lease->waiter && lease->phase == ASKING)
        plock__waiter_tell_of_silence(lease->waiter, &lease->base.error, lease->tried_at);
    plock__lease_drop_watch(lease); /* the next attempt makes its own watch */
    /* A brought owner is the same in all attempts, so an earlier attempt may have acquired the
     * lock for it. But a lease that reconnects asks again at once, with a request that says so
     * ('again' in acquire.lua). So nothing is released in that case. */
    plock__acquire_give_up(lease, brought ? lease->doubt && !reconnects : doubt);
    /* the next attempt goes behind the other waiters, which may need no confirmation by replicas */
    if (too_few) lease->ticket = 0;
    if (reconnects) {
        lease->reconnected = true;
        lease->phase = TO_TRY;
        return PLOCK_AGAIN;
    }
    const bool late = now >= lease->patience_ends;
    /* The server has refused an earlier request of this acquire, so another caller has the lock.
     * The server did not fail: the last request found no free connection in time. So the acquire
     * reports an ordinary timeout. */
    if (late && status == PLOCK_SATURATED && lease->patient && lease->base.contended)
        return plock__lease_finish(lease, plock__fail_plainly(&lease->base.error, PLOCK_TIMED_OUT));
    if ((!plock_status_retries(status) && !lease->insists) || brought || late)
        return plock__lease_finish(lease, status);
    const plock_ns at = plock__outage_limit(lease);
    lease->outage = plock_status_unreachable(status) ? status : PLOCK_OK;
    if (lease->outage && now >= at)
        return plock__lease_finish(lease, plock__outage_give_up(lease, status));
    lease->phase = PAUSING;
    lease->resume_at = now + plock__pause_before_trying(lease->pauses++);
    /* the pause must not last beyond the limit of the outage, because the last attempt is due
     * then */
    if (now < at && at < lease->resume_at) lease->resume_at = at;
    return PLOCK_TRY_FAILED;
}

static plock_status end_of_patience(plock_redis_lease *lease, plock_status status) {
    plock__lease_drop_watch(lease);
    plock__acquire_give_up(lease, false);
    return plock__lease_finish(lease, status);
}

/* Makes the waiter leave the queue on the server. If the lease has no waiter there, ends the wait
 * at once. */
static plock_status part(plock_redis_lease *lease, plock_ns now) {
    const bool asked = plock__acquire_asked(lease);
    plock__lease_drop_watch(lease);
    if (!lease->waiter || !plock__waiter_part(lease->waiter, asked))
        return end_of_patience(lease, PLOCK_TIMED_OUT);
    stop_looking(lease);
    lease->phase = PARTING;
    lease->resume_at = now + PARTING_SPAN;
    return PLOCK_AGAIN;
}

static plock_status part_step(plock_redis_lease *lease, plock_interest *interest) {
    const plock_status status = plock__waiter_parting(lease->waiter, interest);
    interest->deadline = lease->resume_at;
    lease->waits = status == PLOCK_AGAIN && plock_now() < lease->resume_at;
    return lease->waits ? PLOCK_AGAIN : end_of_patience(lease, PLOCK_TIMED_OUT);
}

static plock_status refused(plock_redis_lease *lease, const plock_place *place) {
    const plock_ns now = plock_now();
    /* a free_in of 0 means that the server has not finished its work; this is no refusal yet, so
     * the lease asks again */
    if (!place->free_in && !lease->waiter && now < lease->deadline) {
        ask(lease, now);
        return PLOCK_AGAIN;
    }
    lease->base.contended = true;
    if (now >= lease->patience_ends) {
        (void)plock__fail_plainly(&lease->base.error,
                                  lease->patient ? PLOCK_TIMED_OUT : PLOCK_REFUSED);
        if (lease->patient) return part(lease, now);
        return end_of_patience(lease, PLOCK_REFUSED);
    }
    bool asks = true;
    if (!lease->waiter) {
        const plock_status status = plock__waiter_join(lease, place, false, &asks);
        stop_looking(lease); /* later requests for the key find this waiter in the wait queue */
        if (status) return failed(lease, status);
    } else {
        asks = !plock__waiter_rest(lease->waiter, place);
    }
    lease->phase = RESTING;
    if (asks) ask(lease, now);
    return PLOCK_AGAIN;
}

/* Makes the last step of a call to which the server has been silent for too long. A deadline in the
 * past makes the call report what it was waiting for, unless an earlier attempt has failed: that
 * failure says more. A call that is PAUSING counts as silent, because its own status would not make
 * the acquire give up. */
static plock_status last_step(plock_redis_lease *lease, const plock_value **answer,
                              plock_interest *interest) {
    if (lease->outage || lease->call.state == PLOCK__PAUSING) return plock__outage_silence(lease);
    lease->call.deadline = lease->tried_at;
    return plock__call_step(&lease->call, answer, interest, &lease->base.error);
}

static plock_status listen_for_answer(plock_redis_lease *lease, plock_interest *interest) {
    const plock_value *answer;
    plock_status status = plock__call_step(&lease->call, &answer, interest, &lease->base.error);
    /* while the call waits for the pool or for replicas, the server owes no answer to the
     * request */
    const bool asks = lease->call.state != PLOCK__TAKING && lease->call.state != PLOCK__CONFIRMING;
    if (lease->call.state == PLOCK__CONFIRMING) plock__outage_end(lease);
    if (status == PLOCK_AGAIN && asks && plock__outage_too_long(lease, interest))
        status = last_step(lease, &answer, interest);
    lease->waits = status == PLOCK_AGAIN;
    if (lease->waits) return PLOCK_AGAIN;
    if (lease->waiter && plock_status_unreachable(status) && !plock__call_left(&lease->call))
        return unreached(lease);
    plock_grant grant = {.asked_at = lease->call.left_at};
    plock_place place = {.ticket = lease->ticket, .free_in = PLOCK_NEVER};
    if (!status) plock__outage_end(lease);
    if (!status) status = plock__read_acquired(answer, &grant, &place, &lease->base.error);
    if (status == PLOCK_OK || status == PLOCK_REFUSED) plock__call_finish(&lease->call);
    if (status == PLOCK_OK) stop_looking(lease);
    if (status == PLOCK_OK)
        status = plock__acquire_granted(lease, &grant);
    else if (status == PLOCK_REFUSED)
        return refused(lease, &place);
    return status ? failed(lease, status) : PLOCK_OK;
}

/* The server has granted the lease, but the replicas have not confirmed the grant in time. The
 * acquire fails, and the waiter's job takes the grant back. */
static plock_status unconfirmed(plock_redis_lease *lease) {
    return end_of_patience(
        lease, plock__fail(&lease->base.error, PLOCK_UNREPLICATED,
                           "%.80s: fewer than %u replicas confirmed the lease in time",
                           plock_config_display(lease->store->config), lease->subject.replicas));
}

static plock_status out_of_patience(plock_redis_lease *lease) {
    if (lease->phase == RESTING && plock__waiter_owing(lease->waiter).confirms)
        return unconfirmed(lease);
    const bool unanswered = lease->phase == RESTING && plock__outage_of_server(lease);
    if (unanswered) (void)plock__outage_silence(lease);
    if (!lease->base.error.status) (void)plock__fail_plainly(&lease->base.error, PLOCK_TIMED_OUT);
    return unanswered ? end_of_patience(lease, PLOCK_TIMED_OUT) : part(lease, plock_now());
}

static plock_status rest(plock_redis_lease *lease, plock_interest *interest) {
    plock_grant grant;
    plock_error error;
    plock_status status = plock__waiter_look(lease->waiter, &grant, interest, &error);
    if (status == PLOCK_AGAIN) {
        interest->deadline = lease->patience_ends;
        if (plock__outage_too_long_in_queue(lease, interest))
            return failed(lease, plock__outage_silence(lease));
        if (plock__outage_is_news(lease)) return PLOCK_TRY_FAILED;
        lease->waits = plock_now() < lease->patience_ends;
        return lease->waits ? PLOCK_AGAIN : out_of_patience(lease);
    }
    if (!status) plock__outage_end(lease);
    if (status)
        lease->base.error = error;
    else
        status = plock__acquire_granted(lease, &grant);
    return status ? failed(lease, status) : PLOCK_OK;
}

static plock_status pause_step(plock_redis_lease *lease, plock_interest *interest) {
    const plock_ns now = plock_now();
    *interest = (plock_interest){.fd = -1,
                                 .deadline = lease->resume_at < lease->patience_ends
                                                 ? lease->resume_at
                                                 : lease->patience_ends};
    lease->waits = now < interest->deadline;
    if (lease->waits) return PLOCK_AGAIN;
    if (now >= lease->patience_ends) return out_of_patience(lease);
    lease->phase = TO_TRY;
    return PLOCK_AGAIN;
}

plock_status plock__acquire_step(plock_redis_lease *lease, plock_interest *interest) {
    plock_status status;
    lease->waits = false;
    do {
        switch (lease->phase) {
        case TO_TRY:
            status = attempt(lease, plock_now());
            if (status != PLOCK_AGAIN) return plock__lease_finish(lease, status);
            break;
        case ASKING: status = listen_for_answer(lease, interest); break;
        case RESTING: status = rest(lease, interest); break;
        case PARTING: status = part_step(lease, interest); break;
        default: status = pause_step(lease, interest); break;
        }
    } while (status == PLOCK_AGAIN && !lease->waits);
    return status;
}
