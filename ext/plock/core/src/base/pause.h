/* Pauses between two looks at a lock whose holder publishes no release, and between two attempts to
 * reach a store after a failure. */
#ifndef PLOCK__PAUSE_H
#define PLOCK__PAUSE_H

#include "plock/clock.h"

/* Both functions return the next pause. They take the number of pauses so far, and add jitter so
 * that waiters do not act at the same time. free_in: the time until the lock can be free, or
 * PLOCK_NEVER if that is unknown. left: how much longer the waiter will wait. */
plock_ns plock__pause_before_looking(unsigned pauses, plock_ns free_in, plock_ns left);
plock_ns plock__pause_before_trying(unsigned pauses);

/* Returns the pause between two attempts in the background. Such attempts continue until the server
 * is back, for hours if necessary. */
plock_ns plock__pause_in_background(unsigned pauses);

#endif
