/* The contents of plock_local_lease and plock_local, for the files that use them. */
#ifndef PLOCK__LOCAL_LEASE_H
#define PLOCK__LOCAL_LEASE_H

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
    /* The fields up to `remade` are under the mutex. */
    plock_local *next; /* the next store in this process's list */
    unsigned references;
    bool disconnected;
    plock__local_map *map; /* NULL: the store has no map at the moment */
    const char *remade;
    unsigned keys;
    char *path;
};

/* The operation on a lease that the program has begun and not finished. It is not part of the
 * lease's state (local_state.h), because the worker thread can change that state during any
 * operation. */
enum plock__local_operation {
    PLOCK__OP_NONE,
    PLOCK__OP_ASKS,  /* an acquire without a claim */
    PLOCK__OP_WAITS, /* an acquire with a claim in the wait queue */
    PLOCK__OP_RELEASES,
    PLOCK__OP_EXTENDS,
    PLOCK__OP_DOWNGRADES,
    PLOCK__OP_LEAVES,
    PLOCK__OP_ADOPTS,
    PLOCK__OP_RELEASES_OWNED
};

/* When the worker thread begins to watch a held lease: never, at once, or some time after the
 * acquire. A lease that is renewed automatically is WATCHED_LATER. Most such leases end before that
 * time, so they wake no thread. */
enum plock__local_watching { PLOCK__UNWATCHED, PLOCK__WATCHED, PLOCK__WATCHED_LATER };

struct plock_local_lease {
    /* First, so that a pointer to base is also a pointer to the lease. The worker thread writes no
     * field of base. base.held is the program's view, so a lost lease stays held until the program
     * lets go of it. */
    plock_lease base;
    plock_job job; /* renews the lease, or ends a claim that the program could not end */
    plock_local *store;
    /* The map that has the claim, or NULL. Access requires the mutex, unless the lease is a user of
     * the map (`uses`). */
    plock__local_map *map;
    uint32_t claim;
    uint64_t serial;

    /* Protected by the mutex as soon as another thread can find the lease. */
    unsigned references;
    enum plock__local_lease_state state;
    enum plock__local_job_state job_state;
    /* Does map->users count the lease? It does from the start of the acquire, when the lease has no
     * claim yet, until the program lets go of the lease. A lost lease still counts. */
    bool uses;
    /* Is the lease in the attendant's list? Waiters are, and those holders that another process
     * must be able to wake. */
    bool registered;
    uint32_t registered_as; /* the claim under which the attendant finds the lease */
    plock_local_lease *next, *previous;
    plock__heap_entry look; /* when the attendant next looks on behalf of the lease; 0: at once */
    /* Links in a list of leases for which the attendant must look when a process ends: the next
     * lease, and the pointer to this one. `told` is NULL if the lease is in no such list. */
    plock_local_lease *next_told, **told;
    plock_waker *waker;
    plock_later later;
    plock_ns renew_at; /* when the job next renews the lease; 0: the job's next step decides */

    /* Only the program's thread sets these fields, except valid_until, which each renewal also
     * sets. */
    plock__parking_slot parking_slot;
    enum plock__local_watching watching;
    enum plock__local_operation operation;
    char mode;
    plock_local_acquire_options terms; /* the options of the acquire or adopt */
    plock_ns began_at, deadline, patience_ends;
    plock_ns away_since; /* when the file was found missing or lost; 0: it is usable */
    bool goes_on;        /* plock_local_acquire_all has returned PLOCK_AGAIN */
    plock_ns span;       /* extend: the new ttl; release: how long the key stays taken */
    /* Until when the key stays taken after plock__local_end_own_claim. 0: the key is free at once.
     * PLOCK_KEEP_AT_LEAST: the kept_until of the claim. */
    plock_ns kept_until;
    /* The expiry that the program sees. It is never later than the end of the claim and, for a
     * renewed lease, at most one ttl after the last renewal. */
    _Atomic plock_ns valid_until;
    size_t owner_length;
    char *brought; /* the owner that the caller named; NULL: `token` is the owner */
    size_t left_length;
    char *left; /* adopt: the owner that left the lease */
    char token[PLOCK_TOKEN_LENGTH];
    plock__local_name name;
    char key[]; /* base.key points here */
};

/* Changes the state. No other function does so. */
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

/* --- local_store.c --- */

/* Retains the store's map. Opens the file if the store has no map. Returns PLOCK_OK, or PLOCK_AGAIN
 * with an interest if another process is making the file, or stays in the critical section. Returns
 * PLOCK_SILENT if another process still did so at the deadline. Returns PLOCK_DISCONNECTED (the
 * file is missing at the moment), or a status of plock_local_open. If the result is not PLOCK_OK,
 * *map is NULL. */
