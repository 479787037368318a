/* A job of the worker thread for a coordinator whose node is found through sentinels. It listens to
 * one sentinel after another. When a sentinel names another primary, the job makes the resolver ask
 * all sentinels. If most of them name another primary, the node makes its connections again. The
 * job is needed because an old primary that is isolated or stopped does not report the failover. */
#ifndef PLOCK__FAILOVER_H
#define PLOCK__FAILOVER_H

#include "redis/node.h"
#include "runtime/worker.h"

typedef struct plock_failover plock_failover;

/* Returns NULL if the node has no sentinels, or if memory runs out. In the second case, only broken
 * connections reveal a failover. The other functions accept NULL. */
plock_failover *plock__failover_new(plock_node *node);
void plock__failover_start(plock_failover *failover);

/* Ends the job, if it has started. The caller must not use `failover` afterwards. */
void plock__failover_end(plock_failover *failover);

#endif
