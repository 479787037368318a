#include "plock/lease.h"

#include "exchange.h"
#include "failure.h"
#include "memory.h"
#include "pause.h"
#include "process.h"
#include "request.h"
#include "worker.h"

#include <string.h>

/* What a lease is dated back by, for clocks that run differently here and on the server: 1 % and 2 ms (Redlock's figures,
 * https://redis.io/docs/latest/develop/use/patterns/distributed-locks). */
static const plock_ns DRIFT_DIVISOR = 100, DRIFT_FIXED = 2 * PLOCK_MILLISECOND;

/* An attempt that begins shortly before the patience ends may take this much longer: cutting it off would cost the
 * connection and a release in the background. */
static const plock_ns LAST_ATTEMPT = 30 * PLOCK_MILLISECOND;

struct plock_lease {
    plock_job job; /* for a release in the background; first, so that job and lease are one address */
    plock_store *store;
    plock_subject subject;
    bool undoes; /* its release is to take back one acquire by an owner that was brought, not what that owner has otherwise */

    unsigned generation; /* of the process that acquired it */
    bool held, letting_go; /* letting_go: the native thread has begun to release it */
    int64_t fence;
    plock_ns ttl, acquired_at, valid_until;
    plock_ns gone_by; /* the server has let go of it by then, if nobody did so before */

    enum operation { NOTHING, ACQUIRING, RELEASING, EXTENDING } doing;
    bool pausing, reconnected; /* reconnected: a connection found closed has been replaced, once for each operation */
    bool doubt;                /* an earlier request of this operation may have been carried out, and its reply was lost */
    unsigned pauses;
    plock_ns patience_ends, deadline, resume_at, new_ttl;
    bool patient, insists;
    plock_exchange exchange;
    plock_error error;
    char names[]; /* key and companion */
};

/* --- life --- */

static plock_status begin(plock_lease *lease, enum operation doing, plock_ns now, plock_ns budget);
static plock_status step(plock_lease *lease, plock_want *want);
static plock_request undo_request(const plock_lease *lease);

/* An acquire that is given up is taken back behind itself. */
static void abandon_exchange(plock_lease *lease) {
    const plock_request undo = undo_request(lease);
    plock__exchange_cancel(&lease->exchange, lease->doing == ACQUIRING ? &undo : NULL);
}

static void cancel_exchange(plock_lease *lease) {
    abandon_exchange(lease);
    lease->doing = NOTHING;
}

/* The lease as a job of the native thread: whatever was under way is broken off, and what it has is released. */
static plock_status background_step(plock_job *job, plock_want *want) {
    plock_lease *lease = (plock_lease *)(void *)job;
    if (!lease->letting_go) {
        cancel_exchange(lease);
        lease->letting_go = true;
        const plock_status status = begin(lease, RELEASING, plock_now(), lease->store->config->release_timeout);
        if (status) return status;
    }
    return step(lease, want);
}

static void background_destroy(plock_job *job) {
    plock_lease *lease = (plock_lease *)(void *)job;
    cancel_exchange(lease);
    plock__store_release(lease->store);
    plock__owner_clear(&lease->subject.owner);
    plock__free(lease);
}

plock_status plock_lease_new(plock_lease **out, plock_store *store, const char *key, size_t length) {
    static const char BEFORE[] = "plock:1:{", AFTER[] = "}:fence";
    *out = NULL;
    if (length == 0) return PLOCK_MISUSE;
    const size_t around = sizeof BEFORE - 1 + sizeof AFTER - 1;
    plock_lease *lease = plock__allocate(sizeof *lease + 2 * length + around);
    if (!lease) return PLOCK_NO_MEMORY;
    char *to = lease->names;
    memcpy(to, key, length);
    lease->subject.key = plock__text(to, length);
    to += length;
    lease->subject.companion = plock__text(to, length + around);
    memcpy(to, BEFORE, sizeof BEFORE - 1);
    memcpy(to + sizeof BEFORE - 1, key, length);
    memcpy(to + sizeof BEFORE - 1 + length, AFTER, sizeof AFTER - 1);
    lease->store = plock__store_retain(store);
    lease->generation = plock__generation();
    lease->job = (plock_job){NULL, background_step, background_destroy};
    *out = lease;
    return PLOCK_OK;
}

plock_status plock_lease_own(plock_lease *lease, const char *owner, size_t length) {
    return lease->doing || lease->held ? PLOCK_MISUSE : plock__owner_bring(&lease->subject.owner, plock__text(owner, length));
}

