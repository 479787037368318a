/* A trailing release: it has left on a connection, and no caller waits for its answer. The answer
 * is read before that to the next request on the connection. If no request follows soon, the worker
 * thread reads it. If the connection fails before that, the release becomes a debt. */
#ifndef PLOCK__TRAILING_H
#define PLOCK__TRAILING_H

#include "redis/redis_lease.h"

/* Sends the request of a lease that no program uses any more, which it then owns. Returns PLOCK_OK,
 * or PLOCK_AGAIN if nothing was done: no connection is idle, the server may not know the script, or
 * there is no memory or thread. */
PLOCK_MUST_USE plock_status plock__trailing_begin(plock_redis_lease *lease,
                                                  const plock_request *request);

/* Waits for the answers to the trailing releases of this store (NULL: of all), but not beyond the
 * deadline. Then it closes the connections without an answer. */
void plock__trailing_settle(const plock_store *store, plock_ns deadline);

void plock__trailing_in_child(void);

#endif
