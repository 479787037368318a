/* TCP and Unix sockets. */
#include "net/transport.h"

#include "base/descriptor.h"
#include "base/failure.h"
#include "base/memory.h"
#include "base/platform.h"
#include "runtime/busy_poll.h"
#include "runtime/interest.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/un.h>

/* A Unix socket with a full backlog refuses a connection with EAGAIN, and poll(2) does not report
 * when there is room. connect_step tries again after this pause. */
static const plock_ns BACKLOG_PAUSE = 2 * PLOCK_MILLISECOND;

/* The limits of read_ahead, which waits briefly for an answer. READ_AHEAD_MS: how long its recv(2)
 * may sleep. READ_AHEAD_MOST_MS: how long read_ahead takes at most, including the busy polling
 * before the sleep. AHEAD_ROOM: how many bytes it reads at most; an answer about a lock is
 * shorter. */
enum { READ_AHEAD_MS = 10, READ_AHEAD_MOST_MS = 11, AHEAD_ROOM = 256 };

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
    /* May recv(2) sleep on the socket, for READ_AHEAD_MS at most? While the socket connects, it
     * never blocks. All calls that must not wait pass MSG_DONTWAIT. */
    bool blocks;
    bool slow; /* nothing came within READ_AHEAD_MS, so the thread now waits in poll(2) */
    plock__answers answers;
    int ahead_failed; /* errno of the last read ahead; 0 if it did not fail */
    unsigned ahead_from, ahead_to;
    char ahead[AHEAD_ROOM]; /* bytes that were read and not returned yet */
} socket_transport;

static socket_transport *of(plock_transport *transport) {
    return (socket_transport *)(void *)transport;
}

int plock__socket_descriptor(const plock_transport *transport) {
    return ((const socket_transport *)(const void *)transport)->fd;
}

const char *plock__socket_host(const plock_transport *transport) {
    const socket_transport *s = (const socket_transport *)(const void *)transport;
    return *s->addresses.host ? s->addresses.host : s->resolver->host;
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
    /* A failure does not matter, because these options only make the connection faster, or show its
     * loss sooner. */
    if (family != AF_UNIX) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
#if defined(TCP_KEEPIDLE) && defined(TCP_KEEPINTVL) && defined(TCP_KEEPCNT)
        const int idle = 15, interval = 5, probes = 3; /* idle and interval in seconds */
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
        plock__close_descriptor(&s->fd);
        return plock__fail_errno(error, PLOCK_CONNECT, "preparing a socket", code);
    }
    set_options(s->fd, family);
    return PLOCK_OK;
}

/* Writes "connecting to ADDRESS:PORT" or "connecting to PATH", for a message. */
static void describe(const socket_transport *s, const plock_address *address, char *to,
                     size_t room) {
    char host[NI_MAXHOST], port[NI_MAXSERV];
    const struct sockaddr *const name = (const struct sockaddr *)&address->storage;
    if (s->config->scheme == PLOCK_UNIX)
        (void)snprintf(to, room, "connecting to %s", s->config->path);
    else if (getnameinfo(name, address->length, host, sizeof host, port, sizeof port,
                         NI_NUMERICHOST | NI_NUMERICSERV))
        (void)snprintf(to, room, "connecting");
    else
        (void)snprintf(
            to, room, name->sa_family == AF_INET6 ? "connecting to [%s]:%s" : "connecting to %s:%s",
            host, port);
}

/* Records why this address failed, in case no other address works. */
static plock_status refused(const socket_transport *s, const plock_address *address,
                            const char *why, int code, plock_error *error) {
    char doing[160];
    describe(s, address, doing, sizeof doing);
    if (code) return plock__fail_errno(error, PLOCK_CONNECT, doing, code);
    return plock__fail(error, PLOCK_CONNECT, "%s: %s", doing, why);
}

/* Lets recv(2) on this socket sleep for READ_AHEAD_MS at most. Returns false if that fails. The
 * socket then never blocks, as before. */
static bool let_block(int fd) {
    const struct timeval most = {.tv_usec = READ_AHEAD_MS * 1000};
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most) == 0 &&
           fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

/* Tries one address after another; each gets an equal share of the time left. */
static plock_status connect_step(plock_transport *transport, plock_ns deadline,
                                 plock_interest *interest, plock_error *error) {
    socket_transport *s = of(transport);
    if (!s->resolved) {
        const plock_status status = find_addresses(s, interest, error);
        if (status == PLOCK_AGAIN && plock_now() >= deadline)
            return plock__unresolved_yet(s->resolver, s->lookup, error);
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
            if (failure) { /* for example, this host lacks the address family */
                s->next++;
                continue;
            }
            s->address_deadline = now + (deadline - now) / (plock_ns)(s->addresses.count - s->next);
        }
        if (connect(s->fd, (const struct sockaddr *)&address->storage, address->length) == 0 ||
            errno == EISCONN) {
            s->blocks = let_block(s->fd);
            return PLOCK_OK;
        }
        const int code = errno;
        const bool pending = code == EINPROGRESS || code == EALREADY || code == EINTR,
                   full = code == EAGAIN;
        if ((pending || full) && now < s->address_deadline) {
            plock__interest_set(interest, full ? -1 : s->fd, POLLOUT);
            interest->deadline = full && now + BACKLOG_PAUSE < s->address_deadline
                                     ? now + BACKLOG_PAUSE
                                     : s->address_deadline;
            return PLOCK_AGAIN;
        }
        plock__close_descriptor(&s->fd);
        failure = refused(s, address, "no answer", pending || full ? 0 : code, error);
        s->next++;
    }
    return failure;
}

