/* The results of calls. One list defines the name, the text and four properties of each result. */
#ifndef PLOCK_STATUS_H
#define PLOCK_STATUS_H

#include <stdbool.h>

/* X(name, kind, another try, carried out, connection, text)
 *
 * kind         the family of errors (plock_kind), which tells the caller how to react
 * another try  RETRY: the cause may go away, so another attempt before the deadline makes sense
 *              FINAL: the cause does not go away by itself
 * carried out  NEVER: a command that ended with this status has changed nothing
 *              PERHAPS: the command may have changed something if it was sent
 * connection   KEEPS: the connection is in a known state and may be used again
 *              DROPS: the connection is closed */
#define PLOCK_STATUSES(X)                                                                          \
    X(OK, NONE, FINAL, PERHAPS, KEEPS, "done")                                                     \
    X(AGAIN, NONE, FINAL, PERHAPS, KEEPS, "in progress: call again as the interest says")          \
    X(TRY_FAILED, NONE, FINAL, PERHAPS, KEEPS,                                                     \
      "an attempt failed and another will follow: call again")                                     \
    X(INTERRUPTED, NONE, FINAL, PERHAPS, KEEPS, "the wait was interrupted")                        \
    X(REFUSED, TIMEOUT, RETRY, NEVER, KEEPS, "held by another owner")                              \
    X(TIMED_OUT, TIMEOUT, FINAL, PERHAPS, KEEPS, "not acquired within the time given")             \
    X(NOT_OWNER, LOST, FINAL, PERHAPS, KEEPS, "the lease is not ours any more")                    \
    X(NO_MEMORY, MEMORY, FINAL, PERHAPS, DROPS, "out of memory")                                   \
    X(MISUSE, MISUSE, FINAL, PERHAPS, KEEPS,                                                       \
      "called in the wrong state or with a value out of range")                                    \
    X(IN_USE, UNAVAILABLE, FINAL, NEVER, KEEPS,                                                    \
      "another operation on the lease is still under way")                                         \
    X(STORE_FULL, FULL, RETRY, NEVER, KEEPS, "the store has no room for another key")              \
    X(BAD_CONFIG, CONFIGURATION, FINAL, NEVER, KEEPS, "the configuration is not usable")           \
    X(CRYPTO, UNAVAILABLE, FINAL, PERHAPS, KEEPS, "the cryptographic library failed")              \
    X(RESOLVE, UNAVAILABLE, RETRY, NEVER, DROPS, "the host name could not be resolved")            \
    X(CONNECT, UNAVAILABLE, RETRY, NEVER, DROPS, "no connection could be made")                    \
    X(DESCRIPTORS, UNAVAILABLE, RETRY, NEVER, DROPS, "no file descriptor is left")                 \
    X(DISCONNECTED, UNAVAILABLE, RETRY, PERHAPS, DROPS, "the server closed the connection")        \
    X(SILENT, UNAVAILABLE, RETRY, PERHAPS, DROPS, "the server did not answer in time")             \
    X(SATURATED, UNAVAILABLE, RETRY, NEVER, KEEPS, "every connection of the pool was busy")        \
    X(FULL, UNAVAILABLE, RETRY, NEVER, DROPS, "the server accepts no more connections")            \
    X(FORKED, UNAVAILABLE, RETRY, PERHAPS, DROPS, "the connection belongs to the parent process")  \
    X(TLS, UNAVAILABLE, FINAL, PERHAPS, DROPS, "the TLS handshake failed")                         \
    X(TLS_VERIFY, AUTHENTICATION, FINAL, PERHAPS, DROPS,                                           \
      "the server's certificate was not accepted")                                                 \
    X(PROTOCOL, PROTOCOL, FINAL, PERHAPS, DROPS,                                                   \
      "the answer was not one that the protocol allows")                                           \
    X(LOADING, UNAVAILABLE, RETRY, NEVER, KEEPS, "the server is still loading its data")           \
    X(READONLY, UNAVAILABLE, RETRY, NEVER, DROPS, "the server is a read-only replica")             \
    X(MASTERDOWN, UNAVAILABLE, RETRY, NEVER, DROPS, "the replica has lost its master")             \
    X(NOAUTH, AUTHENTICATION, FINAL, NEVER, DROPS, "the server demands a password")                \
    X(WRONGPASS, AUTHENTICATION, FINAL, NEVER, DROPS, "the server refused user or password")       \
    X(NOPERM, PERMISSION, FINAL, PERHAPS, KEEPS, "the user lacks a permission on the server")      \
    X(OOM, UNAVAILABLE, RETRY, NEVER, KEEPS, "the server is out of memory")                        \
    X(MOVED, UNSUPPORTED, FINAL, NEVER, KEEPS,                                                     \
      "the key lives on another node of a Redis Cluster: use redis+cluster://host:port")           \
    X(CLUSTER, UNSUPPORTED, FINAL, NEVER, DROPS,                                                   \
      "this is a node of a Redis Cluster: use redis+cluster://host:port, with any of its nodes")   \
    X(SENTINEL, UNSUPPORTED, FINAL, NEVER, DROPS,                                                  \
      "this is a Redis Sentinel, which keeps no locks: use redis+sentinel://host:port/NAME, "      \
      "with the name of the primary that it watches")                                              \
    X(CROSSSLOT, UNSUPPORTED, FINAL, NEVER, KEEPS,                                                 \
      "the keys do not live in one slot of the cluster")                                           \
    X(CLUSTERDOWN, UNAVAILABLE, RETRY, NEVER, KEEPS, "the cluster does not serve the key")         \
    X(MIGRATING, UNAVAILABLE, RETRY, PERHAPS, KEEPS,                                               \
      "the slot of the key is just moving to another node")                                        \
    X(NOSCRIPT, UNAVAILABLE, RETRY, NEVER, KEEPS,                                                  \
      "the server forgot a script although it had just been loaded")                               \
    X(BUSY, UNAVAILABLE, RETRY, NEVER, KEEPS, "the server is busy running a script")               \
    X(MISCONF, UNAVAILABLE, RETRY, NEVER, KEEPS, "the server accepts no writes at the moment")     \
    X(UNREPLICATED, UNAVAILABLE, RETRY, PERHAPS, KEEPS, "too few replicas confirmed the lease")    \
    X(SERVER, UNAVAILABLE, FINAL, PERHAPS, KEEPS, "the server answered with an error")

