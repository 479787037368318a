/* The contents of plock_local_lease and plock_local, for the files that use them. */
#ifndef PLOCK__LOCAL_LEASE_H
#define PLOCK__LOCAL_LEASE_H

#include "base/container.h"
#include "local/local_queue.h"
#include "local/local_state.h"
#include "plock/local.h"
#include "runtime/later.h"
#include "runtime/lease.h"
#include "runtime/parking_slot.h"
#include "runtime/worker.h"

/* A lease is renewed after a third of its TTL. */
enum { PLOCK__RENEWALS_PER_TTL = 3 };

struct plock_local {
    plock_local *next; /* in the list of this process; under the lock, as the next fields are */
    unsigned references;
    bool disconnected;
    plock__local_map *map; /* NULL: none at the moment */
    const char *remade;
    unsigned keys;
    char *path;
};

/* The call on a lease that the program has begun and not finished. It is no part of the lease's
 * state (local_state.h), which the worker thread can change during any call. */
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

/* When the worker thread begins to watch a held lease: never, at once, or later. The options
 * determine it. Most leases that renew automatically end before the watch begins, so they wake no
 * thread. */
enum plock__local_watching { PLOCK__UNWATCHED, PLOCK__WATCHED, PLOCK__WATCHED_LATER };

struct plock_local_lease {
    /* First, so that both have one address. The worker thread reads base.ttl, and writes nothing in
     * base. base.held is the program's view: a lost lease stays held until the program lets go. */
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
     * able to wake. Both the program and the worker thread may remove the lease from it. */
    bool registered;
    uint32_t registered_as; /* the claim under which the attendant finds the lease */
    plock_local_lease *next, *previous;
    plock__heap_entry look; /* when the attendant looks for the lease next; 0: at once */
    /* The next lease that the end of the same process concerns, and the pointer that leads to this
     * one; NULL: it is in no such list. */
    plock_local_lease *next_told, **told;
    plock_waker *waker;
    plock__parking_slot parking_slot;
    enum plock__local_watching watching;
    plock_later later;
    plock_ns renew_at; /* 0: the job computes it */

    /* Only the program's thread uses these. */
    enum plock__local_operation operation;
    char mode;
    plock_local_acquire_options terms; /* of the acquire or adopt */
    plock_ns began_at, deadline, patience_ends;
    plock_ns away_since; /* since when there is no file; 0: there is one */
    plock_ns span;       /* the new ttl, or how long a release keeps the key */
    /* Until when the key stays taken when the claim ends; 0: not at all. PLOCK_KEEP_AT_LEAST: as
     * the claim says. The worker thread reads it when the claim was left to it. */
    plock_ns kept_until;
    /* The end that the program sees. It is never after the claim's end. If the lease is renewed, it
     * is at most a ttl after the last renewal. */
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
    return PLOCK__CONTAINER(plock_local_lease, job, job);
}

/* --- local_steps.c --- */

/* Carries on the lease's operation, as plock_lease_step. */
PLOCK_MUST_USE plock_status plock__local_step(plock_lease *base, plock_interest *interest);

/* --- local_store.c --- */

/* Retains the store's map, and opens the file if the store has none. PLOCK_OK, PLOCK_DISCONNECTED
 * (there is no file at the moment), or as plock_local_open. If *map is set on failure, the caller
 * must release it, too. */
PLOCK_MUST_USE plock_status plock__local_use(plock_local *store, plock__local_map **map,
                                             plock_error *error);

/* The same for a lease, which becomes a user of the map. A lease that has a map keeps it. */
PLOCK_MUST_USE plock_status plock__local_use_for(plock_local_lease *lease);
void plock__local_uses(plock_local_lease *lease, plock__local_map *map);

/* Ends the lease's use of the map, when the program has nothing left in it. The lease gives the map
 * up as soon as its job is off, too. */
void plock__local_has_used(plock_local_lease *lease);

