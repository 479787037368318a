/* A group: several leases of one store. One request acquires all of them or none, and one request
 * releases them. */
#ifndef PLOCK_GROUP_H
#define PLOCK_GROUP_H

#include "plock/redis.h"

#define PLOCK_GROUP_MAX 64 /* leases */

typedef struct plock_group plock_group;

/* Makes a group of these leases, which must outlive it. They must belong to one store, have
 * different keys and no shares (plock_lease_share), and not be held under a named owner
 * (plock_lease_own). Returns PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_MISUSE (no leases, too many, or one
 * that may not be in the group). */
PLOCK_MUST_USE plock_status plock_group_new(plock_group **group, plock_lease *const *leases,
                                            size_t count);

/* Gives up the operation under way; the leases stay as they are. NULL is allowed. */
void plock_group_free(plock_group *group);

/* Each begins an operation and does no I/O. They return PLOCK_OK, PLOCK_MISUSE or PLOCK_IN_USE, as
 * the functions for one lease do (plock/lease.h).
 *
 * An acquire makes one attempt. It may take as long as patience->wait, or as attempt_timeout less
 * patience->asking (at least 20 ms), whichever is longer, but never longer than attempt_timeout.
 *
 * A release skips leases that are not held. It does not skip a lease with a named owner
 * (plock_lease_own), but releases it by that owner. A group cannot acquire such a lease. The
 * released keys stay taken for `keep`. If a release cannot reach the server, the worker thread
 * repeats it, but not that of a named owner (plock/redis.h). */
PLOCK_MUST_USE plock_status plock_group_acquire(plock_group *group,
                                                const plock_acquire_options *patience);
PLOCK_MUST_USE plock_status plock_group_release(plock_group *group, plock_ns keep);

/* Returns PLOCK_AGAIN with interest; PLOCK_OK when done; PLOCK_REFUSED if nothing was acquired
 * (plock_group_free_ones then returns the index of a key that was not free); else the store's
 * failure, with a message in plock_group_error. */
PLOCK_MUST_USE plock_status plock_group_step(plock_group *group, plock_interest *interest);
void plock_group_cancel(plock_group *group);
/* Ends the operation by the deadline. The worker thread goes on with releases that have no answer
 * by then. */
void plock_group_hurry(plock_group *group, plock_ns deadline);
plock_operation plock_group_operation(plock_group *group);

/* Returns how many keys, counted from the first, were free before one that was not. */
size_t plock_group_free_ones(const plock_group *group);
/* Returns true if this lease was ours until the release. */
bool plock_group_released(const plock_group *group, size_t index);
/* Returns true if the release skipped this lease, because it was not held. */
bool plock_group_passed_over(const plock_group *group, size_t index);
const plock_error *plock_group_error(const plock_group *group);

#endif
