/* TLS as a stream of bytes: both directions, idle connections, ends, servers that speak another
 * protocol or nothing, and the files for TLS. */
#include "certificates.h"
#include "fake.h"
#include "test.h"
#include "thread_state.h"
#include "tls_pair.h"

#include "base/memory.h"
#include "net/connection.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static certificates files;
static tls_pair pair;
static char trusted[128];

static void begin(void) { tls_pair_start(&pair, files.addressed, NULL, "127.0.0.1", trusted); }

static void connected(void) {
    begin();
    CHECK_STATUS(tls_pair_connect(&pair), PLOCK_OK);
}

static void end(void) { tls_pair_stop(&pair); }

static plock_status write_all(const char *bytes, size_t length) {
    plock_status status = PLOCK_OK;
    while (length > 0 && (!status || status == PLOCK_AGAIN)) {
        size_t sent = 0;
        (void)thread_state_drop();
        status = pair.transport->does->write(pair.transport, bytes, length, &sent, &pair.interest,
                                             &pair.error);
        CHECK(!thread_state_drop());
        if (!status) {
            CHECK(sent > 0);
            bytes += sent;
            length -= sent;
        }
    }
    return status;
}

/* --- bytes --- */

static void bytes_go_both_ways(void) {
    char bytes[32];
    size_t got = 0;
    connected();
    CHECK_STATUS(write_all("PING\r\n", 6), PLOCK_OK);
    CHECK(loopback_readable(pair.server.fd));
    CHECK_INT(tls_server_read(&pair.server, bytes, sizeof bytes), 6);
    CHECK(!memcmp(bytes, "PING\r\n", 6));
    tls_server_write(&pair.server, "+PONG\r\n", 7);
    CHECK_STATUS(tls_pair_read(&pair, bytes, 3, &got), PLOCK_OK);
    CHECK(got == 3 && !memcmp(bytes, "+PO", 3));
    /* these bytes are already in OpenSSL's buffer */
    CHECK_STATUS(tls_pair_read(&pair, bytes, sizeof bytes, &got), PLOCK_OK);
    CHECK(got == 4 && !memcmp(bytes, "NG\r\n", 4));
    CHECK_STATUS(pair.transport->does->read(pair.transport, bytes, sizeof bytes, &got,
                                            &pair.interest, &pair.error),
                 PLOCK_AGAIN);
    CHECK_INT(pair.interest.events, POLLIN);
    end();
}

static void what_is_left_of_a_record_is_pending(void) {
    char bytes[4096];
    size_t got = 0;
    static char record[16000];
    connected();
    memset(record, 'x', sizeof record);
    tls_server_write(&pair.server, record, sizeof record);
    CHECK_STATUS(tls_pair_read(&pair, bytes, sizeof bytes, &got), PLOCK_OK);
    CHECK_INT(got, sizeof bytes);
    plock_interest interest;
    pair.transport->does->expect(pair.transport, &interest);
    struct pollfd polled = {.fd = interest.fd, .events = POLLIN};
    /* the descriptor is not readable, because OpenSSL has the other bytes */
    CHECK_INT(poll(&polled, 1, 0), 0);
    for (size_t left = sizeof record - got; left > 0; left -= got) {
        (void)thread_state_drop();
        CHECK_INT(pair.transport->does->pending(pair.transport), left);
        CHECK(!thread_state_drop());
        CHECK_STATUS(tls_pair_read(&pair, bytes, sizeof bytes, &got), PLOCK_OK);
    }
    CHECK_INT(pair.transport->does->pending(pair.transport), 0);
    end();
}

