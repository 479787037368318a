/* A byte stream to a server: TCP, Unix socket or TLS, and a fake in the tests. Never blocks:
 * PLOCK_AGAIN comes with a want (descriptor and events; the deadline is the caller's business). */
#ifndef PLOCK__TRANSPORT_H
#define PLOCK__TRANSPORT_H

#include "net/config.h"
#include "net/resolver.h"
#include "plock/interest.h"

typedef struct plock_transport plock_transport;

typedef struct plock_transport_operations {
    /* All that comes before the first byte of the protocol; by the deadline. May set an earlier
     * deadline in want. PLOCK_OK, AGAIN, RESOLVE, CONNECT, DESCRIPTORS, DISCONNECTED, TLS,
     * TLS_VERIFY, NO_MEMORY. */
    plock_status (*connect)(plock_transport *, plock_ns deadline, plock_interest *, plock_error *);
    /* At least one byte, or AGAIN, DISCONNECTED, TLS. */
    plock_status (*read)(plock_transport *, char *, size_t, size_t *got, plock_interest *,
                         plock_error *);
    plock_status (*write)(plock_transport *, const char *, size_t, size_t *sent, plock_interest *,
                          plock_error *);
    /* That becomes readable when there is something to read; -1: only reading tells. */
    int (*descriptor)(const plock_transport *);
    /* Bytes that have left the descriptor and that read has not given out yet: poll(2) does not
     * tell of them, so read before you wait. NULL: there are never any. */
    size_t (*pending)(const plock_transport *);
    /* False if an idle connection has been closed by the other side, or has bytes that nobody asked
     * for. */
    bool (*alive)(plock_transport *);
    /* Closes the descriptor and nothing else: not a byte is sent, no memory is touched. Safe in a
     * forked child. */
    void (*abandon)(plock_transport *);
    void (*destroy)(plock_transport *);
} plock_transport_operations;

struct plock_transport {
    const plock_transport_operations *does;
};

/* TCP or Unix socket. NULL when there is no memory. */
plock_transport *plock__socket_transport(const plock_config *config, plock_resolver *resolver);

struct ssl_ctx_st;
/* TLS over TCP. The context is shared by the connections of a store. */
plock_transport *plock__tls_transport(const plock_config *config, plock_resolver *resolver,
                                      struct ssl_ctx_st *context);

/* Reads the certificates. PLOCK_OK, PLOCK_BAD_CONFIG or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__tls_context(struct ssl_ctx_st **context,
                                               const plock_config *config, plock_error *error);
void plock__tls_context_free(struct ssl_ctx_st *context);

/* For the TLS transport, which reads and writes on the socket below it; -1 where there is none. */
int plock__socket_descriptor(const plock_transport *socket);

#endif
