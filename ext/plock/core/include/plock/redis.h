/* Leases of a store on Redis: how to begin them. */
#ifndef PLOCK_REDIS_H
#define PLOCK_REDIS_H

#include "plock/lease.h"
#include "plock/store.h"

#define PLOCK_LABEL_MAX 300 /* bytes: a hundred, percent-encoded */

typedef struct plock_acquire_options {
    plock_ns ttl; /* the time to live of the lease: PLOCK_TTL_MIN to PLOCK_TTL_MAX */
    /* how long to try; 0: one attempt, and nothing else with a named owner */
    plock_ns wait;
    plock_ns asking; /* the time that the caller has spent so far on several keys in turn.
                      * attempt_timeout counts from its beginning. */
    /* how long the key stays taken even after an earlier release, up to PLOCK_TTL_MAX; the lease
     * lasts at least as long */
    plock_ns at_least;
    bool renews;       /* the worker thread extends the lease while it is held … */
    plock_ns max_hold; /* … up to this span after its acquisition; 0: no bound */
    bool automatic; /* with renews, as the default of a block: nothing happens before the lease is
                     * older than most become. A loss is reported only if the lease is watched. */
    bool watched;   /* a loss is reported (plock/notice.h); a lease that renews is watched, too */
    /* retry even failures that seem permanent: a wrong password, a missing permission */
    bool insists;
    bool endures; /* go on even if the server is away for longer than unavailable_timeout; insists
                   * implies it */
    /* with processes of the older Ruby implementation: they poll, and get a chance to acquire */
    bool shares;
    const char *label; /* shown in the list of holders and waiters: up to PLOCK_LABEL_MAX
                        * bytes without blanks, alive until the operation ends; NULL: none */
} plock_acquire_options;

/* Copies the key and refers to the store. Returns PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_MISUSE (empty
 * key). */
PLOCK_MUST_USE plock_status plock_lease_new(plock_lease **lease, plock_store *store,
                                            const char *key, size_t length);

/* Uses this owner, unchanged, instead of a fresh random token for each attempt. Returns PLOCK_OK,
 * PLOCK_NO_MEMORY or PLOCK_MISUSE (empty, or an operation is under way). */
PLOCK_MUST_USE plock_status plock_lease_own(plock_lease *lease, const char *owner, size_t length);

/* Makes it acquire a share of a lock with several holders: "sN" admits N, "r" any number, "w" is
 * alone. Shares with different first letters exclude each other. Waiters are admitted in FIFO
 * order. A key is always shared or always exclusive. Returns PLOCK_OK or PLOCK_MISUSE (another
 * share, a lease with its own owner, or an operation is under way). */
PLOCK_MUST_USE plock_status plock_lease_share(plock_lease *lease, const char *share);

/* Begins an operation and does no I/O; plock_lease_step carries it out. Returns PLOCK_OK, or
 * PLOCK_MISUSE if the lease is held or a span is out of range. */
PLOCK_MUST_USE plock_status plock_lease_acquire(plock_lease *lease,
                                                const plock_acquire_options *patience);

/* If a release cannot reach the server, the worker thread repeats it until the lease would have
 * expired. It does not for a named owner (plock_lease_own). A release that only found no free
 * connection in time ends with PLOCK_OK; if it then fails in the background, a notice says so
 * (PLOCK_UNRELEASED). */

/* Begins a release by owner (plock_lease_own) of a lock that this object did not acquire. Returns
 * as above. */
PLOCK_MUST_USE plock_status plock_lease_release_owned(plock_lease *lease);

/* Begins to adopt, for ttl from now on, a lease that another process left (plock_lease_leave) under
 * this value (plock_lease_value). The lease gets another owner, a fresh token or that of
 * plock_lease_own, and a greater fence, so a value can be adopted only once.
 *
 * Returns as above, or PLOCK_NO_MEMORY. The operation ends with PLOCK_OK or PLOCK_NOT_OWNER. It
 * uses ttl, renews, automatic, max_hold and watched of the options. If the reply is lost, the
 * worker thread releases the lock that a fresh token may have acquired. */
PLOCK_MUST_USE plock_status plock_lease_adopt(plock_lease *lease, const char *left, size_t length,
                                              const plock_acquire_options *patience);

/* The share that the lease asks for or, after a downgrade, has; "": none. */
const char *plock_lease_shares(const plock_lease *lease);

#endif
