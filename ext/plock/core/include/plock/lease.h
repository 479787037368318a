/* A lease: a time-bounded hold of one key, and the operation that is under way on it. */
#ifndef PLOCK_LEASE_H
#define PLOCK_LEASE_H

#include <stddef.h>
#include <stdint.h>

#include "plock/operation.h"
#include "plock/store.h"
#include "plock/turn.h"

typedef struct plock_lease plock_lease;

#define PLOCK_SHARE_MAX 6 /* bytes: "s65535" */

#define PLOCK_LABEL_MAX 300 /* bytes: a hundred, percent-encoded */

typedef struct plock_patience {
    plock_ns ttl;       /* how long the lease is to last: PLOCK_TTL_MIN to PLOCK_TTL_MAX */
    plock_ns wait;      /* how long to try; 0: one attempt, by an owner that was brought only that */
    plock_ns asking;    /* for so long the caller has been asking, for several keys one after the other: the time that an attempt may take
                         * in spite of patience (attempt_timeout) counts from there */
    plock_ns at_least;  /* how long the key is to stay taken, even if it is released before: up to PLOCK_TTL_MAX; the lease lasts as long */
    bool renews;        /* the native thread extends the lease as long as it is held … */
    plock_ns max_hold;  /* … and up to this span after it was acquired; 0: without a bound */
    bool automatic;     /* with renews: nobody has asked for that, so nothing is done before the lease is older than most become, and its
                         * loss is told only where it is watched */
    bool watched;       /* its loss is told (plock/notice.h); what renews is watched, too */
    bool insists;       /* also where a failure does not look as if it would pass: a wrong password, a missing permission */
    bool endures;       /* also where the server is away for longer than unavailable_timeout; what
                         * insists endures, too */
    bool shares;        /* with processes of the older Ruby implementation: they poll, and get a chance to */
    const char *label;  /* for people who ask who holds or waits: up to PLOCK_LABEL_MAX bytes without blanks, which live as long as
                         * the operation; NULL: none */
} plock_patience;

/* Returns PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_MISUSE (empty key). Copies the key and refers to the store. */
PLOCK_MUST_USE plock_status plock_lease_new(plock_lease **lease, plock_store *store, const char *key, size_t length);

/* Uses this owner instead of a fresh random token for each attempt, written to the store as it stands.
 * Returns PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_MISUSE (empty, or an operation is under way). */
PLOCK_MUST_USE plock_status plock_lease_own(plock_lease *lease, const char *owner, size_t length);

/* Has it ask for a share of a lock that may have several holders: "sN" lets in N, "r" any number, "w" is alone; never two of which one
 * begins otherwise. Who waits is let in in his order. A key is of one kind for ever: this, or with one holder.
 * Returns PLOCK_OK or PLOCK_MISUSE (none of these, an owner was brought, or an operation is under way). */
PLOCK_MUST_USE plock_status plock_lease_share(plock_lease *lease, const char *share);

/* Each begins an operation and does no I/O; plock_lease_step carries it out.
 * Return PLOCK_OK; PLOCK_MISUSE where the lease is (not) held or ttl is out of range; PLOCK_IN_USE where it is held and another
 * operation is under way, which plock/turn.h waits for. */
PLOCK_MUST_USE plock_status plock_lease_acquire(plock_lease *lease, const plock_patience *patience);
PLOCK_MUST_USE plock_status plock_lease_release(plock_lease *lease);
PLOCK_MUST_USE plock_status plock_lease_extend(plock_lease *lease, plock_ns ttl);

/* Begins to make a "w" an "r", without letting another "w" in. Returns as above. */
PLOCK_MUST_USE plock_status plock_lease_downgrade(plock_lease *lease);

/* A release that fails because the server cannot be reached goes on in the background until the lease would have ended by
 * itself; one of an owner that was named (plock_lease_own) does not. Where it only found no connection of the pool in time,
 * it ends with PLOCK_OK, and a failure in the background is told (PLOCK_UNRELEASED). */

/* From now on for this long the key stays taken, even after a release (which then only says when it ends). */
void plock_lease_keep_taken(plock_lease *lease, plock_ns span);

/* Begins a release by owner (plock_lease_own) of something that this lease object did not acquire. Returns as above. */
PLOCK_MUST_USE plock_status plock_lease_release_owned(plock_lease *lease);

