/* A group: several leases of one store that one request acquires, all or none, and one request
 * releases. */
#ifndef PLOCK_GROUP_H
#define PLOCK_GROUP_H

#include "plock/redis.h"

#define PLOCK_GROUP_MAX 64 /* leases */

typedef struct plock_group plock_group;

/* Refers to the leases, which must outlive it. They belong to one store, have different keys and
 * one holder each, and are not adopted. Returns PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_MISUSE (no
 * leases, or too many). */
PLOCK_MUST_USE plock_status plock_group_new(plock_group **group, plock_lease *const *leases,
                                            size_t count);

/* Gives up the operation under way; the leases stay as they are. NULL is allowed. */
void plock_group_free(plock_group *group);

/* Each begins an operation and does no I/O. They return PLOCK_OK, PLOCK_MISUSE or PLOCK_IN_USE as
 * for one lease (plock/redis.h).
 *
 * An acquire makes one attempt. It ends after attempt_timeout, or earlier if both patience->wait
 * and the rest of attempt_timeout after patience->asking are shorter, but not before 20 ms.
 *
 * A release skips leases that are not held. It does not skip leases with a named owner
 * (plock_lease_own): it releases them by that owner, and a group cannot acquire them. The released
 * keys stay taken for `keep`. */
PLOCK_MUST_USE plock_status plock_group_acquire(plock_group *group,
                                                const plock_acquire_options *patience);
PLOCK_MUST_USE plock_status plock_group_release(plock_group *group, plock_ns keep);

/* Returns PLOCK_AGAIN with interest; PLOCK_OK when done; PLOCK_REFUSED if nothing was acquired
 * (plock_group_free_ones returns how many keys were free); else the store's failure, with a message
 * in plock_group_error. */
PLOCK_MUST_USE plock_status plock_group_step(plock_group *group, plock_interest *interest);
void plock_group_cancel(plock_group *group);
/* Ends it by the deadline. The worker thread goes on with releases that have no answer by then. */
void plock_group_hurry(plock_group *group, plock_ns deadline);
plock_operation plock_group_operation(plock_group *group);

/* the number before the first that was not free */
size_t plock_group_free_ones(const plock_group *group);
/* it was ours until the release */
bool plock_group_released(const plock_group *group, size_t index);
/* it was not held when the release began */
bool plock_group_passed_over(const plock_group *group, size_t index);
const plock_error *plock_group_error(const plock_group *group);

#endif
