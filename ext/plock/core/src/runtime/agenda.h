/* The agenda: the jobs that the worker thread has, those that are due and the others. A job that
 * rests costs nothing until its moment comes or it is scheduled. All functions require the lock. */
#ifndef PLOCK__AGENDA_H
#define PLOCK__AGENDA_H

#include "base/heap.h"
#include "runtime/worker.h"

/* Jobs in order. */
typedef struct plock__job_list {
    plock_job *first, *last;
} plock__job_list;

void plock__jobs_append(plock__job_list *list, plock_job *job);
/* Moves all jobs of `from` to the end of `to`. */
void plock__jobs_append_all(plock__job_list *to, plock__job_list *from);
/* Removes the first job, and returns it; NULL: the list is empty. */
plock_job *plock__jobs_pop(plock__job_list *list);

typedef struct plock__agenda {
    plock__job_list due;
    plock__heap resting;
    plock_job *checked; /* the jobs with an `idle` function */
    unsigned count;     /* of all jobs */
    unsigned due_count;
    unsigned busy; /* the jobs without such a function */
} plock__agenda;

/* Takes over new jobs, all due, and empties the list. */
void plock__agenda_take(plock__agenda *agenda, plock__job_list *jobs);

/* Makes a resting job due. A job that is being stepped will be stepped once more. */
void plock__agenda_schedule(plock__agenda *agenda, plock_job *job);

/* Returns the next job to step; NULL: there is none now. *due: how many of the due jobs this round
 * still steps. A job whose moment has come by `now` is stepped, too. */
plock_job *plock__agenda_next(plock__agenda *agenda, unsigned *due, plock_ns now);

/* The job has been stepped, and rests until the moment. If that is not after `now`, the job is due
 * in the next round. */
void plock__agenda_rest(plock__agenda *agenda, plock_job *job, plock_ns moment, plock_ns now);

/* The job, which has just been stepped, has ended. */
void plock__agenda_drop(plock__agenda *agenda, plock_job *job);

/* Removes any job, and returns it; NULL: there is none. Once this has been called, no job of the
 * agenda is stepped any more, until this has returned NULL. */
plock_job *plock__agenda_empty(plock__agenda *agenda);

/* Moves all jobs of `from` to `to`, in a few instructions, for plock__agenda_empty. */
void plock__agenda_put_away(plock__agenda *to, plock__agenda *from);

/* Returns when the next job must be stepped, 0 if one is due, PLOCK_NEVER if none will be. */
plock_ns plock__agenda_when(const plock__agenda *agenda);

/* Returns for how long all jobs may wait without a step; 0: not at all. */
plock_ns plock__agenda_idle(const plock__agenda *agenda);

#ifdef PLOCK_TESTING
/* Returns how often the worker thread or a follower has looked at a job since the last call. */
unsigned long plock__jobs_visited(void);
void plock__job_visit(void);
#else
#define plock__job_visit() ((void)0)
#endif

#endif
