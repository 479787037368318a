/* A job of the worker thread for a coordinator whose node is found through sentinels: it listens to
 * one of them after the other, and has all asked as soon as one names another primary. If most of
 * them do, the node's connections are made again. A primary that was cut off, or stopped, would not
 * tell that it is none any more. */
#ifndef PLOCK__FAILOVER_H
#define PLOCK__FAILOVER_H

#include "redis/node.h"
#include "runtime/worker.h"

typedef struct plock_failover plock_failover;

/* Returns NULL if the node has no sentinels, or there is no memory: then only connections that
 * break tell of a failover. The other functions allow NULL, too. */
plock_failover *plock__failover_new(plock_node *node);
void plock__failover_start(plock_failover *failover);

/* Ends the job, if it has started. The caller does not use `failover` any more. */
void plock__failover_end(plock_failover *failover);

#endif
