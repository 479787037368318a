#ifndef PLOCK__WAKER_H
#define PLOCK__WAKER_H

#include <stdatomic.h>
#include <stdint.h>

#include "plock/clock.h"
#include "plock/status.h"
#include "plock/waker.h"

/* plock_waker_take with its descriptor open. NULL with errno: no descriptor or memory is left. */
plock_waker *plock__waker_take_open(void);

/* In a forked child: an eventfd is shared with the parent, so every descriptor is closed; they
 * are opened when next needed. */
void plock__wakers_in_child(void);

/* plock_waker_give for handlers in a forked child, with the lock held. */
void plock__waker_put_back(plock_waker *waker);

/* plock_waker_clear, which costs only a load if there is nothing to clear. */
void plock__waker_clear_if_woken(plock_waker *waker);

bool plock__waker_woken(const plock_waker *waker);

/* From now on a wake also wakes the thread that waits for `to`; NULL: no more. The caller looks
 * whether the waker has been woken after this, and before it waits for `to`. Only the thread
 * that waits for the waker calls this. */
void plock__waker_forward(plock_waker *waker, plock_waker *to);

/* Empties the descriptor, which poll(2) reported; whether the waker has been woken stays as it
 * is. */
void plock__waker_drain(plock_waker *waker);

/* Takes the descriptor away, if it has one. */
void plock__waker_detach(plock_waker *waker);

/* Its thread rests: detaches the descriptor, unless a signal handler may wake it. */
void plock__waker_rest(plock_waker *waker);

/* Sleeps until one of both is woken (either may be NULL, not both), or the deadline, or for no
 * reason: PLOCK_OK. PLOCK_INTERRUPTED: `interrupt` was woken, or a signal came. Uses no
 * descriptor. */
plock_status plock__waker_sleep(plock_waker *waker, plock_waker *interrupt, plock_ns deadline);

/* The same for a thread that sleeps in a way of its own. During a nap, a wake of either waker
 * changes the word at plock__nap_word from `seen`, and wakes the threads that sleep there (futex).
 * The caller checks plock__nap_over before it sleeps. */
typedef struct plock__nap {
    plock_waker *waker, *interrupt, *sleeper;
    uint32_t seen;
} plock__nap;

void plock__nap_begin(plock__nap *nap, plock_waker *waker, plock_waker *interrupt);
bool plock__nap_over(const plock__nap *nap);
const _Atomic uint32_t *plock__nap_word(const plock__nap *nap);
/* PLOCK_INTERRUPTED: by `interrupt`. */
PLOCK_MUST_USE plock_status plock__nap_end(plock__nap *nap);

#ifdef PLOCK_TESTING
void plock__forget_wakers(void); /* frees them all; none may be in use */
#endif

#endif
