#include "plock/lease.h"

#include "exchange.h"
#include "failure.h"
#include "memory.h"
#include "owner.h"
#include "process.h"
#include "random.h"
#include "worker.h"

#include <string.h>

/* What a lease is dated back by, for clocks that run differently here and on the server: 1 % and 2 ms (Redlock's figures,
 * https://redis.io/docs/latest/develop/use/patterns/distributed-locks). */
static const plock_ns DRIFT_DIVISOR = 100, DRIFT_FIXED = 2 * PLOCK_MILLISECOND;

/* An attempt that begins shortly before the patience ends may take this much longer: cutting it off would cost the
 * connection and a release in the background. */
static const plock_ns LAST_ATTEMPT = 30 * PLOCK_MILLISECOND;

/* Between looks at a lock that is held, and between attempts that fail: doubling from the first to the last, with jitter. */
static const plock_ns LOOK_FIRST = 4 * PLOCK_MILLISECOND, LOOK_LAST = 50 * PLOCK_MILLISECOND;
static const plock_ns FAIL_FIRST = 10 * PLOCK_MILLISECOND, FAIL_LAST = 250 * PLOCK_MILLISECOND;

struct plock_lease {
    plock_job job; /* for a release in the background; first, so that job and lease are one address */
    plock_store *store;
    plock_text key, companion;
    plock_owner owner;
    bool undoes; /* its release is to take back one acquire by an owner that was brought, not what that owner has otherwise */
    char ttl_text[24];

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
    bool patient;
    plock_exchange exchange;
    plock_error error;
    char names[]; /* key and companion */
};

/* --- life --- */

static plock_status begin(plock_lease *lease, enum operation doing, plock_ns now, plock_ns budget);
static plock_status step(plock_lease *lease, plock_want *want);
static plock_request undo_request(const plock_lease *lease);

static void cancel_exchange(plock_lease *lease) {
    const plock_request undo = undo_request(lease);
    plock__exchange_cancel(&lease->exchange, lease->doing == ACQUIRING ? &undo : NULL);
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
    plock__owner_clear(&lease->owner);
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
    lease->key = plock__text(to, length);
    to += length;
    lease->companion = plock__text(to, length + around);
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
    return lease->doing || lease->held ? PLOCK_MISUSE : plock__owner_bring(&lease->owner, plock__text(owner, length));
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
    if (plock_lease_new(&copy, lease->store, lease->key.bytes, lease->key.length)) return;
    copy->undoes = lease->undoes;
    if (plock__owner_copy(&copy->owner, &lease->owner)) background_destroy(&copy->job);
    else plock__worker_submit(&copy->job);
}

void plock_lease_free(plock_lease *lease) {
    if (!lease) return;
    plock__begin_step();
    if (owes_release(lease)) plock__worker_submit(&lease->job);
    else background_destroy(&lease->job);
    plock__end_step();
}

/* --- requests and their answers --- */

/* In milliseconds. */
static plock_text ttl_text(plock_lease *lease) {
    char *const end = lease->ttl_text + sizeof lease->ttl_text, *at = end;
    plock_ns left = lease->new_ttl / PLOCK_MILLISECOND;
    do *--at = (char)('0' + left % 10);
    while (left /= 10);
    return plock__text(at, (size_t)(end - at));
}

static plock_request acquire_request(plock_lease *lease) {
    const bool again = lease->owner.brought && lease->doubt;
    return (plock_request){PLOCK__ACQUIRE, 2, again ? 4 : 3,
                           {lease->key, lease->companion, lease->owner.value, ttl_text(lease), lease->owner.record, plock__text("again", 5)}};
}

static plock_request release_request(const plock_lease *lease) {
    return (plock_request){PLOCK__RELEASE, 1, 1, {lease->key, lease->owner.value}};
}

/* What takes back an acquire that may have been carried out. A fresh token is that acquire's alone. */
static plock_request undo_request(const plock_lease *lease) {
    return lease->undoes ? (plock_request){PLOCK__UNDO, 2, 2, {lease->key, lease->companion, lease->owner.value, lease->owner.record}} : release_request(lease);
}

static plock_request extend_request(plock_lease *lease) {
    return (plock_request){PLOCK__EXTEND, 1, 2, {lease->key, lease->owner.value, ttl_text(lease)}};
}

/* Until when a lease may be relied on that was asked for at this moment. */
static plock_ns reliable(const plock_lease *lease, plock_ns asked_at) {
    return asked_at + lease->new_ttl - lease->new_ttl / DRIFT_DIVISOR - DRIFT_FIXED;
}

/* The server may have it until this ttl from now is over. */
static void may_last(plock_lease *lease, plock_ns now) {
    if (lease->gone_by < now + lease->new_ttl) lease->gone_by = now + lease->new_ttl;
}

static void date(plock_lease *lease, plock_ns now) {
    lease->ttl = lease->new_ttl;
    lease->valid_until = reliable(lease, lease->exchange.left_at);
    lease->gone_by = now + lease->ttl;
}

static plock_status not_ours(plock_error *error) {
    return plock__fail(error, PLOCK_PROTOCOL, "an answer that none of our scripts gives");
}

/* A fence: a string of 16 digits, or somewhat more in three centuries. 0: it is none. */
static int64_t read_number(const plock_value *value) {
    if (value->type != PLOCK__STRING || value->length < 16 || value->length > 18) return 0;
    int64_t number = 0;
    for (size_t i = 0; i < value->length; i++) {
        if (value->text[i] < '0' || value->text[i] > '9') return 0;
        number = number * 10 + (value->text[i] - '0');
    }
    return number;
}

