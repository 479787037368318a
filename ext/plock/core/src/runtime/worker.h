/* The worker thread: it carries on the jobs that no thread of the program drives. It starts with
 * the first job and ends with the last.
 *
 * While all jobs are idle it parks. Then a thread of the program that waits for a job may drive in
 * its place, as a follower (plock_await). If none comes for a second, the worker thread listens
 * itself until something happens. */
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
    bool lingers;            /* it ends when others need it no more: no drain waits for it */
    atomic_bool due;         /* it must be stepped, whatever it waits for */
    bool ready;              /* its descriptor is, as poll(2) said right before this step */
    plock_interest interest; /* only the leader uses it: the result of the last step … */
    unsigned place;          /* … and the place of its descriptor in the round; 0: it has none */
    /* can it wait for a while without a step? Called with the lock held; NULL: it cannot */
    bool (*idle)(const plock_job *);
};

/* Hands the job to the worker thread, which destroys it when it is done. If no thread can be
 * started, the job is destroyed at once. Not with the lock held. */
void plock__worker_submit(plock_job *job);

/* Has a submitted job stepped soon. The lock must be held, so that the job cannot end before that.
 */
void plock__worker_schedule(plock_job *job);

/* The job that the calling thread steps; NULL: none. */
plock_job *plock__worker_stepping(void);

/* Wakes it. If the calling thread waits for it as a follower, the thread looks instead. */
void plock__worker_wake(plock_waker *waker);

/* Waits until the jobs that do not linger are done, until the deadline at most … */
void plock__worker_await(plock_ns deadline);
/* … and ends the worker thread. */
void plock__worker_drain(plock_ns deadline);

void plock__worker_in_child(void);

#endif
