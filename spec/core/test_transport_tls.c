/* The servers that TLS accepts: chains, names and addresses, dates, client certificates, and
 * protocol versions. Also the effect of verify=none. */
#include "certificates.h"
#include "test.h"
#include "thread_state.h"
#include "tls_pair.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static certificates files;
static tls_pair pair;

/* Connects to a server with this certificate. trust is the ca_file. */
static plock_status try_it(const char *identity, const char *host, const char *trust,
                           const char *more) {
    char options[256];
    (void)snprintf(options, sizeof options, "ca_file=%s%s", trust, more);
    tls_pair_start(&pair, identity, NULL, host, options);
    return tls_pair_connect(&pair);
}

static int everything_is_here(const char *host, const char *port, const struct addrinfo *hints,
                              struct addrinfo **list) {
    (void)host;
    return getaddrinfo("127.0.0.1", port, hints, list);
}

/* --- accepted --- */

static void the_right_name_or_address_is_accepted(void) {
    const struct {
        const char *identity, *host, *more, *asked;
    } SERVERS[] = {
        {files.named, "localhost", "", "localhost"},
        {files.named, "127.0.0.1", "&server_name=localhost", "localhost"},
        {files.named, "127.0.0.1", "&server_name=a.store.example", "a.store.example"},
        /* an address is not sent as a server name (RFC 6066) */
        {files.addressed, "127.0.0.1", "", ""},
        {files.addressed, "localhost", "&server_name=::1", ""},
    };
    for (unsigned i = 0; i < sizeof SERVERS / sizeof *SERVERS; i++) {
        CHECK_STATUS(try_it(SERVERS[i].identity, SERVERS[i].host, files.ca, SERVERS[i].more),
                     PLOCK_OK);
        CHECK_TEXT(pair.server.name, SERVERS[i].asked);
        CHECK(pair.server.handshaken);
        tls_pair_stop(&pair);
    }
}

/* --- refused --- */

static void check_refused(const char *identity, const char *trust, const char *more,
                          const char *words) {
    CHECK_STATUS(try_it(identity, "127.0.0.1", trust, more), PLOCK_TLS_VERIFY);
    CHECK_HAS(pair.error.message, "the server's certificate was not accepted: ");
    CHECK_HAS(pair.error.message, words);
    tls_pair_stop(&pair);
}

static void another_name_is_refused(void) {
    check_refused(files.named, files.ca, "&server_name=other.example", "hostname mismatch");
    check_refused(files.named, files.ca, "&server_name=localhost.example", "hostname mismatch");
    /* a star matches only one label */
    check_refused(files.named, files.ca, "&server_name=a.b.store.example", "hostname mismatch");
    check_refused(files.named, files.ca, "&server_name=store.example", "hostname mismatch");
    /* a certificate for a name is not valid for an address */
    check_refused(files.named, files.ca, "", "IP address mismatch");
    check_refused(files.addressed, files.ca, "&server_name=localhost", "hostname mismatch");
    check_refused(files.addressed, files.ca, "&server_name=127.0.0.2", "IP address mismatch");
}

static void the_wrong_time_is_refused(void) {
    check_refused(files.expired, files.ca, "&server_name=localhost", "certificate has expired");
    check_refused(files.unborn, files.ca, "&server_name=localhost", "not yet valid");
}

static void an_unknown_authority_is_refused(void) {
    check_refused(files.named, files.other_ca, "&server_name=localhost",
                  "unable to get local issuer certificate");
}

static void without_a_ca_the_systems_are_asked(void) {
    tls_pair_start(&pair, files.named, NULL, "127.0.0.1", "server_name=localhost");
    CHECK_STATUS(tls_pair_connect(&pair), PLOCK_TLS_VERIFY);
    tls_pair_stop(&pair);
}

/* --- verify=none --- */

static void nothing_is_verified_only_where_that_is_written_out(void) {
    const char *const IDENTITIES[] = {files.named, files.addressed, files.expired, files.unborn};
    for (unsigned i = 0; i < 4; i++) {
        tls_pair_start(&pair, IDENTITIES[i], NULL, "127.0.0.1", "verify=none");
        CHECK(plock_config_unverified_servers(
            pair.config)); /* so that the caller that opens the store can warn */
        CHECK_STATUS(tls_pair_connect(&pair), PLOCK_OK);
        tls_pair_stop(&pair);
    }
    tls_pair_start(&pair, files.expired, NULL, "127.0.0.1", "verify=peer");
    CHECK(!plock_config_unverified_servers(pair.config));
    CHECK_STATUS(tls_pair_connect(&pair), PLOCK_TLS_VERIFY);
    tls_pair_stop(&pair);
}

/* --- client certificates --- */

static plock_status as_client(const char *identity, int version, const char *folder_option) {
    char options[400];
    (void)snprintf(options, sizeof options, "ca_file=%s&server_name=localhost%s%s", files.ca,
                   folder_option, identity ? identity : "");
    tls_pair_start(&pair, files.named, files.ca, "127.0.0.1", options);
    CHECK(SSL_CTX_set_max_proto_version(pair.server.context, version) == 1);
    return tls_pair_connect(&pair);
}