static plock_status read_acquired(plock_lease *lease, const plock_value *answer, plock_ns *left) {
    const plock_value *held = plock__element(answer, 0, PLOCK__INTEGER), *ms = plock__element(answer, 1, PLOCK__INTEGER);
    if (held && held->integer == 0 && ms) {
        *left = ms->integer > 0 && ms->integer < INT32_MAX ? ms->integer * PLOCK_MILLISECOND : PLOCK_NEVER;
        return PLOCK_REFUSED;
    }
    lease->fence = read_number(answer);
    if (!lease->fence) return not_ours(&lease->error);
    const plock_ns now = plock_now();
    /* The machine was asleep, or this thread was kept from reading: by now it may be somebody else's. */
    if (now >= reliable(lease, lease->exchange.left_at)) return plock__fail(&lease->error, PLOCK_SILENT, "the answer came when the lease was over");
    lease->acquired_at = lease->exchange.left_at;
    lease->held = true;
    lease->undoes = false;
    date(lease, now);
    return PLOCK_OK;
}

static plock_status read_ours(plock_lease *lease, const plock_value *answer) {
    if (answer->type != PLOCK__INTEGER || (answer->integer != 0 && answer->integer != 1)) return not_ours(&lease->error);
    if (answer->integer) return PLOCK_OK;
    /* A release that was answered to nobody is why it is not ours any more. */
    return lease->doing == RELEASING && lease->doubt ? PLOCK_OK : plock__fail_plainly(&lease->error, PLOCK_NOT_OWNER);
}

/* --- operations: attempts and pauses until it is done or too late --- */

static plock_status finish(plock_lease *lease, plock_status status) {
    lease->doing = NOTHING;
    return status;
}

/* A token that may have reached the server in a request without an answer is never used again: that request could still
 * be carried out after a release. */
static plock_status renew_owner(plock_lease *lease) {
    if (!lease->owner.brought) {
        const plock_status status = plock__owner_renew(&lease->owner, lease->store->config->encoding);
        return status ? plock__fail_plainly(&lease->error, status) : PLOCK_OK;
    }
    if (!lease->undoes) plock__owner_number(&lease->owner); /* one for all attempts: any of them may be the one to undo */
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
        request = acquire_request(lease);
        if (deadline < now + LAST_ATTEMPT) deadline = now + LAST_ATTEMPT;
        break;
    }
    case EXTENDING:
        request = extend_request(lease);
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

static plock_status pause_for(plock_lease *lease, plock_ns first, plock_ns last, plock_ns at_most) {
    plock_ns pause = first << (lease->pauses < 16 ? lease->pauses : 16);
    if (pause > last) pause = last;
    pause = plock__random_between(pause * 7 / 10, pause * 13 / 10);
    if (pause > at_most) pause = at_most;
    if (pause < PLOCK_MILLISECOND) pause = PLOCK_MILLISECOND;
    lease->pauses++;
    lease->pausing = true;
    lease->resume_at = plock_now() + pause;
    return PLOCK_AGAIN;
}

/* The attempt has failed: PLOCK_AGAIN to go on at once or after a pause, TRY_FAILED to say so first, or the end. */
static plock_status failed(plock_lease *lease, plock_status status) {
    const bool acquiring = lease->doing == ACQUIRING;
    const bool doubt = plock__exchange_left(&lease->exchange) && plock_status_leaves_doubt(status);
    const plock_request undo = undo_request(lease);
    plock__exchange_cancel(&lease->exchange, acquiring ? &undo : NULL);
    lease->doubt = lease->doubt || doubt;
    const plock_ns now = plock_now();
    if (lease->doing == EXTENDING && doubt) may_last(lease, now);
    /* The server closed an idle connection: that is nobody's failure. */
    const bool reconnects = status == PLOCK_DISCONNECTED && lease->exchange.reused && !lease->reconnected && now < lease->deadline;
    /* Not where the same owner asks again at once, and says so. */
    if (acquiring && doubt && !(reconnects && lease->owner.brought)) release_in_background(lease);
    if (reconnects) {
        lease->reconnected = true;
        const plock_status begun = attempt(lease, now);
        return begun ? finish(lease, begun) : PLOCK_AGAIN;
    }
    const bool again = plock_status_retries(status) && !(acquiring && lease->owner.brought);
    if (!again || now >= (acquiring ? lease->patience_ends : lease->deadline)) return finish(lease, status);
    (void)pause_for(lease, FAIL_FIRST, FAIL_LAST, PLOCK_NEVER);
    return acquiring ? PLOCK_TRY_FAILED : PLOCK_AGAIN;
}

static plock_status answered(plock_lease *lease, const plock_value *answer) {
    plock_ns left = PLOCK_NEVER;
    const plock_status status = lease->doing == ACQUIRING ? read_acquired(lease, answer, &left) : read_ours(lease, answer);
    if (status == PLOCK_SILENT || status == PLOCK_PROTOCOL) return failed(lease, status);
    plock__exchange_finish(&lease->exchange);
    if (status == PLOCK_REFUSED) {
        const plock_ns remaining = lease->patience_ends - plock_now();
        /* Look ever more often towards the end, rather than once too late. */
        if (remaining > 0) return pause_for(lease, LOOK_FIRST, LOOK_LAST, left < remaining / 2 ? left : remaining / 2);
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
    if (lease->doing || lease->held || !lease->owner.brought) return PLOCK_MISUSE;
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
    *length = lease->key.length;
    return lease->key.bytes;
}

const char *plock_lease_owner(const plock_lease *lease, size_t *length) {
    const plock_text name = plock__owner_name(&lease->owner);
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