/* References to maps that the caller must release without the lock. */
typedef struct plock__local_unneeded {
    plock__local_map *retired, *unused;
    unsigned count; /* of references to the retired one */
} plock__local_unneeded;

/* The same in two steps: with the lock held, and then without it. */
plock__local_unneeded plock__local_end_use(plock_local_lease *lease);
void plock__local_let_maps_go(const plock__local_unneeded *unneeded);

/* Takes the map away from all stores, because none can use it any more. With the lock held. */
plock__local_unneeded plock__local_retire(plock__local_map *map);

/* Takes the map away from a lease that no longer needs it, and returns it for release; NULL: it is
 * still needed, or there is none. With the lock held. */
plock__local_map *plock__local_unused(plock_local_lease *lease);

/* Gives up a reference to the store. Call it within a step. */
void plock__local_store_release(plock_local *store);

/* Enters the critical section of the map. PLOCK_AGAIN with an interest: another process is inside.
 * PLOCK_SILENT: another process was still inside at the deadline. PLOCK_DISCONNECTED or
 * PLOCK_PROTOCOL as plock__local_check. */
PLOCK_MUST_USE plock_status plock__local_go_in(plock__local_map *map, plock_ns began,
                                               plock_ns deadline, plock_interest *interest,
                                               plock_error *error);

/* Call it if plock__local_go_in or plock__local_leave failed for an operation that has nothing
 * else in the file. Returns true if the file is lost and the deadline has not come. The operation
 * then lets go of the map, and starts over at once, as the interest says. Only plock__local_use
 * decides on the next file: a new one, or none as long as this process holds or waits for anything
 * in the lost one. */
PLOCK_MUST_USE bool plock__local_may_retry(const plock__local_map *map, plock_status status,
                                           plock_ns deadline, plock_interest *interest);

/* The same for an operation of a lease. The lease lets go of the map, now or as soon as it can.
 * Returns PLOCK_AGAIN if the operation starts over, otherwise the status. */
PLOCK_MUST_USE plock_status plock__local_retry_if_lost(plock_local_lease *lease,
                                                       plock_status status,
                                                       plock_interest *interest);

/* --- local_lookout.c --- */

/* Makes a lookout for a map that is used and has none. */
void plock__local_post_lookout(plock__local_map *map);

/* --- local_steps.c --- */

/* Ends an operation that needs nothing in the file any more. Returns the status. */
PLOCK_MUST_USE plock_status plock__local_finish_without(plock_local_lease *lease,
                                                        plock_status status);

/* Releases the claim, but keeps its key taken until the moment `until`. In the critical section. */
void plock__local_keep(plock__local_map *map, plock__local_claim *held, plock_ns until);

/* --- local_acquire.c --- */

PLOCK_MUST_USE plock_status plock__local_acquire_step(plock_local_lease *lease,
                                                      plock_interest *interest);

/* Converts an owner to the text that a claim stores. `room` takes a digest of a long owner.
 * PLOCK_OK or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__local_owner_text(plock_text owner, char room[PLOCK_DIGEST_HEX],
                                                    plock_text *text, bool *digested);
plock_text plock__local_owner(const plock_local_lease *lease);

/* Fills in the wait request of the lease. `room` takes a digest of a long owner. PLOCK_OK or
 * PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__local_wait_request_of(plock_local_lease *lease,
                                                         plock__local_wait_request *wait_request,
                                                         char room[PLOCK_DIGEST_HEX]);

/* Gives the lease a claim that was just made. Call it in the critical section. */
void plock__local_has_claim(plock_local_lease *lease, uint32_t claim);
void plock__local_date(plock_local_lease *lease, plock_ns now);

/* --- local_lease.c --- */

/* Ends the claim, if there is one: at once, or in the worker thread if another process is in the
 * critical section. keep: how long the key stays taken, or PLOCK_KEEP_AT_LEAST. */
void plock__local_let_go(plock_local_lease *lease, plock_ns keep);

/* Ends the claim in the critical section, if there is one, as kept_until says. */
void plock__local_end_own_claim(plock_local_lease *lease, plock_ns now);

