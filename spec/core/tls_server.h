/* A TLS server on this machine. The test steps it between the steps of the client, without a
 * thread, so the order is fixed. */
#ifndef TLS_SERVER_H
#define TLS_SERVER_H

#include "loopback.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct tls_server {
    SSL_CTX *context;
    int listener, fd; /* fd: the connection; -1: none yet */
    SSL *ssl;
    bool handshaken, failed;
    char port[LOOPBACK_PORT_ROOM];
    char name[64]; /* the name that the client asked for (SNI); "" for none */
} tls_server;

/* identity: a PEM file with certificate and key. client_ca: NULL, or clients need a certificate of
 * this authority. */
void tls_server_start(tls_server *server, const char *identity, const char *client_ca);
void tls_server_stop(tls_server *server);

/* Accepts a waiting connection, and continues the handshake as far as possible. */
void tls_server_step(tls_server *server);

/* One read, or nothing; the bytes that came. */
size_t tls_server_read(tls_server *server, char *bytes, size_t size);
void tls_server_write(tls_server *server, const char *bytes, size_t length);

/* Drops the connection, with or without TLS' close_notify. */
void tls_server_hang_up(tls_server *server, bool politely);

#endif
