/* Closes unused connections to the nodes of a cluster. A job of the worker thread does this while a
 * store has several connections. The connection that was used last stays, because the next call may
 * use it. */
#ifndef PLOCK__TRIM_H
#define PLOCK__TRIM_H

#include "redis/store.h"

/* Must be called after a connection has been made. Starts the job if it is needed. If memory runs
 * out, nothing happens, and the next connection tries again. Do not call with the mutex held. */
void plock__trim_attend(plock_store *store);

/* Makes the job check whether the store still needs it. Call with the mutex held. */
void plock__trim_review(plock_store *store);

#endif
