/* TLS 1.2 or later over TCP, with OpenSSL. The transport verifies the certificate's chain and name
 * unless verify=none is given. */
#include "net/transport.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/process.h"
#include "runtime/interest.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

typedef struct tls_transport {
    plock_transport base;
    const plock_config *config;
    plock_transport *socket;
    SSL_CTX *context;
    SSL *ssl; /* NULL until the socket is connected */
    bool handshaken;
    bool answered; /* has the server sent any bytes after the handshake? */
} tls_transport;

static tls_transport *of(plock_transport *transport) { return (tls_transport *)(void *)transport; }

/* OpenSSL keeps state for every thread that calls it. If such a thread ends while exit() runs,
 * OpenSSL frees the state twice (https://github.com/openssl/openssl/issues/6214). Ruby keeps ended
 * threads alive for seconds, so that may well happen. Each step therefore frees this state at its
 * end. The functions that free a transport create no such state. They must not free any, because
 * they may run in a garbage collection while another library uses OpenSSL on this thread. */
static plock_status leave(plock_status status) {
    OPENSSL_thread_stop();
    return status;
}

/* Returns the first error of OpenSSL's queue in words, and empties the queue. */
static const char *reason(char *text, size_t size) {
    const unsigned long code = ERR_get_error();
    ERR_clear_error();
    const char *words = code ? ERR_reason_error_string(code) : NULL;
    if (words) return words;
    ERR_error_string_n(code, text, size);
    return code ? text : "no reason given";
}

/* --- our own BIO: OpenSSL's socket BIO uses write(2), which raises SIGPIPE --- */

static int bio_write(BIO *bio, const char *bytes, int size) {
    BIO_clear_retry_flags(bio);
    const ssize_t n =
        send(plock__socket_descriptor(BIO_get_data(bio)), bytes, (size_t)size, PLOCK__SEND_FLAGS);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)n;
}

static int bio_read(BIO *bio, char *buffer, int size) {
    BIO_clear_retry_flags(bio);
    const ssize_t n = plock__socket_read(BIO_get_data(bio), buffer, (size_t)size);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        BIO_set_retry_read(bio);
    return (int)n;
}

static long bio_control(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

static BIO_METHOD *method;

static void make_method(void) {
    const int index = BIO_get_new_index();
    method = index < 0 ? NULL : BIO_meth_new(index | BIO_TYPE_SOURCE_SINK, "plock socket");
    if (method && !(BIO_meth_set_write(method, bio_write) && BIO_meth_set_read(method, bio_read) &&
                    BIO_meth_set_ctrl(method, bio_control))) {
        BIO_meth_free(method);
        method = NULL;
    }
}

static BIO *socket_bio(plock_transport *socket) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_method);
    BIO *bio = method ? BIO_new(method) : NULL;
    if (bio) {
        BIO_set_data(bio, socket);
        BIO_set_init(bio, 1);
    }
    return bio;
}

/* --- the context: certificates and rules --- */

static plock_status bad_file(plock_error *error, const char *option) {
    char text[120];
    return plock__fail(error, PLOCK_BAD_CONFIG, "%s: %s", option, reason(text, sizeof text));
}

/* Adds the path to the error, because OpenSSL's messages do not name the file, and do not always
 * say that it is missing. */
static plock_status bad_path(plock_error *error, const char *option, const char *path, int mode) {
    char named[160], text[80];
    (void)snprintf(named, sizeof named, "%s: %.120s", option, path);
    if (access(path, mode)) {
        const int code = errno;
        ERR_clear_error();
        return plock__fail_errno(error, PLOCK_BAD_CONFIG, named, code);
    }
    return plock__fail(error, PLOCK_BAD_CONFIG, "%s: %s (a PEM file is needed)", named,
                       reason(text, sizeof text));
}

static plock_status load_trust(SSL_CTX *context, const plock_config *config, plock_error *error) {
    if (config->unverified) return PLOCK_OK;
    if (config->ca_path && access(config->ca_path, R_OK | X_OK))
        return bad_path(error, "ca_path", config->ca_path, R_OK | X_OK);
    if (!config->ca_file && !config->ca_path) {
        if (SSL_CTX_set_default_verify_paths(context) != 1)
            return bad_file(error, "the system's certificates");
    } else if (SSL_CTX_load_verify_locations(context, config->ca_file, config->ca_path) != 1) {
        return config->ca_file ? bad_path(error, "ca_file", config->ca_file, R_OK)
                               : bad_file(error, "ca_path");
    }
    return PLOCK_OK;
}

/* Without this, OpenSSL would ask for a key's passphrase on the terminal, and block. */
static int no_passphrase(char *buffer, int size, int writing, void *context) {
    (void)buffer, (void)size, (void)writing, (void)context;
    return 0;
}

