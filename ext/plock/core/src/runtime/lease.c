#include "runtime/lease.h"

#include "base/process.h"
#include "runtime/notice.h"

#include <stdatomic.h>

uint64_t plock__lease_number(void) {
    static atomic_ulong last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

void plock__lease_forget_error(plock_lease *lease) {
    lease->error.status = PLOCK_OK;
    *lease->error.message = 0;
}

plock_status plock__lease_free_to_begin(const plock_lease *lease) {
    if (!plock_lease_held(lease)) return PLOCK_MISUSE;
    return lease->kind->busy(lease) ? PLOCK_IN_USE : PLOCK_OK;
}

bool plock__is_ttl(plock_ns ttl) { return ttl >= PLOCK_TTL_MIN && ttl <= PLOCK_TTL_MAX; }

/* --- operations --- */

plock_status plock_lease_release(plock_lease *lease, plock_ns keep) {
    return lease->kind->release(lease, keep);
}

plock_status plock_lease_extend(plock_lease *lease, plock_ns ttl) {
    return lease->kind->extend(lease, ttl);
}

plock_status plock_lease_downgrade(plock_lease *lease) { return lease->kind->downgrade(lease); }

plock_status plock_lease_leave(plock_lease *lease) { return lease->kind->leave(lease); }

plock_status plock_lease_step(plock_lease *lease, plock_interest *interest) {
    plock__begin_step();
    const plock_status status = lease->kind->step(lease, interest);
    plock__end_step();
    return status;
}

void plock_lease_hurry(plock_lease *lease, plock_ns deadline) {
    lease->kind->hurry(lease, deadline);
}

void plock_lease_cancel(plock_lease *lease) {
    plock__begin_step();
    lease->kind->cancel(lease);
    plock__end_step();
}

void plock_lease_let_go(plock_lease *lease, plock_ns keep) {
    if (!plock_lease_held(lease)) return;
    plock__begin_step();
    lease->kind->let_go(lease, keep);
    plock__end_step();
}

plock_status plock_lease_release_trailing(plock_lease *lease, plock_ns keep) {
    if (!lease->kind->release_trailing) return PLOCK_AGAIN;
    plock__begin_step();
    const plock_status status = lease->kind->release_trailing(lease, keep);
    plock__end_step();
    return status;
}

plock_ns plock_lease_budget(const plock_lease *lease, bool releases) {
    return lease->kind->budget(lease, releases);
}

void plock_lease_free(plock_lease *lease) {
    if (!lease) return;
    plock__begin_step();
    lease->kind->free(lease);
    plock__end_step();
}

void plock_lease_abandon(plock_lease *lease) {
    if (lease && plock_lease_held(lease))
        plock__notice_post(plock_lease_valid(lease) ? PLOCK_ABANDONED : PLOCK_EXPIRED, lease->id,
                           lease->key, lease->fence, 0);
    plock_lease_free(lease);
}

static plock_status step_any(void *lease, plock_interest *interest) {
    return plock_lease_step(lease, interest);
}

static void cancel_any(void *lease) { plock_lease_cancel(lease); }

static void hurry_any(void *lease, plock_ns deadline) { plock_lease_hurry(lease, deadline); }

plock_operation plock_lease_operation(plock_lease *lease) {
    return (plock_operation){
        .of = lease, .step = step_any, .cancel = cancel_any, .hurry = hurry_any};
}

plock_status plock_drive(plock_lease *lease, plock_wait wait, void *context) {
    const plock_operation operation = plock_lease_operation(lease);
    return plock_carry_on(&operation, wait, context);
}

static bool is_busy(const void *lease) {
    return plock_lease_held(lease) && ((const plock_lease *)lease)->kind->busy(lease);
}

plock_place_in_turn plock_lease_turn(plock_lease *lease) {
    return (plock_place_in_turn){.line = plock_lease_inherited(lease) ? NULL : &lease->turns,
                                 .lease = lease,
                                 .busy = is_busy};
}

/* --- the lease's state, without I/O --- */

bool plock_lease_valid(const plock_lease *lease) {
    return plock_lease_held(lease) && lease->kind->valid(lease);
}

bool plock_lease_held(const plock_lease *lease) {
    return lease->held && !plock_lease_inherited(lease);
}

bool plock_lease_lost(const plock_lease *lease) { return lease->kind->lost(lease); }

bool plock_lease_contended(const plock_lease *lease) { return lease->contended; }

bool plock_lease_inherited(const plock_lease *lease) {
    return lease->generation != plock__generation();
}

uint64_t plock_lease_id(const plock_lease *lease) { return lease->id; }

int64_t plock_lease_fence(const plock_lease *lease) { return lease->fence; }

plock_ns plock_lease_ttl(const plock_lease *lease) { return lease->ttl; }

plock_ns plock_lease_waited(const plock_lease *lease) { return lease->waited; }

plock_ns plock_lease_acquired_at(const plock_lease *lease) { return lease->acquired_at; }

plock_ns plock_lease_valid_until(const plock_lease *lease) {
    return lease->kind->valid_until(lease);
}

static const char *bytes_of(plock_text text, size_t *length) {
    *length = text.length;
    return text.bytes ? text.bytes : "";
}

const char *plock_lease_key(const plock_lease *lease, size_t *length) {
    return bytes_of(lease->key, length);
}

const char *plock_lease_owner(const plock_lease *lease, size_t *length) {
    return bytes_of(lease->kind->owner(lease), length);
}

const char *plock_lease_value(const plock_lease *lease, size_t *length) {
    return bytes_of(lease->kind->value(lease), length);
}

char plock_lease_mode(const plock_lease *lease) { return lease->kind->mode(lease); }

const plock_error *plock_lease_error(const plock_lease *lease) { return &lease->error; }
