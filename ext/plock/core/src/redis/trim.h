/* Closing connections to the nodes of a cluster that are no longer used. A job of the worker thread
 * does that while a store has several connections. The last one stays: the next call may go there.
 */
#ifndef PLOCK__TRIM_H
#define PLOCK__TRIM_H

#include "redis/store.h"

/* A connection was made. Without memory this does nothing, and the next connection tries again. Not
 * with the lock held. */
void plock__trim_attend(plock_store *store);

/* The store is not used any more. With the lock held. */
void plock__trim_review(plock_store *store);

#endif
