/* The states of a lease of a local store, and of its job on the worker thread. */
#ifndef PLOCK__LOCAL_STATE_H
#define PLOCK__LOCAL_STATE_H

#ifdef PLOCK_TESTING
#include <assert.h>
#endif

/* The life cycle of a lease. The state is what this process knows about the claim in the file.
 *
 * event     from                    to       what is done
 * --------  ----------------------  -------  ----------------------------------------------------
 * grant     NONE                    HELD     the claim is made, or taken over from another owner
 * queue     NONE                    WAITING  the claim is made behind others; the attendant
 *                                            registers the lease
 * turn      WAITING                 HELD     the waiter is woken
 * removal   WAITING                 REMOVED  the attendant forgets the lease; the waiter is woken
 * loss      HELD                    LOST     the job stops; if the lease is watched, a notice is
 *                                            posted
 * retry     any                     NONE     the acquire starts over, perhaps in a new file
 * end       HELD, WAITING, REMOVED  NONE     the lease is no longer a user of its map
 * reuse     LOST                    NONE     another acquire or adopt begins
 *
 * A lease is LOST if the file is gone or damaged, if another process broke the lease, or if the
 * lease expired. A release does not change LOST, so plock_lease_lost still returns true after the
 * release.
 *
 * plock__local_set_state makes every change. It runs with the mutex held, or while no other thread
 * knows the lease. */
enum plock__local_lease_state {
    PLOCK__LEASE_NONE,
    PLOCK__LEASE_WAITING,
    PLOCK__LEASE_REMOVED, /* a waiter whose claim ended before its turn */
    PLOCK__LEASE_HELD,
    PLOCK__LEASE_LOST,
    PLOCK__LEASE_STATES
};

/* The job of a lease on the worker thread. The job has states of its own: a lease may wait with a
 * new claim before the worker thread has stopped the old claim's job.
 *
 * event     from                to          what is done
 * --------  ------------------  ----------  -----------------------------------------------------
 * watch     OFF                 RENEWS      the job is submitted
 *           STOPS               RENEWS_NEXT
 * hand over OFF                 ENDS        the job is submitted
 *           RENEWS              ENDS
 *           STOPS, RENEWS_NEXT  ENDS_NEXT
 * stop      RENEWS, RENEWS_NEXT STOPS       the attendant forgets the lease
 * ended     ENDS, ENDS_NEXT     STOPS       the claim has ended
 * put down  RENEWS_NEXT         RENEWS      the job is submitted again
 *           ENDS_NEXT           ENDS        the job is submitted again
 *           any but OFF         OFF         the map and the job's reference are released; also
 *                                           after a fork, or if no thread could run the job
 *
 * Only set_job in local_watch.c changes this state, with the mutex held. */
enum plock__local_job_state {
    PLOCK__JOB_OFF,
    PLOCK__JOB_RENEWS,      /* Renews the lease, and reports its loss. */
    PLOCK__JOB_STOPS,       /* Does nothing more, and will be put down. */
    PLOCK__JOB_RENEWS_NEXT, /* Will be put down, and then renews the lease. */
    PLOCK__JOB_ENDS,        /* Ends the claim as soon as it can enter the critical section. */
    PLOCK__JOB_ENDS_NEXT,   /* Will be put down, and then ends the claim. */
    PLOCK__JOB_STATES
};

#ifdef PLOCK_TESTING
#define PLOCK__TO(state) (1U << (state))

/* The tables above: for each state, ALLOWED has the states that may follow. In addition, NONE may
 * follow itself, and so may each state of the job. */
static inline void plock__local_assert_state(enum plock__local_lease_state from,
                                             enum plock__local_lease_state to) {
    static const unsigned ALLOWED[PLOCK__LEASE_STATES] = {
        [PLOCK__LEASE_NONE] = PLOCK__TO(PLOCK__LEASE_WAITING) | PLOCK__TO(PLOCK__LEASE_HELD),
        [PLOCK__LEASE_WAITING] = PLOCK__TO(PLOCK__LEASE_NONE) | PLOCK__TO(PLOCK__LEASE_REMOVED) |
                                 PLOCK__TO(PLOCK__LEASE_HELD),
        [PLOCK__LEASE_REMOVED] = PLOCK__TO(PLOCK__LEASE_NONE),
        [PLOCK__LEASE_HELD] = PLOCK__TO(PLOCK__LEASE_NONE) | PLOCK__TO(PLOCK__LEASE_LOST),
        [PLOCK__LEASE_LOST] = PLOCK__TO(PLOCK__LEASE_NONE),
    };
    assert((from == to && to == PLOCK__LEASE_NONE) || (ALLOWED[from] & PLOCK__TO(to)));
}

static inline void plock__local_assert_job(enum plock__local_job_state from,
                                           enum plock__local_job_state to) {
    static const unsigned ALLOWED[PLOCK__JOB_STATES] = {
        [PLOCK__JOB_OFF] = PLOCK__TO(PLOCK__JOB_RENEWS) | PLOCK__TO(PLOCK__JOB_ENDS),
        [PLOCK__JOB_RENEWS] =
            PLOCK__TO(PLOCK__JOB_OFF) | PLOCK__TO(PLOCK__JOB_STOPS) | PLOCK__TO(PLOCK__JOB_ENDS),
        [PLOCK__JOB_STOPS] = PLOCK__TO(PLOCK__JOB_OFF) | PLOCK__TO(PLOCK__JOB_RENEWS_NEXT) |
                             PLOCK__TO(PLOCK__JOB_ENDS_NEXT),
        [PLOCK__JOB_RENEWS_NEXT] = PLOCK__TO(PLOCK__JOB_OFF) | PLOCK__TO(PLOCK__JOB_STOPS) |
                                   PLOCK__TO(PLOCK__JOB_RENEWS) | PLOCK__TO(PLOCK__JOB_ENDS_NEXT),
        [PLOCK__JOB_ENDS] = PLOCK__TO(PLOCK__JOB_OFF) | PLOCK__TO(PLOCK__JOB_STOPS),
        [PLOCK__JOB_ENDS_NEXT] =
            PLOCK__TO(PLOCK__JOB_OFF) | PLOCK__TO(PLOCK__JOB_STOPS) | PLOCK__TO(PLOCK__JOB_ENDS),
    };
    assert(to == from || (ALLOWED[from] & PLOCK__TO(to)));
}
#else
#define plock__local_assert_state(from, to) ((void)0)
#define plock__local_assert_job(from, to)   ((void)0)
#endif

#endif