/* --- reading and writing --- */

static bool would_block(void) { return errno == EAGAIN || errno == EWOULDBLOCK; }

/* Receives bytes into `ahead`. Returns true if anything came: bytes, the end of the connection or
 * an error. */
static bool receive(socket_transport *s, int flags) {
    const ssize_t n = recv(s->fd, s->ahead, sizeof s->ahead, flags);
    s->ahead_from = 0;
    s->ahead_to = n > 0 ? (unsigned)n : 0;
    if (n < 0 && errno != EINTR && !would_block()) s->ahead_failed = errno;
    return n >= 0 || s->ahead_failed;
}

static bool look(void *transport) { return receive(transport, MSG_DONTWAIT); }

/* Waits briefly for bytes. Keeps the bytes, or the error, until the transport is next read. Does
 * not wait if the deadline of the interest is too near. */
static plock_status read_ahead(const plock_interest *interest) {
    socket_transport *s = interest->source;
    if (interest->fd != s->fd ||
        plock_after(plock_now(), READ_AHEAD_MOST_MS * PLOCK_MILLISECOND) > interest->deadline)
        return PLOCK_AGAIN;
    if (s->ahead_from < s->ahead_to || s->ahead_failed) return PLOCK_OK;
    const bool came = plock__busy_poll(&s->answers, look, s) || receive(s, 0);
    if (!came && errno == EINTR) return PLOCK_INTERRUPTED;
    s->slow = !came;
    return PLOCK_OK;
}

void plock__socket_expect(plock_transport *socket, plock_interest *interest) {
    socket_transport *s = of(socket);
    plock__interest_set(interest, s->fd, POLLIN);
    interest->read_ahead = s->blocks && !s->slow ? read_ahead : NULL;
    interest->source = s;
}

size_t plock__socket_pending(const plock_transport *socket) {
    const socket_transport *s = (const socket_transport *)(const void *)socket;
    return s->ahead_to - s->ahead_from;
}

ssize_t plock__socket_read(plock_transport *socket, char *buffer, size_t size) {
    socket_transport *s = of(socket);
    const size_t ahead = plock__socket_pending(socket), count = ahead < size ? ahead : size;
    if (count) {
        memcpy(buffer, s->ahead + s->ahead_from, count);
        s->ahead_from += (unsigned)count;
        return (ssize_t)count;
    }
    if (s->ahead_failed) {
        errno = s->ahead_failed;
        return -1;
    }
    ssize_t n;
    do n = recv(s->fd, buffer, size, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0) s->slow = false;
    return n;
}

static plock_status broken(plock_error *error) {
    return plock__fail_errno(error, PLOCK_DISCONNECTED, "the connection broke", errno);
}

static plock_status read_some(plock_transport *transport, char *buffer, size_t size, size_t *got,
                              plock_interest *interest, plock_error *error) {
    const ssize_t n = plock__socket_read(transport, buffer, size);
    if (n < 0 && !would_block()) return broken(error);
    if (n < 0) {
        plock__socket_expect(transport, interest);
        return PLOCK_AGAIN;
    }
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
    if (n < 0 && !would_block()) return broken(error);
    if (n < 0) {
        plock__interest_set(interest, s->fd, POLLOUT);
        return PLOCK_AGAIN;
    }
    *sent = (size_t)n;
    return PLOCK_OK;
}

static bool alive(plock_transport *transport) {
    const socket_transport *s = of(transport);
    char byte;
    return !plock__socket_pending(transport) && !s->ahead_failed &&
           recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && would_block();
}

static void abandon(plock_transport *transport) { plock__close_descriptor(&of(transport)->fd); }

static void destroy(plock_transport *transport) {
    socket_transport *s = of(transport);
    plock__close_descriptor(&s->fd);
    plock__abandon_lookup(&s->lookup);
    plock__free(s);
}

plock_transport *plock__socket_transport(const plock_config *config, plock_resolver *resolver) {
    static const plock_transport_operations OPERATIONS = {
        connect_step,          read_some, write_some, plock__socket_expect,
        plock__socket_pending, alive,     abandon,    destroy};
    socket_transport *s = plock__allocate(sizeof *s);
    if (!s) return NULL;
    s->base.does = &OPERATIONS;
    s->config = config;
    s->resolver = resolver;
    s->fd = -1;
    return &s->base;
}
