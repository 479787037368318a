/* Busy polling: to look for an answer again and again before sleeping. A server on the same host
 * answers sooner than a thread falls asleep and wakes. The price is processor time. So no wait
 * polls for longer than the sleep would cost on a virtual machine (Karlin, Li, Manasse and Owicki,
 * "Empirical studies of competitive spinning for a shared-memory multiprocessor", 1991). If the
 * answers do not come so soon, fewer and fewer waits poll; and none does while more threads want to
 * run than there are processors. */
#ifndef PLOCK__BUSY_POLL_H
#define PLOCK__BUSY_POLL_H

#include <stdbool.h>

/* How soon answers have come so far. Begins with zeros. */
typedef struct plock__answers {
    unsigned skipping; /* so many of the next waits do not poll */
    unsigned skipped;  /* so many did not after the last one that polled; 0: its answer came */
} plock__answers;

/* Calls `look` until it returns true, or it is better to sleep. Returns whether it returned true.
 */
bool plock__busy_poll(plock__answers *answers, bool (*look)(void *), void *context);

#ifdef PLOCK_TESTING
/* Returns how many threads of this machine run or want to, this one included; 0: unknown. */
long plock__running_threads(void);
/* From now on there are so many; negative: as many as there are. */
void plock__pretend_running_threads(long count);
#endif

#endif
