#include "net/resolver.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "runtime/waker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

typedef int name_service(const char *, const char *, const struct addrinfo *, struct addrinfo **);
static name_service *service = getaddrinfo;

/* One call of getaddrinfo. The resolver thread and all callers that wait for it share the lookup.
 * They change it, and count their references, under the lock. */
struct plock_lookup {
    unsigned references, generation;
    bool done;
    int failure,
        error_number; /* failure: of getaddrinfo; error_number: errno, if failure is EAI_SYSTEM */
    plock_addresses found;
    plock_waker *waker;       /* woken at the end and never cleared, so that all callers see it */
    plock_resolver *resolver; /* in which the thread clears `running`; NULL: the store is gone */
    char *host, *port;
};

static void release(plock_lookup *lookup) {
    plock__enter();
    const bool last = --lookup->references == 0;
    plock__leave();
    if (!last) return;
    plock_waker_give(lookup->waker);
    plock__free(lookup->host);
    plock__free(lookup->port);
    plock__free(lookup);
}

static bool read_literal(const char *host, const char *port, plock_addresses *found) {
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    plock_address *address = &found->list[0];
    v4.sin_port = v6.sin6_port = htons((uint16_t)strtoul(port, NULL, 10));
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(&address->storage, &v4, sizeof v4);
        address->length = sizeof v4;
    } else if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        memcpy(&address->storage, &v6, sizeof v6);
        address->length = sizeof v6;
    } else {
        return false;
    }
    found->count = 1;
    return true;
}

static int look_up(const char *host, const char *port, plock_addresses *found) {
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    const int failure = service(host, port, &hints, &list);
    if (failure) return failure;
    for (const struct addrinfo *item = list; item && found->count < PLOCK__ADDRESSES_MAX;
         item = item->ai_next) {
        plock_address *address = &found->list[found->count];
        if (item->ai_addrlen > sizeof address->storage) continue;
        memcpy(&address->storage, item->ai_addr, item->ai_addrlen);
        address->length = (socklen_t)item->ai_addrlen;
        found->count++;
    }
    freeaddrinfo(list);
    return found->count ? 0 : EAI_NONAME;
}

static void finish(plock_lookup *lookup, int failure, int error_number,
                   const plock_addresses *found) {
    plock__enter();
    lookup->found = *found;
    lookup->failure = failure;
    lookup->error_number = error_number;
    lookup->done = true;
    if (lookup->resolver && lookup->resolver->running == lookup) lookup->resolver->running = NULL;
    plock__leave();
    plock_waker_wake(lookup->waker);
    release(lookup);
}

static void *run(void *argument) {
    plock_lookup *lookup = argument;
    plock_addresses found = {0};
    plock__name_thread("plock-resolver");
    const int failure = look_up(lookup->host, lookup->port, &found);
    finish(lookup, failure, errno, &found);
    return NULL;
}

/* Returns a lookup with one reference, which is the caller's, or NULL and the error. */
static plock_lookup *new_lookup(plock_resolver *resolver, plock_error *error) {
    plock_lookup *lookup = plock__allocate(sizeof *lookup);
    if (lookup) {
        lookup->references = 1;
        lookup->generation = plock__generation();
        lookup->resolver = resolver;
        lookup->host = plock__copy(resolver->host, strlen(resolver->host));
        lookup->port = plock__copy(resolver->port, strlen(resolver->port));
    }
    if (!lookup || !lookup->host || !lookup->port) {
        (void)plock__fail_plainly(error, PLOCK_NO_MEMORY);
        if (lookup) release(lookup);
        return NULL;
    }
    lookup->waker = plock__waker_take_open();
    if (!lookup->waker) {
        (void)plock__fail_errno(error, PLOCK_RESOLVE, "looking up the host", errno);
        release(lookup);
        return NULL;
    }
    return lookup;
}

static plock_lookup *join(plock_resolver *resolver) {
    plock_lookup *lookup = resolver->running;
    /* its thread exists only in the parent, so in this child it never ends, and is forgotten */
    if (lookup && lookup->generation != plock__generation()) {
        resolver->running = NULL;
        lookup = NULL;
    }
    if (lookup) lookup->references++;
    return lookup;
}

/* Returns the lookup that runs for this endpoint, and sets *joins to true. If none runs, publishes
 * `made` and returns it. */
static plock_lookup *join_or_publish(plock_resolver *resolver, plock_lookup *made, bool *joins) {
    plock__enter();
    plock_lookup *lookup = join(resolver);
    *joins = lookup;
    if (!lookup && made) {
        lookup = resolver->running = made;
        made->references++; /* the thread's */
    }
    plock__leave();
    return lookup;
}

/* Joins the lookup that runs for this endpoint, or starts one. Returns NULL and the error if that
 * fails. */
static plock_lookup *begin(plock_resolver *resolver, plock_error *error) {
    bool joins;
    plock_lookup *lookup = join_or_publish(resolver, NULL, &joins);
    if (lookup) return lookup;
    plock_lookup *made = new_lookup(resolver, error);
    if (!made) return NULL;
    lookup = join_or_publish(resolver, made, &joins);
    if (joins) { /* another thread published first */
        release(made);
        return lookup;
    }
    pthread_t thread;
    const int failed = plock__start_thread(&thread, run, lookup);
    if (failed)
        finish(lookup, EAI_SYSTEM, failed, &(plock_addresses){0});
    else
        (void)pthread_detach(thread);
    return lookup;
}

static plock_status report(int failure, int error_number, const plock_resolver *resolver,
                           plock_error *error) {
    if (!failure) return PLOCK_OK;
    if (failure == EAI_SYSTEM)
        return plock__fail_errno(error, PLOCK_RESOLVE, "resolving the host name", error_number);
    return plock__fail(error, PLOCK_RESOLVE, "the host name %s could not be resolved: %s",
                       resolver->host, gai_strerror(failure));
}

plock_status plock__resolve(plock_resolver *resolver, plock_lookup **lookup, plock_addresses *found,
                            plock_interest *interest, plock_error *error) {
    if (!*lookup) {
        if (read_literal(resolver->host, resolver->port, found)) return PLOCK_OK;
        *lookup = begin(resolver, error);
        if (!*lookup) return error->status;
    }
    plock__enter();
    const bool done = (*lookup)->done;
    plock__leave();
    if (!done) {
        interest->fd = plock_waker_descriptor((*lookup)->waker);
        interest->events = POLLIN;
        return PLOCK_AGAIN;
    }
    *found = (*lookup)->found;
    const int failure = (*lookup)->failure, error_number = (*lookup)->error_number;
    plock__abandon_lookup(lookup);
    return report(failure, error_number, resolver, error);
}

void plock__abandon_lookup(plock_lookup **lookup) {
    if (*lookup) release(*lookup);
    *lookup = NULL;
}

void plock__resolver_clear(plock_resolver *resolver) {
    plock__enter();
    if (resolver->running && resolver->running->generation == plock__generation())
        resolver->running->resolver = NULL;
    resolver->running = NULL;
    plock__leave();
}

#ifdef PLOCK_TESTING
void plock__replace_name_service(name_service *replacement) {
    service = replacement ? replacement : getaddrinfo;
}
#endif
