/* What plock_local_lease and plock_local hold, for the files that know them. */
#ifndef PLOCK__LOCAL_LEASE_H
#define PLOCK__LOCAL_LEASE_H

#include "local/local_line.h"
#include "local/local_state.h"
#include "plock/local.h"
#include "runtime/later.h"
#include "runtime/lease.h"
#include "runtime/parking_slot.h"
#include "runtime/worker.h"

#include <stddef.h>

/* A third of its time has passed when a lease is renewed. */
enum { PLOCK__RENEWALS_PER_TTL = 3 };

struct plock_local {
    plock_local *next; /* of all in this process; under the lock, as what follows */
    unsigned references;
    bool disconnected;
    plock__local_map *map; /* NULL: none at the moment */
    const char *remade;
    unsigned keys;
    char *path;
};

/* The call on a lease that the program has begun and not finished. It is no part of the life cycle:
 * the worker thread can change the state during any call. */
enum plock__local_operation {
    PLOCK__OP_NONE,
    PLOCK__OP_ASKS,  /* an acquire that has no claim yet */
    PLOCK__OP_WAITS, /* an acquire whose claim is in the wait queue */
    PLOCK__OP_RELEASES,
    PLOCK__OP_EXTENDS,
    PLOCK__OP_DOWNGRADES,
    PLOCK__OP_LEAVES,
    PLOCK__OP_ADOPTS,
    PLOCK__OP_RELEASES_OWNED
};

/* From when the worker thread watches a lease that is held. It follows from the options. Most
 * leases that renew automatically end before `later` begins, so they wake no thread. */
enum plock__local_watching { PLOCK__UNWATCHED, PLOCK__WATCHED, PLOCK__WATCHED_LATER };

struct plock_local_lease {
    /* First, so that both have one address. The worker thread reads its ttl, and never writes it.
     * base.held is the program's view: a lost lease stays held until the program lets go. */
    plock_lease base;
    plock_job job; /* renews the lease, or ends a claim that the program could not end */
    plock_local *store;
    /* The map of the claim, or NULL. Under the lock unless the lease is a user of the map. */
    plock__local_map *map;
    uint32_t claim;
    uint64_t serial;

    /* Under the lock. */
    unsigned references;
    enum plock__local_lease_state state;
    enum plock__local_job_state job_state;
    /* Does map->users count the lease? A lost lease is counted until the program lets go, and an
     * acquire is counted before it has a claim. */
    bool uses;
    /* Is the lease in the attendant's list? Waiters are, and holders that another process must be
     * able to wake; the program and the worker thread may both take it out. */
    bool registered;
    plock_local_lease *next; /* in the attendant's list */
    plock_ns look_at;        /* when a waiter looks next; 0: at once */
    plock_waker *waker;
    plock__parking_slot parking_slot;
    enum plock__local_watching watching;
    plock_later later;
    plock_ns renew_at;

    /* Only the program's thread uses these. */
    enum plock__local_operation operation;
    char mode;
    plock_local_acquire_options terms; /* of the acquire or adopt */
    plock_ns began_at, deadline, patience_ends;
    plock_ns away_since; /* since when there is no file; 0: there is one */
    plock_ns span;       /* the new ttl, or how long a release keeps the key */
    /* The end that the program sees. It is never after the claim's end, and for a lease that is
     * renewed never after its ttl. */
    _Atomic plock_ns valid_until;
    size_t owner_length;
    char *brought; /* the caller's owner; NULL: the token */
    size_t left_length;
    char *left; /* the owner whose lease is adopted */
    char token[PLOCK_TOKEN_LENGTH];
    plock__local_name name;
    char key[]; /* base.key points here */
};

/* The one place that changes the state. */
static inline void plock__local_set_state(plock_local_lease *lease,
                                          enum plock__local_lease_state state) {
    plock__local_assert_state(lease->state, state);
    lease->state = state;
}

static inline plock_local_lease *plock__local_lease(plock_lease *lease) {
    return (plock_local_lease *)(void *)lease;
}

static inline const plock_local_lease *plock__known_local_lease(const plock_lease *lease) {
    return (const plock_local_lease *)(const void *)lease;
}

