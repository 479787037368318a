/* The watch on a lease that is held: the native thread renews it, and notices when it is lost,
 * whatever the program's threads do meanwhile. */
#ifndef PLOCK__WATCH_H
#define PLOCK__WATCH_H

#include "base/process.h"
#include "plock/redis.h"
#include "redis/retry.h"
#include "redis/waiter.h"
#include "runtime/later.h"
#include "runtime/worker.h"

typedef struct plock_watch plock_watch;

struct plock_watch {
    plock_job job;     /* first, so that both are one address */
    plock_watch *next; /* of those of the store */
    plock_store *store;
    unsigned references, generation;
    uint64_t id;
    bool renews, started;
    /* it is left alone at first: nobody listens for it before `later` begins, and the owner's
     * record names no channel */
    bool automatic;
    bool told; /* its loss is to be told */
    plock_later later;

    /* Under the lock. */
    bool ended; /* the lease is released, or will be */
    bool lost;
    bool doubtful;     /* it may have been broken without our hearing of it */
    plock_ns check_at; /* not before: a check has failed */
    bool paused;       /* the program extends it just now */
    unsigned epoch;    /* grows when the program changes its dates */
    plock_ns ttl, valid_until;
    plock_ns renewed_until; /* no renewal after that (max_hold) */
    /* a renewal for this ttl is under way; 0: none is. Only the native thread writes it */
    plock_ns renewing_for;

    /* The thread's own. */
    plock_retry retry;
    bool asks;         /* the retry is under way */
    unsigned asked_in; /* epoch */
    plock_ns renew_at;
    plock_subject subject;
    bool unnoted; /* where it listens has yet to be noted on the server */
    /* "host pid thread", and then the channel */
    char place[PLOCK__IDENTITY_MAX + 1 + PLOCK__CHANNEL_LENGTH];
    size_t place_length;
    char channel[PLOCK__CHANNEL_LENGTH]; /* on which a break is told */
    char names[];
};

/* What a lease wants of its watch. */
typedef struct plock_watching {
    uint64_t id;
    bool renews, told;
    bool automatic; /* it renews, and is left alone while the lease is young */
} plock_watching;

/* On a lock; whose it is is said when it starts. NULL when there is no memory. With one reference.
 */
plock_watch *plock__watch_new(plock_store *store, const plock_subject *subject,
                              const plock_watching *wanted);
plock_watch *plock__watch_retain(plock_watch *watch);
void plock__watch_release(plock_watch *watch);

/* Has the store's coordinator listen for it; `channel` is what the owner's record then has to name.
 * An owner that was brought is copied as long as a lack of memory can be told. PLOCK_OK,
 * PLOCK_NO_MEMORY, PLOCK_CRYPTO or PLOCK_DESCRIPTORS (no thread). */
PLOCK_MUST_USE plock_status plock__watch_prepare(plock_watch *watch, const plock_owner *owner,
                                                 plock_error *error);

/* The lease is held from now on, until it is ended; says whichever thread got it, the first time it
 * counts. */
void plock__watch_start(plock_watch *watch, const plock_subject *subject, plock_ns ttl,
                        plock_ns valid_until, plock_ns renewed_until);

/* The program begins to extend it, and has done so; or without success. Then it may have been
 * carried out for doubtful_ttl, or may be yet, at any time: no more is relied on than that, counted
 * from each renewal. PLOCK_NEVER: it has not been. */
void plock__watch_pause(plock_watch *watch, plock_ns valid_until);
void plock__watch_resume(plock_watch *watch, plock_ns ttl, plock_ns valid_until);
void plock__watch_resume_as_it_was(plock_watch *watch, plock_ns doubtful_ttl);

/* Is a renewal under way for more than this ttl? Carried out after an extension, it would undo what
 * that shortened. */
bool plock__watch_renews_beyond(plock_watch *watch, plock_ns ttl);

/* No renewal from now on. */
void plock__watch_end(plock_watch *watch);

/* What it knows: until when the lease may be relied on, and whether it has been lost. */
plock_ns plock__watch_valid_until(plock_watch *watch, bool *lost);

/* For the coordinator, with the lock held: the server says that it was broken, or may have said so
 * while nobody listened. */
void plock__watch_broken(plock_watch *watches, plock_text key, plock_text value);
void plock__watch_doubt(plock_watch *watches);

#endif
