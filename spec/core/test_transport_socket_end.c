/* How a socket connection ends: the other side hangs up, resets it, or sends more than was
 * requested, or this side gives it up. */
#include "loopback.h"
#include "socket_pair.h"
#include "test.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static socket_pair pair;

static plock_status read_one(void) {
    char byte;
    size_t got;
    plock_status status;
    while ((status = pair.transport->does->read(pair.transport, &byte, 1, &got, &pair.interest,
                                                &pair.error)) == PLOCK_AGAIN) {
        struct pollfd polled = {.fd = pair.interest.fd, .events = pair.interest.events};
        CHECK_INT(poll(&polled, 1, 10000), 1);
    }
    return status;
}

static bool alive(void) { return pair.transport->does->alive(pair.transport); }

static void hang_up(void) {
    CHECK(close(pair.peer) == 0);
    pair.peer = -1;
    CHECK(loopback_readable(plock__socket_descriptor(pair.transport)));
}

static void reset(void) {
    loopback_reset(pair.peer);
    pair.peer = -1;
    CHECK(loopback_readable(plock__socket_descriptor(pair.transport)));
}

static void an_end_is_a_disconnection(void) {
    socket_pair_begin(&pair);
    CHECK(write(pair.peer, "x", 1) == 1);
    hang_up();
    CHECK_STATUS(read_one(), PLOCK_OK); /* bytes that were sent before the end still arrive */
    CHECK_STATUS(read_one(), PLOCK_DISCONNECTED);
    CHECK_TEXT(pair.error.message, "the server closed the connection");
    socket_pair_end(&pair);
}

static void a_reset_is_a_disconnection(void) {
    socket_pair_begin(&pair);
    reset();
    CHECK_STATUS(read_one(), PLOCK_DISCONNECTED);
    CHECK_HAS(pair.error.message, "the connection broke: ");
    socket_pair_end(&pair);
}

/* By default, such a write raises SIGPIPE, which would end the host program. */
static void writing_to_a_closed_peer_raises_no_signal(void) {
    size_t sent;
    socket_pair_begin(&pair);
    reset();
    plock_status status = PLOCK_OK;
    for (int i = 0; i < 10 && !status; i++)
        status =
            pair.transport->does->write(pair.transport, "x", 1, &sent, &pair.interest, &pair.error);
    CHECK_STATUS(status, PLOCK_DISCONNECTED);
    /* the second write fails with EPIPE */
    CHECK_STATUS(
        pair.transport->does->write(pair.transport, "x", 1, &sent, &pair.interest, &pair.error),
        PLOCK_DISCONNECTED);
    socket_pair_end(&pair);
}

static void an_idle_connection_looks_alive(void) {
    socket_pair_begin(&pair);
    CHECK(alive());
    CHECK(alive());
    socket_pair_end(&pair);
}

static void one_with_unexpected_bytes_does_not(void) {
    socket_pair_begin(&pair);
    CHECK(write(pair.peer, "-ERR max number of clients reached\r\n", 36) == 36);
    CHECK(loopback_readable(plock__socket_descriptor(pair.transport)));
    CHECK(!alive());
    socket_pair_end(&pair);
}

static void one_that_was_closed_does_not(void) {
    socket_pair_begin(&pair);
    hang_up();
    CHECK(!alive());
    socket_pair_end(&pair);
    socket_pair_begin(&pair);
    reset();
    CHECK(!alive());
    socket_pair_end(&pair);
}

static void letting_go_closes_and_sends_nothing(void) {
    char byte;
    for (int way = 0; way < 2; way++) {
        socket_pair_begin(&pair);
        if (way)
            pair.transport->does->abandon(pair.transport);
        else {
            pair.transport->does->destroy(pair.transport);
            /* socket_pair_end needs a transport */
            pair.transport = plock__socket_transport(pair.config, &pair.resolver);
        }
        CHECK(loopback_readable(pair.peer));
        CHECK_INT(recv(pair.peer, &byte, 1, 0), 0);
        CHECK_INT(plock__socket_descriptor(pair.transport), -1);
        socket_pair_end(&pair);
    }
}

/* A forked child closes its copy of the descriptor. The parent's connection still works. */
static void abandon_in_child(void *context) {
    (void)context;
    pair.transport->does->abandon(pair.transport);
    pair.transport->does->abandon(pair.transport);
    pair.transport->does->destroy(pair.transport);
}

static void a_child_that_lets_go_does_not_end_its_parents_connection(void) {
    socket_pair_begin(&pair);
    test_in_child(abandon_in_child, NULL);
    CHECK(alive());
    CHECK(write(pair.peer, "x", 1) == 1);
    CHECK_STATUS(read_one(), PLOCK_OK);
    socket_pair_end(&pair);
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
