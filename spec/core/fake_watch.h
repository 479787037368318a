/* Leases that the worker thread watches on the fake server, and the notices about them. */
#ifndef FAKE_WATCH_H
#define FAKE_WATCH_H

#include "fake_native.h"

#include <stdatomic.h>

/* The server's answers to all further commands of each kind. NULL: the command succeeds. */
extern const char *_Atomic fake_to_acquire, *_Atomic fake_to_extend, *_Atomic fake_to_check,
    *_Atomic fake_to_adopt;

/* Makes a store. Its clock stands still, its server grants everything, and its renewals post no
 * notices. */
plock_store *fake_watching_store(void);

/* Acquires the lease while the clock stands still. */
plock_status fake_hold(plock_lease *lease, const plock_acquire_options *patience);

/* The same as fake_hold, for the first lease of a store. This lease makes the store open its
 * channel, and plock checks the lease when the channel is open. The function waits for that
 * check. */
void fake_watch(plock_lease *lease, const plock_acquire_options *patience);

/* Answers the n-th command with this beginning, counting from 0. The server must have left that
 * command unanswered. */
void fake_answer(const char *beginning, unsigned nth, const char *answer);

/* Returns the end of a lease's validity if its request left at asked_at. */
plock_ns fake_reliable(plock_ns asked_at, plock_ns ttl);

/* Waits for the next notice, and checks its kind and its lease. */
void fake_await_notice(plock_notice_kind kind, const plock_lease *lease);

/* Checks that there is no notice after the worker thread has done all that is due. */
void fake_no_notice(void);

#endif
