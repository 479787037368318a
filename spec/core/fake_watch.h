/* Leases that the native thread watches, on the fake's server, and the notices about them. */
#ifndef FAKE_WATCH_H
#define FAKE_WATCH_H

#include "fake_native.h"

#include <stdatomic.h>

/* What the server says to every command of this kind from now on; NULL: yes. */
extern const char *_Atomic fake_to_acquire, *_Atomic fake_to_extend, *_Atomic fake_to_check,
    *_Atomic fake_to_adopt;

/* The clock stands still, the server says yes to all, and nobody wants to hear of renewals. */
plock_store *fake_watching_store(void);

/* Acquires the lease without letting time pass. */
plock_status fake_hold(plock_lease *lease, const plock_acquire_options *patience);

/* The same for the first lease of a store; and since the channel has just been opened it is looked
 * at, once. */
void fake_watch(plock_lease *lease, const plock_acquire_options *patience);

/* The server answers, late, the n-th command that begins like this, counted from 0. */
void fake_answer(const char *beginning, unsigned nth, const char *answer);

/* Until when a lease is relied on that was asked for at this moment. */
plock_ns fake_reliable(plock_ns asked_at, plock_ns ttl);

/* Waits for a notice and checks that it is this one. */
void fake_await_notice(plock_notice_kind kind, const plock_lease *lease);

/* Checks that there is no notice, when the native thread has done all that there is to do. */
void fake_no_notice(void);

#endif
