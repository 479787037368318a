/* The keeper: what the native thread does for a store while anybody waits there, or holds a lease that is watched. It listens on
 * the channel, calls those whose turn comes, sends one of each line to look when it is time, and tells of leases that were broken. */
#ifndef PLOCK__KEEPER_H
#define PLOCK__KEEPER_H

#include "redis/channel.h"
#include "redis/line.h"
#include "redis/watch.h"

struct plock_keeper {
    plock_job job; /* first, so that both are one address */
    plock_store *store;
    unsigned generation;
    bool begun;

    plock_channel channel; /* the thread's own, but the id */
    plock_ns retry_at;
    unsigned failures;
    plock_ns idle_since; /* PLOCK_NEVER: it is not */

    /* Under the lock. */
    plock_keeper *next; /* all of the process */
    plock_line *lines;
    plock_watch *watches;
    bool open;          /* the channel is, so one can queue */
    plock_ns looks_at;  /* the thread will look at the lines by then; it may find that it need not have */
};

/* The store's keeper, or NULL where none is at work. With the lock held. */
plock_keeper *plock__keeper_of(plock_store *store);

/* The same, appointed where there was none: then *start is it, too, and has to be handed to plock__keeper_start without the lock.
 * PLOCK_OK: the lock is held. Else PLOCK_NO_MEMORY or PLOCK_CRYPTO, and it is not. */
PLOCK_MUST_USE plock_status plock__keeper_find(plock_store *store, plock_keeper **keeper, plock_keeper **start, plock_error *error);
void plock__keeper_start(plock_keeper *keeper);

/* The store is used less: it may have no need of a keeper any more. With the lock held. */
void plock__keeper_review(plock_store *store);

/* There is something to do, now or by then. With the lock held. */
void plock__keeper_prod(plock_keeper *keeper);
void plock__keeper_tell(plock_keeper *keeper, plock_ns by);

void plock__keepers_in_child(void);

#endif
