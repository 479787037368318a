/* This process: its lock, its fork generation, who it is. */
#ifndef PLOCK__PROCESS_H
#define PLOCK__PROCESS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* One mutex for all shared lists of the engine. It is held for some instructions at a time, never
 * across a wait, a system call that may block, or a call into another library; being only one, it
 * is easily carried across fork(). */
void plock__enter(void);
void plock__leave(void);

/* Around what changes leases, connections and pools, on any thread: a fork waits until nobody is in
 * between, so that the child finds them whole. Never nested, never across a wait, and not with the
 * lock held. */
void plock__begin_step(void);
void plock__end_step(void);

/* Grows by one in each forked child. What was made in another generation is the parent's and is not
 * ours to use. */
unsigned plock__generation(void);

/* Registers a handler that each forked child calls, with the lock held: it closes descriptors and
 * forgets threads. The runtime registers its handlers first, then each kind of store does when the
 * first one is opened. Not with the lock held. pthread_atfork also catches the forks that bypass
 * Ruby's Process._fork, such as daemon(3). */
typedef void (*plock__child_handler)(void);
void plock__on_fork(plock__child_handler handler);
int plock__watch_forks(void); /* 0 or an errno */

/* The system's number of the calling thread. */
uint64_t plock__thread_number(void);

enum { PLOCK__IDENTITY_MAX = 128 };

/* "host pid thread" of the calling thread, for the owner record; host has no blanks. Shorter than
 * PLOCK__IDENTITY_MAX, good until the thread asks again. */
const char *plock__identity(size_t *length);

/* A thread that takes no signals (they belong to the host program's threads). 0 or an errno. */
int plock__start_thread(pthread_t *thread, void *(*body)(void *), void *argument);

/* Names the calling thread, as ps -L and gdb show it. At most 15 characters. */
void plock__name_thread(const char *name);

#endif