static void a_record_that_was_read_ahead_is_pending(void) {
    char bytes[64];
    size_t got = 0;
    connected();
    pair.interest = (plock_interest){.fd = -1, .deadline = plock_now() + 10 * PLOCK_SECOND};
    plock_status status;
    while ((status = pair.transport->does->read(pair.transport, bytes, sizeof bytes, &got,
                                                &pair.interest, &pair.error)) == PLOCK_OK)
        continue;
    CHECK_STATUS(status, PLOCK_AGAIN);
    tls_server_write(&pair.server, "+PONG\r\n", 7);
    while (!pair.transport->does->pending(pair.transport) &&
           plock_await_answer(&pair.interest) == PLOCK_OK)
        continue;
    CHECK(pair.transport->does->pending(pair.transport) > 0);
    CHECK(!pair.transport->does->alive(pair.transport));
    CHECK_STATUS(tls_pair_read(&pair, bytes, sizeof bytes, &got), PLOCK_OK);
    CHECK(got == 7 && !memcmp(bytes, "+PONG\r\n", 7));
    CHECK_INT(pair.transport->does->pending(pair.transport), 0);
    end();
}

static plock_connection *greeted(void) {
    char bytes[256];
    connected();
    plock_connection *connection = plock__connection_new(pair.config, pair.transport);
    pair.transport = NULL; /* the connection owns it now */
    CHECK_STATUS(plock__connection_open(connection, PLOCK_NEVER, &pair.interest, &pair.error),
                 PLOCK_AGAIN);
    CHECK(loopback_readable(pair.server.fd));
    CHECK(tls_server_read(&pair.server, bytes, sizeof bytes) > 0);
    /* the answers to HELLO and CLIENT SETNAME */
    tls_server_write(&pair.server, "+OK\r\n+OK\r\n", 10);
    (void)plock_wait_poll(NULL, &pair.interest);
    CHECK_STATUS(plock__connection_open(connection, PLOCK_NEVER, &pair.interest, &pair.error),
                 PLOCK_OK);
    return connection;
}

static void a_connection_takes_all_of_a_record_before_it_waits(void) {
    enum { REPLIES = 3500 }; /* 14,000 bytes: one TLS record, but several reads */
    static char record[4 * REPLIES];
    const plock_value *value;
    plock_connection *connection = greeted();
    for (int i = 0; i < REPLIES; i++) memcpy(record + 4 * i, ":1\r\n", 4);
    tls_server_write(&pair.server, record, sizeof record);
    /* at_rest ignores bytes that are still in the socket; alive() finds those */
    CHECK(plock__connection_at_rest(connection));
    CHECK(plock__connection_expects(connection, &pair.interest));
    (void)plock_wait_poll(NULL, &pair.interest);
    unsigned heard = 0;
    plock_status status;
    while ((status = plock__connection_hear(connection, heard == 0, &value, &pair.interest,
                                            &pair.error)) == PLOCK_OK)
        heard++;
    CHECK_STATUS(status, PLOCK_AGAIN);
    CHECK_INT(heard, REPLIES);
    plock__connection_free(connection);
    end();
}

/* An unexpected answer would be taken for the answer to the next command. */
static void a_connection_is_not_at_rest_while_bytes_are_pending(void) {
    static char record[8192];
    const plock_value *value;
    const plock_text word = plock__text("PING", 4);
    plock_connection *connection = greeted();
    CHECK(plock__connection_at_rest(connection));
    CHECK_STATUS(plock__connection_send(connection, 1, &word, &pair.error), PLOCK_OK);
    /* the reply ends where the first read ends */
    (void)snprintf(record, sizeof record, "$%d\r\n%0*d\r\n", 4087, 4087, 0);
    const size_t first = strlen(record);
    CHECK_INT(first, 4096);
    memcpy(record + first, ":1\r\n", 4);
    tls_server_write(&pair.server, record, first + 4);
    (void)plock_wait_poll(NULL, &pair.interest);
    CHECK_STATUS(plock__connection_receive(connection, &value, &pair.interest, &pair.error),
                 PLOCK_OK);
    CHECK_INT(value->length, 4087);
    CHECK(!plock__connection_at_rest(connection));
    plock__connection_free(connection);
    end();
}

