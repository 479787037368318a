/* The agenda holds the jobs of the worker thread. Each job is due, is being stepped, or rests. A
 * job that rests costs nothing until its moment comes or it is scheduled. All functions require the
 * mutex. */
#ifndef PLOCK__AGENDA_H
#define PLOCK__AGENDA_H

#include "base/heap.h"
#include "runtime/worker.h"

typedef struct plock__job_list {
    plock_job *first, *last;
} plock__job_list;

void plock__jobs_append(plock__job_list *list, plock_job *job);
/* Moves all jobs of `from` to the end of `to`. */
void plock__jobs_append_all(plock__job_list *to, plock__job_list *from);
/* Removes the first job, and returns it. Returns NULL if the list is empty. */
plock_job *plock__jobs_pop(plock__job_list *list);

typedef struct plock__agenda {
    plock__job_list due;
    plock__heap resting;
    plock_job *checked; /* the jobs with an `idle` function */
    unsigned count;     /* the number of all jobs */
    unsigned due_count;
    unsigned busy; /* the number of jobs without an `idle` function */
} plock__agenda;

/* Moves new jobs from the list into the agenda, and makes all of them due. */
void plock__agenda_take(plock__agenda *agenda, plock__job_list *jobs);

/* Makes a resting job due. A job that is being stepped will be stepped once more. */
void plock__agenda_schedule(plock__agenda *agenda, plock_job *job);

/* Returns the next job to step in this round, or NULL: first the jobs that were due when the round
 * began, of which *due are left, and then those whose moment has come by `now`. */
plock_job *plock__agenda_next(plock__agenda *agenda, unsigned *due, plock_ns now);

/* Makes a job that has been stepped rest until the moment. If the moment is not after `now`, the
 * job is due in the next round. */
void plock__agenda_rest(plock__agenda *agenda, plock_job *job, plock_ns moment, plock_ns now);

/* Removes a job whose step has just reported that the job is done. */
void plock__agenda_drop(plock__agenda *agenda, plock_job *job);

/* Removes one of the jobs and returns it, or returns NULL if none is left. The caller must repeat
 * the call until it gets NULL, and step no job before that. */
plock_job *plock__agenda_empty(plock__agenda *agenda);

/* Moves all jobs of `from` to `to` in a few instructions. Afterwards, only plock__agenda_empty may
 * use `to`. */
void plock__agenda_put_away(plock__agenda *to, plock__agenda *from);

/* Returns when a job must be stepped next: 0: now; PLOCK_NEVER: no job has a moment. */
plock_ns plock__agenda_when(const plock__agenda *agenda);

/* Returns how long all jobs may wait without a step, or 0 if some job may not wait. */
plock_ns plock__agenda_idle(const plock__agenda *agenda);

#ifdef PLOCK_TESTING
/* Returns how many times the leader has looked at a job since the last call. */
unsigned long plock__jobs_visited(void);
void plock__job_visit(void);
#else
#define plock__job_visit() ((void)0)
#endif

#endif
