#include "net/resolver.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "runtime/interest.h"
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

/* One call of getaddrinfo, or of a finder. The resolver thread shares it, under the mutex, with all
 * callers that wait for it. */
struct plock_lookup {
    plock_lookup *next; /* in the list of running lookups */
    unsigned references, generation;
    bool done;
    plock_error so_far; /* its status is PLOCK_OK until the finder writes an error */
    plock_error error;  /* its status is PLOCK_OK if the addresses were found */
    /* the addresses that were found; until the lookup ends, those that the resolver had when the
     * lookup began */
    plock_addresses found;
    plock_waker *waker;       /* woken at the end and never cleared, so that all callers see it */
    plock_resolver *resolver; /* the resolver whose finder runs; NULL if no finder runs, or if the
                               * resolver has ended */
    char *host, *port;        /* NULL if a finder runs */
    plock__finder *find;
    plock_config *config; /* for `find` */
};

/* The running lookups, under the mutex. At most one runs for each name, so a name whose resolution
 * hangs costs only one thread. */
static plock_lookup *running;

static void release(plock_lookup *lookup) {
    if (!plock__drop_reference(&lookup->references)) return;
    plock_waker_give(lookup->waker);
    plock__free(lookup->host);
    plock__free(lookup->port);
    plock_config_free(lookup->config);
    plock__free(lookup);
}

bool plock__read_literal(const char *host, const char *port, plock_addresses *found) {
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

static plock_status unresolved(const char *host, int failure, int error_number,
                               plock_error *error) {
    if (failure == EAI_SYSTEM)
        return plock__fail_errno(error, PLOCK_RESOLVE, "resolving the host name", error_number);
    return plock__fail(error, PLOCK_RESOLVE, "the host name %s could not be resolved: %s", host,
                       gai_strerror(failure));
}

static plock_status look_up(const char *host, const char *port, plock_addresses *found,
                            plock_error *error) {
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    const int failure = service(host, port, &hints, &list);
    if (failure) return unresolved(host, failure, errno, error);
    for (const struct addrinfo *item = list; item && found->count < PLOCK__ADDRESSES_MAX;
         item = item->ai_next) {
        plock_address *address = &found->list[found->count];
        if (item->ai_addrlen > sizeof address->storage) continue;
        memcpy(&address->storage, item->ai_addr, item->ai_addrlen);
        address->length = (socklen_t)item->ai_addrlen;
        found->count++;
    }
    freeaddrinfo(list);
    return found->count ? PLOCK_OK : unresolved(host, EAI_NONAME, 0, error);
}

static bool same_address(const plock_address *one, const plock_address *other) {
    if (one->storage.ss_family != other->storage.ss_family) return false;
    if (one->storage.ss_family == AF_INET) {
        const struct sockaddr_in *a = (const struct sockaddr_in *)(const void *)&one->storage;
        const struct sockaddr_in *b = (const struct sockaddr_in *)(const void *)&other->storage;
        return a->sin_port == b->sin_port && a->sin_addr.s_addr == b->sin_addr.s_addr;
    }
    const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)(const void *)&one->storage;
    const struct sockaddr_in6 *b = (const struct sockaddr_in6 *)(const void *)&other->storage;
    return a->sin6_port == b->sin6_port && a->sin6_scope_id == b->sin6_scope_id &&
           !memcmp(&a->sin6_addr, &b->sin6_addr, sizeof a->sin6_addr);
}

bool plock__same_server(const plock_addresses *one, const plock_addresses *other) {
    if (!strcmp(one->host, other->host) && !strcmp(one->port, other->port)) return true;
    for (unsigned i = 0; i < one->count; i++)
        for (unsigned j = 0; j < other->count; j++)
            if (same_address(&one->list[i], &other->list[j])) return true;
    return false;
}

/* Call with the mutex held. */
static void note(plock_resolver *resolver, const plock_addresses *found) {
    const bool moved = *resolver->found.host && !plock__same_server(&resolver->found, found);
    resolver->found = *found;
    if (moved && resolver->moved) resolver->moved(resolver->of);
}

static void finish(plock_lookup *lookup, const plock_error *error, const plock_addresses *found) {
    plock__enter();
    lookup->found = *found;
    lookup->error = *error;
    lookup->done = true;
    if (lookup->resolver && !error->status) note(lookup->resolver, found);
    plock_lookup **link = &running;
    while (*link && *link != lookup) link = &(*link)->next;
    if (*link) *link = lookup->next;
    plock__leave();
    plock_waker_wake(lookup->waker);
    release(lookup);
}

static void *run(void *argument) {
    plock_lookup *lookup = argument;
    plock_addresses found = {0};
    plock_error error = {.status = PLOCK_OK};
    plock__name_thread("plock-resolver");
    const plock_status status =
        lookup->find ? lookup->find(lookup->config, &lookup->found, &found, &lookup->so_far, &error)
                     : look_up(lookup->host, lookup->port, &found, &error);
    error.status = status;
    finish(lookup, &error, &found);
    return NULL;
}

/* Returns a lookup, to which the caller has the only reference; NULL with the error if that fails.
 */
