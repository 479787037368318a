/* The watch on a lease that is held: the native thread renews it, and notices when it is lost, whatever the program's threads do
 * meanwhile. */
#ifndef PLOCK__WATCH_H
#define PLOCK__WATCH_H

#include "errand.h"
#include "plock/lease.h"
#include "waiter.h"
#include "worker.h"

typedef struct plock_watch plock_watch;

struct plock_watch {
    plock_job job; /* first, so that both are one address */
    plock_watch *next; /* of those of the store */
    plock_store *store;
    unsigned references, generation;
    uint64_t id;
    bool renews, started;

    /* Under the lock. */
    bool ended;     /* the lease is released, or will be */
    bool lost;
    bool doubtful;  /* it may have been broken without our hearing of it */
    plock_ns check_at; /* not before: a check has failed */
    bool paused;    /* the program extends it just now */
    unsigned epoch; /* grows when the program changes its dates */
    plock_ns ttl, valid_until;
    plock_ns renewed_until; /* no renewal after that (max_hold) */

    /* The thread's own. */
    plock_errand errand;
    bool asks, renewing;  /* the errand is under way; and is a renewal, not a check */
    unsigned asked_in;    /* epoch */
    plock_ns asked_ttl, renew_at;
    plock_subject subject;
    char channel[PLOCK__CHANNEL_LENGTH]; /* on which a break is told */
    char names[];
};

/* On a lock; whose it is is said when it starts. NULL when there is no memory. With one reference. */
plock_watch *plock__watch_new(plock_store *store, const plock_subject *subject, uint64_t id, bool renews);
plock_watch *plock__watch_retain(plock_watch *watch);
void plock__watch_release(plock_watch *watch);

/* Has the store's keeper listen for it; `channel` is what the owner's record then has to name. An owner that was brought is copied as long
 * as a lack of memory can be told. PLOCK_OK, PLOCK_NO_MEMORY, PLOCK_CRYPTO or PLOCK_DESCRIPTORS (no thread). */
PLOCK_MUST_USE plock_status plock__watch_prepare(plock_watch *watch, const plock_owner *owner, plock_error *error);

/* The lease is held from now on, until it is ended; says whichever thread got it, the first time it counts. */
void plock__watch_start(plock_watch *watch, const plock_subject *subject, plock_ns ttl, plock_ns valid_until, plock_ns renewed_until);

/* The program begins to extend it, and has done so; a ttl of 0: without success. */
void plock__watch_pause(plock_watch *watch, plock_ns valid_until);
void plock__watch_resume(plock_watch *watch, plock_ns ttl, plock_ns valid_until);

/* No renewal from now on. */
void plock__watch_end(plock_watch *watch);

/* What it knows: until when the lease may be relied on, and whether it has been lost. */
plock_ns plock__watch_valid_until(plock_watch *watch, bool *lost);

/* For the keeper, with the lock held: the server says that it was broken, or may have said so while nobody listened. */
void plock__watch_broken(plock_watch *watches, plock_text key, plock_text value);
void plock__watch_doubt(plock_watch *watches);

#endif
