/* The event that an unfinished operation waits for. */
#ifndef PLOCK_INTEREST_H
#define PLOCK_INTEREST_H

#include <stdbool.h>

#include "plock/clock.h"
#include "plock/status.h"
#include "plock/waker.h"

typedef struct plock__parking_slot plock__parking_slot;

typedef struct plock_interest {
    int fd;       /* -1: no descriptor */
    short events; /* POLLIN or POLLOUT */
    plock_ns deadline;
    /* The wait ends when this waker is woken; only with fd -1; NULL: none. An event loop polls the
     * waker's descriptor, and then clears the waker. */
    plock_waker *waker;
    /* the worker thread does the awaited work, and plock_await may do it instead */
    bool helps;
    /* A place in shared memory where plock_await may sleep instead, and notice a wake of the waker,
     * too; NULL: none. */
    const plock__parking_slot *parking_slot;
    /* For plock_await_answer. NULL: it polls. */
    plock_status (*read_ahead)(const struct plock_interest *);
    void *source;
} plock_interest;

/* Waits for the interest. Returns PLOCK_OK when it is ready or its deadline has come, or
 * PLOCK_INTERRUPTED on a signal or when the waker `interrupt` is woken (NULL: none). If the
 * interest has a descriptor, the function calls poll(2), and `interrupt` needs a descriptor, too.
 *
 * A thread that waits for its turn may listen to the server itself, so that no other thread has to
 * wake it. The caller must hold no lock that another thread might need to proceed, such as an
 * interpreter's. */
plock_status plock_await(const plock_interest *interest, plock_waker *interrupt);

/* Waits as plock_await does, but only a signal interrupts it, and only while it sleeps. If it can,
 * it looks for the answer for a moment, and then sleeps in the read of it, which saves a system
 * call and wakes sooner than poll(2). Then it may return early with PLOCK_OK. Only the thread that
 * makes the operation's next step may call it. */
plock_status plock_await_answer(const plock_interest *interest);

/* Makes the worker thread do the awaited work. A thread that waits for an interest with `helps`
 * other than in plock_await must call this first. */
void plock_have_led(void);

#endif
