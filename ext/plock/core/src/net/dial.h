/* Makes connections: to the nodes of a store, and to sentinels and any other server that is asked
 * for something. */
#ifndef PLOCK__DIAL_H
#define PLOCK__DIAL_H

#include "net/pool.h"

/* Makes a connection that is not open yet, and is in no pool. config: of that server. Returns
 * PLOCK_OK, PLOCK_BAD_CONFIG (TLS files) or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__dial(plock_connection **connection, plock_config *config,
                                        plock_resolver *resolver, plock_error *error);

/* Adds it to the pool, too, beyond its limit. */
PLOCK_MUST_USE plock_status plock__dial_beside(plock_connection **connection, plock_config *config,
                                               plock_resolver *resolver, plock_pool *pool,
                                               plock_error *error);

#endif
