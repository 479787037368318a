/* Real TCP and Unix sockets: connecting, every address in turn, bytes in both directions, and the
 * end of a connection. */
#include "fake.h"
#include "loopback.h"
#include "test.h"

#include "net/resolver.h"
#include "net/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static plock_config *config;
static plock_resolver resolver;
static plock_transport *transport;
static plock_error error;
static plock_interest interest;
static char folder[] = "/tmp/plock-socket-XXXXXX", path[64];
static int descriptors;

static void begin(const char *url) {
    descriptors = test_open_descriptors();
    CHECK_STATUS(plock_config_new(&config, url, &error), PLOCK_OK);
    resolver = (plock_resolver){.host = config->server.host, .port = config->server.port};
    transport = plock__socket_transport(config, &resolver);
    CHECK(transport != NULL);
}

static void end(void) {
    transport->does->destroy(transport);
    plock__resolver_clear(&resolver);
    plock_config_free(config);
    fake_settle();
    CHECK_DESCRIPTORS(descriptors);
}

static void begin_tcp(const char *host, const char *port) {
    char url[128];
    (void)snprintf(url, sizeof url, "redis://%s:%s", host, port);
    begin(url);
}

static void begin_unix(void) {
    char url[128];
    (void)snprintf(url, sizeof url, "unix://%s", path);
    begin(url);
}

static plock_status step(plock_ns deadline) {
    interest = (plock_interest){.fd = -1, .deadline = deadline};
    return transport->does->connect(transport, deadline, &interest, &error);
}

static void wait_as_wanted(void) {
    struct pollfd polled = {.fd = interest.fd, .events = interest.events};
    CHECK_INT(poll(&polled, 1, 10000), 1);
}

static plock_status connect_it(void) {
    const plock_ns deadline = plock_now() + 10 * PLOCK_SECOND;
    plock_status status;
    while ((status = step(deadline)) == PLOCK_AGAIN) (void)plock_wait_poll(NULL, &interest);
    return status;
}

static plock_status read_some(char *bytes, size_t size, size_t *got) {
    plock_status status;
    while ((status = transport->does->read(transport, bytes, size, got, &interest, &error)) ==
           PLOCK_AGAIN)
        wait_as_wanted();
    return status;
}

/* --- a connection that works --- */

static void check_both_directions(int peer) {
    char bytes[16];
    size_t count = 0;
    CHECK_STATUS(transport->does->read(transport, bytes, sizeof bytes, &count, &interest, &error),
                 PLOCK_AGAIN);
    CHECK_INT(interest.fd, plock__socket_descriptor(transport));
    CHECK_INT(interest.events, POLLIN);
    CHECK_STATUS(transport->does->write(transport, "hello", 5, &count, &interest, &error),
                 PLOCK_OK);
    CHECK_INT(count, 5);
    CHECK(loopback_readable(peer) && read(peer, bytes, sizeof bytes) == 5 &&
          !memcmp(bytes, "hello", 5));
    CHECK(write(peer, "0123456789", 10) == 10);
    CHECK_STATUS(read_some(bytes, 4, &count), PLOCK_OK);
    CHECK(count == 4 && !memcmp(bytes, "0123", 4));
    CHECK_STATUS(read_some(bytes, sizeof bytes, &count), PLOCK_OK);
    CHECK(count == 6 && !memcmp(bytes, "456789", 6));
}

static int option(int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    CHECK(getsockopt(plock__socket_descriptor(transport), level, name, &value, &length) == 0);
    return value;
}

static void check_descriptor(void) {
    const int fd = plock__socket_descriptor(transport);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC); /* programs that this one starts do not inherit it */
}

