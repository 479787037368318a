/* A store on Redis: its settings, its node, and marks for the keys that this process asks for. */
#ifndef PLOCK__STORE_H
#define PLOCK__STORE_H

#include "redis/node.h"

enum { PLOCK__LOOKING_SLOTS = 256 };

struct plock_store {
    unsigned references; /* under the lock */
    plock_config *config;
    plock_node node;
    /* the hashes of the keys for which this process has an unanswered acquire; 0: a free slot */
    _Atomic uint64_t looking[PLOCK__LOOKING_SLOTS];
};

/* Returns the node that has the key. */
plock_node *plock__store_node(plock_store *store, plock_text key);

/* Take a reference, and give one back. Outside a step, callers use plock_store_close instead of
 * plock__store_release. */
plock_store *plock__store_retain(plock_store *store);
void plock__store_release(plock_store *store);

#endif
