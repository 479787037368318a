/* The worker thread: a native thread that runs the jobs of the engine, from the first job to the
 * last.
 *
 * While all jobs are idle, the worker thread parks: it sleeps for as long as all of these jobs may
 * wait. A thread of the program that waits for a job may listen in its place, as a follower
 * (plock_await). If none comes for a second, the worker thread listens itself until something
 * happens. The leader is the thread that runs the jobs at the moment. */
#ifndef PLOCK__WORKER_H
#define PLOCK__WORKER_H

#include "base/heap.h"
#include "plock/interest.h"
#include "plock/status.h"
#include "plock/waker.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct plock_job plock_job;

/* The state of a job. */
enum plock__job_progress {
    PLOCK__JOB_OUT, /* it is not in the agenda (agenda.h) */
    PLOCK__JOB_DUE,
    PLOCK__JOB_STEPPED, /* it is being stepped */
    PLOCK__JOB_RESTS    /* it waits for its moment, or until it is scheduled */
};

struct plock_job {
    /* Any result but PLOCK_AGAIN means that the job is done. */
    plock_status (*step)(plock_job *, plock_interest *);
    void (*destroy)(plock_job *);
    /* Returns how long the job may wait without a step. 0, or no function, means that it may not
     * wait. Called with the mutex held. */
    plock_ns (*idle)(const plock_job *);
    bool lingers; /* A drain does not wait for the job, which ends only when nothing needs it any
                     more. */
    bool ready;   /* poll(2) has just reported the descriptor that the job waits for. */

    /* The mutex protects these fields. Only worker.c and agenda.c use them. */
    enum plock__job_progress progress;
    unsigned generation;
    plock_job *next, *previous;                 /* links of the list that the job is in */
    plock_job *next_checked, *previous_checked; /* links of the jobs with an `idle` function */
    plock__heap_entry moment;                   /* used while the job rests */

    /* Only for the leader: the index of the job's descriptor among the polled ones (round.c). 0:
     * the job has no descriptor. PLACES: no place or descriptor was left for the job. */
    unsigned place;
};

/* The `idle` function of a job that a follower can step just as well as the worker thread. */
plock_ns plock__job_idles(const plock_job *job);

/* Hands the job to the worker thread, which destroys the job when it is done. If no thread can be
 * started, destroys the job at once. Must not be called with the mutex held. */
void plock__worker_submit(plock_job *job);

/* Makes the worker thread step a submitted job soon. Must be called with the mutex held, so that
 * the job cannot end first. */
void plock__worker_schedule(plock_job *job);

/* Returns the job that this thread is stepping, or NULL if it steps none. */
plock_job *plock__worker_stepping(void);

/* Wakes the waker, unless this thread itself waits for it, as a follower, and will notice. */
void plock__worker_wake(plock_waker *waker);

/* Waits until the jobs that do not linger are done, or until the deadline. */
void plock__worker_await(plock_ns deadline);
/* Waits as plock__worker_await does, and then ends the worker thread. */
void plock__worker_drain(plock_ns deadline);

void plock__worker_in_child(void);

#endif
