/* Makes connections to servers that are not the store's own nodes: sentinels, and any node of a
 * cluster that is asked for the map of its slots. */
#ifndef PLOCK__DIAL_H
#define PLOCK__DIAL_H

#include "net/pool.h"

/* Makes a connection that is not open yet, beyond the pool's limit. config: of that server. *tls
 * is made if it is needed and NULL. Returns PLOCK_OK, PLOCK_BAD_CONFIG (TLS files) or
 * PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__dial(plock_connection **connection, const plock_config *config,
                                        plock_resolver *resolver, struct ssl_ctx_st **tls,
                                        plock_pool *pool, plock_error *error);

#endif
