/* The watch on a lease that is held: the worker thread renews the lease, and notices its loss,
 * independently of the program's threads. */
#ifndef PLOCK__WATCH_H
#define PLOCK__WATCH_H

#include "base/index.h"
#include "base/process.h"
#include "plock/redis.h"
#include "redis/retry.h"
#include "redis/waiter.h"
#include "runtime/later.h"
#include "runtime/worker.h"

typedef struct plock_watch plock_watch;

struct plock_watch {
    plock_job job; /* first, so that both have the same address */
    /* The next watch of the same coordinator, and the pointer that leads to this one; NULL: no
     * coordinator listens for it. Under the lock. */
    plock_watch *next, **link;
    plock__index_entry by_key;
    plock_node *node;
    unsigned references, generation;
    uint64_t id;
    bool renews, started;
    /* The watch does nothing while the lease is young. Until `later` begins, the coordinator does
     * not listen for it, and the owner's record names no channel. */
    bool automatic;
    bool told; /* A notice reports a loss. */
    plock_later later;

    /* Under the lock. */
    bool ended; /* The lease is released, or will be. */
    bool lost;
    bool doubtful;     /* The lease may have been broken without a message. */
    plock_ns check_at; /* After a failed check, no check begins before this time. */
    bool paused;       /* The program is extending the lease. */
    unsigned epoch;    /* Grows when the program changes the dates. */
    plock_ns ttl, valid_until;
    plock_ns renewed_until; /* No renewal begins after this time (max_hold). */
    /* The TTL of the renewal under way, or 0. Only the worker thread writes it. */
    plock_ns renewing_for;

    /* Only for the worker thread. */
    plock_retry retry;
    bool asks;         /* the retry is under way */
    unsigned asked_in; /* the epoch in which the retry began */
    plock_ns renew_at;
    plock_subject subject;
    bool unnoted; /* the server's record does not name the channel yet */
    /* "host pid thread", then the channel */
    char place[PLOCK__IDENTITY_MAX + 1 + PLOCK__CHANNEL_MAX];
    size_t place_length;
    char channel[PLOCK__CHANNEL_MAX]; /* for messages about breaks */
    size_t channel_length;
    char names[];
};

/* The options of a watch. */
typedef struct plock_watching {
    uint64_t id;
    bool renews, told;
    bool automatic; /* it renews, but does nothing while the lease is young */
} plock_watching;

/* Makes a watch with one reference. A fresh owner is set when the watch starts. Returns NULL if
 * memory runs out. */
plock_watch *plock__watch_new(plock_node *node, const plock_subject *subject,
                              const plock_watching *wanted);
plock_watch *plock__watch_retain(plock_watch *watch);
void plock__watch_release(plock_watch *watch);

/* Makes the coordinator of the key's node listen for the watch, unless the watch is automatic. The
 * owner's record must then name `channel`. If the caller brought the owner, copies the owner now,
 * while a lack of memory can still be reported. Returns PLOCK_OK, PLOCK_NO_MEMORY, PLOCK_CRYPTO or
 * PLOCK_DESCRIPTORS (no thread). */
PLOCK_MUST_USE plock_status plock__watch_prepare(plock_watch *watch, const plock_owner *owner,
                                                 plock_error *error);

/* Starts the watch when the lease is held. Any thread may call this; only the first call counts. */
void plock__watch_start(plock_watch *watch, const plock_subject *subject, plock_ns ttl,
                        plock_ns valid_until, plock_ns renewed_until);

/* The program calls plock__watch_pause before it extends the lease, and plock__watch_resume after a
 * success. After a failure it calls plock__watch_resume_as_it_was. If the server may still execute
 * the extension, doubtful_ttl is its TTL, and later renewals use this TTL if it is shorter. It is
 * PLOCK_NEVER if the server will not execute the extension. */
void plock__watch_pause(plock_watch *watch, plock_ns valid_until);
void plock__watch_resume(plock_watch *watch, plock_ns ttl, plock_ns valid_until);
void plock__watch_resume_as_it_was(plock_watch *watch, plock_ns doubtful_ttl);

/* Is a renewal under way whose TTL is longer than `ttl`? If the server executed it after an
 * extension to `ttl`, the renewal would undo the extension. */
bool plock__watch_renews_beyond(plock_watch *watch, plock_ns ttl);

/* Ends the watch: no renewal begins after this. */
void plock__watch_end(plock_watch *watch);

/* Returns until when the lease is valid, and whether it has been lost. */
plock_ns plock__watch_valid_until(plock_watch *watch, bool *lost);

/* For the coordinator, with the lock held. The first is called when the server has reported a
 * break. The second is called when a report may have been missed, because the channel was closed.
 */
void plock__watch_broken(const plock__index *watches, plock_text key, plock_text value);
void plock__watch_doubt(plock_watch *watches);

/* Makes another coordinator listen for the watch. With the lock held. */
struct plock_coordinator;
void plock__watch_move(plock_watch *watch, struct plock_coordinator *to);

/* Must be called when the coordinator of these watches ends. With the lock held. */
void plock__watch_forsake(plock_watch *watches);

#endif
