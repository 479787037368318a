/* A lease is a time-bounded hold of one key, in a store of any kind. The lease object also stores
 * the operation that is under way on it.
 *
 * Each kind of store has its own functions to make, acquire and adopt a lease (plock/redis.h and
 * plock/local.h). All other functions are the same for all kinds. */
#ifndef PLOCK_LEASE_H
#define PLOCK_LEASE_H

#include <stddef.h>
#include <stdint.h>

#include "plock/operation.h"
#include "plock/turn.h"

typedef struct plock_lease plock_lease;

#define PLOCK_TTL_MIN (5 * PLOCK_MILLISECOND) /* a shorter lease would end before its first use */
#define PLOCK_TTL_MAX (366 * 24 * 3600 * PLOCK_SECOND) /* a longer TTL must be a mistake */

#define PLOCK_SHARE_MAX 6 /* bytes, as in "s65535" */

#define PLOCK_KEEP_AT_LEAST ((plock_ns)-1) /* as `keep`: until the acquire's at_least is over */

/* Each of these functions begins an operation and does no I/O; plock_lease_step carries it out.
 * They return PLOCK_OK; PLOCK_MISUSE if the lease is not held or a span is out of range; or
 * PLOCK_IN_USE if another operation is under way (plock/turn.h waits for it).
 *
 * After a release the key stays taken for `keep`, which is a span or PLOCK_KEEP_AT_LEAST. An
 * extended lease lasts for `ttl` from now on (PLOCK_TTL_MIN to PLOCK_TTL_MAX).
 *
 * A downgrade changes the share from "w" to "r", and no other "w" is admitted in between. If the
 * answer to a downgrade is lost, the share counts as "r", because the server may have admitted
 * readers. The caller may then repeat the downgrade.
 *
 * After a leave, this process neither renews nor releases the lease. Any process that knows the
 * lease's owner can release or adopt the lease. */
PLOCK_MUST_USE plock_status plock_lease_release(plock_lease *lease, plock_ns keep);
PLOCK_MUST_USE plock_status plock_lease_extend(plock_lease *lease, plock_ns ttl);
PLOCK_MUST_USE plock_status plock_lease_downgrade(plock_lease *lease);
PLOCK_MUST_USE plock_status plock_lease_leave(plock_lease *lease);

/* Advances the operation. Returns
 *   PLOCK_AGAIN        not done: call again as *interest says
 *   PLOCK_TRY_FAILED   acquire: an attempt failed (see plock_lease_error); call again to retry
 *   PLOCK_OK           done
 *   PLOCK_REFUSED      acquire with wait 0: the key is not free
 *   PLOCK_TIMED_OUT    acquire with wait: refused or failed until wait was over (plock_lease_error)
 *   PLOCK_NOT_OWNER    release, extend, downgrade: the lease was no longer ours
 *   any other          the store's failure; plock_lease_error has the message */
PLOCK_MUST_USE plock_status plock_lease_step(plock_lease *lease, plock_interest *interest);

/* Makes the operation under way end by the deadline. */
void plock_lease_hurry(plock_lease *lease, plock_ns deadline);

/* Gives up the operation under way. If the operation is an acquire or a release, and the key may
 * still be held in the store, the worker thread releases it. Does nothing if no operation is under
 * way. */
void plock_lease_cancel(plock_lease *lease);

/* Releases a held lease in the background, even if an operation is under way on it. The key stays
 * taken for `keep`. */
void plock_lease_let_go(plock_lease *lease, plock_ns keep);

/* Sends the release without waiting for the answer. After this call the lease is not held. The next
 * user of the connection reads the answer first. If the connection stays unused, the worker thread
 * reads the answer. A notice reports that the release failed, or that the lease was already lost.
 *
 * Returns PLOCK_OK, PLOCK_AGAIN, or a failure as plock_lease_release does. PLOCK_AGAIN means that
 * nothing was done, so the caller must use plock_lease_release. Possible reasons are that no
 * connection is idle, the lease has expired, or this kind of store has no such release. */
PLOCK_MUST_USE plock_status plock_lease_release_trailing(plock_lease *lease, plock_ns keep);

/* Returns the time that a release may take if `releases` is true, otherwise the time for any other
 * operation. */
plock_ns plock_lease_budget(const plock_lease *lease, bool releases);

/* Frees the lease without I/O. If it is held, or an unfinished operation may have acquired it, the
 * worker thread releases it, except in a forked child. NULL is allowed. */
void plock_lease_free(plock_lease *lease);

/* Does the same as plock_lease_free, for a lease that the program forgot to release. If the lease
 * is held, a notice reports that (plock/notice.h). The notice is PLOCK_ABANDONED if the lease is
 * still valid, and otherwise PLOCK_EXPIRED. PLOCK_EXPIRED is reported only if plock_notice_want
 * asked for it. */
void plock_lease_abandon(plock_lease *lease);

/* Returns true if this process acquired the lease and has not released or left it, and the lease
 * has neither expired nor been found lost. Asks no server. */
bool plock_lease_valid(const plock_lease *lease);
/* Returns true if this process acquired the lease, and has not released or left it, even if the
 * lease has expired. On Redis, returns false after an operation has found the lease lost. */
bool plock_lease_held(const plock_lease *lease);
/* Returns true if the lease was held, and has expired or was taken away. */
bool plock_lease_lost(const plock_lease *lease);
/* Returns true if the acquire found that another lease held the key, or that other callers were
 * already waiting for it. */
bool plock_lease_contended(const plock_lease *lease);
bool plock_lease_inherited(const plock_lease *lease); /* acquired by the parent of this process */
/* unique in this process; notices identify the lease by it */
uint64_t plock_lease_id(const plock_lease *lease);
/* greater than all earlier fences of the key; 0: the lease was never acquired */
int64_t plock_lease_fence(const plock_lease *lease);
plock_ns plock_lease_ttl(const plock_lease *lease);
plock_ns plock_lease_waited(const plock_lease *lease);      /* from the call to the grant */
plock_ns plock_lease_acquired_at(const plock_lease *lease); /* just before the request left */
plock_ns plock_lease_valid_until(const plock_lease *lease);
const char *plock_lease_key(const plock_lease *lease, size_t *length);
const char *plock_lease_owner(const plock_lease *lease, size_t *length); /* its token or name */
/* the owner in the store's encoding */
const char *plock_lease_value(const plock_lease *lease, size_t *length);
char plock_lease_mode(const plock_lease *lease); /* 'r', 'w', 's'; 0: exclusive */
const plock_error *plock_lease_error(const plock_lease *lease);

plock_operation plock_lease_operation(plock_lease *lease);

/* Steps the operation until it is done or a wait is interrupted, as plock_carry_on does
 * (plock/operation.h). */
PLOCK_MUST_USE plock_status plock_drive(plock_lease *lease, plock_wait wait, void *context);

/* Returns a new place in the lease's queue of operations, for a thread that shares the lease with
 * others (plock/turn.h). */
plock_place_in_turn plock_lease_turn(plock_lease *lease);

#endif
