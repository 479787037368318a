/* This process: its lock, its fork generation, its identity. */
#ifndef PLOCK__PROCESS_H
#define PLOCK__PROCESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The one mutex for all shared lists of the engine. A thread holds it for only a few instructions.
 * While it holds the mutex, it does not wait, make a system call that may block, or call another
 * library. Because there is only one mutex, a thread that forks needs to take only that one. */
void plock__enter(void);
void plock__leave(void);

/* Counts one reference less, under the mutex. Returns true if it was the last one. */
bool plock__drop_reference(unsigned *references);

/* A step is a change of leases, connections or pools. Every thread calls plock__begin_step before
 * each step, and plock__end_step after it. A fork waits until no thread is in a step, so that the
 * child finds the objects whole. Steps never nest, never contain a wait, and neither begin nor end
 * with the mutex held. */
void plock__begin_step(void);
void plock__end_step(void);

/* Returns the fork generation, which grows by one in each forked child. An object of another
 * generation belongs to the parent, and this process must not use it. */
unsigned plock__generation(void);

/* Registers a handler that each forked child calls, with the mutex held, to close descriptors and
 * forget threads. The runtime registers its handlers first. Each kind of store registers its own
 * handler when its first store is opened. Call plock__on_fork without the mutex. The handlers run
 * through pthread_atfork, so they also run for forks that bypass Ruby's Process._fork, such as
 * daemon(3). */
typedef void (*plock__child_handler)(void);
void plock__on_fork(plock__child_handler handler);
int plock__watch_forks(void); /* returns 0 or an errno */

/* Returns the operating system's number of the calling thread. */
uint64_t plock__thread_number(void);

enum { PLOCK__IDENTITY_MAX = 128 };

/* Returns "host pid thread" of the calling thread, for the owner record; host has no blanks. The
 * text is shorter than PLOCK__IDENTITY_MAX, and valid until the thread calls this again. */
const char *plock__identity(size_t *length);

/* Starts a thread that takes no signals, because signals are for the threads of the program.
 * Returns 0 or an errno. */
int plock__start_thread(pthread_t *thread, void *(*body)(void *), void *argument);

/* Gives the calling thread a name of at most 15 characters, which ps -L and gdb show. */
void plock__name_thread(const char *name);

#endif