/* May this lease have something on the server that is this process's to release? */
static bool owes_release(const plock_lease *lease) {
    if (lease->generation != plock__generation()) return false;
    if (lease->held) return plock_now() < lease->gone_by;
    if (lease->doing == RELEASING) return true;
    /* An acquire that pauses between two attempts has nothing there. */
    return lease->doing == ACQUIRING && lease->exchange.state != PLOCK__EXCHANGE_NONE && plock__exchange_left(&lease->exchange);
}

/* For a lease that goes on: a copy of it does the releasing. Where there is no memory for one, the time to live ends the lock. */
static void release_in_background(const plock_lease *lease) {
    plock_lease *copy;
    if (plock_lease_new(&copy, lease->store, lease->subject.key.bytes, lease->subject.key.length)) return;
    copy->undoes = lease->undoes;
    if (plock__owner_copy(&copy->subject.owner, &lease->subject.owner)) background_destroy(&copy->job);
    else plock__worker_submit(&copy->job);
}

void plock_lease_free(plock_lease *lease) {
    if (!lease) return;
    plock__begin_step();
    if (owes_release(lease)) plock__worker_submit(&lease->job);
    else background_destroy(&lease->job);
    plock__end_step();
}

/* What takes back an acquire that may have been carried out. A fresh token is that acquire's alone. */
static plock_request undo_request(const plock_lease *lease) {
    return lease->undoes ? plock__undo_request(&lease->subject) : plock__release_request(&lease->subject);
}

/* --- dates --- */

/* Until when a lease may be relied on that was asked for at this moment. */
static plock_ns reliable(const plock_lease *lease, plock_ns asked_at) {
    return asked_at + lease->new_ttl - lease->new_ttl / DRIFT_DIVISOR - DRIFT_FIXED;
}

static void date(plock_lease *lease, plock_ns now) {
    lease->ttl = lease->new_ttl;
    lease->valid_until = reliable(lease, lease->exchange.left_at);
    lease->gone_by = now + lease->ttl;
}

/* --- answers --- */

static plock_status acquired(plock_lease *lease, int64_t fence) {
    const plock_ns now = plock_now();
    /* The machine was asleep, or this thread was kept from reading: by now it may be somebody else's. */
    if (now >= reliable(lease, lease->exchange.left_at)) return plock__fail(&lease->error, PLOCK_SILENT, "the answer came when the lease was over");
    lease->fence = fence;
    lease->acquired_at = lease->exchange.left_at;
    lease->held = true;
    lease->undoes = false;
    date(lease, now);
    return PLOCK_OK;
}

/* left: until the lock can be free, where it is refused. */
static plock_status understand(plock_lease *lease, const plock_value *answer, plock_ns *left) {
    if (lease->doing == ACQUIRING) {
        int64_t fence = 0;
        const plock_status status = plock__read_acquired(answer, &fence, left, &lease->error);
        return status ? status : acquired(lease, fence);
    }
    const plock_status status = plock__read_done(answer, &lease->error);
    /* A release that was answered to nobody is why it is not ours any more. */
    return status == PLOCK_NOT_OWNER && lease->doing == RELEASING && lease->doubt ? PLOCK_OK : status;
}

/* --- operations: attempts and pauses until it is done or too late --- */

static plock_status finish(plock_lease *lease, plock_status status) {
    lease->doing = NOTHING;
    return status;
}

/* A token that may have reached the server in a request without an answer is never used again: that request could still
 * be carried out after a release. */
static plock_status renew_owner(plock_lease *lease) {
    if (!lease->subject.owner.brought) {
        const plock_status status = plock__owner_renew(&lease->subject.owner, lease->store->config->encoding);
        return status ? plock__fail_plainly(&lease->error, status) : PLOCK_OK;
    }
    if (!lease->undoes) plock__owner_number(&lease->subject.owner); /* one for all attempts: any of them may be the one to undo */
    lease->undoes = true;
    return PLOCK_OK;
}

