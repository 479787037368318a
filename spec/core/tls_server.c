#include "tls_server.h"

#include "test.h"

#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int note_name(SSL *ssl, int *alert, void *argument) {
    tls_server *server = argument;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    (void)alert;
    (void)snprintf(server->name, sizeof server->name, "%s", name ? name : "");
    return SSL_TLSEXT_ERR_OK;
}

void tls_server_start(tls_server *server, const char *identity, const char *client_ca) {
    *server = (tls_server){.fd = -1, .context = SSL_CTX_new(TLS_server_method())};
    CHECK(server->context != NULL);
    CHECK(SSL_CTX_use_certificate_chain_file(server->context, identity) == 1);
    CHECK(SSL_CTX_use_PrivateKey_file(server->context, identity, SSL_FILETYPE_PEM) == 1);
    if (client_ca) {
        CHECK(SSL_CTX_load_verify_locations(server->context, client_ca, NULL) == 1);
        SSL_CTX_set_verify(server->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                           NULL);
    }
    CHECK(SSL_CTX_set_tlsext_servername_callback(server->context, note_name) == 1);
    CHECK(SSL_CTX_set_tlsext_servername_arg(server->context, server) == 1);
    server->listener = loopback_listen("127.0.0.1", 8, server->port);
}

void tls_server_hang_up(tls_server *server, bool politely) {
    if (server->ssl && politely) (void)SSL_shutdown(server->ssl);
    SSL_free(server->ssl);
    server->ssl = NULL;
    if (server->fd >= 0) CHECK(close(server->fd) == 0);
    server->fd = -1;
    server->handshaken = server->failed = false;
    ERR_clear_error(); /* the client also runs on this thread, and shares the error queue */
}

void tls_server_stop(tls_server *server) {
    tls_server_hang_up(server, false);
    CHECK(close(server->listener) == 0);
    SSL_CTX_free(server->context);
}

static bool readable(int fd) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, 0) == 1;
}

void tls_server_step(tls_server *server) {
    if (server->fd < 0) {
        if (!readable(server->listener)) return;
        server->fd = loopback_accept(server->listener, false);
        server->ssl = SSL_new(server->context);
        CHECK(server->ssl && SSL_set_fd(server->ssl, server->fd) == 1);
        SSL_set_accept_state(server->ssl);
    }
    if (server->handshaken || server->failed) return;
    const int result = SSL_do_handshake(server->ssl);
    server->handshaken = result == 1;
    if (result != 1) {
        const int kind = SSL_get_error(server->ssl, result);
        server->failed = kind != SSL_ERROR_WANT_READ && kind != SSL_ERROR_WANT_WRITE;
    }
    ERR_clear_error();
}

size_t tls_server_read(tls_server *server, char *bytes, size_t size) {
    size_t got = 0;
    if (SSL_read_ex(server->ssl, bytes, size, &got) != 1) got = 0;
    ERR_clear_error();
    return got;
}

void tls_server_write(tls_server *server, const char *bytes, size_t length) {
    size_t sent = 0;
    CHECK(SSL_write_ex(server->ssl, bytes, length, &sent) == 1 && sent == length);
    ERR_clear_error();
}
