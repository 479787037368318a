/* A trailing release: its request was sent, and no caller waits for the answer. The next user of
 * the connection reads that answer first. If the connection has no other user soon, the worker
 * thread reads the answer. If the connection fails first, the release becomes a debt. */
#ifndef PLOCK__TRAILING_H
#define PLOCK__TRAILING_H

#include "redis/redis_lease.h"

/* Sends the request that releases the lease, which the program no longer uses. Returns PLOCK_OK if
 * it has taken over the lease. Returns PLOCK_AGAIN if nothing was done, because no connection is
 * idle, the server may not know the script, memory runs out, or no thread can be started. */
PLOCK_MUST_USE plock_status plock__trailing_begin(plock_redis_lease *lease,
                                                  const plock_request *request);

/* Waits for the answers to the trailing releases of this store; NULL: of all stores. At the
 * deadline, closes the connections that have no answer yet. */
void plock__trailing_settle(const plock_store *store, plock_ns deadline);

void plock__trailing_in_child(void);

#endif
