/* Time. All deadlines are absolute, in nanoseconds of a clock that keeps running while the machine
 * is suspended. */
#ifndef PLOCK_CLOCK_H
#define PLOCK_CLOCK_H

#include <stdint.h>

typedef int64_t plock_ns;

#define PLOCK_MILLISECOND ((plock_ns)1000000)
#define PLOCK_SECOND      ((plock_ns)1000000000)
#define PLOCK_NEVER       INT64_MAX

/* Reads CLOCK_BOOTTIME if the system has it, otherwise CLOCK_MONOTONIC. */
plock_ns plock_now(void);

/* For tests: replaces the clock of the whole engine. NULL restores the real clock. */
void plock_clock_replace(plock_ns (*clock)(void));

/* Returns moment + span, or PLOCK_NEVER on overflow. */
plock_ns plock_after(plock_ns moment, plock_ns span);

/* Returns the timeout for poll(2) until the deadline, in milliseconds, rounded up: 0 if the
 * deadline has passed, and -1 for PLOCK_NEVER. */
int plock_poll_timeout(plock_ns deadline);

#endif
