/* Declarations that waiter.c, waiter_job.c and waiter_leave.c share. */
#ifndef PLOCK__WAITER_PARTS_H
#define PLOCK__WAITER_PARTS_H

#include "redis/wait_queue.h"

/* --- waiter.c --- */

plock_waiter *plock__waiter_new(plock_node *node, size_t key_length);

/* Gives a reference back. Not with the lock held. */
void plock__waiter_release(plock_waiter *waiter);

/* Does the waiter belong to the parent of this process? */
bool plock__waiter_inherited(const plock_waiter *waiter);

/* Changes the waiter's state; no other code does. With the lock held. In the tests of the core, a
 * transition that is not in the table (waiter.h) fails an assertion. */
void plock__waiter_become(plock_waiter *waiter, enum plock_waiter_state state);

/* These require the lock. The first two return the wait queue if it is empty now, and the caller
 * must free it. */
plock_wait_queue *plock__waiter_leave_queue(plock_waiter *waiter);
plock_wait_queue *plock__waiter_served(plock_waiter *waiter, const plock_grant *grant);
void plock__waiter_refused(plock_waiter *waiter, const plock_place *place);

/* Called before the waiter asks again. Notes whether it asks because another waiter was lost from
 * the queue. */
void plock__waiter_checks_if_shaken(plock_waiter *waiter);

/* --- waiter_leave.c --- */

/* For a waiter that has given up and has no request under way. With the lock held. Returns true if
 * something must be taken back on the server. Then the caller must release the lock and pass the
 * waiter to plock__waiter_leave. */
bool plock__waiter_depart(plock_waiter *waiter);
void plock__waiter_leave(plock_waiter *waiter);

/* Reports that the waiter has left, or that nothing more is done to leave. With the lock held,
 * because the thread that waits for this gives the waker back as soon as it sees the new state. */
void plock__waiter_say_parted(plock_waiter *waiter);

/* --- waiter_job.c --- */

plock_status plock__waiter_step(plock_job *job, plock_interest *interest);
void plock__waiter_put_down(plock_job *job);

#endif
