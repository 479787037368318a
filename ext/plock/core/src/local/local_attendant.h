/* The attendant of a map, for the files that know it. */
#ifndef PLOCK__LOCAL_ATTENDANT_H
#define PLOCK__LOCAL_ATTENDANT_H

#include "local/local_lease.h"

typedef struct plock__local_death_watch plock__local_death_watch;

struct plock__local_attendant {
    plock_job job; /* first, so that both are one address */
    plock__local_map *map;
    unsigned generation;
    /* only the job uses these two */
    plock_ns reviews_at; /* when it goes through all registered leases next */
    bool cannot_hear;    /* no descriptor can notify it when any process ends */

    /* Under the lock. */
    plock_ns some_ended_at; /* when it was last notified that a process may have ended */
    plock_ns looks_at;      /* when it looks next, which may be too early */
    plock__local_death_watch *watches[PLOCK__LOCAL_PROCESSES]; /* by place */
    plock_local_lease *told_by_several; /* the end of any of several processes concerns these */
};

/* --- local_registered.c; with the lock held --- */

/* How often the attendant reviews the leases. */
extern const plock_ns PLOCK__LOCAL_IN_ANY_CASE;

/* Sets when the attendant looks for the lease, if it is registered; 0: in its next step. */
void plock__local_look_at(plock_local_lease *lease, plock_ns at);

/* Makes the attendant step at this time, if not earlier. */
void plock__local_attend_by(plock__local_attendant *attendant, plock_ns at);

/* Moves the first registered lease to the end, and returns it; NULL: there is none. */
plock_local_lease *plock__local_rotate(plock__local_map *map);

/* Applies the change of the claim to its lease. The map must be readable. */
void plock__local_examine(plock_local_lease *lease);

/* The claim of the lease has ended: a waiter ends its wait, and a holder's job finds the loss. */
void plock__local_remove_waiter(plock_local_lease *lease);

#ifdef PLOCK_TESTING
/* Returns how often an attendant has come to a lease since the last call. */
unsigned long plock__local_visited(void);
void plock__local_visit(void);
#else
#define plock__local_visit() ((void)0)
#endif

/* --- local_deaths.c --- */

/* Is there a watch that notifies the attendant when this process ends? With the lock held. */
bool plock__local_watches(const plock__local_attendant *attendant, uint64_t process);

/* Begins to watch for the end of any process. Returns false as long as the attendant has to look
 * for ends itself. */
PLOCK_MUST_USE bool plock__local_watch_all(plock__local_attendant *attendant, plock_ns now);

/* The same for one process. */
PLOCK_MUST_USE bool plock__local_watch_process(plock__local_attendant *attendant, uint64_t process,
                                               plock_ns now);

/* From now on the lease looks at once when a process of the outlook ends, if the attendant is
 * notified of that end. Or: it no longer does. With the lock held. */
void plock__local_tell(plock__local_attendant *attendant, plock_local_lease *lease,
                       const plock__local_outlook *outlook);
void plock__local_tell_no_more(plock_local_lease *lease);

/* The attendant is about to be freed. With the lock held. */
void plock__local_end_watches(plock__local_attendant *attendant);

#endif
