/* The attendant of a map, for the files that use its fields. */
#ifndef PLOCK__LOCAL_ATTENDANT_H
#define PLOCK__LOCAL_ATTENDANT_H

#include "local/local_lease.h"

typedef struct plock__local_death_watch plock__local_death_watch;

struct plock__local_attendant {
    plock_job job; /* first, so that the job has the attendant's address */
    plock__local_map *map;
    unsigned generation;
    /* Only the job uses this field and the next one. */
    plock_ns reviews_at; /* When the attendant next reviews all registered leases. */
    bool cannot_hear;    /* A watch for the ends of all processes could not be begun. */

    /* Protected by the mutex. */
    plock_ns some_ended_at; /* When a descriptor last reported that a process may have ended. */
    plock_ns looks_at;      /* When the next step is due. It may then have nothing to do. */
    plock__local_death_watch *watches[PLOCK__LOCAL_PROCESSES]; /* by place */
    /* The leases that depend on several watches, or on none. When any watched process ends, the
     * attendant looks on behalf of all of them. */
    plock_local_lease *told_by_several;
};

/* --- local_registered.c; with the mutex held --- */

/* How often the attendant reviews the leases. */
extern const plock_ns PLOCK__LOCAL_IN_ANY_CASE;

/* Sets when the attendant next looks on behalf of the lease. 0: in the attendant's next step. Does
 * nothing if the lease is not registered. */
void plock__local_look_at(plock_local_lease *lease, plock_ns at);

/* Makes sure that the attendant's next step is at this time or earlier. */
void plock__local_attend_by(plock__local_attendant *attendant, plock_ns at);

/* Moves the first registered lease to the end of the list, and returns it; NULL: no lease is
 * registered. */
plock_local_lease *plock__local_rotate(plock__local_map *map);

/* Applies a change of the claim to the lease. The map must be readable. */
void plock__local_examine(plock_local_lease *lease);

/* Call this function when the lease's claim has ended. A waiter then ends its wait, and a holder's
 * job finds the loss. */
void plock__local_remove_waiter(plock_local_lease *lease);

#ifdef PLOCK_TESTING
/* Returns how many leases attendants have looked at or examined since the last call. */
unsigned long plock__local_visited(void);
void plock__local_visit(void);
#else
#define plock__local_visit() ((void)0)
#endif

/* --- local_deaths.c --- */

/* Does a watch notify the attendant when this process ends? Call with the mutex held. */
bool plock__local_watches(const plock__local_attendant *attendant, uint64_t process);

/* Begins to watch for the end of any process, unless that watch exists. As long as this function
 * returns false, the attendant itself must check whether processes have ended. */
PLOCK_MUST_USE bool plock__local_watch_all(plock__local_attendant *attendant, plock_ns now);

/* Begins to watch for the end of one process. Returns false if the attendant itself must check
 * whether this process has ended. */
PLOCK_MUST_USE bool plock__local_watch_process(plock__local_attendant *attendant, uint64_t process,
                                               plock_ns now);

/* Makes the attendant look on behalf of the lease when a watch reports the end of a process that is
 * in the outlook. plock__local_tell_no_more takes this back. Call with the mutex held. */
void plock__local_tell(plock__local_attendant *attendant, plock_local_lease *lease,
                       const plock__local_outlook *outlook);
void plock__local_tell_no_more(plock_local_lease *lease);

/* Ends all watches, because the attendant is about to be freed. Call with the mutex held. */
void plock__local_end_watches(plock__local_attendant *attendant);

#endif