/* Bytes that the socket did not take are written again from another address, as if the buffer had
 * moved. */
static void a_full_socket_takes_the_rest_later(void) {
    static char bytes[2][60000], received[60000];
    size_t written = 0, arrived = 0, sent = 0;
    plock_status status;
    unsigned from = 0;
    connected();
    for (unsigned i = 0; i < sizeof bytes[0]; i++) bytes[0][i] = bytes[1][i] = (char)(i * 31 >> 3);
    while ((status = pair.transport->does->write(pair.transport, bytes[from % 2], sizeof bytes[0],
                                                 &sent, &pair.interest, &pair.error)) == PLOCK_OK)
        written += sent;
    CHECK_STATUS(status, PLOCK_AGAIN);
    CHECK_INT(pair.interest.events, POLLOUT);
    for (unsigned rounds = 0; arrived < written + sizeof bytes[0] && test_patient(&rounds);) {
        size_t got;
        while ((got = tls_server_read(&pair.server, received, sizeof received)) > 0) arrived += got;
        if (arrived < written) continue;
        while (sent && (status = pair.transport->does->write(pair.transport, bytes[++from % 2],
                                                             sizeof bytes[0], &sent, &pair.interest,
                                                             &pair.error)) == PLOCK_OK) {
            written += sent;
            sent = 0; /* one more write is enough */
        }
        if (!status) break;
    }
    CHECK_STATUS(status, PLOCK_OK);
    end();
}

/* --- idle --- */

static void an_idle_connection_looks_alive_also_with_tickets_unread(void) {
    connected();
    (void)thread_state_drop();
    /* in TLS 1.3, session tickets from the server are still unread */
    CHECK(pair.transport->does->alive(pair.transport));
    CHECK(!thread_state_drop());
    end();
}

/* The server closes the connection with an alert, as servers usually do, or without one. Unread
 * tickets may precede the end. */
static void one_that_the_server_has_closed_does_not(void) {
    for (int says_so = 0; says_so < 2; says_so++) {
        connected();
        tls_server_hang_up(&pair.server, says_so);
        for (unsigned rounds = 0;
             pair.transport->does->alive(pair.transport) && rounds < 50 && test_patient(&rounds);)
            continue;
        CHECK(!pair.transport->does->alive(pair.transport));
        end();
    }
}

static void one_that_sends_unexpected_bytes_does_not(void) {
    connected();
    tls_server_write(&pair.server, "+PONG\r\n", 7);
    for (unsigned rounds = 0;
         pair.transport->does->alive(pair.transport) && rounds < 50 && test_patient(&rounds);)
        continue;
    CHECK(!pair.transport->does->alive(pair.transport));
    end();
}

/* --- ends --- */

static void every_kind_of_end_is_a_disconnection(void) {
    char byte;
    size_t got;
    for (int politely = 0; politely < 2; politely++) {
        connected();
        tls_server_hang_up(&pair.server, politely);
        CHECK_STATUS(tls_pair_read(&pair, &byte, 1, &got), PLOCK_DISCONNECTED);
        end();
    }
    connected();
    loopback_reset(pair.server.fd);
    pair.server.fd = -1;
    CHECK_STATUS(tls_pair_read(&pair, &byte, 1, &got), PLOCK_DISCONNECTED);
    CHECK_HAS(pair.error.message, "the connection broke: ");
    end();
}

static void writing_to_a_closed_peer_raises_no_signal(void) {
    plock_status status = PLOCK_OK;
    connected();
    loopback_reset(pair.server.fd);
    pair.server.fd = -1;
    for (int i = 0; i < 50 && !status; i++) status = write_all("x", 1);
    CHECK_STATUS(status, PLOCK_DISCONNECTED);
    end();
}

/* Giving up a connection sends nothing, not even TLS' close_notify. In a forked child, that would
 * end the parent's connection. */