static inline plock_local_lease *plock__local_lease_of_job(plock_job *job) {
    return (plock_local_lease *)(void *)((char *)job - offsetof(plock_local_lease, job));
}

/* --- local_steps.c --- */

/* Carries on what the program does with it, as plock_lease_step. */
PLOCK_MUST_USE plock_status plock__local_step(plock_lease *base, plock_interest *interest);

/* --- local_store.c --- */

/* The map, retained. PLOCK_OK, PLOCK_DISCONNECTED (there is none at the moment), or as
 * plock_local_open. */
PLOCK_MUST_USE plock_status plock__local_use(plock_local *store, plock__local_map **map,
                                             plock_error *error);

/* The same for a lease, which is one of the map's users from now on. Its own, if it has one. */
PLOCK_MUST_USE plock_status plock__local_use_for(plock_local_lease *lease);
void plock__local_uses(plock_local_lease *lease, plock__local_map *map);

/* The program has nothing in the map any more. It is given up as soon as the native thread has
 * nothing to do with the lease, either. */
void plock__local_has_used(plock_local_lease *lease);

/* References to maps that are to be given up, without the lock. */
typedef struct plock__local_unneeded {
    plock__local_map *retired, *unused;
    unsigned count; /* of references to the retired one */
} plock__local_unneeded;

/* The same in two steps: with the lock held, and then without it. */
plock__local_unneeded plock__local_end_use(plock_local_lease *lease);
void plock__local_let_maps_go(const plock__local_unneeded *unneeded);

/* What is to be released then; NULL: it is still needed. With the lock held. */
plock__local_map *plock__local_unused(plock_local_lease *lease);

/* Gives up a reference, within a step. */
void plock__local_store_release(plock_local *store);

/* Into the section of it, begun just now. PLOCK_AGAIN with an interest: it is taken; not past the
 * deadline: then PLOCK_SILENT. PLOCK_DISCONNECTED or PLOCK_PROTOCOL as plock__local_check. */
PLOCK_MUST_USE plock_status plock__local_go_in(plock__local_map *map, plock_ns began,
                                               plock_ns deadline, plock_interest *interest,
                                               plock_error *error);

/* Where plock__local_go_in or plock__local_leave has failed for an operation that has nothing in
 * the file but what it did in that section: is the file lost, and the deadline not over? Then the
 * operation lets go of the map, and begins afresh at once, as the interest says. What it is to do
 * that in is for plock__local_use to say, and for nobody else: a new file, or, as long as anything
 * of this process is in the lost one, none. */
PLOCK_MUST_USE bool plock__local_begins_afresh(const plock__local_map *map, plock_status status,
                                               plock_ns deadline, plock_interest *interest);

/* The same for an operation of a lease, which has let go of the map then, or does so as soon as it
 * can. PLOCK_AGAIN, or the status. */
PLOCK_MUST_USE plock_status plock__local_afresh(plock_local_lease *lease, plock_status status,
                                                plock_interest *interest);

/* --- local_lookout.c --- */

/* The map is used, and has no lookout: one begins. */
void plock__local_post_lookout(plock__local_map *map);

/* --- local_steps.c --- */

/* The operation is over, and nothing of the file is needed any more. Returns the status. */
PLOCK_MUST_USE plock_status plock__local_finish_without(plock_local_lease *lease,
                                                        plock_status status);

/* It is released, but its key stays taken until then. In the section. */
void plock__local_keep(plock__local_map *map, plock__local_claim *held, plock_ns until);

/* --- local_acquire.c --- */

PLOCK_MUST_USE plock_status plock__local_acquire_step(plock_local_lease *lease,
                                                      plock_interest *interest);

/* An owner as it stands in a claim; the room is for a digest. PLOCK_OK or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__local_owner_text(plock_text owner, char room[PLOCK_DIGEST_HEX],
                                                    plock_text *text, bool *digested);
plock_text plock__local_owner(const plock_local_lease *lease);

/* For how long a claim of the lease is to be held at most where its process lives. */
plock_ns plock__local_lasts(const plock_local_lease *lease);

