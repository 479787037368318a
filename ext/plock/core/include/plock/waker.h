/* A waker: one thread waits for it, in plock_await or with poll(2) on its descriptor, and any other
 * thread can wake it. */
#ifndef PLOCK_WAKER_H
#define PLOCK_WAKER_H

#include <stdbool.h>

typedef struct plock_waker plock_waker;

/* Returns a silent waker, an unused or a new one. It has no descriptor yet. NULL with errno ENOMEM:
 * no memory. */
plock_waker *plock_waker_take(void);

/* Clears it, closes its descriptor and returns it to the unused ones. NULL is allowed. */
void plock_waker_give(plock_waker *waker);

/* The descriptor to poll for POLLIN, opened at the first call. -1 with errno if none is left. A
 * plain thread needs none: plock_await sleeps without it. */
int plock_waker_descriptor(plock_waker *waker);

/* A signal handler may wake it, even in the thread that waits for it. On a system without futex the
 * waker gets a descriptor for that, if one is left: a handler must not meet its own thread's mutex.
 */
void plock_waker_expect_signals(plock_waker *waker);

/* Any thread may call it. Two wakes count as one. */
void plock_waker_wake(plock_waker *waker);

/* Makes it silent again; call it after poll(2) reported the descriptor. Returns true if it had been
 * woken. */
bool plock_waker_clear(plock_waker *waker);

#endif
