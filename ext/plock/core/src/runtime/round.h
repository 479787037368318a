/* One round of the worker thread, or of a follower in its place: it steps the jobs that are due,
 * and waits until others are. */
#ifndef PLOCK__ROUND_H
#define PLOCK__ROUND_H

#include "runtime/worker.h"

#include <poll.h>

/* One place is for the leader's waker. A job for which no place is left is stepped at short
 * intervals. */
enum { PLOCK__PLACES = 257 };

typedef struct plock__round {
    struct pollfd polled[PLOCK__PLACES];
    unsigned count; /* 0: nothing has been polled */
} plock__round;

/* Steps the jobs that are due. A job that is done leaves the list, and `end` ends it. */
void plock__round_step(const plock__round *round, plock_job **jobs, void (*end)(plock_job *));

/* Collects the descriptors that the jobs wait for. Returns the time at which the first job is due,
 * `deadline` at the latest. */
plock_ns plock__round_gather(plock__round *round, plock_job *jobs, plock_waker *leader_waker,
                             plock_ns deadline);

/* Waits for these descriptors until the deadline. Returns the result of poll(2). */
int plock__round_wait(plock__round *round, plock_waker *leader_waker, plock_ns deadline);

/* Waits for the interest's descriptor, in a thread that is not the leader. Returns
 * PLOCK_INTERRUPTED if a signal came or `interrupt` (NULL: none) was woken, otherwise PLOCK_OK. */
plock_status plock__await_descriptor(const plock_interest *interest, plock_waker *interrupt);

#endif
