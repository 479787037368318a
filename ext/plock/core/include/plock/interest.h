/* What an operation that is not finished waits for. */
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
    /* Until it is woken: only with fd -1. An event loop polls its descriptor, and then clears
     * it. */
    plock_waker *waker;
    /* it waits for what the native thread does, and may do that itself meanwhile: plock_await */
    bool helps;
    /* Where plock_await may sleep besides, with the waker; NULL: nowhere. */
    const plock__parking_slot *parking_slot;
} plock_interest;

/* Waits for it: PLOCK_OK when it is ready or its time has come, PLOCK_INTERRUPTED on a signal
 * or when the waker `interrupt` is woken (NULL: there is none). Only an interest with a descriptor
 * is waited for in poll(2), and needs one for the interrupt. A thread that waits in line listens to
 * the server itself meanwhile, so that its turn costs no change of threads; it must hold no lock
 * that another one might need to go on, such as an interpreter's. */
plock_status plock_await(const plock_interest *interest, plock_waker *interrupt);

/* For who waits for an interest that helps in another way. */
void plock_have_led(void);

#endif