PLOCK_MUST_USE plock_status plock__local_use(plock_local *store, plock__local_map **map,
                                             plock_ns deadline, plock_interest *interest,
                                             plock_error *error);

/* Retains the store's map for a lease, as plock__local_use does. The lease becomes a user of the
 * map. A lease that already has a map keeps that map. */
PLOCK_MUST_USE plock_status plock__local_use_for(plock_local_lease *lease,
                                                 plock_interest *interest);
void plock__local_uses(plock_local_lease *lease, plock__local_map *map);

/* Ends the lease's use of the map. Call this function when the program no longer needs the lease's
 * claim. The lease keeps its reference to the map until the lease's job is off (PLOCK__JOB_OFF). */
void plock__local_has_used(plock_local_lease *lease);

/* References to a map that the caller must release without the mutex. */
typedef struct plock__local_unneeded {
    plock__local_map *map;
    unsigned count;
} plock__local_unneeded;

/* The two halves of plock__local_has_used. Call the first one with the mutex held, and the second
 * one without the mutex. */
plock__local_unneeded plock__local_end_use(plock_local_lease *lease);
void plock__local_let_maps_go(const plock__local_unneeded *unneeded);

/* Takes the map away from all stores, because they can no longer use it. Call with the mutex
 * held. */
plock__local_unneeded plock__local_retire(plock__local_map *map);

/* Takes the map away from a lease that no longer needs it. Returns the map, which the caller must
 * release, or NULL if the lease needs its map or has none. Call with the mutex held. */
plock__local_map *plock__local_unused(plock_local_lease *lease);

/* Gives up a reference to the store. Call this function within a step. */
void plock__local_store_release(plock_local *store);

/* Enters the critical section of the map. Returns PLOCK_OK, or PLOCK_AGAIN with an interest if
 * another process is inside. Returns PLOCK_SILENT if another process was still inside at the
 * deadline. Returns PLOCK_DISCONNECTED or PLOCK_PROTOCOL if the file is lost. */
PLOCK_MUST_USE plock_status plock__local_go_in(plock__local_map *map, plock_ns began,
                                               plock_ns deadline, plock_interest *interest,
                                               plock_error *error);

/* Call this function if plock__local_go_in or plock__local_leave failed in an operation that could
 * start over in a new file. Returns true, with an interest that is due, if the operation must let
 * go of the map and start over at once. That is so if the file is lost (but not
 * PLOCK__LOCAL_ABSURD) and the deadline has not passed.
 *
 * In the repeated operation, plock__local_use opens a new file, as soon as this process no longer
 * holds or waits for anything in the lost file. */
PLOCK_MUST_USE bool plock__local_may_retry(const plock__local_map *map, plock_status status,
                                           plock_ns deadline, plock_interest *interest);

/* Does the same for an operation on a lease. If the operation must start over, makes the lease let
 * go of the map as soon as possible, and returns PLOCK_AGAIN. Otherwise returns `status`. */
PLOCK_MUST_USE plock_status plock__local_retry_if_lost(plock_local_lease *lease,
                                                       plock_status status,
                                                       plock_interest *interest);

/* --- local_lookout.c --- */

/* Makes a lookout for a map that is in use and has no lookout. */
void plock__local_post_lookout(plock__local_map *map);

/* --- local_steps.c --- */

PLOCK_MUST_USE plock_status plock__local_step(plock_lease *base, plock_interest *interest);

/* Ends an operation, and the lease's use of the map. Returns the status. */
PLOCK_MUST_USE plock_status plock__local_finish_without(plock_local_lease *lease,
                                                        plock_status status);

/* Ends the hold of the claim, but keeps the key taken until the moment `until`. Runs in the
 * critical section. */
void plock__local_keep(plock__local_map *map, plock__local_claim *held, plock_ns until);

/* --- local_acquire.c --- */

PLOCK_MUST_USE plock_status plock__local_acquire_step(plock_local_lease *lease,
                                                      plock_interest *interest);

/* Converts an owner to the text that a claim stores. The digest of a long owner is written into
 * `room`. Returns PLOCK_OK or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__local_owner_text(plock_text owner, char room[PLOCK_DIGEST_HEX],
                                                    plock_text *text, bool *digested);
plock_text plock__local_owner(const plock_local_lease *lease);

/* Fills in the wait request of the lease, with `room` as above. Returns PLOCK_OK or PLOCK_CRYPTO.
 */
PLOCK_MUST_USE plock_status plock__local_wait_request_of(plock_local_lease *lease,
                                                         plock__local_wait_request *wait_request,
                                                         char room[PLOCK_DIGEST_HEX]);

/* Gives the lease a claim that has just been made. Runs in the critical section. */
void plock__local_has_claim(plock_local_lease *lease, uint32_t claim);
void plock__local_date(plock_local_lease *lease, plock_ns now);

/* --- local_lease.c --- */

