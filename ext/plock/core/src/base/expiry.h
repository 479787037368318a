/* The moment until which a lease is valid. */
#ifndef PLOCK__TERM_H
#define PLOCK__TERM_H

#include "plock/clock.h"

/* Returns the moment until which a lease is valid that was requested at `asked_at`. It subtracts
 * the possible drift between this clock and the server's: 1 % and 2 ms (Redlock's figures,
 * https://redis.io/docs/latest/develop/use/patterns/distributed-locks). */
static inline plock_ns plock__expiry(plock_ns asked_at, plock_ns ttl) {
    static const plock_ns DRIFT_DIVISOR = 100, DRIFT_FIXED = 2 * PLOCK_MILLISECOND;
    return asked_at + ttl - ttl / DRIFT_DIVISOR - DRIFT_FIXED;
}

#endif
