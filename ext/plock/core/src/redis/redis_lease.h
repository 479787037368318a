/* The struct of a lease on Redis, for redis_lease*.c, acquire.c and group.c. */
#ifndef PLOCK__REDIS_LEASE_H
#define PLOCK__REDIS_LEASE_H

#include "plock/redis.h"
#include "redis/store.h"
#include "redis/watch.h"
#include "runtime/lease.h"

typedef struct plock_redis_lease plock_redis_lease;

struct plock_redis_lease {
    plock_lease base; /* first, so that the base has the lease's address */
    plock_debt debt;  /* for a release in the background */
    plock_store *store;
    plock_node *node; /* the node that has the key */
    unsigned slot;    /* the key's slot, on a cluster */
    plock_subject subject;
    /* An acquire with a brought owner has begun, but was not granted. The same owner may have other
     * leases on the key. So a release takes back only the acquire with this lease's signature. */
    bool undoes;

    bool lost; /* the server has answered that the lease is lost */
    /* The program does not know that the release goes on in the background, so a notice reports a
     * failure. */
    bool tells;
    plock_watch *watch; /* NULL: the lease is not renewed, and its loss is not reported */
    plock_watching watching;
    plock_ns max_hold;
    plock_ns valid_until;
    plock_ns gone_by; /* by this time, the lease will have expired on the server */
    /* the key stays taken until this time, even if the lease is released earlier; 0: no such
     * time */
    plock_ns taken_until;

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
    /* until this time, an extension waits for the end of a renewal that is under way; 0: it need
     * not wait */
    plock_ns yields_until;
    plock_retry retry; /* of a release, an extension, a downgrade or an adoption */
    char *left_copy;   /* the value of the lease to adopt */

    /* The phase of an acquire, which makes attempts until the lease is held or `wait` is over.
     * RESTING: its waiter is in the wait queue, and the waiter's job sends the requests. PARTING:
     * `wait` is over, and the waiter is leaving the queue. */
    enum { TO_TRY, ASKING, RESTING, PAUSING, PARTING } phase;
    bool waits;           /* the step cannot go on now, so it returns, and the caller waits */
    plock_waiter *waiter; /* stands in the wait queue for this lease; NULL: no waiter does */
    int64_t ticket;       /* the place in the queue that an earlier attempt had; 0: none */
    plock_call call;
    /* the slot in which this lease has marked its key (acquire.c); NULL: it has no mark */
    _Atomic uint64_t *looking;
    bool reconnected; /* a closed connection was replaced; an acquire replaces only one */
    /* the server may have executed an earlier request of this acquire, whose reply was lost */
    bool doubt;
    bool patient, insists, endures, shares;
    /* failures_told: how many failures of the waiter's attempts were reported */
    unsigned pauses, failures_told;
    /* why the last attempt could not reach the server; PLOCK_OK: the attempt reached it */
    plock_status outage;
    plock_ns unanswered_since; /* when the server began to owe an answer; 0: it owes none */
    plock_ns tried_at;         /* when the last request began */
    plock_ns began_at, patience_ends, deadline, resume_at;
    char names[];
};

static inline plock_redis_lease *plock__redis_lease(plock_lease *lease) {
    return (plock_redis_lease *)(void *)lease;
}

static inline const plock_redis_lease *plock__known_redis_lease(const plock_lease *lease) {
    return (const plock_redis_lease *)(const void *)lease;
}

/* Ends the operation under way, and returns `status`. */
static inline plock_status plock__lease_finish(plock_redis_lease *lease, plock_status status) {
    lease->doing = NOTHING;
    return status;
}

/* --- redis_lease.c --- */

/* Returns NULL if memory runs out. */
plock_redis_lease *plock__lease_make(plock_store *store, plock_text key);
/* Sets the lease's node to the node that has the key now. */
void plock__lease_route(plock_redis_lease *lease);
void plock__lease_destroy(plock_redis_lease *lease);

/* Begins an operation, and forgets the error of an earlier one. */
void plock__lease_begin(plock_redis_lease *lease, enum plock__operation doing);

/* Like plock__lease_begin, for an operation after which this lease may hold the lock. */
void plock__lease_begin_afresh(plock_redis_lease *lease, enum plock__operation doing,
                               const plock_acquire_options *patience);

bool plock__lease_reasonable(const plock_acquire_options *patience, bool brought);

/* Sets the dates of a lease after a request has granted or extended the lease. asked_at: when that
 * request was sent. */
