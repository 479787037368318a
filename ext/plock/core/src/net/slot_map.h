/* The map of a Redis Cluster: which node serves which slot, as one of the nodes reports it. */
#ifndef PLOCK__SLOT_MAP_H
#define PLOCK__SLOT_MAP_H

#include "base/slot.h"
#include "net/resolver.h"

enum {
    PLOCK__MAPPED_NODES_MAX = 1000, /* nodes that have slots; Redis recommends at most 1000 nodes */
    PLOCK__MAP_ASKED_MAX = 16       /* how many nodes are asked for the map, at most */
};

/* The address of a node, as the nodes of the cluster name it. */
typedef struct plock_node_name {
    char host[PLOCK__HOST_MAX], port[6];
} plock_node_name;

typedef struct plock_slot_map {
    unsigned count;
    plock_node_name nodes[PLOCK__MAPPED_NODES_MAX];
    uint16_t owners[PLOCK__SLOTS]; /* the index of the node, plus 1; 0 if no node serves the slot */
} plock_slot_map;

/* Fills in the name of a node. Returns false if the host or the port is not valid. */
bool plock__name_node(plock_node_name *name, plock_text host, long port);

bool plock__same_node(const plock_node_name *one, const plock_node_name *other);

/* Asks nodes of the cluster for the map, until one of them has answered: the first node and, after
 * a short time or a failure, also the next one, and so on. May block for up to the config's
 * connect_timeout. `map` must be all zeros. Writes the failure so far into *so_far, under the
 * mutex, for callers whose deadline is sooner. Returns PLOCK_OK, or the failure of one of the nodes
 * (plock__inquiry_failure says which one). */
PLOCK_MUST_USE plock_status plock__ask_for_slots(plock_config *config, const plock_node_name *nodes,
                                                 unsigned count, plock_slot_map *map,
                                                 plock_error *so_far, plock_error *error);

#endif
