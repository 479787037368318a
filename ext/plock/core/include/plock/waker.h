/* A waker: one thread waits for it, in plock_await or in poll(2) at its descriptor, and any
 * other thread can wake it. */
#ifndef PLOCK_WAKER_H
#define PLOCK_WAKER_H

#include <stdbool.h>

typedef struct plock_waker plock_waker;

/* One that is silent, from the store of unused ones or new. It has no descriptor yet. NULL with
 * errno ENOMEM where there is no memory. */
plock_waker *plock_waker_take(void);

/* Clears it, takes its descriptor away and puts it back. NULL is allowed. */
void plock_waker_give(plock_waker *waker);

/* The descriptor to poll for POLLIN, opened at the first call. -1 with errno where none is
 * left. A plain thread needs none: plock_await sleeps without it. */
int plock_waker_descriptor(plock_waker *waker);

/* A signal handler may wake it, in the very thread that waits for it. Where the system has no
 * futex it gets a descriptor for that, if there is one left: a handler must not meet its own
 * thread's mutex. */
void plock_waker_expect_signals(plock_waker *waker);

/* From any thread. Waking twice is waking once. */
void plock_waker_wake(plock_waker *waker);

/* Makes it silent again; call it when poll reported the descriptor. True if it had been woken. */
bool plock_waker_clear(plock_waker *waker);

#endif
