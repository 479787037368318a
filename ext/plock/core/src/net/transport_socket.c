/* TCP and Unix sockets. */
#include "net/transport.h"

#include "base/descriptor.h"
#include "base/failure.h"
#include "base/memory.h"
#include "base/platform.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

/* A listening Unix socket with a full backlog refuses with EAGAIN, and does not report when there
 * is room. */
static const plock_ns BACKLOG_PAUSE = 2 * PLOCK_MILLISECOND;

typedef struct socket_transport {
    plock_transport base;
    const plock_config *config;
    plock_resolver *resolver;
    plock_lookup *lookup;
    bool resolved;
    plock_addresses addresses;
    unsigned next; /* the index of the address to try */
    int fd;        /* -1: no socket is open */
    plock_ns address_deadline;
} socket_transport;

static socket_transport *of(plock_transport *transport) {
    return (socket_transport *)(void *)transport;
}

int plock__socket_descriptor(const plock_transport *transport) {
    return ((const socket_transport *)(const void *)transport)->fd;
}

static void hang_up(socket_transport *s) {
    if (s->fd >= 0) (void)close(s->fd);
    s->fd = -1;
}

static plock_status find_addresses(socket_transport *s, plock_interest *interest,
                                   plock_error *error) {
    if (s->config->scheme != PLOCK_UNIX)
        return plock__resolve(s->resolver, &s->lookup, &s->addresses, interest, error);
    struct sockaddr_un unix_address = {.sun_family = AF_UNIX};
    const size_t length = strlen(s->config->path);
    if (length >= sizeof unix_address.sun_path)
        return plock__fail(error, PLOCK_BAD_CONFIG,
                           "the socket's path is longer than the %zu bytes that the system allows",
                           sizeof unix_address.sun_path - 1);
    memcpy(unix_address.sun_path, s->config->path, length + 1);
    memcpy(&s->addresses.list[0].storage, &unix_address, sizeof unix_address);
    s->addresses.list[0].length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
    s->addresses.count = 1;
    return PLOCK_OK;
}

static void set_options(int fd, int family) {
    const int on = 1;
    /* No failure of these options matters: they only make the connection faster, or show its loss
     * sooner. */
    if (family != AF_UNIX) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
#if defined(TCP_KEEPIDLE) && defined(TCP_KEEPINTVL) && defined(TCP_KEEPCNT)
        const int idle = 15, interval = 5, probes = 3; /* seconds, seconds, times */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
#endif
    }
#ifdef SO_NOSIGPIPE
    (void)setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
}

static plock_status open_socket(socket_transport *s, int family, plock_error *error) {
    s->fd = socket(family, SOCK_STREAM | PLOCK__SOCKET_FLAGS, 0);
    if (s->fd < 0) return plock__fail_errno(error, PLOCK_CONNECT, "opening a socket", errno);
    if (!PLOCK__SOCKET_FLAGS && plock__prepare_descriptor(s->fd)) {
        const int code = errno;
        hang_up(s);
        return plock__fail_errno(error, PLOCK_CONNECT, "preparing a socket", code);
    }
    set_options(s->fd, family);
    return PLOCK_OK;
}

/* Records why this address failed, in case no other one works. */
static plock_status refused(const socket_transport *s, const plock_address *address,
                            const char *why, int code, plock_error *error) {
    char place[NI_MAXHOST] = "", doing[NI_MAXHOST + 32];
    if (s->config->scheme != PLOCK_UNIX)
        (void)getnameinfo((const struct sockaddr *)&address->storage, address->length, place,
                          sizeof place, NULL, 0, NI_NUMERICHOST);
    (void)snprintf(doing, sizeof doing, "connecting%s%s", *place ? " to " : "", place);
    if (code) return plock__fail_errno(error, PLOCK_CONNECT, doing, code);
    return plock__fail(error, PLOCK_CONNECT, "%.128s: %s", doing, why);
}

