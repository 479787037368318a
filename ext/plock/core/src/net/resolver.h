/* Host names. getaddrinfo(3) has no deadline, so it runs on a thread of its own, which is abandoned
 * at the caller's deadline. All callers that ask for the same endpoint share one such thread. */
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

/* The name of one endpoint. It lives as long as its store. Both texts must outlive it. */
typedef struct plock_resolver {
    const char *host, *port;
    plock_lookup *running;
} plock_resolver;

/* Call it with *lookup NULL first, and again as interest says. An address literal is answered at
 * once. Returns PLOCK_OK, PLOCK_AGAIN, PLOCK_RESOLVE, PLOCK_DESCRIPTORS or PLOCK_NO_MEMORY; after
 * any but PLOCK_AGAIN *lookup is NULL. */
PLOCK_MUST_USE plock_status plock__resolve(plock_resolver *resolver, plock_lookup **lookup,
                                           plock_addresses *found, plock_interest *interest,
                                           plock_error *error);

/* The caller no longer waits. */
void plock__abandon_lookup(plock_lookup **lookup);

void plock__resolver_clear(plock_resolver *resolver);

#ifdef PLOCK_TESTING
struct addrinfo;
/* Replaces getaddrinfo; NULL restores it. freeaddrinfo frees the lists that it returns. */
void plock__replace_name_service(int (*service)(const char *, const char *, const struct addrinfo *,
                                                struct addrinfo **));
#endif

#endif
