/* Declarations that waiter.c, waiter_job.c and waiter_leave.c share. */
#ifndef PLOCK__WAITER_PARTS_H
#define PLOCK__WAITER_PARTS_H

#include "redis/wait_queue.h"

/* --- waiter.c --- */

plock_waiter *plock__waiter_new(plock_node *node, size_t key_length);

/* Drops one reference to the waiter. Must not be called with the mutex held. */
void plock__waiter_release(plock_waiter *waiter);

/* Does the waiter belong to the process from which this one was forked? */
bool plock__waiter_inherited(const plock_waiter *waiter);

/* Changes the waiter's state. No other function may change it. Call with the mutex held. In the
 * tests of the core, a transition that is not in the table in waiter.h fails an assertion. */
void plock__waiter_become(plock_waiter *waiter, enum plock_waiter_state state);

/* Call these functions with the mutex held. The first two take the waiter out of its wait queue. If
 * the wait queue is then empty, they return it, and the caller must free it. Otherwise they return
 * NULL. */
plock_wait_queue *plock__waiter_leave_queue(plock_waiter *waiter);
plock_wait_queue *plock__waiter_served(plock_waiter *waiter, const plock_grant *grant);
void plock__waiter_refused(plock_waiter *waiter, const plock_place *place);

/* Called before the waiter asks again. Notes in `checks` whether the waiter asks because the server
 * has lost another waiter. */
void plock__waiter_checks_if_shaken(plock_waiter *waiter);

/* --- waiter_leave.c --- */

/* Ends the wait of a waiter that has given up and has no request under way. Call this function with
 * the engine's mutex held. Returns true if the waiter may still be in the server's queue, or hold
 * the lock there. In that case the caller must release the engine's mutex, and then call
 * plock__waiter_leave. */
bool plock__waiter_depart(plock_waiter *waiter);
void plock__waiter_leave(plock_waiter *waiter);

/* Marks the waiter as parted, and wakes its thread. The waiter is out of the queue, or the attempt
 * to leave has failed. Call with the mutex held, because the woken thread gives the waker back as
 * soon as it sees the new state. */
void plock__waiter_say_parted(plock_waiter *waiter);

/* --- waiter_job.c --- */

plock_status plock__waiter_step(plock_job *job, plock_interest *interest);
void plock__waiter_put_down(plock_job *job);

#endif
