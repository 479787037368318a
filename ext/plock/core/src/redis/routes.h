/* The routes of a store on a Redis Cluster: its nodes, and which of them serves which slot.
 *
 * A node is made when it is first named, and lasts as long as the store. On a cluster, the store's
 * own node is not a server. It stands for the slots whose node is not known yet. A call for such a
 * slot waits for the map. The coordinator of the store's own node keeps the waiters and watches of
 * such slots until their node is known.
 *
 * The map is loaded on a thread of its own. It is loaded before the first call, and again when a
 * node names another node for a request, or cannot be reached. Between two loads, MOVED changes the
 * route of one slot. */
#ifndef PLOCK__ROUTES_H
#define PLOCK__ROUTES_H

#include "net/slot_map.h"
#include "redis/request.h"
#include "redis/store.h"

/* How many nodes a store can meet in its life. A node is kept even if it serves no slot, because
 * pointers to it are not counted. */
enum { PLOCK__NODES_MAX = 4096 };

typedef struct plock_load plock_load;
typedef struct plock_trim plock_trim;

struct plock_routes {
    _Atomic(plock_node *) slots[PLOCK__SLOTS]; /* NULL: not known; changed under the mutex */
    plock_ns moved_at[PLOCK__SLOTS]; /* when MOVED last set the route; 0: never; under the mutex */
    plock_ns last_moved_at;          /* the latest of these times; under the mutex */
    /* the nodes, in the order of their numbers; changed under the mutex, read without it */
    _Atomic(plock_node *) first;
    plock_node *last;
    unsigned count;
    atomic_uint version; /* grows when the route of a slot changes */
    atomic_bool mapped;  /* a map has been loaded */
    plock_load *running; /* under the mutex; NULL: no load is running */
    plock_trim *trim;    /* under the mutex; NULL: none */
    plock_ns loaded_at;  /* when the last load began; under the mutex */
    unsigned turn;       /* which node the next load asks first; under the mutex */
};

void plock__routes_free(plock_store *store);

/* Must be called before the store is freed. If a load is running, makes it forget the store. */
void plock__routes_leave_load(plock_routes *routes);

/* Must be called after the route of a slot has changed. Makes the coordinators check where their
 * waiters and watches belong. Call with the mutex held. */
void plock__routes_changed(plock_store *store);

/* Returns the node that the request goes to, which is the node of its first key's slot. For a
 * request without keys, that is the first primary whose number is at least request->primary.
 * Returns the store's own node if no such node is known. */
plock_node *plock__route(plock_store *store, const plock_request *request);

/* Is this the own node of a cluster's store, which is not a server? */
bool plock__is_no_server(const plock_node *node);

/* Finds the node with this name, or makes it. Returns NULL if memory runs out, or if there are too
 * many nodes. Do not call with the mutex held. */
plock_node *plock__routes_node(plock_store *store, const plock_node_name *name);

/* Has the store met as many nodes as it can? Do not call with the mutex held. */
bool plock__routes_full(const plock_store *store);

/* Notes that a node has named `to` as the node of the slot. For the next second, a newly loaded map
 * does not change this route. The map may come from a node that does not know of the move yet. This
 * protection ends early if `to` is distrusted (plock__routes_distrust). Do not call with the
 * mutex held. */
void plock__routes_move(plock_store *store, unsigned slot, plock_node *to);

/* Returns the first node, in the order of their numbers, that serves a slot and has at least this
 * number. Returns NULL if there is none. */
plock_node *plock__routes_primary(plock_store *store, unsigned number);

/* Loads the map again in the background, because it may be out of date. If a load has already asked
 * the nodes, another load follows. Loads begin at least 100 ms apart. Do not call with the mutex
 * held. */
void plock__routes_doubt(plock_store *store);

/* Like plock__routes_doubt, for a node that cannot be reached, or does not serve its slots. The
 * next map may change the routes of these slots even if MOVED has set them within the last second.
 * Do not call with the mutex held. */
void plock__routes_distrust(plock_node *node);

/* Begins or joins a load, which the caller awaits with plock__routes_await. Returns NULL if the map
 * is at most 100 ms old, or if no load can begin. Do not call with the mutex held. */
plock_load *plock__routes_renew(plock_store *store);

/* Waits for *load. If *load is NULL, waits for the store's first map. Returns PLOCK_AGAIN and the
 * interest while the load is running: the caller then calls again with the same *load. Otherwise
 * returns PLOCK_OK or the load's failure, and sets *load to NULL. */
PLOCK_MUST_USE plock_status plock__routes_await(plock_store *store, plock_load **load,
                                                plock_interest *interest, plock_error *error);

/* For a caller that reached its deadline while it waited for the map. Returns why the map is not
 * known yet. `load` may be NULL. */
PLOCK_MUST_USE plock_status plock__routes_unknown_yet(const plock_config *config,
                                                      const plock_load *load, plock_error *error);

/* For a caller that no longer waits. Sets *load to NULL. */
void plock__routes_abandon(plock_load **load);

#endif