void plock__lease_date(plock_redis_lease *lease, plock_ns asked_at, plock_ns now);

/* Returns how long an acquire asks for the lock: for its `wait`, but at least for the time of one
 * attempt. */
plock_ns plock__lease_attempt(const plock_store *store, const plock_acquire_options *patience);

PLOCK_MUST_USE plock_status plock__lease_prepare_watch(plock_redis_lease *lease);
void plock__lease_start_watch(plock_redis_lease *lease);
void plock__lease_drop_watch(plock_redis_lease *lease);

/* --- redis_lease_release.c --- */

/* Makes the request that takes back an acquire that the server may have executed. If the token is
 * fresh, this request is a release, because no other acquire uses the token. */
plock_request plock__lease_undo_request(plock_redis_lease *lease);

/* For a lease that the program continues to use. A copy of the lease tries to release the lock
 * until the lease has expired on the server. If a release would also free a newer lease of the same
 * brought owner, the copy gives up after release_timeout. tells: a notice reports a failure.
 * Returns false if there is no memory for the copy. The lock then stays held until the lease
 * expires. */
bool plock__lease_release_in_background(const plock_redis_lease *lease, bool tells);

/* For a lease that the program has freed. The lease itself tries to release the lock, as the copy
 * of plock__lease_release_in_background does, and is then destroyed. */
void plock__lease_hand_over(plock_redis_lease *lease);

/* May a release that failed with this status go on in the background? */
bool plock__lease_carries_on(const plock_redis_lease *lease, plock_status status);

PLOCK_MUST_USE plock_status plock__lease_release(plock_lease *base, plock_ns keep);
/* Ends a release whose retry has ended with this status. Returns the result of the operation. So do
 * plock__lease_extended, plock__lease_downgraded and plock__lease_adopted. */
PLOCK_MUST_USE plock_status plock__lease_released(plock_redis_lease *lease, plock_status status);
PLOCK_MUST_USE plock_status plock__lease_release_trailing(plock_lease *base, plock_ns keep);
void plock__lease_let_go(plock_lease *base, plock_ns keep);

/* --- redis_lease_change.c --- */

PLOCK_MUST_USE plock_status plock__lease_extend(plock_lease *base, plock_ns ttl);
/* Must the extension wait for a renewal under way that has a longer TTL? If the server executed the
 * renewal after the extension, the lease would last longer than the extension says. */
bool plock__lease_yields_to_renewal(plock_redis_lease *lease, plock_interest *interest);
PLOCK_MUST_USE plock_status plock__lease_extended(plock_redis_lease *lease, plock_status status);
/* Ends an extension that has failed or was cancelled. doubt: the server may have executed the
 * extension, or may still execute it. */
void plock__lease_doubt_extension(plock_redis_lease *lease, bool doubt);

PLOCK_MUST_USE plock_status plock__lease_downgrade(plock_lease *base);
PLOCK_MUST_USE plock_status plock__lease_downgraded(plock_redis_lease *lease, plock_status status);
/* Ends a downgrade. doubt: the server may have executed the downgrade, or may still execute it. In
 * doubt, the lease counts as a read lock, because the server may have admitted readers. */
void plock__lease_doubt_downgrade(plock_redis_lease *lease, bool doubt);

PLOCK_MUST_USE plock_status plock__lease_adopted(plock_redis_lease *lease, plock_status status);
void plock__lease_give_up_adopting(plock_redis_lease *lease);

/* --- acquire.c --- */

PLOCK_MUST_USE plock_status plock__acquire_step(plock_redis_lease *lease, plock_interest *interest);

/* Prepares an attempt: makes a watch if the lease needs one, and a fresh token or, for a brought
 * owner, a signature. */
PLOCK_MUST_USE plock_status plock__acquire_prepare(plock_redis_lease *lease);

/* Marks the lease as held, because the server has granted it. Returns PLOCK_SILENT if the lease has
 * already expired. */
PLOCK_MUST_USE plock_status plock__acquire_granted(plock_redis_lease *lease,
                                                   const plock_grant *grant);

/* Ends the attempt without the lock. If the request has no answer yet, an undo follows on the same
 * connection. doubt: the server may have granted the lock, so a release follows on another
 * connection. */
void plock__acquire_give_up(plock_redis_lease *lease, bool doubt);

/* Has the lease itself, and not its waiter's job, sent a request? */
bool plock__acquire_asked(const plock_redis_lease *lease);

#endif
