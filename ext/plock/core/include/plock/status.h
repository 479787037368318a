/* What can come out of a call: one list, from which the names, the texts and the three judgements are made. */
#ifndef PLOCK_STATUS_H
#define PLOCK_STATUS_H

#include <stdbool.h>

/* X(name, kind, another try, connection, text)
 *
 * kind         which family of errors it belongs to (plock_kind): what a caller has to do about it
 * another try  RETRY: may pass by itself, so it is worth another attempt before the deadline; FINAL: it will not
 * connection   KEEPS: the connection it was seen on is in a known state and may be used again; DROPS: it is closed */
#define PLOCK_STATUSES(X)                                                                                             \
    X(OK, NONE, FINAL, KEEPS, "done")                                                                                 \
    X(AGAIN, NONE, FINAL, KEEPS, "in progress: call again as the want says")                                          \
    X(TRY_FAILED, NONE, FINAL, KEEPS, "an attempt failed and another will follow: call again")                        \
    X(INTERRUPTED, NONE, FINAL, KEEPS, "the wait was interrupted")                                                    \
    X(REFUSED, TIMEOUT, RETRY, KEEPS, "held by another owner")                                                        \
    X(TIMED_OUT, TIMEOUT, FINAL, KEEPS, "not acquired within the time given")                                         \
    X(NOT_OWNER, LOST, FINAL, KEEPS, "the lease is not ours any more")                                                \
    X(NO_MEMORY, MEMORY, FINAL, DROPS, "out of memory")                                                               \
    X(MISUSE, MISUSE, FINAL, KEEPS, "called in the wrong state or with a value out of range")                         \
    X(BAD_CONFIG, CONFIGURATION, FINAL, KEEPS, "the configuration is not usable")                                     \
    X(CRYPTO, UNAVAILABLE, FINAL, KEEPS, "the cryptographic library failed")                                          \
    X(RESOLVE, UNAVAILABLE, RETRY, DROPS, "the host name could not be resolved")                                      \
    X(CONNECT, UNAVAILABLE, RETRY, DROPS, "no connection could be made")                                              \
    X(DESCRIPTORS, UNAVAILABLE, RETRY, DROPS, "no file descriptor is left")                                           \
    X(DISCONNECTED, UNAVAILABLE, RETRY, DROPS, "the server closed the connection")                                    \
    X(SILENT, UNAVAILABLE, RETRY, DROPS, "the server did not answer in time")                                         \
    X(SATURATED, UNAVAILABLE, RETRY, KEEPS, "every connection of the pool was busy")                                  \
    X(FORKED, UNAVAILABLE, RETRY, DROPS, "the connection belongs to the parent process")                              \
    X(TLS, UNAVAILABLE, FINAL, DROPS, "the TLS handshake failed")                                                     \
    X(TLS_VERIFY, AUTHENTICATION, FINAL, DROPS, "the server's certificate was not accepted")                          \
    X(PROTOCOL, PROTOCOL, FINAL, DROPS, "the answer was not one that the protocol allows")                            \
    X(LOADING, UNAVAILABLE, RETRY, KEEPS, "the server is still loading its data")                                     \
    X(READONLY, UNAVAILABLE, RETRY, DROPS, "the server is a read-only replica")                                       \
    X(MASTERDOWN, UNAVAILABLE, RETRY, DROPS, "the replica has lost its master")                                       \
    X(NOAUTH, AUTHENTICATION, FINAL, DROPS, "the server demands a password")                                          \
    X(WRONGPASS, AUTHENTICATION, FINAL, DROPS, "the server refused user or password")                                 \
    X(NOPERM, PERMISSION, FINAL, KEEPS, "the user lacks a permission on the server")                                  \
    X(OOM, UNAVAILABLE, RETRY, KEEPS, "the server is out of memory")                                                  \
    X(MOVED, UNSUPPORTED, FINAL, KEEPS, "the key lives on another cluster node, and clusters are not supported yet")  \
    X(CLUSTERDOWN, UNAVAILABLE, RETRY, KEEPS, "the cluster is down")                                                  \
    X(NOSCRIPT, UNAVAILABLE, RETRY, KEEPS, "the server forgot a script although it had just been loaded")             \
    X(BUSY, UNAVAILABLE, RETRY, KEEPS, "the server is busy running a script")                                         \
    X(SERVER, UNAVAILABLE, FINAL, KEEPS, "the server answered with an error")

typedef enum plock_status {
#define X(name, kind, another_try, connection, text) PLOCK_##name,
    PLOCK_STATUSES(X)
#undef X
} plock_status;

typedef enum plock_kind {
    PLOCK_KIND_NONE,
    PLOCK_KIND_TIMEOUT,
    PLOCK_KIND_LOST,
    PLOCK_KIND_UNAVAILABLE,
    PLOCK_KIND_AUTHENTICATION,
    PLOCK_KIND_PERMISSION,
    PLOCK_KIND_PROTOCOL,
    PLOCK_KIND_CONFIGURATION,
    PLOCK_KIND_UNSUPPORTED,
    PLOCK_KIND_MEMORY,
    PLOCK_KIND_MISUSE,
} plock_kind;

#define PLOCK_MESSAGE_MAX 256

/* The last failure in words. Never holds a secret. */
typedef struct plock_error {
    plock_status status;
    char message[PLOCK_MESSAGE_MAX];
} plock_error;

#if defined(__GNUC__)
#define PLOCK_MUST_USE __attribute__((warn_unused_result))
#else
#define PLOCK_MUST_USE
#endif

/* Lower-case name ("refused", "readonly"), stable: callers may match on it. */
const char *plock_status_name(plock_status status);
const char *plock_status_text(plock_status status);
plock_kind plock_status_kind(plock_status status);

/* Is this failure worth another attempt before the deadline? The one place that decides it. */
bool plock_status_retries(plock_status status);

/* May the connection that this status was seen on be used again? The one place that decides it. */
bool plock_status_keeps_connection(plock_status status);

#endif