static void tcp_connects_and_carries_bytes(void) {
    static const struct {
        const char *address, *host;
    } FAMILIES[] = {{"127.0.0.1", "127.0.0.1"}, {"::1", "[::1]"}};
    for (unsigned i = 0; i < 2; i++) {
        char port[LOOPBACK_PORT_ROOM];
        const int listener = loopback_listen(FAMILIES[i].address, 8, port);
        if (listener < 0) {
            test_skip(FAMILIES[i].address, "this machine has no such address");
            continue;
        }
        begin_tcp(FAMILIES[i].host, port);
        CHECK_STATUS(connect_it(), PLOCK_OK);
        const int peer = loopback_accept(listener, true);
        check_both_directions(peer);
        check_descriptor();
        CHECK(option(IPPROTO_TCP, TCP_NODELAY) != 0);
        CHECK(option(SOL_SOCKET, SO_KEEPALIVE) != 0);
#ifdef TCP_KEEPIDLE
        CHECK(option(IPPROTO_TCP, TCP_KEEPIDLE) < 60); /* the system's default is two hours */
#endif
        CHECK(close(peer) == 0 && close(listener) == 0);
        descriptors -= 1; /* the listener, which was counted at the beginning */
        end();
    }
}

static void unix_connects_and_carries_bytes(void) {
    const int listener = loopback_listen_unix(path, 8);
    begin_unix();
    CHECK_STATUS(connect_it(), PLOCK_OK);
    const int peer = loopback_accept(listener, true);
    check_both_directions(peer);
    check_descriptor();
    CHECK(close(peer) == 0);
    end();
    CHECK(close(listener) == 0 && unlink(path) == 0);
}

static void what_the_socket_does_not_take_waits(void) {
    static char bytes[1 << 16];
    size_t sent = 0;
    plock_status status;
    const int listener = loopback_listen_unix(path, 8);
    begin_unix();
    CHECK_STATUS(connect_it(), PLOCK_OK);
    const int peer = loopback_accept(listener, true);
    while ((status = transport->does->write(transport, bytes, sizeof bytes, &sent, &interest,
                                            &error)) == PLOCK_OK)
        CHECK(sent > 0);
    CHECK_STATUS(status, PLOCK_AGAIN);
    CHECK_INT(interest.events, POLLOUT);
    CHECK(read(peer, bytes, sizeof bytes) > 0);
    while (read(peer, bytes, sizeof bytes) == (ssize_t)sizeof bytes) continue;
    wait_as_wanted();
    CHECK_STATUS(transport->does->write(transport, bytes, 1, &sent, &interest, &error), PLOCK_OK);
    CHECK(close(peer) == 0);
    end();
    CHECK(close(listener) == 0 && unlink(path) == 0);
}

/* --- a connection that cannot be made --- */

/* Checks that the message names the server to which the connection failed. */
static void check_message(const char *format, const char *place) {
    char rest[160], message[200];
    (void)snprintf(rest, sizeof rest, format, place);
    (void)snprintf(message, sizeof message, "connecting to %s", rest);
    CHECK_TEXT(error.message, message);
}

static void a_port_without_a_listener_is_refused(void) {
    char port[LOOPBACK_PORT_ROOM];
    loopback_free_port(port);
    begin_tcp("127.0.0.1", port);
    CHECK_STATUS(connect_it(), PLOCK_CONNECT);
    check_message("127.0.0.1:%s: Connection refused", port);
    CHECK_INT(plock__socket_descriptor(transport), -1);
    end();
}

static void a_path_without_a_server_is_refused(void) {
    begin_unix();
    CHECK_STATUS(connect_it(), PLOCK_CONNECT);
    check_message("%s: No such file or directory", path);
    end();
    const int listener = loopback_listen_unix(path, 8);
    CHECK(close(listener) == 0); /* the socket's file stays, as after a crash */
    begin_unix();
    CHECK_STATUS(connect_it(), PLOCK_CONNECT);
    check_message("%s: Connection refused", path);
    end();
    CHECK(unlink(path) == 0);
}

static void a_path_that_is_too_long_is_a_matter_of_configuration(void) {
    char url[256] = "unix:///tmp/";
    memset(url + strlen(url), 'x', 150);
    begin(url);
    CHECK_STATUS(connect_it(), PLOCK_BAD_CONFIG);
    CHECK_HAS(error.message, "the socket's path is longer than the ");
    end();
}

static void without_a_descriptor_it_is_told(void) {
    struct rlimit limit, none;
    begin("redis://127.0.0.1:1");
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = limit;
    none.rlim_cur = 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    const plock_status status = step(plock_now() + PLOCK_SECOND);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK_STATUS(status, PLOCK_DESCRIPTORS);
    end();
}

/* --- several addresses of one name --- */