static plock_status attempt(plock_lease *lease, plock_ns now) {
    plock_request request;
    plock_ns deadline = lease->deadline;
    switch (lease->doing) {
    case ACQUIRING: {
        const plock_status status = renew_owner(lease);
        if (status) return status;
        request = plock__acquire_request(&lease->subject, lease->new_ttl, lease->subject.owner.brought && lease->doubt);
        if (deadline < now + LAST_ATTEMPT) deadline = now + LAST_ATTEMPT;
        break;
    }
    case EXTENDING:
        request = plock__extend_request(&lease->subject, lease->new_ttl);
        if (lease->valid_until > reliable(lease, now)) lease->valid_until = reliable(lease, now); /* it may shorten it, answered or not */
        break;
    default:
        request = undo_request(lease);
        deadline = now + (deadline - now) / 2; /* so that a connection that has gone silent leaves time for another */
        break;
    }
    lease->pausing = false;
    plock__exchange_begin(&lease->exchange, lease->store, &request, deadline);
    return PLOCK_OK;
}

static plock_status pause_for(plock_lease *lease, plock_ns now, plock_ns span) {
    lease->pauses++;
    lease->pausing = true;
    lease->resume_at = now + span;
    return PLOCK_AGAIN;
}

/* The attempt has failed: PLOCK_AGAIN to go on at once or after a pause, TRY_FAILED to say so first, or the end. */
static plock_status failed(plock_lease *lease, plock_status status) {
    const bool acquiring = lease->doing == ACQUIRING;
    const bool doubt = plock__exchange_left(&lease->exchange) && plock_status_leaves_doubt(status);
    abandon_exchange(lease);
    lease->doubt = lease->doubt || doubt;
    const plock_ns now = plock_now();
    if (lease->doing == EXTENDING && doubt && lease->gone_by < now + lease->new_ttl) lease->gone_by = now + lease->new_ttl;
    /* The server closed an idle connection: that is nobody's failure. */
    const bool reconnects = status == PLOCK_DISCONNECTED && lease->exchange.reused && !lease->reconnected && now < lease->deadline;
    /* Not where the same owner asks again at once, and says so. */
    if (acquiring && doubt && !(reconnects && lease->subject.owner.brought)) release_in_background(lease);
    if (reconnects) {
        lease->reconnected = true;
        const plock_status begun = attempt(lease, now);
        return begun ? finish(lease, begun) : PLOCK_AGAIN;
    }
    const bool again = (plock_status_retries(status) || (acquiring && lease->insists)) && !(acquiring && lease->subject.owner.brought);
    if (!again || now >= (acquiring ? lease->patience_ends : lease->deadline)) return finish(lease, status);
    (void)pause_for(lease, now, plock__pause_before_trying(lease->pauses));
    return acquiring ? PLOCK_TRY_FAILED : PLOCK_AGAIN;
}

static plock_status answered(plock_lease *lease, const plock_value *answer) {
    plock_ns left = PLOCK_NEVER;
    const plock_status status = understand(lease, answer, &left);
    if (status == PLOCK_SILENT || status == PLOCK_PROTOCOL) return failed(lease, status);
    plock__exchange_finish(&lease->exchange);
    if (status == PLOCK_REFUSED) {
        const plock_ns now = plock_now(), remaining = lease->patience_ends - now;
        if (remaining > 0) return pause_for(lease, now, plock__pause_before_looking(lease->pauses, left, remaining));
        return finish(lease, plock__fail_plainly(&lease->error, lease->patient ? PLOCK_TIMED_OUT : PLOCK_REFUSED));
    }
    if (lease->doing == EXTENDING && !status) date(lease, plock_now());
    if (lease->doing == EXTENDING && status == PLOCK_NOT_OWNER) lease->held = false;
    return finish(lease, status);
}

static plock_status step(plock_lease *lease, plock_want *want) {
    plock_status status = lease->doing ? PLOCK_AGAIN : PLOCK_MISUSE;
    if (status == PLOCK_AGAIN && lease->exchange.generation != plock__generation()) { /* the parent of this process began it */
        cancel_exchange(lease);
        return plock__fail_plainly(&lease->error, PLOCK_FORKED);
    }
    while (status == PLOCK_AGAIN) {
        if (lease->pausing) {
            const plock_ns now = plock_now();
            const plock_ns ends = lease->doing == ACQUIRING ? lease->patience_ends : lease->deadline;
            *want = (plock_want){.fd = -1, .deadline = lease->resume_at < ends ? lease->resume_at : ends};
            if (now < want->deadline) return PLOCK_AGAIN;
            if (now >= ends) {
                if (!lease->error.status) (void)plock__fail_plainly(&lease->error, PLOCK_TIMED_OUT);
                return finish(lease, lease->doing == ACQUIRING ? PLOCK_TIMED_OUT : lease->error.status);
            }
            if ((status = attempt(lease, now))) return finish(lease, status);
        }
        const plock_value *answer;
        status = plock__exchange_step(&lease->exchange, &answer, want, &lease->error);
        if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
        status = status ? failed(lease, status) : answered(lease, answer);
    }
    return status;
}