static void letting_go_sends_nothing(void) {
    char bytes[64];
    for (int way = 0; way < 2; way++) {
        begin();
        /* if tickets were unread, the close would become a reset */
        CHECK(SSL_CTX_set_max_proto_version(pair.server.context, TLS1_2_VERSION) == 1);
        CHECK_STATUS(tls_pair_connect(&pair), PLOCK_OK);
        if (way)
            pair.transport->does->abandon(pair.transport);
        else {
            pair.transport->does->destroy(pair.transport);
            pair.transport = NULL;
        }
        CHECK(loopback_readable(pair.server.fd));
        CHECK_INT(recv(pair.server.fd, bytes, sizeof bytes, 0), 0);
        end();
    }
}

/* --- servers that speak something else, or nothing --- */

/* Connects to a server that answers the client's hello with these bytes. If bytes is NULL, the
 * server resets the connection. */
static plock_status answered_with(const char *bytes, size_t length) {
    plock_status status;
    begin();
    const plock_ns deadline = plock_now() + 10 * PLOCK_SECOND;
    while ((status = pair.transport->does->connect(pair.transport, deadline, &pair.interest,
                                                   &pair.error)) == PLOCK_AGAIN &&
           pair.interest.events != POLLIN)
        (void)plock_wait_poll(NULL, &pair.interest);
    CHECK_STATUS(status, PLOCK_AGAIN);
    const int peer = loopback_accept(pair.server.listener, true);
    CHECK(loopback_readable(peer));
    if (bytes)
        CHECK(write(peer, bytes, length) == (ssize_t)length);
    else
        loopback_reset(peer);
    while ((status = pair.transport->does->connect(pair.transport, deadline, &pair.interest,
                                                   &pair.error)) == PLOCK_AGAIN)
        (void)plock_wait_poll(NULL, &pair.interest);
    if (bytes) CHECK(close(peer) == 0);
    return status;
}

static void a_server_without_tls_is_told_from_one_that_goes_away(void) {
    CHECK_STATUS(answered_with("-ERR Protocol error\r\n", 21), PLOCK_TLS);
    CHECK_HAS(pair.error.message,
              "TLS: wrong version number: the server does not seem to speak TLS");
    end();
    CHECK_STATUS(answered_with("\x16\x03\x03\x00\x04zzzz", 9), PLOCK_TLS);
    end();
    CHECK_STATUS(answered_with(NULL, 0), PLOCK_DISCONNECTED);
    end();
}

/* The server never answers, so the acquire fails at its deadline. */
static void a_handshake_that_never_ends_is_silence(void) {
    char url[256], port[LOOPBACK_PORT_ROOM];
    plock_config *config;
    plock_store *store;
    plock_error error;
    /* the system accepts the connection, but no server answers */
    const int listener = loopback_listen("127.0.0.1", 8, port);
    (void)snprintf(url, sizeof url, "rediss://127.0.0.1:%s?connect_timeout=0.15&%s", port, trusted);
    CHECK_STATUS(plock_config_new(&config, url, &error), PLOCK_OK);
    CHECK_STATUS(plock_store_open(&store, config, &error), PLOCK_OK);
    fake_clock_start();
    plock_lease *lease = fake_lease(store);
    const plock_ns before = plock_now();
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    plock_interest interest;
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    for (unsigned rounds = 0; interest.events != POLLIN && test_patient(&rounds);)
        CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    CHECK_INT(interest.deadline, before + 150 * PLOCK_MILLISECOND);
    CHECK_STATUS(fake_finish(lease), PLOCK_SILENT);
    CHECK_INT(plock_now(), before + 150 * PLOCK_MILLISECOND);
    fake_end(lease, store);
    CHECK(close(listener) == 0);
}

/* --- files --- */

