/* Busy polling: a thread looks for an answer again and again before it sleeps. A server on the same
 * host answers in less time than a thread needs to fall asleep and wake. No wait polls for longer
 * than the sleep would cost on a virtual machine (Karlin, Li, Manasse and Owicki, "Empirical
 * studies of competitive spinning for a shared-memory multiprocessor", 1991). While the answers
 * take longer, fewer and fewer waits poll. None polls while waits are rare, or while more threads
 * want to run than there are processors. */
#ifndef PLOCK__BUSY_POLL_H
#define PLOCK__BUSY_POLL_H

#include <stdbool.h>

/* Tells which waits must not poll, because earlier answers came late. All fields start at 0. */
typedef struct plock__answers {
    unsigned skipping; /* how many more waits will not poll */
    unsigned skipped;  /* how many waits had to skip polling after the last poll; 0 if that poll
                        * found the answer in time */
} plock__answers;

/* Keeps calling `look` until it returns true, or until it is better to sleep. Returns true if
 * `look` did. */
bool plock__busy_poll(plock__answers *answers, bool (*look)(void *), void *context);

#ifdef PLOCK_TESTING
/* Returns how many threads of this machine run or want to run, including this one, or 0 if that is
 * unknown. */
long plock__running_threads(void);
/* Makes plock__running_threads return this count. A negative count restores the real one. */
void plock__pretend_running_threads(long count);
#endif

#endif
