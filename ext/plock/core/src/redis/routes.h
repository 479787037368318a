/* The routes of a store on a Redis Cluster: its nodes, and which of them serves which slot.
 *
 * A node is made when it is first named, and lives as long as the store. The store's own node, of
 * which a store of one server makes use, is no server here: it stands for a slot that no node is
 * known for yet. A call waits there for the map, and a coordinator keeps what will move away.
 *
 * The map is loaded on a thread of its own: before the first call, and again when a node sends a
 * request elsewhere or cannot be reached. In between, MOVED changes the route of one slot. */
#ifndef PLOCK__ROUTES_H
#define PLOCK__ROUTES_H

#include "net/slot_map.h"
#include "redis/request.h"
#include "redis/store.h"

/* Of a store, in all its life: nothing counts who still points to a node that serves no slot. */
enum { PLOCK__NODES_MAX = 4096 };

typedef struct plock_load plock_load;
typedef struct plock_trim plock_trim;

struct plock_routes {
    _Atomic(plock_node *) slots[PLOCK__SLOTS]; /* NULL: not known; changed under the lock */
    plock_ns moved_at[PLOCK__SLOTS]; /* when MOVED last named its node; 0: never; under the lock */
    plock_ns last_moved_at;          /* the last of these; under the lock */
    /* in the order of their numbers; changed under the lock, and read without */
    _Atomic(plock_node *) first;
    plock_node *last;
    unsigned count;
    atomic_uint version; /* grows when the route of a slot changes */
    atomic_bool mapped;  /* a map has been loaded */
    plock_load *running; /* under the lock */
    plock_trim *trim;    /* under the lock; NULL: none */
    plock_ns loaded_at;  /* when the last load began; under the lock */
    unsigned turn;       /* which node the next load asks first; under the lock */
};

/* Returns NULL if there is no memory. */
plock_routes *plock__routes_new(void);
void plock__routes_free(plock_store *store);

/* For the last reference to the store: a load that runs forgets the store. */
void plock__routes_leave_load(plock_routes *routes);

/* The route of a slot has changed, so the coordinators look where their waiters and watches belong.
 * With the lock held. */
void plock__routes_changed(plock_store *store);

/* Returns the node that the request goes to: the one that serves the slot of its first key, or for
 * a request without keys the primary with at least the request's number. Returns the store's own
 * node if none is known. */
plock_node *plock__route(plock_store *store, const plock_request *request);

/* Is this no server, but the place for slots whose node is not known? */
bool plock__is_no_server(const plock_node *node);

/* Finds the node with this name, or makes it. Returns NULL if there is no memory, or there are too
 * many nodes. Not with the lock held. */
plock_node *plock__routes_node(plock_store *store, const plock_node_name *name);

/* Has the store met as many nodes as it can? Not with the lock held. */
bool plock__routes_full(const plock_store *store);

/* A node has said that another one serves the slot. A map does not change this route within the
 * next second, unless the other one is distrusted: the map may come from a node that has not heard
 * of the move yet. Not with the lock held. */
void plock__routes_move(plock_store *store, unsigned slot, plock_node *to);

/* Returns the first node, in the order of their numbers, that serves a slot and has at least this
 * number. Returns NULL if there is none. */
plock_node *plock__routes_primary(plock_store *store, unsigned number);

/* Loads the map again in the background. The nodes are asked after this call, but not more often
 * than every 100 ms. Not with the lock held. */
void plock__routes_doubt(plock_store *store);

/* The same for a node that cannot be reached, or does not serve: the next map counts for its slots,
 * even if they have moved lately. Not with the lock held. */
void plock__routes_distrust(plock_node *node);

/* Begins or joins a load, which the caller waits for by plock__routes_await. Returns NULL if the
 * map is not older than 100 ms, or no load can be begun. Not with the lock held. */
plock_load *plock__routes_renew(plock_store *store);

/* Waits for the first map, or for *load. *load is NULL at the first call. After PLOCK_AGAIN, call
 * again as interest says. Returns PLOCK_OK, PLOCK_AGAIN, or the failure of the load; except after
 * PLOCK_AGAIN, *load is NULL then. */
PLOCK_MUST_USE plock_status plock__routes_await(plock_store *store, plock_load **load,
                                                plock_interest *interest, plock_error *error);

/* For a caller whose time ends after PLOCK_AGAIN: why the map is not known so far. `load` may be
 * NULL. */
PLOCK_MUST_USE plock_status plock__routes_unknown_yet(const plock_config *config,
                                                      const plock_load *load, plock_error *error);

/* For a caller that no longer waits. Sets *load to NULL. */
void plock__routes_abandon(plock_load **load);

#endif
