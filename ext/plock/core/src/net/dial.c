#include "net/dial.h"

#include "base/failure.h"

plock_status plock__dial(plock_connection **connection, const plock_config *config,
                         plock_resolver *resolver, struct ssl_ctx_st **tls, plock_pool *pool,
                         plock_error *error) {
    const bool secure = config->scheme == PLOCK_TLS_OVER_TCP;
    if (secure && !*tls) {
        const plock_status status = plock__tls_context(tls, config, error);
        if (status) return status;
    }
    plock_transport *transport = secure ? plock__tls_transport(config, resolver, *tls)
                                        : plock__socket_transport(config, resolver);
    *connection = transport ? plock__connection_new(config, transport) : NULL;
    if (!*connection) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    plock__pool_add_beside(pool, *connection);
    return PLOCK_OK;
}