/* Ends the claim, if there is one. If another process is in the critical section, the worker thread
 * ends the claim later. keep: how long the key stays taken, or PLOCK_KEEP_AT_LEAST. */
void plock__local_let_go(plock_local_lease *lease, plock_ns keep);

/* Ends the claim, if there is one. The lease's kept_until says how long the key stays taken.
 * Returns false if another process is in the critical section. If the file is lost, the claim ends
 * with it, so this function returns true. */
PLOCK_MUST_USE bool plock__local_end_own_claim(const plock_local_lease *lease, plock_ns now);

void plock__local_give_waker_back(plock_local_lease *lease);

/* --- local_attendant.c, local_registered.c --- */

/* Starts the attendant of the map, unless it is running. Returns PLOCK_OK or the failure. */
PLOCK_MUST_USE plock_status plock__local_attend(plock__local_map *map, plock_error *error);

/* These functions add the lease to the attendant's list, and remove it. Call with the mutex
 * held. */
void plock__local_register(plock_local_lease *lease);
void plock__local_unregister(plock_local_lease *lease);

/* Call this function when the program's thread has seen that a waiter now holds its lease. Do not
 * call it for a lease that is watched from the start. */
void plock__local_has_turn(plock_local_lease *lease);

/* Makes the attendant look on behalf of the lease at the time that the outlook gives, and when a
 * process in the outlook ends. */
void plock__local_heed(plock_local_lease *lease, const plock__local_outlook *outlook);

/* If no lease or store needs the map any more, wakes the map's attendant, so that the attendant
 * ends. Call this function with the mutex held, after a reference to the map has been given up. */
void plock__local_review(plock__local_map *map);

/* --- local_watch.c --- */

/* Call this function when the lease has just been acquired. The worker thread then watches the
 * lease, now or later, if the options require that. */
void plock__local_has_begun(plock_local_lease *lease);

/* Makes the worker thread watch the lease. The lease may still be waiting. */
void plock__local_watch(plock_local_lease *lease);

/* Call this function when the program finds that the lease is lost. tells: whether to post a notice
 * of the loss. */
void plock__local_has_lost(plock_local_lease *lease, bool tells);

/* Call this function before acquiring or adopting a lease. Makes sure that the threads that will
 * watch it exist. Returns PLOCK_OK or the failure. */
PLOCK_MUST_USE plock_status plock__local_prepare_watch(plock_local_lease *lease);

/* Call this function when a lease with PLOCK__WATCHED_LATER has been acquired. */
void plock__local_see_to_later(plock_local_lease *lease);

/* Prepares the lease to acquire once more. The lease lets go of a lost file, and is not watched
 * until it waits or is held again. Returns false if the lease's job still needs the map of a lost
 * file. The worker thread soon ends this need, so the caller must try again. */
PLOCK_MUST_USE bool plock__local_start_over(plock_local_lease *lease);

/* Makes the worker thread stop watching the lease. */
void plock__local_dismiss(plock_local_lease *lease);

/* Makes the worker thread end the claim as soon as it can. */
void plock__local_hand_over(plock_local_lease *lease);

/* Gives up a reference to the lease. */
void plock__local_lease_release(plock_local_lease *lease);
void plock__local_lease_destroy(plock_local_lease *lease);

/* Sets the expiry that the program sees. The lease was granted, extended or renewed at `from`, and
 * its claim ends at `until`. */
static inline void plock__local_seen_until(plock_local_lease *lease, plock_ns until,
                                           plock_ns from) {
    const plock_ns renewed = plock_after(from, lease->base.ttl);
    atomic_store(&lease->valid_until, lease->terms.renews && renewed < until ? renewed : until);
}

/* Returns the claim's state, or PLOCK__FREE if the claim no longer belongs to the lease. */
static inline unsigned plock__local_claim_state(const plock_local_lease *lease) {
    if (plock__local_lost(lease->map)) return PLOCK__FREE;
    const uint64_t word = atomic_load(&lease->map->claims[lease->claim].word);
    return word / PLOCK__STATES == lease->serial ? word % PLOCK__STATES : PLOCK__FREE;
}

/* Does the claim still belong to the lease, and is it in this state (not PLOCK__FREE)? */
static inline bool plock__local_still(const plock_local_lease *lease, unsigned state) {
    return plock__local_claim_state(lease) == state;
}

/* Was the claim admitted? Its turn may not have been taken yet. */
static inline bool plock__local_admitted(const plock_local_lease *lease) {
    const unsigned state = plock__local_claim_state(lease);
    return state == PLOCK__HELD || state == PLOCK__HANDED;
}

/* Does the claim still belong to the lease, as a holder or a waiter? */
static inline bool plock__local_has_place(const plock_local_lease *lease) {
    return plock__local_admitted(lease) || plock__local_still(lease, PLOCK__WAITING);
}

#endif
