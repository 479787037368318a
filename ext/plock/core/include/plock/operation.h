/* The functions with which a loop drives an operation. */
#ifndef PLOCK_OPERATION_H
#define PLOCK_OPERATION_H

#include "plock/interest.h"

typedef struct plock_operation {
    void *of;
    /* returns PLOCK_AGAIN with interest, or the result */
    plock_status (*step)(void *of, plock_interest *interest);
    void (*cancel)(void *of);                   /* gives the operation up */
    void (*hurry)(void *of, plock_ns deadline); /* makes the operation end by the deadline */
} plock_operation;

/* Waits for the interest. Returns PLOCK_OK when the interest is ready or its deadline has come, or
 * PLOCK_INTERRUPTED if the loop must stop. */
typedef plock_status (*plock_wait)(void *context, const plock_interest *interest);

/* Steps the operation, and waits after each step, until the operation is done or a wait is
 * interrupted. After an interrupt the operation is still under way, so the caller may call this
 * again or cancel the operation. Returns the result of the last step or wait. */
PLOCK_MUST_USE plock_status plock_carry_on(const plock_operation *operation, plock_wait wait,
                                           void *context);

/* A plock_wait for programs without an event loop. Waits in plock_await, without a waker that can
 * interrupt it. Ignores the context. */
plock_status plock_wait_poll(void *context, const plock_interest *interest);

#endif
