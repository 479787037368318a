#include "tls_pair.h"

#include "fake.h"
#include "test.h"
#include "thread_state.h"

#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>

plock_status tls_pair_renew(tls_pair *pair) {
    if (pair->transport) pair->transport->does->destroy(pair->transport);
    pair->transport = NULL;
    tls_server_hang_up(&pair->server, false);
    SSL_CTX *context;
    (void)thread_state_drop();
    const plock_status status = plock__tls_context(&context, pair->config, &pair->error);
    CHECK(!thread_state_drop());
    if (status) return status;
    pair->transport = plock__tls_transport(pair->config, &pair->resolver, context);
    return pair->transport ? PLOCK_OK : PLOCK_NO_MEMORY;
}

void tls_pair_start(tls_pair *pair, const char *identity, const char *client_ca, const char *host,
                    const char *options) {
    char url[512];
    *pair = (tls_pair){.interest = {.fd = -1}};
    tls_server_start(&pair->server, identity, client_ca);
    (void)snprintf(url, sizeof url, "rediss://%s:%s?%s", host, pair->server.port, options);
    CHECK_STATUS(plock_config_new(&pair->config, url, &pair->error), PLOCK_OK);
    pair->resolver =
        (plock_resolver){.host = pair->config->server.host, .port = pair->config->server.port};
    CHECK_STATUS(tls_pair_renew(pair), PLOCK_OK);
}

/* Steps the server, and waits for the client's descriptor for at most a millisecond. */
static void wait_stepping(tls_pair *pair) {
    struct pollfd polled = {.fd = pair->interest.fd, .events = pair->interest.events};
    tls_server_step(&pair->server);
    (void)poll(&polled, 1, 1);
}

static plock_status connect_step(tls_pair *pair, plock_ns deadline) {
    (void)thread_state_drop(); /* drops the state of the server, which also runs on this thread */
    const plock_status status =
        pair->transport->does->connect(pair->transport, deadline, &pair->interest, &pair->error);
    CHECK(!thread_state_drop());
    return status;
}

static plock_status read_step(tls_pair *pair, char *bytes, size_t size, size_t *got) {
    (void)thread_state_drop();
    const plock_status status = pair->transport->does->read(pair->transport, bytes, size, got,
                                                            &pair->interest, &pair->error);
    CHECK(!thread_state_drop());
    return status;
}

plock_status tls_pair_connect(tls_pair *pair) {
    const plock_ns deadline = plock_now() + 10 * PLOCK_SECOND;
    plock_status status;
    while ((status = connect_step(pair, deadline)) == PLOCK_AGAIN) wait_stepping(pair);
    for (unsigned rounds = 0;
         !status && !pair->server.handshaken && !pair->server.failed && test_patient(&rounds);)
        tls_server_step(&pair->server);
    /* a host program that also uses OpenSSL would take an error left here for its own */
    CHECK(ERR_peek_error() == 0);
    return status;
}

plock_status tls_pair_read(tls_pair *pair, char *bytes, size_t size, size_t *got) {
    plock_status status;
    while ((status = read_step(pair, bytes, size, got)) == PLOCK_AGAIN) wait_stepping(pair);
    CHECK(ERR_peek_error() == 0);
    return status;
}

void tls_pair_stop(tls_pair *pair) {
    (void)thread_state_drop();
    if (pair->transport) pair->transport->does->destroy(pair->transport);
    plock_config_free(pair->config);
    CHECK(!thread_state_drop());
    plock__resolver_clear(&pair->resolver);
    tls_server_stop(&pair->server);
    fake_settle();
}
