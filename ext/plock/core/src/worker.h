/* The native thread: carries on what nobody waits for any more. It is started by the first job and ends with the last. */
#ifndef PLOCK__WORKER_H
#define PLOCK__WORKER_H

#include "plock/status.h"
#include "plock/want.h"

typedef struct plock_job plock_job;

struct plock_job {
    plock_job *next;
    plock_status (*step)(plock_job *, plock_want *); /* any but PLOCK_AGAIN: done */
    void (*destroy)(plock_job *);
};

/* The job belongs to the thread now, which destroys it when it is done. If no thread can be started it is destroyed at once. */
void plock__worker_submit(plock_job *job);

void plock__worker_in_child(void);

#endif