typedef enum plock_status {
#define X(name, kind, another_try, carried_out, connection, text) PLOCK_##name,
    PLOCK_STATUSES(X)
#undef X
} plock_status;

typedef enum plock_kind {
    PLOCK_KIND_NONE,
    PLOCK_KIND_TIMEOUT,
    PLOCK_KIND_LOST,
    PLOCK_KIND_UNAVAILABLE,
    PLOCK_KIND_FULL,
    PLOCK_KIND_AUTHENTICATION,
    PLOCK_KIND_PERMISSION,
    PLOCK_KIND_PROTOCOL,
    PLOCK_KIND_CONFIGURATION,
    PLOCK_KIND_UNSUPPORTED,
    PLOCK_KIND_MEMORY,
    PLOCK_KIND_MISUSE,
} plock_kind;

#define PLOCK_MESSAGE_MAX 256

/* The message of the last failure. It never contains a secret. */
typedef struct plock_error {
    plock_status status;
    char message[PLOCK_MESSAGE_MAX];
} plock_error;

#if defined(__GNUC__)
#define PLOCK_MUST_USE __attribute__((warn_unused_result))
#else
#define PLOCK_MUST_USE
#endif

/* Returns the name in lower case, such as "refused". Callers may match on names, because names
 * never change. */
const char *plock_status_name(plock_status status);
const char *plock_status_text(plock_status status);
plock_kind plock_status_kind(plock_status status);

/* Only these functions decide what a status means for the caller. */
bool plock_status_retries(plock_status status);      /* make another attempt before the deadline? */
bool plock_status_unreachable(plock_status status);  /* can the server not be reached at all? */
bool plock_status_leaves_doubt(plock_status status); /* if sent, may the command have changed
                                                      * something on the server? */
bool plock_status_keeps_connection(plock_status status); /* may the connection be used again? */

#endif
