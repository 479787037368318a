/* The fields of a lease on Redis, for the files that use them: redis_lease.c, acquire.c and
 * group.c.
 */
#ifndef PLOCK__REDIS_LEASE_H
#define PLOCK__REDIS_LEASE_H

#include "plock/redis.h"
#include "redis/watch.h"
#include "runtime/lease.h"

typedef struct plock_redis_lease plock_redis_lease;

struct plock_redis_lease {
    plock_lease base; /* first, so that both are one address */
    plock_debt debt;  /* for a release in the background */
    plock_store *store;
    plock_subject subject;
    /* the release undoes one acquire of a brought owner, and no other lease of that owner */
    bool undoes;

    bool lost; /* the server said so */
    /* the program does not know of the background release, so a failure posts a notice */
    bool tells;
    plock_watch *watch; /* NULL: the lease is not renewed, and its loss posts no notice */
    bool watched, renews, automatic, told; /* automatic, told: as in plock_watching */
    plock_ns max_hold;
    plock_ns valid_until;
    plock_ns gone_by;     /* the lease has expired on the server by then */
    plock_ns taken_until; /* the key stays taken until then, even after a release */

    enum plock__operation {
        NOTHING,
        ACQUIRING,
        RELEASING,
        EXTENDING,
        ADOPTING,
        DOWNGRADING,
        LEAVING
    } doing;
    plock_ns new_ttl;
    /* an extension lets a renewal under way end first, but waits no longer than this */
    plock_ns yields_until;
    plock_retry retry; /* of a release, an extension or an adoption */
    plock_text left;   /* the value of the lease that is adopted */
    char *left_copy;

    /* Acquiring: attempts, until the lock is held or the patience ends. */
    /* RESTING: in the wait queue, until called. PARTING: the patience is over, and it leaves */
    enum { TO_TRY, ASKING, RESTING, PAUSING, PARTING } phase;
    bool waits;           /* the step cannot continue before an event */
    plock_waiter *waiter; /* NULL: not in the wait queue */
    int64_t ticket;       /* of an earlier attempt, in the queue */
    plock_call call;
    /* the store's slot that notes this request for the key, or NULL */
    _Atomic uint64_t *looking;
    bool reconnected; /* a connection found closed has been replaced, once */
    /* the server may have executed an earlier request of a brought owner whose reply was lost */
    bool doubt;
    bool patient, insists, endures, shares;
    unsigned pauses;
    /* why the last attempt did not reach the server; PLOCK_OK: it did */
    plock_status outage;
    plock_ns unanswered_since; /* the server owes an answer since then; 0: it owes none */
    plock_ns tried_at;         /* when the last attempt began */
    plock_ns began_at, patience_ends, deadline, resume_at;
    char names[];
};

static inline plock_redis_lease *plock__redis_lease(plock_lease *lease) {
    return (plock_redis_lease *)(void *)lease;
}

static inline const plock_redis_lease *plock__known_redis_lease(const plock_lease *lease) {
    return (const plock_redis_lease *)(const void *)lease;
}

/* Ends the operation under way. */
static inline plock_status plock__lease_finish(plock_redis_lease *lease, plock_status status) {
    lease->doing = NOTHING;
    return status;
}

/* --- redis_lease.c --- */

/* Returns the request that undoes an acquire which the server may have executed. Only that acquire
 * has a fresh token, so a plain release undoes it. */
plock_request plock__lease_undo_request(plock_redis_lease *lease);

/* Releases in the background with a copy of the lease, until the lease has expired on the server. A
 * named owner gives up after release_timeout, because a late release would free a lock that the
 * same owner has acquired since. tells: a failure posts a notice. Returns false if there is no
 * memory for the copy; the lease then expires. */
bool plock__lease_release_in_background(const plock_redis_lease *lease, bool tells);

/* Returns true if a release with this failure may continue in the background. */
bool plock__lease_carries_on(const plock_redis_lease *lease, plock_status status);

/* Sets the dates of a lease that a request granted or extended. asked_at: when that request left.
 */
void plock__lease_date(plock_redis_lease *lease, plock_ns asked_at, plock_ns now);

/* Returns how long the acquire may take: as long as the patience, and at least one attempt. */
plock_ns plock__lease_attempt(const plock_store *store, const plock_acquire_options *patience);

PLOCK_MUST_USE plock_status plock__lease_prepare_watch(plock_redis_lease *lease);
void plock__lease_start_watch(plock_redis_lease *lease);
void plock__lease_drop_watch(plock_redis_lease *lease);

/* --- redis_lease_release.c --- */

/* Takes back an acquire that the server may have carried out. No other acquire uses a fresh token.
 */
plock_request plock__lease_undo_request(plock_redis_lease *lease);

/* For a lease that its program goes on using: a copy releases, until the lease has expired on the
 * server. For an owner that was brought it gives up after release_timeout, because a late release
 * would free a newer lease of the same owner. tells: a notice reports a failure. False: there is no
 * memory for a copy, and the lease expires. */
bool plock__lease_release_in_background(const plock_redis_lease *lease, bool tells);

/* For a lease that its program has freed: the lease itself releases, and is destroyed then. */
void plock__lease_hand_over(plock_redis_lease *lease);

/* May a release that failed with this status go on in the background? */
bool plock__lease_carries_on(const plock_redis_lease *lease, plock_status status);

PLOCK_MUST_USE plock_status plock__lease_release(plock_lease *base, plock_ns keep);
PLOCK_MUST_USE plock_status plock__lease_release_step(plock_redis_lease *lease,
                                                      plock_interest *interest);
void plock__lease_let_go(plock_lease *base, plock_ns keep);

/* --- redis_lease_change.c --- */

PLOCK_MUST_USE plock_status plock__lease_extend(plock_lease *base, plock_ns ttl);
PLOCK_MUST_USE plock_status plock__lease_extend_step(plock_redis_lease *lease,
                                                     plock_interest *interest);
/* An extension ends without success. The server may have carried it out, or may still do so. */
void plock__lease_doubt_extension(plock_redis_lease *lease, bool doubt);

PLOCK_MUST_USE plock_status plock__lease_downgrade(plock_lease *base);
PLOCK_MUST_USE plock_status plock__lease_downgrade_step(plock_redis_lease *lease,
                                                        plock_interest *interest);

PLOCK_MUST_USE plock_status plock__lease_adopt_step(plock_redis_lease *lease,
                                                    plock_interest *interest);
void plock__lease_give_up_adopting(plock_redis_lease *lease);

/* --- acquire.c --- */

PLOCK_MUST_USE plock_status plock__acquire_step(plock_redis_lease *lease, plock_interest *interest);

/* Prepares an attempt: renews the owner, and makes a watch if the lease has one. */
PLOCK_MUST_USE plock_status plock__acquire_prepare(plock_redis_lease *lease);

/* Takes over a lease that the server has granted. Returns PLOCK_SILENT if it has expired since. */
PLOCK_MUST_USE plock_status plock__acquire_granted(plock_redis_lease *lease,
                                                   const plock_grant *grant);

/* Ends the attempt without the lock. An undo is sent behind the request on the same connection. If
 * the lock may be held, a release on another connection follows. again: the same owner asks again
 * at once, with the argument 'again', so there is no release. */
void plock__acquire_give_up(plock_redis_lease *lease, bool doubt, bool again);

/* Returns true if the attempt's own request has left. */
bool plock__acquire_asked(const plock_redis_lease *lease);

#endif