static plock_status load_identity(SSL_CTX *context, const plock_config *config,
                                  plock_error *error) {
    if (!config->cert) return PLOCK_OK;
    SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    if (SSL_CTX_use_certificate_chain_file(context, config->cert) != 1)
        return bad_path(error, "cert", config->cert, R_OK);
    const char *key = config->key ? config->key : config->cert;
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        return bad_path(error, "key", key, R_OK);
    if (SSL_CTX_check_private_key(context) != 1) return bad_file(error, "key");
    return PLOCK_OK;
}

static plock_status make_context(SSL_CTX **out, const plock_config *config, plock_error *error) {
    *out = NULL;
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (!context) return leave(plock__fail_plainly(error, PLOCK_NO_MEMORY));
    (void)SSL_CTX_set_mode(context,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* a new handshake in the middle of a command would need states of its own */
    (void)SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_verify(context, config->unverified ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    plock_status status = PLOCK_OK;
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1)
        status = bad_file(error, "TLS 1.2");
    if (!status) status = load_trust(context, config, error);
    if (!status) status = load_identity(context, config, error);
    if (status)
        SSL_CTX_free(context);
    else
        *out = context;
    return leave(status);
}

/* Reads the certificates without the mutex, because that takes milliseconds. If several threads do
 * so at once, all use the context of the first thread that succeeds. */
plock_status plock__tls_context(SSL_CTX **context, plock_config *config, plock_error *error) {
    SSL_CTX *made = NULL;
    plock__enter();
    *context = config->tls;
    plock__leave();
    if (*context) return PLOCK_OK;
    const plock_status status = make_context(&made, config, error);
    plock__enter();
    if (!config->tls) {
        config->tls = made;
        made = NULL;
    }
    *context = config->tls;
    plock__leave();
    SSL_CTX_free(made);
    return *context ? PLOCK_OK : status;
}

void plock__tls_context_free(SSL_CTX *context) { SSL_CTX_free(context); }

/* --- a connection --- */

/* Sets the name that the certificate must have. An IP address is compared with the certificate's
 * addresses, and not sent as SNI (RFC 6066). */
static bool set_name(SSL *ssl, const char *name) {
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

static plock_status start(tls_transport *t, plock_error *error) {
    ERR_clear_error();
    t->ssl = SSL_new(t->context);
    BIO *bio = t->ssl ? socket_bio(t->socket) : NULL;
    if (!bio) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    SSL_set_bio(t->ssl, bio, bio); /* `ssl` now owns the BIO */
    SSL_set_connect_state(t->ssl);
    const char *name = t->config->server_name;
    if (!set_name(t->ssl, name && *name ? name : plock__socket_host(t->socket)))
        return plock__fail(error, PLOCK_BAD_CONFIG,
                           "server_name: not a name that a certificate can have");
    return PLOCK_OK;
}

/* Most often, an answer that is not TLS comes from a port of Redis without TLS. */
static const char NO_TLS_THERE[] = ": the server does not seem to speak TLS on this port "
                                   "(use redis://, or the port that tls-port names)";

/* Returns the status of an unsuccessful call of OpenSSL. */
static plock_status judge(tls_transport *t, int result, plock_interest *interest,
                          plock_error *error) {
    const int system = errno, kind = SSL_get_error(t->ssl, result);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
        plock__socket_expect(t->socket, interest);
        if (kind == SSL_ERROR_WANT_READ) return PLOCK_AGAIN;
        plock__interest_set(interest, interest->fd, POLLOUT);
        return PLOCK_AGAIN;
    }
    if (!t->handshaken) {
        const long verdict = SSL_get_verify_result(t->ssl);
        if (verdict != X509_V_OK && !t->config->unverified) {
            ERR_clear_error();
            return plock__fail(error, PLOCK_TLS_VERIFY,
                               "the server's certificate was not accepted: %s",
                               X509_verify_cert_error_string(verdict));
        }
    }
    bool gone = kind == SSL_ERROR_ZERO_RETURN || kind == SSL_ERROR_SYSCALL;
#ifdef SSL_R_UNEXPECTED_EOF_WHILE_READING
    gone = gone || ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
#endif
    if (gone) {
        ERR_clear_error();
        if (kind == SSL_ERROR_SYSCALL && system)
            return plock__fail_errno(error, PLOCK_DISCONNECTED, "the connection broke", system);
        return plock__fail_plainly(error, PLOCK_DISCONNECTED);
    }
    const bool plain =
        !t->handshaken && ERR_GET_REASON(ERR_peek_error()) == SSL_R_WRONG_VERSION_NUMBER;
    char text[120];
    /* the server has accepted our TLS options, so the next connection may work */
    if (t->answered)
        return plock__fail(error, PLOCK_DISCONNECTED, "the connection broke: TLS: %s",
                           reason(text, sizeof text));
    return plock__fail(error, PLOCK_TLS, "TLS: %s%s", reason(text, sizeof text),
                       plain ? NO_TLS_THERE : "");
}

static plock_status connect_step(plock_transport *transport, plock_ns deadline,
                                 plock_interest *interest, plock_error *error) {
    tls_transport *t = of(transport);
    if (!t->ssl) {
        plock_status status = t->socket->does->connect(t->socket, deadline, interest, error);
        if (!status) status = start(t, error);
        if (status) return leave(status);
    }
    ERR_clear_error();
    errno = 0;
    const int result = SSL_do_handshake(t->ssl);
    if (result != 1) return leave(judge(t, result, interest, error));
    t->handshaken = true;
    return leave(PLOCK_OK);
}

static plock_status read_some(plock_transport *transport, char *buffer, size_t size, size_t *got,
                              plock_interest *interest, plock_error *error) {
    tls_transport *t = of(transport);
    ERR_clear_error();
    errno = 0;
    const int result = SSL_read_ex(t->ssl, buffer, size, got);
    if (result != 1) return leave(judge(t, result, interest, error));
    t->answered = true;
    return leave(PLOCK_OK);
}

static plock_status write_some(plock_transport *transport, const char *bytes, size_t size,
                               size_t *sent, plock_interest *interest, plock_error *error) {
    tls_transport *t = of(transport);
    ERR_clear_error();
    errno = 0;
    int result = SSL_write_ex(t->ssl, bytes, size, sent);
    if (result == 1) return leave(PLOCK_OK);
    const plock_status status = judge(t, result, interest, error);
    if (status != PLOCK_DISCONNECTED) return leave(status);
    /* The server may have sent an alert with the reason before it closed the connection. In TLS 1.3
     * the server notices a missing client certificate only after our handshake is done. */
    char byte;
    size_t got;
    plock_error alert;
    errno = 0;
    result = SSL_read_ex(t->ssl, &byte, 1, &got);
    if (result == 1 || judge(t, result, interest, &alert) != PLOCK_TLS) return leave(status);
    *error = alert;
    return leave(PLOCK_TLS);
}

static void expect(plock_transport *transport, plock_interest *interest) {
    plock__socket_expect(of(transport)->socket, interest);
}

/* Also counts the unread rest of a record, because OpenSSL reads whole records from the socket, one
 * at a time. */
static size_t pending(const plock_transport *transport) {
    const tls_transport *t = (const tls_transport *)(const void *)transport;
    const int bytes = SSL_pending(t->ssl);
    return plock__socket_pending(t->socket) + (bytes > 0 ? (size_t)bytes : 0);
}

/* Bytes on the socket may be a session ticket, or an alert that the server is closing the
 * connection. SSL_peek_ex distinguishes them, and takes a ticket off the socket. */
static bool alive(plock_transport *transport) {
    tls_transport *t = of(transport);
    char byte;
    size_t got;
    if (SSL_pending(t->ssl) || SSL_get_shutdown(t->ssl)) return false;
    if (t->socket->does->alive(t->socket)) return true;
    ERR_clear_error();
    const int result = SSL_peek_ex(t->ssl, &byte, 1, &got);
    const bool rests = result != 1 && SSL_get_error(t->ssl, result) == SSL_ERROR_WANT_READ;
    ERR_clear_error();
    (void)leave(PLOCK_OK);
    return rests;
}

static void abandon(plock_transport *transport) {
    plock_transport *socket = of(transport)->socket;
    socket->does->abandon(socket);
}

static void destroy(plock_transport *transport) {
    tls_transport *t = of(transport);
    SSL_free(t->ssl); /* sends nothing; only SSL_shutdown would */
    t->socket->does->destroy(t->socket);
    SSL_CTX_free(t->context);
    plock__free(t);
}

plock_transport *plock__tls_transport(const plock_config *config, plock_resolver *resolver,
                                      SSL_CTX *context) {
    static const plock_transport_operations OPERATIONS = {
        connect_step, read_some, write_some, expect, pending, alive, abandon, destroy};
    tls_transport *t = plock__allocate(sizeof *t);
    if (!t) return NULL;
    t->socket = plock__socket_transport(config, resolver);
    if (!t->socket || SSL_CTX_up_ref(context) != 1) {
        if (t->socket) t->socket->does->destroy(t->socket);
        plock__free(t);
        return NULL;
    }
    t->base.does = &OPERATIONS;
    t->config = config;
    t->context = context;
    return &t->base;
}
