/* A group: several leases of one store. One request acquires all of them or none, and one request
 * releases them. */
#ifndef PLOCK_GROUP_H
#define PLOCK_GROUP_H

#include "plock/redis.h"

#define PLOCK_GROUP_MAX 64 /* the most leases in a group */

typedef struct plock_group plock_group;

/* Makes a group of these leases. The leases must outlive the group, belong to one store, and have
 * different keys. They must not have shares (plock_lease_share). A lease with a named owner
 * (plock_lease_own) must not be held. Returns PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_MISUSE (no leases,
 * too many leases, or a lease that may not be in the group). */
PLOCK_MUST_USE plock_status plock_group_new(plock_group **group, plock_lease *const *leases,
                                            size_t count);

/* Gives up the operation under way, and frees the group but not its leases. NULL is allowed. */
void plock_group_free(plock_group *group);

/* Each of these functions begins an operation and does no I/O. They return PLOCK_OK, PLOCK_MISUSE
 * or PLOCK_IN_USE, as the functions for one lease do (plock/lease.h).
 *
 * plock_group_acquire makes one attempt. The attempt may take the longer of two spans:
 * patience->wait, or attempt_timeout minus patience->asking (at least 20 ms). It never takes longer
 * than attempt_timeout. A group with a named owner's lease (plock_lease_own) cannot be acquired.
 *
 * plock_group_release skips leases that are not held. A lease with a named owner is not skipped,
 * because it is released by its owner's name. The released keys stay taken for `keep`. If a release
 * cannot reach the server, the worker thread repeats it, but not for leases with a named owner
 * (plock/redis.h). */
PLOCK_MUST_USE plock_status plock_group_acquire(plock_group *group,
                                                const plock_acquire_options *patience);
PLOCK_MUST_USE plock_status plock_group_release(plock_group *group, plock_ns keep);

/* Returns the operation under way. A step returns PLOCK_AGAIN with interest; PLOCK_OK when done;
 * PLOCK_REFUSED if nothing was acquired because a key was not free; or the store's failure, with a
 * message in plock_group_error. After PLOCK_REFUSED, plock_group_free_ones returns the index of the
 * first key that was not free. If the operation is hurried, the worker thread continues releases
 * that have no answer by the deadline. */
plock_operation plock_group_operation(plock_group *group);

/* Returns how many keys were free before the first key that was not free. */
size_t plock_group_free_ones(const plock_group *group);
/* Returns true if this lease was still ours when it was released. */
bool plock_group_released(const plock_group *group, size_t index);
/* Returns true if the release skipped this lease, because it was not held. */
bool plock_group_passed_over(const plock_group *group, size_t index);
const plock_error *plock_group_error(const plock_group *group);

#endif
