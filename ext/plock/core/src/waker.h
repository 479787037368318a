#ifndef PLOCK__WAKER_H
#define PLOCK__WAKER_H

#include <stdatomic.h>
#include <stdint.h>

#include "plock/waker.h"

/* In a forked child: an eventfd is shared with the parent, so every descriptor is closed; they are opened when next taken. */
void plock__wakers_in_child(void);

/* For other modules' handlers in a forked child, where the lock is held: the same as plock_waker_give. */
void plock__waker_put_back(plock_waker *waker);

/* plock_waker_hush, at the price of a load where there is nothing to hush. */
void plock__waker_hush_if_rung(plock_waker *waker);

/* For who sleeps without polling the descriptor: a word that is 0 as long as it is silent, and woken (futex) when it is rung until he gets
 * up. True: it has been rung; it is to be hushed. */
const _Atomic uint32_t *plock__waker_lie_down(plock_waker *waker);
bool plock__waker_get_up(plock_waker *waker);

#ifdef PLOCK_TESTING
void plock__forget_wakers(void); /* frees them all; none may be in use */
#endif

#endif
