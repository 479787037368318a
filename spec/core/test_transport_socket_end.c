/* How the connection of a socket ends: the other side hangs up, resets it, says more than was
 * asked; or we let go of it. */
#include "loopback.h"
#include "test.h"

#include "base/memory.h"
#include "net/transport.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static plock_config *config;
static plock_resolver resolver;
static plock_transport *transport;
static plock_error error;
static plock_interest interest;
static int listener, peer;

static void begin(void) {
    char port[LOOPBACK_PORT_ROOM], url[64];
    listener = loopback_listen("127.0.0.1", 8, port);
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%s", port);
    CHECK_STATUS(plock_config_new(&config, url, &error), PLOCK_OK);
    resolver = (plock_resolver){.host = config->host, .port = config->port};
    transport = plock__socket_transport(config, &resolver);
    const plock_ns deadline = plock_now() + 10 * PLOCK_SECOND;
    plock_status status;
    while ((status = transport->does->connect(transport, deadline, &interest, &error)) ==
           PLOCK_AGAIN)
        (void)plock_wait_poll(NULL, &interest);
    CHECK_STATUS(status, PLOCK_OK);
    peer = loopback_accept(listener, true);
}

static void end(void) {
    transport->does->destroy(transport);
    plock_config_free(config);
    CHECK_INT(plock__live_allocations(), 0);
    if (peer >= 0) CHECK(close(peer) == 0);
    CHECK(close(listener) == 0);
}

static plock_status read_one(void) {
    char byte;
    size_t got;
    plock_status status;
    while ((status = transport->does->read(transport, &byte, 1, &got, &interest, &error)) ==
           PLOCK_AGAIN) {
        struct pollfd polled = {.fd = interest.fd, .events = interest.events};
        CHECK_INT(poll(&polled, 1, 10000), 1);
    }
    return status;
}

static bool alive(void) { return transport->does->alive(transport); }

static void hang_up(void) {
    CHECK(close(peer) == 0);
    peer = -1;
    CHECK(loopback_readable(plock__socket_descriptor(transport)));
}

static void reset(void) {
    loopback_reset(peer);
    peer = -1;
    CHECK(loopback_readable(plock__socket_descriptor(transport)));
}

static void an_end_is_a_disconnection(void) {
    begin();
    CHECK(write(peer, "x", 1) == 1);
    hang_up();
    CHECK_STATUS(read_one(), PLOCK_OK); /* bytes that were sent before it still arrive */
    CHECK_STATUS(read_one(), PLOCK_DISCONNECTED);
    CHECK_TEXT(error.message, "the server closed the connection");
    end();
}

static void a_reset_is_a_disconnection(void) {
    begin();
    reset();
    CHECK_STATUS(read_one(), PLOCK_DISCONNECTED);
    CHECK_HAS(error.message, "the connection broke: ");
    end();
}

/* The signal that this raises by default would end the host program. */
static void writing_to_a_closed_peer_raises_no_signal(void) {
    size_t sent;
    begin();
    reset();
    plock_status status = PLOCK_OK;
    for (int i = 0; i < 10 && !status; i++)
        status = transport->does->write(transport, "x", 1, &sent, &interest, &error);
    CHECK_STATUS(status, PLOCK_DISCONNECTED);
    /* EPIPE now */
    CHECK_STATUS(transport->does->write(transport, "x", 1, &sent, &interest, &error),
                 PLOCK_DISCONNECTED);
    end();
}

static void an_idle_connection_looks_alive(void) {
    begin();
    CHECK(alive());
    CHECK(alive());
    end();
}

static void one_with_unexpected_bytes_does_not(void) {
    begin();
    CHECK(write(peer, "-ERR max number of clients reached\r\n", 36) == 36);
    CHECK(loopback_readable(plock__socket_descriptor(transport)));
    CHECK(!alive());
    end();
}

static void one_that_was_closed_does_not(void) {
    begin();
    hang_up();
    CHECK(!alive());
    end();
    begin();
    reset();
    CHECK(!alive());
    end();
}

static void letting_go_closes_and_sends_nothing(void) {
    char byte;
    for (int way = 0; way < 2; way++) {
        begin();
        if (way)
            transport->does->abandon(transport);
        else {
            transport->does->destroy(transport);
            transport = plock__socket_transport(config, &resolver); /* for end() */
        }
        CHECK(loopback_readable(peer));
        CHECK_INT(recv(peer, &byte, 1, 0), 0);
        CHECK_INT(plock__socket_descriptor(transport), -1);
        end();
    }
}

/* A forked child closes its copy; the parent's connection goes on. */
static void abandon_in_child(void *context) {
    (void)context;
    transport->does->abandon(transport);
    transport->does->abandon(transport);
    transport->does->destroy(transport);
}

static void a_child_that_lets_go_does_not_end_its_parents_connection(void) {
    begin();
    test_in_child(abandon_in_child, NULL);
    CHECK(alive());
    CHECK(write(peer, "x", 1) == 1);
    CHECK_STATUS(read_one(), PLOCK_OK);
    end();
}

int main(void) {
    (void)signal(SIGPIPE, SIG_DFL);
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(an_end_is_a_disconnection);
    RUN(a_reset_is_a_disconnection);
    RUN(writing_to_a_closed_peer_raises_no_signal);
    RUN(an_idle_connection_looks_alive);
    RUN(one_with_unexpected_bytes_does_not);
    RUN(one_that_was_closed_does_not);
    RUN(letting_go_closes_and_sends_nothing);
    RUN(a_child_that_lets_go_does_not_end_its_parents_connection);
    return test_end("transport socket end");
}