static struct in_addr answers[3];
static uint16_t answer_ports[3];

/* Answers every lookup with three addresses. The hints name no socket type, so the system lists
 * 127.0.0.1 once for each of three types. Each entry then gets its own address and port. */
static int three_addresses(const char *host, const char *port, const struct addrinfo *hints,
                           struct addrinfo **list) {
    const struct addrinfo any = {.ai_family = AF_INET};
    (void)host, (void)hints;
    const int failure = getaddrinfo("127.0.0.1", port, &any, list);
    unsigned n = 0;
    for (struct addrinfo *item = failure ? NULL : *list; item; item = item->ai_next, n++) {
        struct sockaddr_in *name = (struct sockaddr_in *)(void *)item->ai_addr;
        name->sin_addr = answers[n % 3];
        name->sin_port = htons(answer_ports[n % 3]);
    }
    return failure ? failure : n == 3 ? 0 : EAI_FAIL;
}

static void answer(unsigned place, const char *address, const char *port) {
    CHECK(inet_pton(AF_INET, address, &answers[place]) == 1);
    answer_ports[place] = (uint16_t)strtoul(port, NULL, 10);
}

static void each_address_is_tried_until_one_answers(void) {
    char refusing[LOOPBACK_PORT_ROOM], port[LOOPBACK_PORT_ROOM];
    const int listener = loopback_listen("127.0.0.1", 8, port);
    loopback_free_port(refusing);
    answer(0, "127.0.0.2", refusing);
    answer(1, "127.0.0.3", refusing);
    answer(2, "127.0.0.1", port);
    plock__replace_name_service(three_addresses);
    begin("redis://store.example");
    CHECK_STATUS(connect_it(), PLOCK_OK);
    const int peer = loopback_accept(listener, true);
    check_both_directions(peer);
    CHECK(close(peer) == 0);
    end();
    plock__replace_name_service(NULL);
    CHECK(close(listener) == 0);
}

static void if_none_does_the_last_one_is_named(void) {
    char refusing[LOOPBACK_PORT_ROOM];
    loopback_free_port(refusing);
    for (unsigned i = 0; i < 3; i++) answer(i, i == 2 ? "127.0.0.4" : "127.0.0.2", refusing);
    plock__replace_name_service(three_addresses);
    begin("redis://store.example");
    CHECK_STATUS(connect_it(), PLOCK_CONNECT);
    check_message("127.0.0.4:%s: Connection refused", refusing);
    end();
    plock__replace_name_service(NULL);
}

enum { FILLERS = 16 };

/* Connects to a listener until its backlog is full, so that the next connection must wait. Returns
 * the number of connections. */
static int fill(const struct sockaddr *name, socklen_t length, int fillers[FILLERS]) {
    int count = 0;
    while (count < FILLERS) {
        const int fd = socket(name->sa_family, SOCK_STREAM, 0);
        CHECK(fd >= 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
        fillers[count++] = fd;
        const bool done = connect(fd, name, length) == 0;
        struct pollfd polled = {.fd = fd, .events = POLLOUT};
        if (!done && (errno == EAGAIN || poll(&polled, 1, 50) == 0)) break;
    }
    return count;
}

/* An address that never answers must not use up the time of the addresses after it. */
static void an_address_without_an_answer_gets_its_share_of_the_time(void) {
    char full[LOOPBACK_PORT_ROOM], port[LOOPBACK_PORT_ROOM];
    int fillers[FILLERS];
    const int deaf = loopback_listen("127.0.0.1", 0, full),
              listener = loopback_listen("127.0.0.1", 8, port);
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)strtoul(full, NULL, 10))};
    (void)inet_pton(AF_INET, "127.0.0.1", &name.sin_addr);
    const int filled = fill((const struct sockaddr *)&name, sizeof name, fillers);
    if (filled == FILLERS)
        test_skip("an address without an answer", "this system's listeners are never full");
    answer(0, "127.0.0.1", full);
    answer(1, "127.0.0.1", full);
    answer(2, "127.0.0.1", port);
    plock__replace_name_service(three_addresses);
    begin("redis://store.example");
    fake_clock_start();
    const plock_ns start = plock_now(), deadline = start + 300 * PLOCK_MILLISECOND;
    while (filled < FILLERS && plock__socket_descriptor(transport) < 0 &&
           step(deadline) == PLOCK_AGAIN && interest.deadline == deadline)
        wait_as_wanted();
    if (filled < FILLERS) {
        CHECK_INT(interest.deadline, start + 100 * PLOCK_MILLISECOND); /* a third of the 300 ms */
        CHECK_INT(interest.events, POLLOUT);
        fake_clock_pass(100 * PLOCK_MILLISECOND);
        CHECK_STATUS(step(deadline), PLOCK_AGAIN);
        CHECK_INT(interest.deadline, start + 200 * PLOCK_MILLISECOND);
        fake_clock_pass(100 * PLOCK_MILLISECOND);
        plock_status status;
        while ((status = step(deadline)) == PLOCK_AGAIN) wait_as_wanted();
        CHECK_STATUS(status, PLOCK_OK);
    }
    fake_clock_stop();
    for (int i = 0; i < filled; i++) CHECK(close(fillers[i]) == 0);
    descriptors -= filled;
    end();
    plock__replace_name_service(NULL);
    CHECK(close(deaf) == 0 && close(listener) == 0);
}

