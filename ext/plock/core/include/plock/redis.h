/* Leases of a store on Redis: how they begin. */
#ifndef PLOCK_REDIS_H
#define PLOCK_REDIS_H

#include "plock/lease.h"
#include "plock/store.h"

#define PLOCK_LABEL_MAX 300 /* bytes: a hundred, percent-encoded */

typedef struct plock_acquire_options {
    plock_ns ttl; /* how long the lease is to last: PLOCK_TTL_MIN to PLOCK_TTL_MAX */
    /* how long to try; 0: one attempt, by an owner that was brought only that */
    plock_ns wait;
    plock_ns asking; /* for so long the caller has been asking, for several keys one after the
                      * other: the time that an attempt may take in spite of patience
                      * (attempt_timeout) counts from there */
    /* how long the key is to stay taken, even if it is released before: up to PLOCK_TTL_MAX; the
     * lease lasts as long */
    plock_ns at_least;
    bool renews;       /* the native thread extends the lease as long as it is held … */
    plock_ns max_hold; /* … and up to this span after it was acquired; 0: without a bound */
    bool automatic; /* with renews: nobody has asked for that, so nothing is done before the lease
                     * is older than most become, and its loss is told only where it is watched */
    bool watched;   /* its loss is told (plock/notice.h); what renews is watched, too */
    /* also where a failure does not look as if it would pass: a wrong password, a missing
     * permission */
    bool insists;
    bool endures; /* also where the server is away for longer than unavailable_timeout; what
                   * insists endures, too */
    /* with processes of the older Ruby implementation: they poll, and get a chance to */
    bool shares;
    const char *label; /* for people who ask who holds or waits: up to PLOCK_LABEL_MAX bytes without
                        * blanks, which live as long as the operation; NULL: none */
} plock_acquire_options;

/* Returns PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_MISUSE (empty key). Copies the key and refers to the
 * store. */
PLOCK_MUST_USE plock_status plock_lease_new(plock_lease **lease, plock_store *store,
                                            const char *key, size_t length);

/* Uses this owner instead of a fresh random token for each attempt, written to the store as it
 * stands. Returns PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_MISUSE (empty, or an operation is under way).
 */
PLOCK_MUST_USE plock_status plock_lease_own(plock_lease *lease, const char *owner, size_t length);

/* Has it ask for a share of a lock that may have several holders: "sN" lets in N, "r" any number,
 * "w" is alone; never two of which one begins otherwise. Who waits is let in in his order. A key is
 * of one kind for ever: this, or with one holder. Returns PLOCK_OK or PLOCK_MISUSE (none of these,
 * an owner was brought, or an operation is under way). */
PLOCK_MUST_USE plock_status plock_lease_share(plock_lease *lease, const char *share);

/* Begins an operation and does no I/O; plock_lease_step carries it out. Returns PLOCK_OK, or
 * PLOCK_MISUSE if the lease is held or a span is out of range. */
PLOCK_MUST_USE plock_status plock_lease_acquire(plock_lease *lease,
                                                const plock_acquire_options *patience);

/* A release that fails because the server cannot be reached goes on in the background until the
 * lease would have ended by itself; one of an owner that was named (plock_lease_own) does not.
 * Where it only found no connection of the pool in time, it ends with PLOCK_OK, and a failure in
 * the background is told (PLOCK_UNRELEASED). */

/* Begins a release by owner (plock_lease_own) of something that this lease object did not acquire.
 * Returns as above. */
PLOCK_MUST_USE plock_status plock_lease_release_owned(plock_lease *lease);

/* Begins to take over a lease that another process left (plock_lease_leave) under this value
 * (plock_lease_value), for ttl from now on. The lease gets another owner, a fresh token or the one
 * of plock_lease_own, and a greater fence: a value can be adopted once. Returns as above, and
 * PLOCK_NO_MEMORY; done, PLOCK_OK or PLOCK_NOT_OWNER. Of the patience ttl, renews, automatic,
 * max_hold and watched count. Where the reply is lost, what a fresh token may have got is released
 * in the background. */
PLOCK_MUST_USE plock_status plock_lease_adopt(plock_lease *lease, const char *left, size_t length,
                                              const plock_acquire_options *patience);

/* What the lease asks for, as it was given to plock_lease_share, or is by now; "": nothing. */
const char *plock_lease_shares(const plock_lease *lease);

#endif
