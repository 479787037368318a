#ifndef PLOCK__WAKER_H
#define PLOCK__WAKER_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "plock/clock.h"
#include "plock/status.h"
#include "plock/waker.h"

/* Does the same as plock_waker_take, and opens the waker's descriptor. Returns NULL with errno if
 * no descriptor or memory is left. */
plock_waker *plock__waker_take_open(void);

/* In a forked child: closes all descriptors, because an eventfd is shared with the parent. Each
 * waker opens a new one when it needs one. */
void plock__wakers_in_child(void);

/* Keeps the waker for the next plock_waker_take. Fork handlers call this in the child, where
 * plock__wakers_in_child clears and closes all wakers. Call with the mutex held. */
void plock__waker_put_back(plock_waker *waker);

/* Does the same as plock_waker_clear, but costs only one atomic load if the waker is silent. */
void plock__waker_clear_if_woken(plock_waker *waker);

bool plock__waker_woken(const plock_waker *waker);

/* From now on, a wake of `waker` wakes the thread that waits for `to`; NULL ends this. Afterwards,
 * the caller must check whether `waker` has already been woken, and only then wait for `to`. Only
 * the thread that waits for `waker` calls this. */
void plock__waker_forward(plock_waker *waker, plock_waker *to);

/* Empties the descriptor that poll(2) reported. A woken waker stays woken. */
void plock__waker_drain(plock_waker *waker);

/* Closes the waker's descriptor, unless another thread may be about to write to it. */
void plock__waker_detach(plock_waker *waker);

/* Closes the descriptor, unless a signal handler may wake the waker. A thread calls this before it
 * waits without the descriptor. */
void plock__waker_rest(plock_waker *waker);

/* Sleeps until one of the two wakers is woken (one may be NULL) or the deadline has come. May also
 * return earlier for no reason. Returns PLOCK_INTERRUPTED if `interrupt` was woken or a signal
 * came, otherwise PLOCK_OK. Without futexes, it may sleep on after a signal, unless the waker
 * expects signals. Opens no descriptor. */
plock_status plock__waker_sleep(plock_waker *waker, plock_waker *interrupt, plock_ns deadline);

/* A nap lets a thread wait as in plock__waker_sleep, but sleep in a system call of its own choice.
 * During the nap, a wake of either waker changes the word at plock__nap_word, and wakes the futex
 * there. `seen` is the word's value at the beginning. The thread checks plock__nap_over before it
 * falls asleep. */
typedef struct plock__nap {
    plock_waker *waker, *interrupt, *sleeper;
    uint32_t seen;
} plock__nap;

void plock__nap_begin(plock__nap *nap, plock_waker *waker, plock_waker *interrupt);
bool plock__nap_over(const plock__nap *nap);
const _Atomic uint32_t *plock__nap_word(const plock__nap *nap);
/* Returns PLOCK_INTERRUPTED if `interrupt` was woken. */
PLOCK_MUST_USE plock_status plock__nap_end(plock__nap *nap);

/* Returns the time after this span on CLOCK_MONOTONIC, the clock of system calls that sleep. */
struct timespec plock__monotonic_after(plock_ns span);

#ifdef PLOCK_TESTING
long plock__unused_wakers(void);
void plock__forget_wakers(void); /* frees all wakers, none of which may be in use */
#endif

#endif
