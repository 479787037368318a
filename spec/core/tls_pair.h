/* plock's TLS transport, and a server for it. The test steps them in turn. */
#ifndef TLS_PAIR_H
#define TLS_PAIR_H

#include "net/transport.h"
#include "tls_server.h"

typedef struct tls_pair {
    tls_server server;
    plock_config *config;
    plock_resolver resolver;
    plock_transport *transport;
    plock_interest interest;
    plock_error error;
} tls_pair;

/* Starts the server, and prepares a transport to it. host is "127.0.0.1" or a name for it. options
 * are appended to the URL's query. A test may change the server's context before tls_pair_connect.
 */
void tls_pair_start(tls_pair *pair, const char *identity, const char *client_ca, const char *host,
                    const char *options);

/* Makes another transport, for a second connection to the same server. */
plock_status tls_pair_renew(tls_pair *pair);

/* Connects, until the handshake has succeeded or failed on the client's side. */
plock_status tls_pair_connect(tls_pair *pair);

plock_status tls_pair_read(tls_pair *pair, char *bytes, size_t size, size_t *got);
void tls_pair_stop(tls_pair *pair);

#endif