/* Begins to take over a lease that another process left (plock_lease_leave) under this value (plock_lease_value), for ttl from now on.
 * The lease gets another owner, a fresh token or the one of plock_lease_own, and a greater fence: a value can be adopted once.
 * Returns as above, and PLOCK_NO_MEMORY; done, PLOCK_OK or PLOCK_NOT_OWNER. Of the patience ttl, renews, automatic, max_hold and watched count.
 * Where the reply is lost, what a fresh token may have got is released in the background. */
PLOCK_MUST_USE plock_status plock_lease_adopt(plock_lease *lease, const char *left, size_t length, const plock_patience *patience);

/* Advances the operation. Returns
 *   PLOCK_AGAIN        not done: call again as *want says
 *   PLOCK_TRY_FAILED   acquire only: an attempt failed (plock_lease_error tells how), another will follow: call again
 *   PLOCK_OK           done
 *   PLOCK_REFUSED      acquire with wait 0: somebody else holds it
 *   PLOCK_TIMED_OUT    acquire with patience: it ended, after a refusal or after a failure (that plock_lease_error still tells)
 *   PLOCK_NOT_OWNER    release, extend, downgrade: it was not ours any more
 *   any other          the store's failure; plock_lease_error has the words. */
PLOCK_MUST_USE plock_status plock_lease_step(plock_lease *lease, plock_want *want);

/* The operation under way has less time than it thought: it ends by the deadline. */
void plock_lease_hurry(plock_lease *lease, plock_ns deadline);

/* Gives up the operation under way. What an acquire or a release may have left on the server is released in the
 * background. Harmless where nothing is under way. */
void plock_lease_cancel(plock_lease *lease);

/* Releases what is held in the background, whatever is under way on it. */
void plock_lease_let_go(plock_lease *lease);

/* How long an operation may take, a release or another. */
plock_ns plock_lease_budget(const plock_lease *lease, bool releases);

/* Leaves a lease to whoever knows its owner: freeing it does not release it, and nothing renews it. */
void plock_lease_leave(plock_lease *lease);

/* Frees a lease that its program forgot: if it is still held, that is told (plock/notice.h). */
void plock_lease_abandon(plock_lease *lease);

/* Frees the lease, without I/O: one that is still held, or that an unfinished operation may hold, is handed to the native
 * thread, which releases it; not so in a forked child. NULL is allowed. */
void plock_lease_free(plock_lease *lease);

/* Held as far as this process can tell without asking: acquired, not released, its time not over, not inherited by fork. */
bool plock_lease_valid(const plock_lease *lease);
bool plock_lease_held(const plock_lease *lease);      /* acquired here, and not released, left or found to be lost: its time may be over */
bool plock_lease_lost(const plock_lease *lease);      /* it was held, and its time is over, or somebody took it away */
bool plock_lease_contended(const plock_lease *lease); /* somebody else held it at first, or was before us */
uint64_t plock_lease_id(const plock_lease *lease);    /* one in a process; by it notices name a lease */
bool plock_lease_inherited(const plock_lease *lease); /* acquired by the parent of this process */
const char *plock_lease_key(const plock_lease *lease, size_t *length);
const char *plock_lease_owner(const plock_lease *lease, size_t *length);
const char *plock_lease_shares(const plock_lease *lease); /* as it was given to plock_lease_share, or is by now; "": nothing */
const char *plock_lease_value(const plock_lease *lease, size_t *length); /* the owner as it is written in the store */
plock_ns plock_lease_waited(const plock_lease *lease); /* from the call to the lock */
int64_t plock_lease_fence(const plock_lease *lease); /* strictly growing for a key; 0 where none was acquired */
plock_ns plock_lease_ttl(const plock_lease *lease);
plock_ns plock_lease_acquired_at(const plock_lease *lease); /* before the request left */
plock_ns plock_lease_valid_until(const plock_lease *lease); /* acquired_at + ttl - drift */
const plock_error *plock_lease_error(const plock_lease *lease);

/* Carries the operation on until it is done, or the wait is interrupted (plock/operation.h). */
PLOCK_MUST_USE plock_status plock_drive(plock_lease *lease, plock_wait wait, void *context);
plock_operation plock_lease_operation(plock_lease *lease);

/* For threads that share the lease (plock/turn.h). */
plock_place_in_turn plock_lease_turn(plock_lease *lease);

#endif
