/* A waker: a descriptor that one thread waits on, in poll(2) beside others, and any other thread can ring. */
#ifndef PLOCK_WAKER_H
#define PLOCK_WAKER_H

#include <stdbool.h>

typedef struct plock_waker plock_waker;

/* One that is silent, from the store of unused ones or new. NULL with errno where there is no descriptor or memory. */
plock_waker *plock_waker_take(void);

/* Hushes it and puts it back. NULL is allowed. */
void plock_waker_give(plock_waker *waker);

/* The descriptor to poll for POLLIN. */
int plock_waker_descriptor(const plock_waker *waker);

/* From any thread. Ringing twice is ringing once. */
void plock_waker_ring(plock_waker *waker);

/* Makes it silent again; call it when poll reported the descriptor. True if it had been rung. */
bool plock_waker_hush(plock_waker *waker);

#endif
