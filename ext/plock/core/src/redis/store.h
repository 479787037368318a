/* A store on Redis: its settings, its node, and which keys this process is asking for. */
#ifndef PLOCK__STORE_H
#define PLOCK__STORE_H

#include "redis/node.h"

enum { PLOCK__LOOKING_SLOTS = 256 };

struct plock_store {
    unsigned references; /* under the lock */
    plock_config *config;
    plock_node node;
    /* hashes of keys that have an unanswered acquire of this process; 0: none */
    _Atomic uint64_t looking[PLOCK__LOOKING_SLOTS];
};

/* Returns the node that has the key. */
plock_node *plock__store_node(plock_store *store, plock_text key);

/* Count the references. Outside a step, callers use plock_store_close instead of
 * plock__store_release. */
plock_store *plock__store_retain(plock_store *store);
void plock__store_release(plock_store *store);

#endif
