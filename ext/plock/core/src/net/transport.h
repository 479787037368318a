/* A byte stream to a server: TCP, Unix socket, TLS, or a fake in the tests. It never blocks. With
 * PLOCK_AGAIN it returns an interest that has the descriptor and the events. The caller sets the
 * interest's deadline. */
#ifndef PLOCK__TRANSPORT_H
#define PLOCK__TRANSPORT_H

#include "net/config.h"
#include "net/resolver.h"
#include "plock/interest.h"

typedef struct plock_transport plock_transport;

typedef struct plock_transport_operations {
    /* Resolves the host, connects, and does the TLS handshake, all by the deadline. May set an
     * earlier deadline in the interest. Returns PLOCK_OK, AGAIN, RESOLVE, CONNECT, DESCRIPTORS,
     * DISCONNECTED, TLS, TLS_VERIFY, NO_MEMORY or BAD_CONFIG. */
    plock_status (*connect)(plock_transport *, plock_ns deadline, plock_interest *, plock_error *);
    /* Reads at least one byte, or returns PLOCK_AGAIN, DISCONNECTED or TLS. */
    plock_status (*read)(plock_transport *, char *, size_t, size_t *got, plock_interest *,
                         plock_error *);
    plock_status (*write)(plock_transport *, const char *, size_t, size_t *sent, plock_interest *,
                          plock_error *);
    /* Makes the interest wait for bytes to read. */
    void (*expect)(plock_transport *, plock_interest *);
    /* Returns the number of bytes that the transport has read from the descriptor but not returned
     * yet. poll(2) does not report these bytes, so the caller must read them before it waits. The
     * pointer is NULL if there are never such bytes. */
    size_t (*pending)(const plock_transport *);
    /* Returns false if the server has closed an idle connection, or has sent unexpected bytes. */
    bool (*alive)(plock_transport *);
    /* Closes the descriptor and does nothing else: it sends no byte, and frees no memory. Safe in a
     * forked child. */
    void (*abandon)(plock_transport *);
    void (*destroy)(plock_transport *);
} plock_transport_operations;

struct plock_transport {
    const plock_transport_operations *does;
};

/* TCP or Unix socket. Returns NULL if memory runs out. */
plock_transport *plock__socket_transport(const plock_config *config, plock_resolver *resolver);

struct ssl_ctx_st;
/* TLS over TCP. Takes a reference to the context. */
plock_transport *plock__tls_transport(const plock_config *config, plock_resolver *resolver,
                                      struct ssl_ctx_st *context);

/* Returns the context for all connections with this config. The config keeps it. The first call
 * reads the certificates, because they may be unreadable later. If that fails, the next call reads
 * them again. Returns PLOCK_OK, PLOCK_BAD_CONFIG or PLOCK_NO_MEMORY. Must not be called with the
 * mutex held. */
PLOCK_MUST_USE plock_status plock__tls_context(struct ssl_ctx_st **context, plock_config *config,
                                               plock_error *error);

/* Frees the context of a config that is being freed. */
void plock__tls_context_free(struct ssl_ctx_st *context);

/* Returns the descriptor, or -1 if no socket is open. The TLS transport uses this function and
 * those below, because it reads and writes on the socket of a socket transport. */
int plock__socket_descriptor(const plock_transport *socket);

/* Reads as recv(2) does, and never blocks. */
ssize_t plock__socket_read(plock_transport *socket, char *buffer, size_t size);

/* Returns the number of bytes that were read ahead and not returned yet. */
size_t plock__socket_pending(const plock_transport *socket);

/* Makes the interest wait for bytes on the socket. */
void plock__socket_expect(plock_transport *socket, plock_interest *interest);

/* Returns the name of the host that the socket is connected to. */
const char *plock__socket_host(const plock_transport *socket);

#endif
