/* What a lease says of itself without asking. */
#include "redis/lease.h"

#include "base/process.h"

static plock_ns valid_until(const plock_lease *lease, bool *lost) {
    return lease->watch ? plock__watch_valid_until(lease->watch, lost) : lease->valid_until;
}

bool plock_lease_inherited(const plock_lease *lease) {
    return lease->generation != plock__generation();
}

bool plock_lease_held(const plock_lease *lease) {
    return lease->held && !plock_lease_inherited(lease);
}

bool plock_lease_valid(const plock_lease *lease) {
    bool lost = false;
    return lease->held && !plock_lease_inherited(lease) && plock_now() < valid_until(lease, &lost) && !lost;
}

bool plock_lease_lost(const plock_lease *lease) {
    bool lost = lease->lost;
    return lost || (lease->held && (plock_now() >= valid_until(lease, &lost) || lost));
}

bool plock_lease_contended(const plock_lease *lease) {
    return lease->contended;
}

plock_ns plock_lease_waited(const plock_lease *lease) {
    return lease->waited;
}

uint64_t plock_lease_id(const plock_lease *lease) {
    return lease->id;
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

const char *plock_lease_value(const plock_lease *lease, size_t *length) {
    *length = lease->subject.owner.value.length;
    return *length ? lease->subject.owner.value.bytes : "";
}

const char *plock_lease_shares(const plock_lease *lease) {
    return lease->subject.share;
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
    bool lost;
    return valid_until(lease, &lost);
}

const plock_error *plock_lease_error(const plock_lease *lease) {
    return &lease->error;
}
