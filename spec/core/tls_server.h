/* A TLS server on this machine. The test steps it between the steps of the client. There is no
 * server thread, so the order is fixed. */
#ifndef TLS_SERVER_H
#define TLS_SERVER_H

#include "loopback.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct tls_server {
    SSL_CTX *context;
    int listener, fd; /* fd is the connection; -1 if there is none */
    SSL *ssl;
    bool handshaken, failed;
    char port[LOOPBACK_PORT_ROOM];
    char name[64]; /* the server name that the client sent (SNI); "" if it sent none */
} tls_server;

/* identity is a PEM file with a certificate and its key. If client_ca is not NULL, clients need a
 * certificate of this authority. */
void tls_server_start(tls_server *server, const char *identity, const char *client_ca);
void tls_server_stop(tls_server *server);

/* Accepts a waiting connection, and advances the handshake as far as possible. */
void tls_server_step(tls_server *server);

/* Reads once. Returns the number of bytes, which may be 0. */
size_t tls_server_read(tls_server *server, char *bytes, size_t size);
void tls_server_write(tls_server *server, const char *bytes, size_t length);

/* Drops the connection, with or without sending a TLS close_notify first. */
void tls_server_hang_up(tls_server *server, bool politely);

#endif
