/* Leases of a store on Redis: how to make, acquire and adopt them. */
#ifndef PLOCK_REDIS_H
#define PLOCK_REDIS_H

#include <limits.h>

#include "plock/lease.h"
#include "plock/store.h"

#define PLOCK_LABEL_MAX 300 /* 100 bytes, each of which may be percent-encoded as three */

#define PLOCK_NO_REPLICAS UINT_MAX /* no replicas, whatever the store's option says */

typedef struct plock_acquire_options {
    plock_ns ttl; /* the time to live of the lease: PLOCK_TTL_MIN to PLOCK_TTL_MAX */
    /* how long to try; 0: one attempt. With a named owner (plock_lease_own) it must be 0. */
    plock_ns wait;
    /* With several keys: the time since the caller began with the first key, because
     * attempt_timeout counts from that moment. With a single key: 0. */
    plock_ns asking;
    /* How long the key stays taken, up to PLOCK_TTL_MAX, even if the lease is released earlier
     * (with PLOCK_KEEP_AT_LEAST). If this is longer than ttl, the lease also lasts this long. */
    plock_ns at_least;
    bool renews;       /* the worker thread renews the lease while it is held */
    plock_ns max_hold; /* renewal stops this long after the acquisition; 0: it never stops */
    bool automatic; /* Set with `renews` if the program did not ask for renewal itself. The worker
                     * thread then ignores the lease at first, because most leases are released
                     * before they need a renewal. */
    bool watched;   /* a loss is reported (plock/notice.h); `renews` without `automatic` implies
                     * this */
    /* retry even after failures that seem permanent, such as a wrong password */
    bool insists;
    bool endures; /* retry even if the server is unreachable for longer than unavailable_timeout;
                   * `insists` implies this */
    /* true: processes of the older Ruby implementation use the lock as well. They poll, so they
     * must get a chance to acquire the lock. */
    bool shares;
    /* how many replicas must confirm the lease, each extension and each renewal; 0: as many as the
     * store's option says */
    unsigned replicas;
    const char *label; /* shown in the list of holders and waiters: up to PLOCK_LABEL_MAX bytes
                        * without blanks. It must stay in memory until the operation ends. NULL: no
                        * label. */
} plock_acquire_options;

/* Makes a lease that is not held yet. The lease keeps a copy of the key, and a reference to the
 * store. Returns PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_MISUSE (empty key). */
PLOCK_MUST_USE plock_status plock_lease_new(plock_lease **lease, plock_store *store,
                                            const char *key, size_t length);

/* Names the owner of the lease. Every attempt then uses this name, unchanged, instead of a fresh
 * random token. Returns PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_MISUSE (an empty owner, or the lease is
 * held or in use). */
PLOCK_MUST_USE plock_status plock_lease_own(plock_lease *lease, const char *owner, size_t length);

/* Makes the lease acquire a share of a lock with several holders. "sN" admits N holders, "r" any
 * number, "w" one. Shares with different first letters exclude each other. Waiters are admitted in
 * FIFO order. All leases of a key must have shares, or none. Returns PLOCK_OK or PLOCK_MISUSE (no
 * such share, or the lease has a named owner, is held or is in use). */
PLOCK_MUST_USE plock_status plock_lease_share(plock_lease *lease, const char *share);

/* Begins to acquire the lease and does no I/O; plock_lease_step carries it out. Returns PLOCK_OK,
 * or PLOCK_MISUSE if the lease is held or a span is out of range. */
PLOCK_MUST_USE plock_status plock_lease_acquire(plock_lease *lease,
                                                const plock_acquire_options *patience);

/* If a release (plock_lease_release) cannot reach the server, the worker thread repeats the release
 * until the lease would have expired. It does not repeat the release of a lease with a named owner
 * (plock_lease_own).
 *
 * If the only problem is that all connections of the pool are busy, the operation ends with
 * PLOCK_OK, and the release continues in the background. If that release then fails, a notice
 * reports it (PLOCK_UNRELEASED). */

/* Begins to release, by its named owner (plock_lease_own), a lock that another lease object
 * acquired. Returns PLOCK_OK, or PLOCK_MISUSE if the lease has no named owner, is held or is in
 * use. */
PLOCK_MUST_USE plock_status plock_lease_release_owned(plock_lease *lease);

/* Begins to adopt a lease that another process left (plock_lease_leave). `left` is the lease's
 * value in that process (plock_lease_value). The lease lasts for ttl from now on. It gets a new
 * owner (that of plock_lease_own, or a fresh token) and a greater fence, so a value can be adopted
 * only once.
 *
 * Returns PLOCK_OK, PLOCK_MISUSE (as plock_lease_acquire, or an empty value), PLOCK_NO_MEMORY or
 * PLOCK_CRYPTO. The operation ends with PLOCK_OK, PLOCK_NOT_OWNER or a failure. The operation uses
 * these options: ttl (or at_least, if that is longer), renews, automatic, max_hold, watched and
 * replicas. If the answer is lost, and the new owner is a fresh token, the worker thread releases
 * the lock, which this owner may hold. */
PLOCK_MUST_USE plock_status plock_lease_adopt(plock_lease *lease, const char *left, size_t length,
                                              const plock_acquire_options *patience);

/* Returns the share that the lease asks for (after a downgrade: the share that it has), or "" if it
 * has no share. */
const char *plock_lease_shares(const plock_lease *lease);

#endif