/* Tries one address after another; each gets an equal share of the time left. */
static plock_status connect_step(plock_transport *transport, plock_ns deadline,
                                 plock_interest *interest, plock_error *error) {
    socket_transport *s = of(transport);
    if (!s->resolved) {
        const plock_status status = find_addresses(s, interest, error);
        if (status == PLOCK_AGAIN && plock_now() >= deadline)
            return plock__fail(error, PLOCK_RESOLVE,
                               "the host name %s could not be resolved in time", s->config->host);
        if (status) return status;
        s->resolved = true;
    }
    plock_status failure = PLOCK_CONNECT;
    while (s->next < s->addresses.count) {
        const plock_address *address = &s->addresses.list[s->next];
        const plock_ns now = plock_now();
        if (s->fd < 0) {
            failure = open_socket(s, address->storage.ss_family, error);
            if (failure == PLOCK_DESCRIPTORS || failure == PLOCK_NO_MEMORY) return failure;
            if (failure) { /* for example a family that this host lacks */
                s->next++;
                continue;
            }
            s->address_deadline = now + (deadline - now) / (plock_ns)(s->addresses.count - s->next);
        }
        if (connect(s->fd, (const struct sockaddr *)&address->storage, address->length) == 0 ||
            errno == EISCONN)
            return PLOCK_OK;
        const int code = errno;
        const bool pending = code == EINPROGRESS || code == EALREADY || code == EINTR,
                   full = code == EAGAIN;
        if ((pending || full) && now < s->address_deadline) {
            interest->fd = full ? -1 : s->fd;
            interest->events = POLLOUT;
            interest->deadline = full && now + BACKLOG_PAUSE < s->address_deadline
                                     ? now + BACKLOG_PAUSE
                                     : s->address_deadline;
            return PLOCK_AGAIN;
        }
        hang_up(s);
        failure = refused(s, address, "no answer", pending || full ? 0 : code, error);
        s->next++;
    }
    return failure;
}

/* Returns the status of a failed send or recv. */
static plock_status broken(socket_transport *s, short events, int code, plock_interest *interest,
                           plock_error *error) {
    if (code == EAGAIN || code == EWOULDBLOCK) {
        interest->fd = s->fd;
        interest->events = events;
        return PLOCK_AGAIN;
    }
    return plock__fail_errno(error, PLOCK_DISCONNECTED, "the connection broke", code);
}

static plock_status read_some(plock_transport *transport, char *buffer, size_t size, size_t *got,
                              plock_interest *interest, plock_error *error) {
    socket_transport *s = of(transport);
    ssize_t n;
    do n = recv(s->fd, buffer, size, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0) return broken(s, POLLIN, errno, interest, error);
    if (n == 0) return plock__fail_plainly(error, PLOCK_DISCONNECTED);
    *got = (size_t)n;
    return PLOCK_OK;
}

static plock_status write_some(plock_transport *transport, const char *bytes, size_t size,
                               size_t *sent, plock_interest *interest, plock_error *error) {
    socket_transport *s = of(transport);
    ssize_t n;
    do n = send(s->fd, bytes, size, PLOCK__SEND_FLAGS);
    while (n < 0 && errno == EINTR);
    if (n < 0) return broken(s, POLLOUT, errno, interest, error);
    *sent = (size_t)n;
    return PLOCK_OK;
}

static bool alive(plock_transport *transport) {
    char byte;
    return recv(of(transport)->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

static void abandon(plock_transport *transport) { hang_up(of(transport)); }

static void destroy(plock_transport *transport) {
    socket_transport *s = of(transport);
    hang_up(s);
    plock__abandon_lookup(&s->lookup);
    plock__free(s);
}

plock_transport *plock__socket_transport(const plock_config *config, plock_resolver *resolver) {
    static const plock_transport_operations OPERATIONS = {
        connect_step, read_some, write_some, plock__socket_descriptor,
        NULL,         alive,     abandon,    destroy};
    socket_transport *s = plock__allocate(sizeof *s);
    if (!s) return NULL;
    s->base.does = &OPERATIONS;
    s->config = config;
    s->resolver = resolver;
    s->fd = -1;
    return &s->base;
}
