/* The native thread: carries on what no thread of the program does. It is started by the first job
 * and ends with the last.
 *
 * While nothing but idle jobs is there it parks, and a thread of the program that waits for a job
 * anyway may drive in its place, as a follower (plock_await). Where none comes for a second it
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
    bool lingers;            /* it ends when others need it no more, so nobody waits for its end */
    atomic_bool due;         /* to be stepped, whatever it waits for */
    bool ready;              /* what it waited for is, as poll(2) said right before this step */
    plock_interest interest; /* the thread's: what the last step said … */
    unsigned place; /* … and where its descriptor stands in what is polled; 0: it has none */
    /* would nothing be lost if it were not stepped for a while? Asked with the lock held; NULL:
     * something would */
    bool (*idle)(const plock_job *);
};

/* The job belongs to the thread now, which destroys it when it is done. If no thread can be started
 * it is destroyed at once. Not with the lock held. */
void plock__worker_submit(plock_job *job);

/* Has a job that was submitted, and is not done, stepped soon. With the lock held, so that it
 * cannot end meanwhile. */
void plock__worker_schedule(plock_job *job);

/* The job that this thread is just stepping; NULL: none. */
plock_job *plock__worker_stepping(void);

/* Wakes it, unless it is what this thread waits for as a follower: then it has only to look. */
void plock__worker_wake(plock_waker *waker);

/* Waits until the jobs that do not linger are done, at most until the deadline … */
void plock__worker_await(plock_ns deadline);
/* … and ends the thread. */
void plock__worker_drain(plock_ns deadline);

void plock__worker_in_child(void);

#endif
