/* A node: a server, and this process's connections, coordinator and outstanding releases for it. A
 * store routes each key to a node. A store of one server has one node. */
#ifndef PLOCK__NODE_H
#define PLOCK__NODE_H

#include "net/config.h"
#include "net/pool.h"
#include "net/resolver.h"
#include "net/slot_map.h"
#include "plock/store.h"
#include "redis/debt.h"

typedef struct plock_coordinator plock_coordinator;

struct plock_node {
    /* the node is freed with the store, so a reference to the store also keeps the node */
    plock_store *store;
    /* for a node of a cluster (routes.h): the next node, and this node's number and address */
    _Atomic(plock_node *) next;
    unsigned number;
    plock_node_name name;
    char *display; /* the URL of a node of a cluster; NULL: the store's URL is used */
    plock_config *config;
    plock_resolver resolver;
    plock_pool pool;
    plock_debts debts;                        /* under the mutex */
    _Atomic(plock_coordinator *) coordinator; /* NULL: none; changed under the mutex */
    /* when this process last saw a lock held by a process that does not notify waiters; 0: never */
    _Atomic plock_ns older_seen_at;
    _Atomic plock_ns reached_at; /* roughly when the last answered request was sent; 0: never */
    /* a bit for each script that the server has executed since it last answered NOSCRIPT */
    atomic_uint known_scripts;
    /* calls use Redis functions (FCALL), because the Redis user may not run scripts */
    atomic_bool functions;
    /* the pool's epoch that began when the node last moved to another server; under the mutex */
    unsigned moved_in;
    /* a server has said that it is no primary, and no primary has answered since */
    atomic_bool astray;
#ifdef PLOCK_TESTING
    plock_transport *(*make_transport)(plock_node *); /* NULL: the config decides */
#endif
};

/* name: of a node of a cluster; NULL: the node is the store's own. */
void plock__node_start(plock_node *node, plock_store *store, const plock_node_name *name);
void plock__node_clear(plock_node *node);

/* Take a reference to the node's store, and give one back. */
plock_node *plock__node_retain(plock_node *node);
void plock__node_release(plock_node *node);

/* Records a failure as "URL: what happened", and returns the status. With sentinels, the URL names
 * no server, so the primary's address follows it. connection: leads to the primary that failed, or
 * NULL if no primary is known to have failed. Do not call with the mutex held. */
PLOCK_MUST_USE plock_status plock__node_fail(plock_node *node, const plock_connection *connection,
                                             plock_status status, const char *what,
                                             plock_error *error);

/* Returns the window: a span at the start of each second that is reserved for processes that poll
 * for the lock. The window is longer if such a process has held a lock lately. shares: the lock is
 * shared with such processes; if it is not, the window is 0. */
plock_ns plock__node_window(const plock_node *node, bool shares);

/* Notes whether the server knows a script. A server that has lost one script may have lost all, so
 * the node then counts all scripts as unknown. */
void plock__node_knows(plock_node *node, unsigned script, bool knows);
bool plock__node_knew(const plock_node *node, unsigned script);

/* Must be called when another server may be the primary now. Existing connections are not used any
 * more. The coordinator opens its channel again, makes all waiters ask again, and has all watched
 * leases checked. Do not call with the mutex held. */
void plock__node_moved(plock_node *node);

/* Notes that a primary has answered on this connection. If this is the first such answer since a
 * server said that it was not a primary, replaces all connections. Those that were opened between
 * that refusal and this answer may lead to the old server. Do not call with the mutex held. */
void plock__node_served(plock_node *node, const plock_connection *connection);

/* Was this connection made before the node last moved to another server? A broken or silent
 * connection does not count as a move. Call with the mutex held. */
bool plock__node_left(const plock_node *node, const plock_connection *connection);

/* Notes that the server has answered a request that was sent at `moment`. */
void plock__node_reached(plock_node *node, plock_ns moment);

/* Makes a connection that is not open yet, and adds it to the pool, in the room that
 * plock__pool_take granted. A failure gives the room back. Returns PLOCK_OK, PLOCK_BAD_CONFIG (TLS
 * files) or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__node_connect(plock_node *node, plock_connection **connection,
                                                plock_error *error);

/* Like plock__node_connect, for a connection beyond the pool's limit. Such a connection needs no
 * room, and never becomes idle. */
PLOCK_MUST_USE plock_status plock__node_connect_beside(plock_node *node,
                                                       plock_connection **connection,
                                                       plock_error *error);

#endif
