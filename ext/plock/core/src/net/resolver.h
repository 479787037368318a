/* Resolves host names. getaddrinfo(3) has no deadline, so it runs on a thread of its own. At the
 * caller's deadline that thread is abandoned. All callers of one resolver share one such thread. */
#ifndef PLOCK__RESOLVER_H
#define PLOCK__RESOLVER_H

#include "plock/interest.h"
#include "plock/status.h"

#include <sys/socket.h>

enum { PLOCK__ADDRESSES_MAX = 16 };

typedef struct plock_address {
    struct sockaddr_storage storage;
    socklen_t length;
} plock_address;

typedef struct plock_addresses {
    unsigned count;
    plock_address list[PLOCK__ADDRESSES_MAX];
} plock_addresses;

typedef struct plock_lookup plock_lookup;

/* The name of one endpoint. Lives as long as its store. Both texts must outlive the resolver. */
typedef struct plock_resolver {
    const char *host, *port;
    plock_lookup *running;
} plock_resolver;

/* *lookup is NULL at the first call. After PLOCK_AGAIN, call again as interest says. An address
 * literal needs no lookup. Returns PLOCK_OK, PLOCK_AGAIN, PLOCK_RESOLVE, PLOCK_DESCRIPTORS or
 * PLOCK_NO_MEMORY; except after PLOCK_AGAIN, *lookup is NULL then. */
PLOCK_MUST_USE plock_status plock__resolve(plock_resolver *resolver, plock_lookup **lookup,
                                           plock_addresses *found, plock_interest *interest,
                                           plock_error *error);

/* For a caller that no longer waits. Sets *lookup to NULL. */
void plock__abandon_lookup(plock_lookup **lookup);

void plock__resolver_clear(plock_resolver *resolver);

#ifdef PLOCK_TESTING
struct addrinfo;
/* Replaces getaddrinfo; NULL restores it. The lists that `service` returns are freed with
 * freeaddrinfo. */
void plock__replace_name_service(int (*service)(const char *, const char *, const struct addrinfo *,
                                                struct addrinfo **));
#endif

#endif
