#include "loopback.h"

#include "test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PATIENCE_MS = 10000 };

static int bind_to(const char *address, char port[LOOPBACK_PORT_ROOM]) {
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    const bool is_v6 = strchr(address, ':');
    (void)inet_pton(is_v6 ? AF_INET6 : AF_INET, address,
                    is_v6 ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr);
    struct sockaddr *name = is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
    socklen_t length = is_v6 ? sizeof v6 : sizeof v4;
    const int fd = socket(name->sa_family, SOCK_STREAM, 0);
    if (fd < 0) return -1;
    if (bind(fd, name, length) || getsockname(fd, name, &length)) {
        (void)close(fd);
        return -1;
    }
    (void)snprintf(port, LOOPBACK_PORT_ROOM, "%u",
                   (unsigned)ntohs(is_v6 ? v6.sin6_port : v4.sin_port));
    return fd;
}

int loopback_listen(const char *address, int backlog, char port[LOOPBACK_PORT_ROOM]) {
    const int fd = bind_to(address, port);
    if (fd >= 0) CHECK(listen(fd, backlog) == 0);
    return fd;
}

int loopback_listen_unix(const char *path, int backlog) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(fd >= 0 && bind(fd, (const struct sockaddr *)&name, sizeof name) == 0 &&
          listen(fd, backlog) == 0);
    return fd;
}

void loopback_free_port(char port[LOOPBACK_PORT_ROOM]) {
    const int fd = bind_to("127.0.0.1", port);
    CHECK(fd >= 0 && close(fd) == 0);
}

bool loopback_readable(int fd) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, PATIENCE_MS) == 1;
}

int loopback_accept(int listener, bool blocking) {
    if (!CHECK(loopback_readable(listener))) return -1;
    const int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    if (!blocking) CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    return fd;
}

void loopback_reset(int fd) {
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
    CHECK(close(fd) == 0);
}