static plock_lookup *new_lookup(plock_resolver *resolver, plock_error *error) {
    plock_lookup *lookup = plock__allocate(sizeof *lookup);
    if (lookup) {
        lookup->references = 1;
        lookup->generation = plock__generation();
        lookup->find = resolver->find;
        if (resolver->find) {
            lookup->resolver = resolver;
            lookup->config = plock__config_retain(resolver->config);
        } else {
            lookup->host = plock__copy(resolver->host, strlen(resolver->host));
            lookup->port = plock__copy(resolver->port, strlen(resolver->port));
        }
    }
    if (!lookup || (!lookup->find && (!lookup->host || !lookup->port))) {
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

/* Returns the lookups of this process. In a child, forgets those of the parent's threads, which
 * would never end. Call with the mutex held. */
static plock_lookup *running_here(void) {
    if (running && running->generation != plock__generation()) running = NULL;
    return running;
}

static bool is_for(const plock_lookup *lookup, const plock_resolver *resolver) {
    if (resolver->find || lookup->find) return lookup->resolver == resolver;
    return !strcmp(lookup->host, resolver->host) && !strcmp(lookup->port, resolver->port);
}

/* Returns the lookup that already runs for this resolver's name or finder, and sets *joins to true.
 * If none runs, publishes `made` and returns it. */
static plock_lookup *join_or_publish(const plock_resolver *resolver, plock_lookup *made,
                                     bool *joins) {
    plock__enter();
    plock_lookup *lookup = running_here();
    while (lookup && !is_for(lookup, resolver)) lookup = lookup->next;
    *joins = lookup;
    if (!lookup && made) {
        lookup = made;
        if (made->find) made->found = resolver->found;
        made->next = running;
        running = made;
        made->references++; /* the reference of the thread */
    }
    if (*joins) lookup->references++;
    plock__leave();
    return lookup;
}

/* Joins the lookup that already runs for this resolver's name or finder, or starts one. Returns
 * NULL and the error if that fails. */
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
    plock_error unstarted;
    if (!failed) {
        (void)pthread_detach(thread);
    } else {
        (void)plock__fail_errno(&unstarted, PLOCK_RESOLVE, "starting a thread", failed);
        finish(lookup, &unstarted, &(plock_addresses){0});
    }
    return lookup;
}

plock_status plock__resolve(plock_resolver *resolver, plock_lookup **lookup, plock_addresses *found,
                            plock_interest *interest, plock_error *error) {
    if (!*lookup) {
        if (!resolver->find && plock__read_literal(resolver->host, resolver->port, found))
            return PLOCK_OK;
        *lookup = begin(resolver, error);
        if (!*lookup) return error->status;
    }
    plock__enter();
    const bool done = (*lookup)->done;
    plock__leave();
    if (!done) {
        plock__interest_set(interest, plock_waker_descriptor((*lookup)->waker), POLLIN);
        return PLOCK_AGAIN;
    }
    *found = (*lookup)->found;
    const plock_status status = (*lookup)->error.status;
    if (status && error) *error = (*lookup)->error;
    plock__abandon_lookup(lookup);
    return status;
}

plock_status plock__unresolved_yet(const plock_resolver *resolver, const plock_lookup *lookup,
                                   plock_error *error) {
    if (!resolver->find)
        return plock__fail(error, PLOCK_RESOLVE, "the host name %s could not be resolved in time",
                           resolver->host);
    plock__enter();
    const plock_error known = lookup->so_far;
    plock__leave();
    if (!known.status)
        return plock__fail(error, PLOCK_RESOLVE, "the sentinels named no primary in time%s",
                           plock__config_tls_question(resolver->config->sentinels->config));
    *error = known;
    return known.status;
}

void plock__abandon_lookup(plock_lookup **lookup) {
    if (*lookup) release(*lookup);
    *lookup = NULL;
}

plock_status plock__resolve_by(plock_ns deadline, const char *host, const char *port,
                               plock_addresses *found, plock_error *error) {
    plock_resolver resolver = {.host = host, .port = port};
    plock_lookup *lookup = NULL;
    for (;;) {
        plock_interest interest = {.fd = -1};
        plock__begin_step();
        const plock_status status = plock__resolve(&resolver, &lookup, found, &interest, error);
        plock__end_step();
        if (status != PLOCK_AGAIN) return status;
        if (plock_now() >= deadline) break;
        interest.deadline = deadline;
        (void)plock_await(&interest, NULL);
    }
    const plock_status status = plock__unresolved_yet(&resolver, lookup, error);
    plock__begin_step();
    plock__abandon_lookup(&lookup);
    plock__end_step();
    return status;
}

void plock__resolver_clear(plock_resolver *resolver) {
    plock__enter();
    for (plock_lookup *lookup = running_here(); lookup; lookup = lookup->next)
        if (lookup->resolver == resolver) lookup->resolver = NULL;
    plock__leave();
}

#ifdef PLOCK_TESTING
void plock__replace_name_service(name_service *replacement) {
    service = replacement ? replacement : getaddrinfo;
}
#endif
