/* The map of a Redis Cluster: which node serves which slot, as one of the nodes tells it. */
#ifndef PLOCK__SLOT_MAP_H
#define PLOCK__SLOT_MAP_H

#include "base/slot.h"
#include "net/resolver.h"

enum {
    PLOCK__MAPPED_NODES_MAX = 1000, /* with slots; Redis recommends no more */
    PLOCK__MAP_ASKED_MAX = 16       /* how many nodes are asked for one map */
};

/* The address of a node, as the nodes of the cluster name it. */
typedef struct plock_node_name {
    char host[PLOCK__HOST_MAX], port[6];
} plock_node_name;

typedef struct plock_slot_map {
    unsigned count;
    plock_node_name nodes[PLOCK__MAPPED_NODES_MAX];
    uint16_t owners[PLOCK__SLOTS]; /* the index of the node, plus 1; 0: no node serves the slot */
} plock_slot_map;

/* Fills in the name of a node. Returns false if the host or the port is none. */
bool plock__name_node(plock_node_name *name, plock_text host, long port);

bool plock__same_node(const plock_node_name *one, const plock_node_name *other);

/* Asks nodes of the cluster for its map: the first one, and after a short time or a failure the
 * next one, too, until one has answered. It may block for as long as the config's connect_timeout.
 * `map` has only zeros. Until the end, *so_far says under the lock what a caller is told whose time
 * ends before. Returns PLOCK_OK, or the failure of one of the nodes: one that no later attempt can
 * cure only if all have answered or failed, or half of them with such a failure. */
PLOCK_MUST_USE plock_status plock__ask_for_slots(plock_config *config, const plock_node_name *nodes,
                                                 unsigned count, plock_slot_map *map,
                                                 plock_error *so_far, plock_error *error);

#endif