/* What the lease asks for; the room is for the digest of a long owner. PLOCK_OK or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__local_wait_request_of(plock_local_lease *lease,
                                                         plock__local_wait_request *wait_request,
                                                         char room[PLOCK_DIGEST_HEX]);

/* The claim is the lease's, and holds. In the section. */
void plock__local_has_claim(plock_local_lease *lease, uint32_t claim);
void plock__local_date(plock_local_lease *lease, plock_ns now);

/* --- local_lease.c --- */

/* Ends what it may have in the file: at once, or where the section is taken, in the native thread.
 * keeps: what was to be kept at least. */
void plock__local_let_go(plock_local_lease *lease, plock_ns keep);

void plock__local_give_waker_back(plock_local_lease *lease);

/* --- local_attendant.c --- */

/* Makes sure that this process hears of what concerns its claims. PLOCK_OK or the failure. */
PLOCK_MUST_USE plock_status plock__local_attend(plock__local_map *map, plock_error *error);

/* With the lock held. */
void plock__local_register(plock_local_lease *lease);
void plock__local_unregister(plock_local_lease *lease);

/* The lease, which is not watched, holds without having been told so: it is told. */
void plock__local_has_turn(plock_local_lease *lease);

/* The lease heeds this from now on. */
void plock__local_heed(plock_local_lease *lease, const plock__local_outlook *outlook);

/* The map is used less. With the lock held. */
void plock__local_review(plock__local_map *map);

/* --- local_watch.c --- */

/* It holds, since just now. With the lock held. */
void plock__local_begin_watch(plock_local_lease *lease);

/* It holds, since just now, and the native thread watches it if it is to do so from the first
 * moment. */
void plock__local_has_begun(plock_local_lease *lease);

/* The lease waits; the native thread watches it from when it is let in. */
void plock__local_watch(plock_local_lease *lease);

/* The program has seen that it does not hold any more. tells: whoever listens is to hear of it,
 * too. */
void plock__local_has_lost(plock_local_lease *lease, bool tells);

/* The lease is about to hold, and then is renewed automatically. PLOCK_OK or the failure. */
PLOCK_MUST_USE plock_status plock__local_enter_later(plock_local_lease *lease);

/* It holds. */
void plock__local_see_to_later(plock_local_lease *lease);

/* There is nothing to watch until the lease is in line or holds again; a file that is lost is let
 * go of. False: not yet, for the native thread has to put the lease down before. */
PLOCK_MUST_USE bool plock__local_start_over(plock_local_lease *lease);

/* It does so no more. */
void plock__local_dismiss(plock_local_lease *lease);

/* The native thread ends the claim, as soon as it can. */
void plock__local_hand_over(plock_local_lease *lease);

/* Gives up a reference; and what comes of it when that was the last. */
void plock__local_lease_release(plock_local_lease *lease);
void plock__local_lease_destroy(plock_local_lease *lease);

/* It was granted, extended or renewed at that moment, and its claim ends then. */
static inline void plock__local_seen_until(plock_local_lease *lease, plock_ns until,
                                           plock_ns from) {
    const plock_ns renewed = plock_after(from, lease->base.ttl);
    atomic_store(&lease->valid_until, lease->terms.renews && renewed < until ? renewed : until);
}

/* Does the claim still say so? */
static inline bool plock__local_still(const plock_local_lease *lease, unsigned state) {
    return !plock__local_lost(lease->map) &&
           atomic_load(&lease->map->claims[lease->claim].word) == plock__word(lease->serial, state);
}

/* The claim's state; PLOCK__FREE: it is not the lease's any more. */
static inline unsigned plock__local_claim_state(const plock_local_lease *lease) {
    if (plock__local_lost(lease->map)) return PLOCK__FREE;
    const uint64_t word = atomic_load(&lease->map->claims[lease->claim].word);
    return word / PLOCK__STATES == lease->serial ? word % PLOCK__STATES : PLOCK__FREE;
}

/* Was it let in, whether it has taken its turn or not? */
static inline bool plock__local_let_in(const plock_local_lease *lease) {
    const unsigned state = plock__local_claim_state(lease);
    return state == PLOCK__HELD || state == PLOCK__HANDED;
}

/* Is the claim the lease's, held or in line? */
static inline bool plock__local_has_place(const plock_local_lease *lease) {
    return plock__local_let_in(lease) || plock__local_still(lease, PLOCK__WAITING);
}

#endif
