/* Busy polling: a thread looks for an answer again and again before it sleeps. A server on the same
 * host answers sooner than a thread falls asleep and wakes. The price is processor time. So no wait
 * polls for longer than the sleep would cost on a virtual machine (Karlin, Li, Manasse and Owicki,
 * "Empirical studies of competitive spinning for a shared-memory multiprocessor", 1991). If the
 * answers come later than that, fewer and fewer waits poll. No wait polls while more threads want
 * to run than there are processors. */
#ifndef PLOCK__BUSY_POLL_H
#define PLOCK__BUSY_POLL_H

#include <stdbool.h>

/* Remembers how soon the answers have come so far. Begins with zeros. */
typedef struct plock__answers {
    unsigned skipping; /* how many of the next waits will not poll */
    unsigned skipped;  /* how many waits skip polling after the last wait that polled; 0 if the
                        * answer to that wait came in time */
} plock__answers;

/* Calls `look` until it returns true or until sleep is better. Returns true if `look` did. */
bool plock__busy_poll(plock__answers *answers, bool (*look)(void *), void *context);

#ifdef PLOCK_TESTING
/* Returns how many threads of this machine run or want to run, including this one, or 0 if that is
 * unknown. */
long plock__running_threads(void);
/* Makes plock__running_threads return this count. A negative count restores the real one. */
void plock__pretend_running_threads(long count);
#endif

#endif
