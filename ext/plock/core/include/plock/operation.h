/* What is under way on an object of the engine, for whoever carries it on. */
#ifndef PLOCK_OPERATION_H
#define PLOCK_OPERATION_H

#include "plock/interest.h"

typedef struct plock_operation {
    void *of;
    /* PLOCK_AGAIN with interest, or how it ended */
    plock_status (*step)(void *of, plock_interest *interest);
    void (*cancel)(void *of);                   /* gives it up */
    void (*hurry)(void *of, plock_ns deadline); /* it ends by the deadline */
} plock_operation;

/* Waits as interest says. Returns PLOCK_OK when it is ready or the deadline has come,
 * PLOCK_INTERRUPTED to stop. */
typedef plock_status (*plock_wait)(void *context, const plock_interest *interest);

/* The one loop that waits: steps and waits until the operation is done or the wait is interrupted;
 * then the caller may call it again (nothing is lost) or cancel it. Returns what the step or the
 * wait returned. */
PLOCK_MUST_USE plock_status plock_carry_on(const plock_operation *operation, plock_wait wait,
                                           void *context);

/* A plain poll(2), for programs without an event loop. context is not used. */
plock_status plock_wait_poll(void *context, const plock_interest *interest);

#endif
