#include "net/dial.h"

#include "base/failure.h"

plock_status plock__dial(plock_connection **connection, plock_config *config,
                         plock_resolver *resolver, plock_error *error) {
    struct ssl_ctx_st *tls = NULL;
    const bool secure = config->scheme == PLOCK_TLS_OVER_TCP;
    const plock_status status = secure ? plock__tls_context(&tls, config, error) : PLOCK_OK;
    if (status) return status;
    plock_transport *transport = secure ? plock__tls_transport(config, resolver, tls)
                                        : plock__socket_transport(config, resolver);
    *connection = transport ? plock__connection_new(config, transport) : NULL;
    return *connection ? PLOCK_OK : plock__fail_plainly(error, PLOCK_NO_MEMORY);
}

plock_status plock__dial_beside(plock_connection **connection, plock_config *config,
                                plock_resolver *resolver, plock_pool *pool, plock_error *error) {
    const plock_status status = plock__dial(connection, config, resolver, error);
    if (!status) plock__pool_add_beside(pool, *connection);
    return status;
}
