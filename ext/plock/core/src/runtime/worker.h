/* The worker thread: a native thread that runs the jobs of the engine. The first job starts it, and
 * it ends with the last one.
 *
 * While all jobs are idle it parks. Then a thread of the program that waits for a job may listen in
 * its place, as a follower (plock_await). If no follower comes for a second, the worker thread
 * listens itself until something happens. */
#ifndef PLOCK__WORKER_H
#define PLOCK__WORKER_H

#include "plock/interest.h"
#include "plock/status.h"
#include "plock/waker.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct plock_job plock_job;

struct plock_job {
    plock_job *next;
    plock_status (*step)(plock_job *, plock_interest *); /* any but PLOCK_AGAIN: done */
    void (*destroy)(plock_job *);
    bool lingers;            /* the job ends when no other job needs it any more, so a drain does
                              * not wait for its end */
    atomic_bool due;         /* the job must be stepped, whatever it waits for */
    bool ready;              /* poll(2) has just reported the descriptor that the job waits for */
    plock_interest interest; /* the interest that the last step returned … */
    unsigned place; /* … and the index of its descriptor among the polled ones; 0: it has none */
    /* may the job wait for a while without a step? Called with the lock held; NULL: it may not */
    bool (*idle)(const plock_job *);
};

/* Hands the job to the worker thread, which destroys it when it is done. If no thread can be
 * started, destroys it at once. Not with the lock held. */
void plock__worker_submit(plock_job *job);

/* Makes the worker thread step a submitted job soon. With the lock held, so that the job cannot end
 * in between. */
void plock__worker_schedule(plock_job *job);

/* Returns the job that this thread is stepping; NULL: none. */
plock_job *plock__worker_stepping(void);

/* Wakes the waker, unless this thread itself waits for it, as a follower. Then the thread only has
 * to look at its own wait. */
void plock__worker_wake(plock_waker *waker);

/* Waits until the jobs that do not linger are done, but not beyond the deadline … */
void plock__worker_await(plock_ns deadline);
/* … and ends the worker thread. */
void plock__worker_drain(plock_ns deadline);

void plock__worker_in_child(void);

#endif
