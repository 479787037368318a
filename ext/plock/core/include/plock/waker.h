/* A waker: one thread waits for it, in plock_await or with poll(2) on its descriptor, and any other
 * thread can wake it. */
#ifndef PLOCK_WAKER_H
#define PLOCK_WAKER_H

#include <stdbool.h>

typedef struct plock_waker plock_waker;

/* Returns a silent (not woken) waker, which has no descriptor yet. Returns NULL with errno ENOMEM
 * if memory runs out. */
plock_waker *plock_waker_take(void);

/* Clears the waker, closes its descriptor, and keeps the waker for the next plock_waker_take. NULL
 * is allowed. */
void plock_waker_give(plock_waker *waker);

/* Returns the descriptor to poll for POLLIN, which the first call opens. Returns -1 with errno if
 * no descriptor is left. A thread that waits in plock_await need not call this. */
int plock_waker_descriptor(plock_waker *waker);

/* Prepares the waker to be woken by a signal handler, even in the thread that waits for it. A
 * handler must not lock a mutex that its own thread may hold. So on a system without futex, the
 * waker gets a descriptor, if one is left. */
void plock_waker_expect_signals(plock_waker *waker);

/* Any thread may call this. Two wakes without a clear in between count as one. */
void plock_waker_wake(plock_waker *waker);

/* Makes the waker silent again. Call this after poll(2) has reported the descriptor. Returns true
 * if the waker had been woken. */
bool plock_waker_clear(plock_waker *waker);

#endif
