/* A store on Redis: its settings, its nodes, and marks for the keys that this process asks for. */
#ifndef PLOCK__STORE_H
#define PLOCK__STORE_H

#include "redis/looking.h"
#include "redis/node.h"
#include "redis/owner.h"

typedef struct plock_routes plock_routes;

struct plock_store {
    unsigned references; /* under the lock */
    unsigned attendants; /* how many of them are those of coordinators and their failovers */
    plock_config *config;
    plock_node node;
    plock_routes *routes; /* of a cluster; NULL: the store has only its own node */
    /* The id of all its channels, if it is on a cluster: a message of one node comes by the
     * channels at all nodes. Each process has its own. Under the lock. */
    char id[PLOCK__CHANNEL_LENGTH];
    bool named;
    unsigned named_in; /* the generation of the process that has the id */
    /* the hashes of the keys for which this process has an unanswered acquire; 0: a free slot */
    _Atomic uint64_t looking[PLOCK__LOOKING_SLOTS];
};

/* Returns the node that has the key. On a cluster, that may be another one at the next call. */
plock_node *plock__store_node(plock_store *store, plock_text key);
/* The same for a key with this slot; without a cluster, the slot is ignored. */
plock_node *plock__slot_node(plock_store *store, unsigned slot);

/* Returns the first node, or the one after this. NULL: there are no more. */
plock_node *plock__store_nodes(plock_store *store, const plock_node *after);

/* The store is used again, so its pools keep connections. */
void plock__store_use(plock_store *store);

/* Makes all coordinators, and what closes unused connections, check whether the store still needs
 * them. With the lock held. */
void plock__store_review(plock_store *store);

/* Take a reference for a coordinator or its failover, and give it back. */
plock_node *plock__store_attend(plock_node *node);
void plock__store_unattend(plock_node *node);

/* Does no program use the store any more? With the lock held. */
bool plock__store_unused(const plock_store *store);

/* Take a reference, and give one back. Outside a step, callers use plock_store_close instead of
 * plock__store_release. */
plock_store *plock__store_retain(plock_store *store);
void plock__store_release(plock_store *store);

#endif
