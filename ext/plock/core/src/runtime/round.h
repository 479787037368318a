/* One round of the leader: it steps the jobs that are due, and waits until others are. Only the
 * leader calls these functions, except for plock__await_descriptor, and never with the mutex held.
 */
#ifndef PLOCK__ROUND_H
#define PLOCK__ROUND_H

#include "runtime/agenda.h"

/* Steps the jobs that are due, each of them once. Calls `end` for each job that is done. */
void plock__round_step(plock__agenda *agenda, void (*end)(plock_job *));

/* Waits for the jobs' descriptors and for the leader's waker, until the deadline at the latest. If
 * a job's descriptor is ready, makes the job due. Returns the result of poll(2). */
int plock__round_wait(plock__agenda *agenda, plock_waker *leader_waker, plock_ns deadline);

/* Stops polling the jobs' descriptors. Called when no job is left. */
void plock__round_reset(void);

/* Waits for the interest's descriptor, in a thread that is not the leader. Returns
 * PLOCK_INTERRUPTED if a signal came or `interrupt` (NULL: no waker) was woken, otherwise
 * PLOCK_OK. */
plock_status plock__await_descriptor(const plock_interest *interest, plock_waker *interrupt);

#endif
