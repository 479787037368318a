/* A node: a server, and this process's connections, coordinator and outstanding releases for it. A
 * store routes each key to a node. A store of one server has one node. */
#ifndef PLOCK__NODE_H
#define PLOCK__NODE_H

#include "net/config.h"
#include "net/pool.h"
#include "net/resolver.h"
#include "plock/store.h"
#include "redis/debt.h"

typedef struct plock_coordinator plock_coordinator;

struct plock_node {
    plock_store *store; /* the node is a part of it, so a reference to the store keeps the node */
    const plock_config *config;
    plock_resolver resolver;
    plock_pool pool;
    plock_debts debts;                        /* under the lock */
    struct ssl_ctx_st *tls;                   /* made at the first connection */
    _Atomic(plock_coordinator *) coordinator; /* NULL: none; changed under the lock */
    /* when a lock was last held by a process that does not notify waiters; 0: never */
    _Atomic plock_ns older_seen_at;
    _Atomic plock_ns reached_at; /* about when the last answered request left; 0: never */
#ifdef PLOCK_TESTING
    plock_transport *(*make_transport)(plock_node *); /* NULL: as the config says */
#endif
};

void plock__node_start(plock_node *node, plock_store *store, const plock_config *config);
void plock__node_clear(plock_node *node);

/* Take a reference to the node's store, and give one back. */
plock_node *plock__node_retain(plock_node *node);
void plock__node_release(plock_node *node);

/* Returns whether the node's store has only one reference left. With the lock held. */
bool plock__node_used_once(const plock_node *node);

/* Returns the window: for how long at the start of each second a lock is left to processes that
 * poll, if the lock is shared with them. The window is longer if such a process has held a lock
 * lately. */
plock_ns plock__node_window(const plock_node *node, bool shares);
void plock__node_saw_older(plock_node *node, plock_ns now);

/* Notes that the server has answered a request, and that this request left at `moment`. */
void plock__node_reached(plock_node *node, plock_ns moment);

/* Makes a connection that is not open yet, and adds it to the pool, in the room that
 * plock__pool_take granted. A failure gives the room back. Returns PLOCK_OK, PLOCK_BAD_CONFIG (TLS
 * files) or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__node_connect(plock_node *node, plock_connection **connection,
                                                plock_error *error);

/* The same for a connection beyond the pool's limit. It needs no room, and never becomes idle. */
PLOCK_MUST_USE plock_status plock__node_connect_beside(plock_node *node,
                                                       plock_connection **connection,
                                                       plock_error *error);

#endif
