/* A store: a Redis server or cluster, the connections to it, and the state that this process keeps
 * about it. All threads may share a store. */
#ifndef PLOCK_STORE_H
#define PLOCK_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plock/config.h"

typedef struct plock_store plock_store;

/* Takes ownership of the config, even on failure. Does no I/O. Returns PLOCK_OK, PLOCK_BAD_CONFIG
 * (options that do not fit together) or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock_store_open(plock_store **store, plock_config *config,
                                             plock_error *error);

const plock_config *plock_store_config(const plock_store *store);

/* The connections of a pool, at one moment. */
typedef struct plock_pool_status {
    unsigned size; /* the most connections that the pool may have */
    unsigned used, idle;
    unsigned waiting; /* callers now waiting for a connection */
    uint64_t waits;   /* how many times a caller has had to wait, in this process */
} plock_pool_status;

plock_pool_status plock_store_pool_status(plock_store *store);

/* On a Redis Cluster: finds the first primary whose number is at least *number, and sets *number to
 * that primary's number plus 1. Returns false if there is no such primary, or if no primary is
 * known yet. The texts stay valid as long as the store exists. */
bool plock_store_primary(plock_store *store, unsigned *number, const char **host,
                         const char **port);

/* Finds the node that serves a key, as far as this process knows. Returns false if it knows no such
 * node. The texts stay valid as long as the store exists. */
bool plock_store_node_of(plock_store *store, const char *key, size_t length, const char **host,
                         const char **port);

/* Closes the idle connections. A connection that is in use, even in the background, closes when its
 * operation ends. The next acquire, adopt, release by owner or query opens the store again. */
void plock_store_disconnect(plock_store *store);
bool plock_store_disconnected(const plock_store *store);

/* Gives up this reference to the store. The store continues to exist until its leases are freed.
 * NULL is allowed. */
void plock_store_close(plock_store *store);

/* Waits until the background releases are done, at most until the deadline. A process that becomes
 * a daemon calls this before it forks, because the parent ends right after the fork. */
void plock_settle(plock_ns deadline);

/* Waits as plock_settle does, and then ends the worker thread. Called at the end of the process. */
void plock_drain(plock_ns deadline);

#endif
