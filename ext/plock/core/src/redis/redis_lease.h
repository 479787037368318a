/* The struct of a lease on Redis, for redis_lease*.c, acquire.c and group.c. */
#ifndef PLOCK__REDIS_LEASE_H
#define PLOCK__REDIS_LEASE_H

#include "plock/redis.h"
#include "redis/store.h"
#include "redis/watch.h"
#include "runtime/lease.h"

typedef struct plock_redis_lease plock_redis_lease;

struct plock_redis_lease {
    plock_lease base; /* first, so that both are one address */
    plock_debt debt;  /* for a release in the background */
    plock_store *store;
    plock_node *node; /* that has the key */
    plock_subject subject;
    /* its release takes back one acquire by an owner that was brought, not other leases of the
     * owner */
    bool undoes;

    bool lost; /* the server said so */
    /* its program does not know that the release goes on in the background: a notice reports a
     * failure */
    bool tells;
    plock_watch *watch; /* NULL: the lease is not renewed, and its loss is not reported */
    bool watched, renews, automatic, told; /* automatic, told: as in plock_watching */
    plock_ns max_hold;
    plock_ns valid_until;
    plock_ns gone_by;     /* it has expired on the server by then */
    plock_ns taken_until; /* the key stays taken until then, even if it is released before */

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
    /* until then an extension lets a renewal under way go first */
    plock_ns yields_until;
    plock_retry retry; /* a release's, an extension's, an adoption's */
    plock_text left;   /* the value of the lease that is adopted */
    char *left_copy;

    /* Of an acquire: attempts, until the lease holds or patience ends. It rests in the wait queue
     * until it is called; it parts when patience is over, until it is out of the queue. */
    enum { TO_TRY, ASKING, RESTING, PAUSING, PARTING } phase;
    bool waits;           /* the step can only wait now */
    plock_waiter *waiter; /* its place in the wait queue; NULL: none */
    int64_t ticket;       /* the place in the queue that an earlier attempt had */
    plock_call call;
    /* the mark that this key has been asked for; NULL: the lease has set none */
    _Atomic uint64_t *looking;
    bool reconnected; /* a connection found closed has been replaced, once */
    /* an earlier request of a brought owner may have been carried out, and its reply was lost */
    bool doubt;
    bool patient, insists, endures, shares;
    unsigned pauses;
    /* Why the last attempt could not reach the server; PLOCK_OK: it could. */
    plock_status outage;
    plock_ns unanswered_since; /* the server owes it an answer since then; 0: it does not */
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

/* The operation under way is over. */
static inline plock_status plock__lease_finish(plock_redis_lease *lease, plock_status status) {
    lease->doing = NOTHING;
    return status;
}

/* --- redis_lease.c --- */

/* NULL: there is no memory. */
plock_redis_lease *plock__lease_make(plock_store *store, plock_text key);
void plock__lease_destroy(plock_redis_lease *lease);

/* An operation begins: the error of an earlier one is forgotten. */
void plock__lease_begin(plock_redis_lease *lease, enum plock__operation doing);

/* The same for an operation that may make this lease the holder. */
void plock__lease_begin_afresh(plock_redis_lease *lease, enum plock__operation doing,
                               const plock_acquire_options *patience);

bool plock__lease_reasonable(const plock_acquire_options *patience, bool brought);

/* A request that left at `asked_at` has granted or extended it. */
void plock__lease_date(plock_redis_lease *lease, plock_ns asked_at, plock_ns now);

/* The time to ask for the lock: the patience, but one attempt at least. */
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

/* A new attempt: with another owner, and with a watch if the lease needs one. */
PLOCK_MUST_USE plock_status plock__acquire_prepare(plock_redis_lease *lease);

/* The server has granted it. PLOCK_SILENT: it has already expired. */
PLOCK_MUST_USE plock_status plock__acquire_granted(plock_redis_lease *lease,
                                                   const plock_grant *grant);

/* The attempt ends without the lock. If the server may have granted it, an undo follows on the same
 * connection, and another one on another connection. `again`: the same owner asks again at once,
 * and its request says so. */
void plock__acquire_give_up(plock_redis_lease *lease, bool doubt, bool again);

/* Has the attempt's own request left for the server? */
bool plock__acquire_asked(const plock_redis_lease *lease);

#endif
