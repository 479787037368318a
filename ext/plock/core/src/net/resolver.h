/* Finds the addresses of a server: it resolves a host name, or asks sentinels. getaddrinfo(3) has
 * no deadline, so it runs on a thread of its own, which is abandoned at the caller's deadline. All
 * callers that ask for the same name and port share one such thread, and so do all callers of a
 * resolver with a finder. */
#ifndef PLOCK__RESOLVER_H
#define PLOCK__RESOLVER_H

#include "net/config.h"
#include "plock/interest.h"

#include <sys/socket.h>

enum {
    PLOCK__ADDRESSES_MAX = 16,
    PLOCK__HOST_MAX = 256, /* bytes of a host name, with its NUL */
};

typedef struct plock_address {
    struct sockaddr_storage storage;
    socklen_t length;
} plock_address;

typedef struct plock_addresses {
    unsigned count;
    plock_address list[PLOCK__ADDRESSES_MAX];
    /* the name and port that a sentinel gave; "" means the resolver's own */
    char host[PLOCK__HOST_MAX], port[6];
} plock_addresses;

/* Finds the addresses without resolving the host of the resolver, for example by asking sentinels.
 * It runs on the resolver thread, and may block for up to the config's connect_timeout. `known` has
 * the addresses that the finder found last, or the host "" if it has found none yet. While the
 * finder runs, it may write an error into *so_far, under the mutex, for callers whose deadline is
 * sooner. */
typedef plock_status plock__finder(plock_config *config, const plock_addresses *known,
                                   plock_addresses *found, plock_error *so_far, plock_error *error);

typedef struct plock_lookup plock_lookup;

/* Finds the addresses of one endpoint. The strings and the config must outlive the resolver. */
typedef struct plock_resolver {
    const char *host, *port; /* NULL if there is a finder */
    plock__finder *find;     /* NULL: getaddrinfo resolves the host */
    plock_config *config;    /* for `find` */
    /* Called with the mutex held when the finder has found a different server. May be NULL. */
    void (*moved)(void *of);
    void *of;              /* for `moved` */
    plock_addresses found; /* the addresses that the finder found last; under the mutex */
} plock_resolver;

/* Do the two have an address in common, or did a finder give them the same host and port? */
bool plock__same_server(const plock_addresses *one, const plock_addresses *other);

/* Reads an address literal. Returns false if the host is a name. */
bool plock__read_literal(const char *host, const char *port, plock_addresses *found);

/* Finds the addresses. *lookup must be NULL at the first call, and is NULL after any result but
 * PLOCK_AGAIN. An address literal needs no lookup. Returns PLOCK_OK, PLOCK_AGAIN, PLOCK_RESOLVE,
 * PLOCK_DESCRIPTORS, PLOCK_NO_MEMORY or a failure of the finder. */
PLOCK_MUST_USE plock_status plock__resolve(plock_resolver *resolver, plock_lookup **lookup,
                                           plock_addresses *found, plock_interest *interest,
                                           plock_error *error);

/* Reports why nothing has been found so far, for a caller whose deadline passes before the lookup
 * ends. Returns the finder's failure, or PLOCK_RESOLVE. */
PLOCK_MUST_USE plock_status plock__unresolved_yet(const plock_resolver *resolver,
                                                  const plock_lookup *lookup, plock_error *error);

/* Gives up a lookup that the caller no longer waits for. Sets *lookup to NULL. */
void plock__abandon_lookup(plock_lookup **lookup);

/* Makes lookups forget the resolver. Must be called before a resolver with a finder is freed. */
void plock__resolver_clear(plock_resolver *resolver);

/* Resolves a name for a finder, and waits for the result until the deadline. Returns PLOCK_OK,
 * PLOCK_RESOLVE, PLOCK_DESCRIPTORS or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__resolve_by(plock_ns deadline, const char *host, const char *port,
                                              plock_addresses *found, plock_error *error);

#ifdef PLOCK_TESTING
struct addrinfo;
/* Replaces getaddrinfo; NULL restores it. The lists that `service` returns are freed with
 * freeaddrinfo. */
void plock__replace_name_service(int (*service)(const char *, const char *, const struct addrinfo *,
                                                struct addrinfo **));
#endif

#endif
