/* What waiter.c, waiter_job.c and waiter_leave.c share. */
#ifndef PLOCK__WAITER_PARTS_H
#define PLOCK__WAITER_PARTS_H

#include "redis/wait_queue.h"

extern const plock_error PLOCK__WAITING_ENDED;

/* --- waiter.c --- */

plock_waiter *plock__waiter_new(plock_node *node, size_t key_length);

/* Gives a reference back. Not with the lock held. */
void plock__waiter_release(plock_waiter *waiter);

/* It is a waiter of the parent of this process. */
bool plock__waiter_inherited(const plock_waiter *waiter);

/* Every change of a waiter's state. With the lock held. The tests of the core end if the transition
 * is not in the table. */
void plock__waiter_become(plock_waiter *waiter, enum plock_waiter_state state);

/* All of these with the lock held. The first two return the wait queue if it is empty now: the
 * caller frees it. */
plock_wait_queue *plock__waiter_leave_queue(plock_waiter *waiter);
plock_wait_queue *plock__waiter_served(plock_waiter *waiter, const plock_grant *grant);
void plock__waiter_refused(plock_waiter *waiter, const plock_place *place);

/* The waiter asks again: is it because another one was lost from the queue? */
void plock__waiter_checks_if_shaken(plock_waiter *waiter);

/* --- waiter_leave.c --- */

/* The waiter has given up and no request of it is under way. With the lock held. True: it owes the
 * server something, so the caller passes it to plock__waiter_leave without the lock. */
bool plock__waiter_depart(plock_waiter *waiter);
void plock__waiter_leave(plock_waiter *waiter);

/* Nothing more is done about its place in the queue. With the lock held, since the caller that
 * waits for this gives the waker back as soon as it sees it. */
void plock__waiter_say_parted(plock_waiter *waiter);

/* --- waiter_job.c --- */

plock_status plock__waiter_step(plock_job *job, plock_interest *interest);
void plock__waiter_put_down(plock_job *job);

#endif
