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

typedef struct plock_watching {
    uint64_t id; /* of the lease */
    bool renews;
    /* The watch renews, but does nothing while the lease is young. Until `later` begins its work,
     * no coordinator listens for the watch, and the owner's record on the server names no
     * channel. */
    bool automatic;
    bool told; /* A notice must report the loss of the lease. */
} plock_watching;

struct plock_watch {
    plock_job job; /* first, so that the job and the watch have the same address */
    /* The next watch of the same coordinator, and the pointer that points to this watch. `link` is
     * NULL if no coordinator listens for this watch. The mutex protects both. */
    plock_watch *next, **link;
    plock__index_entry by_key;
    plock_node *node;
    unsigned references, generation;
    plock_watching options;
    plock_later later;

    /* The mutex protects these fields. */
    bool started;
    bool ended; /* The lease needs no watch any more. */
    bool lost;
    bool doubtful;     /* The lease may have been broken, so it must be checked. */
    plock_ns check_at; /* No check begins before this time. Set after a failed request. */
    bool paused;       /* The program is extending the lease. */
    unsigned epoch;    /* Grows each time the program changes the dates. */
    plock_ns ttl, valid_until;
    plock_ns renewed_until; /* No renewal begins after this time (max_hold). */
    /* The TTL of the renewal under way; 0 if there is none. Only the worker thread writes it. */
    plock_ns renewing_for;

    /* Only for the worker thread. */
    plock_retry retry;
    bool asks;         /* the retry is under way */
    unsigned asked_in; /* the epoch in which the retry began */
    plock_ns renew_at;
    plock_subject subject;
    bool unnoted; /* the server's record does not name the channel yet */
    /* for the owner's record: "host pid thread", and the channel once it is known */
    char place[PLOCK__IDENTITY_MAX + 1 + PLOCK__CHANNEL_MAX];
    size_t place_length;
    char channel[PLOCK__CHANNEL_MAX]; /* for messages about breaks */
    size_t channel_length;
    char names[];
};

/* Makes a watch with one reference. Returns NULL if memory runs out. */
plock_watch *plock__watch_new(plock_node *node, const plock_subject *subject,
                              const plock_watching *options);
plock_watch *plock__watch_retain(plock_watch *watch);
void plock__watch_release(plock_watch *watch);

/* Prepares the watch before the lease is acquired. An automatic watch enters the list of later work
 * (later.h). For any other watch, the coordinator of the key's node begins to listen, and the
 * owner's record must name `channel`. Returns PLOCK_OK, PLOCK_NO_MEMORY, PLOCK_CRYPTO or
 * PLOCK_DESCRIPTORS (no thread). */
PLOCK_MUST_USE plock_status plock__watch_prepare(plock_watch *watch, plock_error *error);

/* Starts the watch. Called once the lease is held. Any thread may call this, and only the first
 * call counts. If the lease has a fresh token, the watch copies it now. */
void plock__watch_start(plock_watch *watch, const plock_subject *subject, plock_ns ttl,
                        plock_ns valid_until, plock_ns renewed_until);

/* The program calls plock__watch_pause before it extends the lease, and plock__watch_resume after a
 * success. After a failure it calls plock__watch_resume_as_it_was. doubtful_ttl is the TTL of the
 * extension if the server may still execute it, otherwise PLOCK_NEVER. Later renewals use
 * doubtful_ttl if it is shorter than the watch's TTL. */
void plock__watch_pause(plock_watch *watch, plock_ns valid_until);
void plock__watch_resume(plock_watch *watch, plock_ns ttl, plock_ns valid_until);
void plock__watch_resume_as_it_was(plock_watch *watch, plock_ns doubtful_ttl);

/* Is a renewal under way whose TTL is longer than `ttl`? If the server executed that renewal after
 * an extension to `ttl`, the renewal would undo the extension. */
bool plock__watch_renews_beyond(plock_watch *watch, plock_ns ttl);

/* Ends the watch: no renewal begins after this. */
void plock__watch_end(plock_watch *watch);

/* Returns the end of the lease. Sets *lost to true if the lease has been lost, otherwise to false.
 */
plock_ns plock__watch_valid_until(plock_watch *watch, bool *lost);

/* The coordinator calls these with the mutex held: plock__watch_broken when the server has reported
 * a break, and plock__watch_doubt when the channel was closed and a report may have been missed. */
void plock__watch_broken(const plock__index *watches, plock_text key, plock_text value);
void plock__watch_doubt(plock_watch *watches);

/* Makes another coordinator listen for the watch. Call with the mutex held. */
struct plock_coordinator;
void plock__watch_move(plock_watch *watch, struct plock_coordinator *to);

/* Tells these watches that their coordinator has ended, and no longer listens for them. Call with
 * the mutex held. */
void plock__watch_forsake(plock_watch *watches);

#endif
