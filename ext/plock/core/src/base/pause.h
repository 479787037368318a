/* How long to wait before looking again at a lock whose holder will not tell when it is free, or
 * trying again where the store failed. */
#ifndef PLOCK__PAUSE_H
#define PLOCK__PAUSE_H

#include "plock/clock.h"

/* Both take how many pauses there have been, and are jittered so that waiters do not march in step.
 * free_in: until the lock can be free, PLOCK_NEVER where that is not known; left: of the patience.
 */
plock_ns plock__pause_before_looking(unsigned pauses, plock_ns free_in, plock_ns left);
plock_ns plock__pause_before_trying(unsigned pauses);

/* The same for what goes on as long as the server is away, for hours where need be. */
plock_ns plock__pause_in_background(unsigned pauses);

#endif
