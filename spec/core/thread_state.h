/* The state that OpenSSL keeps for each thread: its error queue and its random generator. */
#ifndef THREAD_STATE_H
#define THREAD_STATE_H

#include <stdbool.h>

/* Call this before OpenSSL is first used. */
void thread_state_watch(void);

/* Frees this thread's state. Returns whether there was any, which is known only after
 * thread_state_watch. */
bool thread_state_drop(void);

#endif