plock_status plock_lease_step(plock_lease *lease, plock_want *want) {
    plock__begin_step();
    const plock_status status = step(lease, want);
    plock__end_step();
    return status;
}

/* --- beginning and giving up --- */

static plock_status begin(plock_lease *lease, enum operation doing, plock_ns now, plock_ns budget) {
    lease->doing = doing;
    lease->reconnected = lease->doubt = false;
    lease->pauses = 0;
    lease->error.status = PLOCK_OK;
    *lease->error.message = 0;
    lease->deadline = plock_after(now, budget);
    const plock_status status = attempt(lease, now);
    return status ? finish(lease, status) : PLOCK_OK;
}

static bool is_ttl(plock_ns ttl) {
    return ttl >= PLOCK_TTL_MIN && ttl <= PLOCK_TTL_MAX;
}

plock_status plock_lease_acquire(plock_lease *lease, const plock_patience *patience) {
    if (lease->doing || lease->held || !is_ttl(patience->ttl) || patience->wait < 0) return PLOCK_MISUSE;
    plock__pool_use(&lease->store->pool);
    lease->generation = plock__generation();
    lease->undoes = false;
    lease->new_ttl = patience->ttl;
    lease->patient = patience->wait > 0;
    lease->insists = patience->insists;
    const plock_ns now = plock_now();
    lease->patience_ends = plock_after(now, patience->wait);
    const plock_ns least = lease->store->config->attempt_timeout;
    return begin(lease, ACQUIRING, now, patience->wait > least ? patience->wait : least);
}

plock_status plock_lease_release(plock_lease *lease) {
    if (lease->doing || !lease->held || plock_lease_inherited(lease)) return PLOCK_MISUSE;
    lease->held = false;
    return begin(lease, RELEASING, plock_now(), lease->store->config->release_timeout);
}

plock_status plock_lease_release_owned(plock_lease *lease) {
    if (lease->doing || lease->held || !lease->subject.owner.brought) return PLOCK_MISUSE;
    plock__pool_use(&lease->store->pool);
    lease->undoes = false;
    return begin(lease, RELEASING, plock_now(), lease->store->config->release_timeout);
}

plock_status plock_lease_extend(plock_lease *lease, plock_ns ttl) {
    if (lease->doing || !lease->held || plock_lease_inherited(lease) || !is_ttl(ttl)) return PLOCK_MISUSE;
    lease->new_ttl = ttl;
    return begin(lease, EXTENDING, plock_now(), lease->store->config->command_timeout);
}

void plock_lease_hurry(plock_lease *lease, plock_ns deadline) {
    if (deadline < lease->deadline) lease->deadline = deadline;
    if (deadline < lease->patience_ends) lease->patience_ends = deadline;
    if (deadline < lease->exchange.deadline) lease->exchange.deadline = deadline;
}

void plock_lease_cancel(plock_lease *lease) {
    plock__begin_step();
    if (owes_release(lease) && !lease->held) release_in_background(lease);
    cancel_exchange(lease);
    plock__end_step();
}

void plock_lease_leave(plock_lease *lease) {
    lease->held = false;
}

/* --- what it knows --- */

bool plock_lease_inherited(const plock_lease *lease) {
    return lease->generation != plock__generation();
}

bool plock_lease_valid(const plock_lease *lease) {
    return lease->held && !plock_lease_inherited(lease) && plock_now() < lease->valid_until;
}

const char *plock_lease_key(const plock_lease *lease, size_t *length) {
    *length = lease->subject.key.length;
    return lease->subject.key.bytes;
}

const char *plock_lease_owner(const plock_lease *lease, size_t *length) {
    const plock_text name = plock__owner_name(&lease->subject.owner);
    *length = name.length;
    return name.bytes ? name.bytes : "";
}

int64_t plock_lease_fence(const plock_lease *lease) {
    return lease->fence;
}

plock_ns plock_lease_ttl(const plock_lease *lease) {
    return lease->ttl;
}

plock_ns plock_lease_acquired_at(const plock_lease *lease) {
    return lease->acquired_at;
}

plock_ns plock_lease_valid_until(const plock_lease *lease) {
    return lease->valid_until;
}

const plock_error *plock_lease_error(const plock_lease *lease) {
    return &lease->error;
}