static void a_file_that_is_of_no_use_is_named(void) {
    const struct {
        const char *option, *value, *more, *words;
    } FILES[] = {
        {"ca_file", "/nonexistent.pem", "", "ca_file: "},
        {"ca_file", files.garbage, "", "ca_file: "},
        {"ca_path", "/nonexistent", "", "ca_path: /nonexistent: No such file or directory"},
        {"cert", "/nonexistent.pem", "&verify=none", "cert: "},
        {"cert", files.garbage, "&verify=none", "cert: "},
        {"cert", files.ca, "&verify=none", "key: "}, /* a certificate without a key */
        /* the key has a passphrase, and plock must not prompt for it on a terminal */
        {"cert", files.locked, "&verify=none", "key: "},
        {"key", files.stranger, "&verify=none&cert=", "key: "}, /* the key of another certificate */
    };
    for (unsigned i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        char url[400];
        plock_config *config;
        plock_error error = {PLOCK_OK, ""};
        SSL_CTX *context;
        const bool needs_certificate = !strcmp(FILES[i].option, "key");
        (void)snprintf(url, sizeof url, "rediss://:sesame@127.0.0.1?%s=%s%s%s", FILES[i].option,
                       FILES[i].value, FILES[i].more, needs_certificate ? files.client : "");
        CHECK_STATUS(plock_config_new(&config, url, &error), PLOCK_OK);
        CHECK_STATUS(plock__tls_context(&context, config, &error), PLOCK_BAD_CONFIG);
        CHECK(context == NULL);
        CHECK_HAS(error.message, FILES[i].words);
        CHECK_LACKS(error.message, "sesame");
        plock_config_free(config);
        CHECK_INT(plock__live_allocations(), 0);
    }
}

static void no_terminal_is_asked_for_a_passphrase(void) {
    CHECK(close(STDIN_FILENO) == 0); /* so that no passphrase prompt could wait for stdin */
    a_file_that_is_of_no_use_is_named();
}

/* --- lack of memory --- */

static void each_allocation_may_fail_and_the_next_connection_works(void) {
    begin();
    for (unsigned long n = 1;; n++) {
        (void)plock__fail_allocation(n);
        plock_status status = tls_pair_renew(&pair);
        if (!status) status = tls_pair_connect(&pair);
        const bool over = plock__fail_allocation(0) < n;
        if (over) {
            CHECK_STATUS(status, PLOCK_OK);
            CHECK(n > 2); /* at least the transport and its socket were allocated */
            break;
        }
        CHECK_STATUS(status, PLOCK_NO_MEMORY);
        CHECK_STATUS(tls_pair_renew(&pair), PLOCK_OK);
        CHECK_STATUS(tls_pair_connect(&pair), PLOCK_OK);
    }
    end();
}

int main(void) {
    thread_state_watch();
    (void)signal(SIGPIPE, SIG_DFL);
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    if (!certificates_make(&files)) return test_end("transport tls stream");
    (void)snprintf(trusted, sizeof trusted, "ca_file=%s", files.ca);
    RUN(bytes_go_both_ways);
    RUN(what_is_left_of_a_record_is_pending);
    RUN(a_record_that_was_read_ahead_is_pending);
    RUN(a_connection_takes_all_of_a_record_before_it_waits);
    RUN(a_connection_is_not_at_rest_while_bytes_are_pending);
    RUN(a_full_socket_takes_the_rest_later);
    RUN(an_idle_connection_looks_alive_also_with_tickets_unread);
    RUN(one_that_the_server_has_closed_does_not);
    RUN(one_that_sends_unexpected_bytes_does_not);
    RUN(every_kind_of_end_is_a_disconnection);
    RUN(writing_to_a_closed_peer_raises_no_signal);
    RUN(letting_go_sends_nothing);
    RUN(a_server_without_tls_is_told_from_one_that_goes_away);
    RUN(a_handshake_that_never_ends_is_silence);
    RUN(a_file_that_is_of_no_use_is_named);
    RUN(no_terminal_is_asked_for_a_passphrase);
    RUN(each_allocation_may_fail_and_the_next_connection_works);
    certificates_remove(&files);
    return test_end("transport tls stream");
}
