/* An outage: how long an acquire waits for a server that cannot be reached, and which error the
 * acquire then reports. */
#ifndef PLOCK__OUTAGE_H
#define PLOCK__OUTAGE_H

#include "redis/redis_lease.h"

/* Each request has at least this much time, even if the caller's `wait` ends sooner. Abandoning a
 * request would cost the connection and a release in the background. */
#define PLOCK__LAST_ATTEMPT (30 * PLOCK_MILLISECOND)

/* Returns when the acquire gives up because the server does not answer. That is unavailable_timeout
 * after the server began to owe an answer, or after the last answered request was sent, whichever
 * is later. But the first attempt always has its full time. PLOCK_NEVER: the server owes no answer,
 * or the caller wants to outlast any outage (`endures`). */
plock_ns plock__outage_limit(const plock_redis_lease *lease);

/* Has the wait for the server lasted too long? A request that has just begun always gets
 * PLOCK__LAST_ATTEMPT. Also lowers the interest's deadline to the time when the acquire will give
 * up. */
bool plock__outage_too_long(const plock_redis_lease *lease, plock_interest *interest);

/* Like plock__outage_too_long, for a lease in the wait queue. First updates the lease from its
 * waiter: when the server began to owe the waiter an answer, and why it cannot be reached. */
bool plock__outage_too_long_in_queue(plock_redis_lease *lease, plock_interest *interest);

/* Does the waiter wait for the server, and not for a holder? It does if the server cannot be
 * reached, or has owed an answer for attempt_timeout. */
bool plock__outage_of_server(plock_redis_lease *lease);

/* Has another attempt to reach the server failed since the caller last received a report? False if
 * the caller wants no reports. */
bool plock__outage_is_news(plock_redis_lease *lease);

/* Notes a failed attempt. */
void plock__outage_note(plock_redis_lease *lease, plock_ns now);

/* Notes that the server has answered. */
void plock__outage_end(plock_redis_lease *lease);

/* Sets the error of a lease that the server does not answer, and returns the error's status. Keeps
 * the error of an earlier failed attempt, because that error says more. */
plock_status plock__outage_silence(plock_redis_lease *lease);

/* Adds unavailable_timeout to the message, and truncates a long message. Returns the status. */
plock_status plock__outage_give_up(plock_redis_lease *lease, plock_status status);

#endif
