/* Makes connections to the nodes of a store, to sentinels, and to any other server that must answer
 * a question. */
#ifndef PLOCK__DIAL_H
#define PLOCK__DIAL_H

#include "net/pool.h"

/* Makes a connection that is not open yet, and is in no pool. `config` says how to connect. Returns
 * PLOCK_OK, PLOCK_BAD_CONFIG (TLS files) or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__dial(plock_connection **connection, plock_config *config,
                                        plock_resolver *resolver, plock_error *error);

/* Makes a connection as plock__dial does, and adds it to the pool, beyond the pool's limit. */
PLOCK_MUST_USE plock_status plock__dial_beside(plock_connection **connection, plock_config *config,
                                               plock_resolver *resolver, plock_pool *pool,
                                               plock_error *error);

#endif
