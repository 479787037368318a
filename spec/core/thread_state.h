/* What OpenSSL keeps for the thread that called it: its errors, its random generator. */
#ifndef THREAD_STATE_H
#define THREAD_STATE_H

#include <stdbool.h>

/* Before OpenSSL is first used. */
void thread_state_watch(void);

/* Drops this thread's; was there any? Known only where it is watched. */
bool thread_state_drop(void);

#endif