void plock__local_give_waker_back(plock_local_lease *lease);

/* --- local_attendant.c, local_registered.c --- */

/* Starts the attendant of the map, unless it runs. Returns PLOCK_OK or the failure. */
PLOCK_MUST_USE plock_status plock__local_attend(plock__local_map *map, plock_error *error);

/* With the lock held. */
void plock__local_register(plock_local_lease *lease);
void plock__local_unregister(plock_local_lease *lease);

/* Call it when the program's thread has seen that the lease holds, unless it is watched at once. */
void plock__local_has_turn(plock_local_lease *lease);

/* Makes the attendant look for the lease when the outlook says so. */
void plock__local_heed(plock_local_lease *lease, const plock__local_outlook *outlook);

/* Call it after a reference to the map was given up, and with the lock held. Wakes an attendant
 * that is no longer needed. */
void plock__local_review(plock__local_map *map);

/* --- local_watch.c --- */

/* Call it when the lease has just begun to hold. The worker thread then watches it, now or later,
 * if the options say so. */
void plock__local_has_begun(plock_local_lease *lease);

/* Gives the worker thread the job to watch the lease, which may still wait. */
void plock__local_watch(plock_local_lease *lease);

/* Call it when the program finds the lease lost. tells: post the notice of the loss, too. */
void plock__local_has_lost(plock_local_lease *lease, bool tells);

/* Call it before the lease holds, if it is watched later. PLOCK_OK or the failure. */
PLOCK_MUST_USE plock_status plock__local_enter_later(plock_local_lease *lease);

/* Call it when the lease has begun to hold, if it is watched later. */
void plock__local_see_to_later(plock_local_lease *lease);

/* Prepares the lease to acquire once more: nothing is watched until it waits or holds again, and a
 * lost file is let go of. Returns false if the worker thread must put down the job first. */
PLOCK_MUST_USE bool plock__local_start_over(plock_local_lease *lease);

/* Makes the worker thread stop watching the lease. */
void plock__local_dismiss(plock_local_lease *lease);

/* Makes the worker thread end the claim as soon as it can. */
void plock__local_hand_over(plock_local_lease *lease);

/* Gives up a reference. The last one destroys the lease. */
void plock__local_lease_release(plock_local_lease *lease);
void plock__local_lease_destroy(plock_local_lease *lease);

/* Sets the end that the program sees, when the lease was granted, extended or renewed at `from`,
 * and its claim ends at `until`. */
static inline void plock__local_seen_until(plock_local_lease *lease, plock_ns until,
                                           plock_ns from) {
    const plock_ns renewed = plock_after(from, lease->base.ttl);
    atomic_store(&lease->valid_until, lease->terms.renews && renewed < until ? renewed : until);
}

/* Is the claim still the lease's, in this state? */
static inline bool plock__local_still(const plock_local_lease *lease, unsigned state) {
    return !plock__local_lost(lease->map) &&
           atomic_load(&lease->map->claims[lease->claim].word) == plock__word(lease->serial, state);
}

/* The claim's state; PLOCK__FREE if the claim is no longer the lease's. */
static inline unsigned plock__local_claim_state(const plock_local_lease *lease) {
    if (plock__local_lost(lease->map)) return PLOCK__FREE;
    const uint64_t word = atomic_load(&lease->map->claims[lease->claim].word);
    return word / PLOCK__STATES == lease->serial ? word % PLOCK__STATES : PLOCK__FREE;
}

/* Was the claim admitted, even if its turn is not taken yet? */
static inline bool plock__local_admitted(const plock_local_lease *lease) {
    const unsigned state = plock__local_claim_state(lease);
    return state == PLOCK__HELD || state == PLOCK__HANDED;
}

/* Is the claim still the lease's, as a holder or a waiter? */
static inline bool plock__local_has_place(const plock_local_lease *lease) {
    return plock__local_admitted(lease) || plock__local_still(lease, PLOCK__WAITING);
}

#endif
