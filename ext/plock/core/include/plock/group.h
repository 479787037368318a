/* A group: several leases of one store, acquired in one request, all or none, and released in one.
 */
#ifndef PLOCK_GROUP_H
#define PLOCK_GROUP_H

#include "plock/redis.h"

#define PLOCK_GROUP_MAX 64 /* leases */

typedef struct plock_group plock_group;

/* Refers to the leases, which are of one store, of different keys, with one holder each, not
 * adopted, and outlive it. PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_MISUSE (none, or too many). */
PLOCK_MUST_USE plock_status plock_group_new(plock_group **group, plock_lease *const *leases,
                                            size_t count);

/* Gives up what is under way; the leases stay as they are. NULL is allowed. */
void plock_group_free(plock_group *group);

/* Each begins an operation and does no I/O. PLOCK_OK, PLOCK_MISUSE or PLOCK_IN_USE as for one lease
 * (plock/redis.h). An acquire makes one attempt. It ends with attempt_timeout, and earlier if both
 * patience->wait and what patience->asking leaves of attempt_timeout are shorter, but not before 20
 * ms. A release passes over those that are not held, but not over those whose owner was named
 * (plock_lease_own), which it releases by that name; they cannot be acquired so. What is released
 * stays taken for `keep`. */
PLOCK_MUST_USE plock_status plock_group_acquire(plock_group *group,
                                                const plock_acquire_options *patience);
PLOCK_MUST_USE plock_status plock_group_release(plock_group *group, plock_ns keep);

/* PLOCK_AGAIN with interest; PLOCK_OK: done; PLOCK_REFUSED: nothing has been acquired, and
 * plock_group_free_ones tells how many were free; else the store's failure, in words in
 * plock_group_error. */
PLOCK_MUST_USE plock_status plock_group_step(plock_group *group, plock_interest *interest);
void plock_group_cancel(plock_group *group);
/* It ends by the deadline; what a release has not heard of by then the native thread goes on with.
 */
void plock_group_hurry(plock_group *group, plock_ns deadline);
plock_operation plock_group_operation(plock_group *group);

/* before the first that was not */
size_t plock_group_free_ones(const plock_group *group);
/* it was ours until the release */
bool plock_group_released(const plock_group *group, size_t index);
/* it was not held when the release began */
bool plock_group_passed_over(const plock_group *group, size_t index);
const plock_error *plock_group_error(const plock_group *group);

#endif
