/* A store on Redis: its settings, its nodes, and marks for the keys that this process asks for. */
#ifndef PLOCK__STORE_H
#define PLOCK__STORE_H

#include "redis/node.h"
#include "redis/owner.h"

enum { PLOCK__LOOKING_SLOTS = 256 };

typedef struct plock_routes plock_routes;

struct plock_store {
    unsigned references; /* under the mutex */
    unsigned attendants; /* how many of the references belong to coordinators and other jobs */
    plock_config *config;
    plock_node node;
    plock_routes *routes; /* The routes of a cluster. NULL: the store has only its own node. */
    /* On a cluster, all channels of the store share this id, because a message that one node
     * publishes arrives on the channels of all nodes. Each process has its own id. Under the
     * lock. */
    char id[PLOCK__CHANNEL_LENGTH];
    unsigned named_in; /* the generation of the process that has the id; 0: no process has one */
    /* the hashes of the keys for which this process has an unanswered acquire (acquire.c); 0: a
     * free slot */
    _Atomic uint64_t looking[PLOCK__LOOKING_SLOTS];
};

/* Returns the node that has the key. On a cluster, a later call may return a different node. */
plock_node *plock__store_node(plock_store *store, plock_text key);
/* Like plock__store_node, for a key in this slot. Without a cluster, ignores the slot. */
plock_node *plock__slot_node(plock_store *store, unsigned slot);

/* Returns the node after `after`, or the first node if `after` is NULL. Returns NULL at the end. */
plock_node *plock__store_nodes(plock_store *store, const plock_node *after);

/* Notes that the store is used again, so that its pools keep connections. */
void plock__store_use(plock_store *store);

/* Makes all coordinators, and the job of trim.h, check whether the store still needs them. Call
 * with the mutex held. */
void plock__store_review(plock_store *store);

/* Take a reference for a coordinator or a failover job, and give one back. */
plock_node *plock__store_attend(plock_node *node);
void plock__store_unattend(plock_node *node);

/* Is the store used only by jobs now, and no longer by the program? Call with the mutex held. */
bool plock__store_unused(const plock_store *store);

/* Take a reference, and give one back. Outside a step, callers use plock_store_close instead of
 * plock__store_release. */
plock_store *plock__store_retain(plock_store *store);
void plock__store_release(plock_store *store);

#endif