/* A Unix listener with a full backlog refuses at once, and never reports that there is room again.
 * So connect is retried. */
static void a_full_unix_listener_is_asked_again(void) {
    int fillers[FILLERS];
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const int listener = loopback_listen_unix(path, 0);
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    const int filled = fill((const struct sockaddr *)&name, sizeof name, fillers);
    CHECK(filled < FILLERS);
    begin_unix();
    fake_clock_start();
    const plock_ns deadline = plock_now() + PLOCK_SECOND;
    CHECK_STATUS(step(deadline), PLOCK_AGAIN);
    CHECK_INT(interest.fd, -1);
    CHECK(interest.deadline > plock_now() &&
          interest.deadline < plock_now() + 10 * PLOCK_MILLISECOND);
    const int peer = loopback_accept(listener, true);
    CHECK_STATUS(step(deadline), PLOCK_OK);
    fake_clock_stop();
    CHECK(close(peer) == 0);
    for (int i = 0; i < filled; i++) CHECK(close(fillers[i]) == 0);
    descriptors -= filled;
    end();
    CHECK(close(listener) == 0 && unlink(path) == 0);
}

static void a_full_unix_listener_is_given_up_at_the_deadline(void) {
    int fillers[FILLERS];
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const int listener = loopback_listen_unix(path, 0);
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    const int filled = fill((const struct sockaddr *)&name, sizeof name, fillers);
    begin_unix();
    fake_clock_start();
    const plock_ns deadline = plock_now() + PLOCK_SECOND;
    CHECK_STATUS(step(deadline), PLOCK_AGAIN);
    fake_clock_pass(PLOCK_SECOND);
    CHECK_STATUS(step(deadline), PLOCK_CONNECT);
    CHECK_HAS(error.message, "no answer");
    fake_clock_stop();
    for (int i = 0; i < filled; i++) CHECK(close(fillers[i]) == 0);
    descriptors -= filled;
    end();
    CHECK(close(listener) == 0 && unlink(path) == 0);
}

int main(void) {
    (void)signal(SIGPIPE, SIG_DFL);
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    if (!CHECK(mkdtemp(folder) != NULL)) return test_end("transport socket");
    (void)snprintf(path, sizeof path, "%s/s", folder);
    RUN(tcp_connects_and_carries_bytes);
    RUN(unix_connects_and_carries_bytes);
    RUN(what_the_socket_does_not_take_waits);
    RUN(a_port_without_a_listener_is_refused);
    RUN(a_path_without_a_server_is_refused);
    RUN(a_path_that_is_too_long_is_a_matter_of_configuration);
    RUN(without_a_descriptor_it_is_told);
    RUN(each_address_is_tried_until_one_answers);
    RUN(if_none_does_the_last_one_is_named);
    RUN(an_address_without_an_answer_gets_its_share_of_the_time);
    RUN(a_full_unix_listener_is_asked_again);
    RUN(a_full_unix_listener_is_given_up_at_the_deadline);
    CHECK(rmdir(folder) == 0);
    return test_end("transport socket");
}