static void a_client_can_show_a_certificate(void) {
    static const int VERSIONS[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (unsigned i = 0; i < 2; i++) {
        /* the certificate's file also contains the key */
        CHECK_STATUS(as_client(files.client, VERSIONS[i], "&cert="), PLOCK_OK);
        CHECK(pair.server.handshaken);
        tls_pair_stop(&pair);
    }
}

/* In TLS 1.2, the handshake fails. In TLS 1.3, the client finishes the handshake before the server
 * checks the client's certificate. So only the next read or write fails. */
static void check_client_refused(const char *identity, const char *option) {
    static const int VERSIONS[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (unsigned i = 0; i < 2; i++) {
        char byte;
        size_t got;
        plock_status status = as_client(identity, VERSIONS[i], option);
        CHECK(VERSIONS[i] == TLS1_3_VERSION || status == PLOCK_TLS);
        CHECK(!pair.server.handshaken);
        if (!status) status = tls_pair_read(&pair, &byte, 1, &got);
        CHECK_STATUS(status, PLOCK_TLS);
        CHECK_HAS(pair.error.message, "TLS: ");
        CHECK_HAS(pair.error.message, "alert");
        tls_pair_stop(&pair);
    }
}

static void a_missing_client_certificate_is_told(void) { check_client_refused(NULL, ""); }

static void a_client_certificate_of_a_stranger_is_told(void) {
    check_client_refused(files.stranger, "&cert=");
}

/* When the write fails, an alert of the server is waiting to be read. The alert explains more than
 * "broken pipe". */
static void the_servers_reason_is_told_even_if_the_write_fails(void) {
    size_t sent;
    plock_status status = as_client(NULL, TLS1_3_VERSION, "");
    CHECK_STATUS(status, PLOCK_OK);
    /* the server has already sent the alert, and now also closes the connection */
    tls_server_hang_up(&pair.server, false);
    for (int i = 0; i < 50 && !status; i++)
        status =
            pair.transport->does->write(pair.transport, "x", 1, &sent, &pair.interest, &pair.error);
    CHECK_STATUS(status, PLOCK_TLS);
    CHECK_HAS(pair.error.message, "certificate required");
    tls_pair_stop(&pair);
}

/* If the server has already answered, only this connection is damaged, and a new one may work. */
static void a_spoilt_record_is_a_disconnection_if_the_server_has_answered(void) {
    char options[128], bytes[8];
    size_t got;
    (void)snprintf(options, sizeof options, "ca_file=%s", files.ca);
    for (int answered = 0; answered < 2; answered++) {
        tls_pair_start(&pair, files.addressed, NULL, "127.0.0.1", options);
        CHECK_STATUS(tls_pair_connect(&pair), PLOCK_OK);
        if (answered) {
            tls_server_write(&pair.server, "+PONG\r\n", 7);
            CHECK_STATUS(tls_pair_read(&pair, bytes, sizeof bytes, &got), PLOCK_OK);
        }
        CHECK(write(pair.server.fd, "\x17\x03\x03\x00\x14twenty spoilt bytes.", 25) == 25);
        CHECK_STATUS(tls_pair_read(&pair, bytes, sizeof bytes, &got),
                     answered ? PLOCK_DISCONNECTED : PLOCK_TLS);
        CHECK_HAS(pair.error.message, answered ? "the connection broke: TLS: " : "TLS: ");
        tls_pair_stop(&pair);
    }
}

/* --- versions --- */

static void tls_1_2_is_spoken(void) {
    char options[128];
    (void)snprintf(options, sizeof options, "ca_file=%s", files.ca);
    tls_pair_start(&pair, files.addressed, NULL, "127.0.0.1", options);
    CHECK(SSL_CTX_set_max_proto_version(pair.server.context, TLS1_2_VERSION) == 1);
    CHECK_STATUS(tls_pair_connect(&pair), PLOCK_OK);
    CHECK_TEXT(SSL_get_version(pair.server.ssl), "TLSv1.2");
    tls_pair_stop(&pair);
}

static void tls_1_1_is_not_spoken_even_without_verification(void) {
    tls_pair_start(&pair, files.addressed, NULL, "127.0.0.1", "verify=none");
    SSL_CTX_set_security_level(pair.server.context, 0);
    CHECK(SSL_CTX_set_min_proto_version(pair.server.context, TLS1_VERSION) == 1 &&
          SSL_CTX_set_max_proto_version(pair.server.context, TLS1_1_VERSION) == 1);
    CHECK_STATUS(tls_pair_connect(&pair), PLOCK_TLS);
    CHECK(!pair.server.handshaken);
    tls_pair_stop(&pair);
}

int main(void) {
    thread_state_watch();
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    plock__replace_name_service(everything_is_here);
    if (!certificates_make(&files)) return test_end("transport tls");
    RUN(the_right_name_or_address_is_accepted);
    RUN(another_name_is_refused);
    RUN(the_wrong_time_is_refused);
    RUN(an_unknown_authority_is_refused);
    RUN(without_a_ca_the_systems_are_asked);
    RUN(nothing_is_verified_only_where_that_is_written_out);
    RUN(a_client_can_show_a_certificate);
    RUN(a_missing_client_certificate_is_told);
    RUN(a_client_certificate_of_a_stranger_is_told);
    RUN(the_servers_reason_is_told_even_if_the_write_fails);
    RUN(a_spoilt_record_is_a_disconnection_if_the_server_has_answered);
    RUN(tls_1_2_is_spoken);
    RUN(tls_1_1_is_not_spoken_even_without_verification);
    certificates_remove(&files);
    return test_end("transport tls");
}
