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
    /* Until it is woken; only with fd -1. An event loop polls its descriptor and then clears it. */
    plock_waker *waker;
    /* the worker thread does the awaited work, and plock_await may do it instead */
    bool helps;
    /* A second place where plock_await may sleep, with the waker; NULL: none. */
    const plock__parking_slot *parking_slot;
} plock_interest;

/* Waits for the interest. Returns PLOCK_OK when it is ready or its deadline has come, or
 * PLOCK_INTERRUPTED on a signal or when the waker `interrupt` is woken (NULL: none). Only an
 * interest with a descriptor is waited for in poll(2), and needs a descriptor for the interrupt.
 *
 * A thread in the wait queue listens to the server itself, so that its turn costs no change of
 * threads. It must hold no lock that another thread might need to proceed, such as an
 * interpreter's. */
plock_status plock_await(const plock_interest *interest, plock_waker *interrupt);

/* For a thread that waits for an interest that helps, but not in plock_await. */
void plock_have_led(void);

#endif
