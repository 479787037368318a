/* The moment until which a lease is valid. */
#ifndef PLOCK__EXPIRY_H
#define PLOCK__EXPIRY_H

#include "plock/clock.h"

/* Returns the moment until which a lease that was requested at `asked_at` is valid. Subtracts 1 %
 * and 2 ms for drift between this clock and the server's clock (Redlock's figures,
 * https://redis.io/docs/latest/develop/use/patterns/distributed-locks). */
static inline plock_ns plock__expiry(plock_ns asked_at, plock_ns ttl) {
    static const plock_ns DRIFT_DIVISOR = 100, DRIFT_FIXED = 2 * PLOCK_MILLISECOND;
    return asked_at + ttl - ttl / DRIFT_DIVISOR - DRIFT_FIXED;
}

#endif
