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
    bool heard;       /* the attendant was woken, and has not looked since */
    bool cannot_hear; /* no descriptor can notify it when any process ends */

    /* Under the lock. */
    bool all_look;
    plock_ns some_ended_at; /* when it was last notified that a process may have ended */
    plock_ns looks_at;      /* when it looks next, which may be too early */
    plock__local_death_watch *watches;
};

/* --- local_deaths.c --- */

/* Is there a watch that notifies the attendant when this process ends? With the lock held. */
bool plock__local_watches(const plock__local_attendant *attendant, uint64_t process);

/* Begins to watch for the end of any process. Returns false as long as the attendant has to look
 * for ends itself. */
PLOCK_MUST_USE bool plock__local_watch_all(plock__local_attendant *attendant, plock_ns now);

/* The same for one process. */
PLOCK_MUST_USE bool plock__local_watch_process(plock__local_attendant *attendant, uint64_t process,
                                               plock_ns now);

/* The attendant is about to be freed. With the lock held. */
void plock__local_end_watches(plock__local_attendant *attendant);

#endif
