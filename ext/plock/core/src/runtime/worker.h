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
    bool lingers;            /* it ends when other jobs no longer need it, so a drain does not wait
                              * for its end */
    atomic_bool due;         /* step it, whatever it waits for */
    bool ready;              /* poll(2) has just reported the descriptor that it waits for */
    plock_interest interest; /* the interest of its last step … */
    unsigned place; /* … and the index of its descriptor in the polled ones; 0: it has none */
    /* may it wait for a while without a step? Called with the lock held; NULL: it may not */
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

/* Wakes it, unless this thread waits for it as a follower: then the thread only has to look. */
void plock__worker_wake(plock_waker *waker);

/* Waits until the jobs that do not linger are done, until the deadline at most … */
void plock__worker_await(plock_ns deadline);
/* … and ends the worker thread. */
void plock__worker_drain(plock_ns deadline);

void plock__worker_in_child(void);

#endif
