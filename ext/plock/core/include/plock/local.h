/* The local store: locks shared by the processes of one host, in a file that all of them map. It
 * needs no server. A lease has the same life as in plock.h, but begins with plock_local_open,
 * plock_local_lease_new and plock_local_lease_acquire.
 *
 * A lease expires as in the other stores. It also ends when its process ends. The kernel reports
 * the end of the process, and the next waiter has the lock at once. There are two exceptions: the
 * key stays taken until at_least is over, and a lease that was left (plock_lease_leave) outlives
 * its process.
 *
 * The store keeps its promises as long as only plock writes to the file. Processes that hold or
 * wait for a lease notice within a second that the file was damaged, truncated or removed. Until
 * they notice, SIGBUS ends a process that reads a truncated part of the file. */
#ifndef PLOCK_LOCAL_H
#define PLOCK_LOCAL_H

#include <stddef.h>
#include <stdint.h>

#include "plock/lease.h"

typedef struct plock_local plock_local;

/* the default number of keys that can be held or waited for at a time */
#define PLOCK_LOCAL_KEYS      65536
#define PLOCK_LOCAL_KEYS_MIN  16
#define PLOCK_LOCAL_KEYS_MAX  1048576
#define PLOCK_LOCAL_LABEL_MAX 100 /* bytes */
/* how long an operation tries to enter the critical section, unless its own `wait` is longer */
#define PLOCK_LOCAL_PATIENCE    PLOCK_SECOND
#define PLOCK_LOCAL_AT_ONCE_MAX 64 /* keys in one plock_local_acquire_all */

/* Opens the file, and makes it if there is none. `path` is absolute, or NULL for the default: the
 * file `locks` in $XDG_RUNTIME_DIR/plock. If $XDG_RUNTIME_DIR is not a folder of the user, the
 * default is `locks` in plock-UID in the temporary folder. `keys` is the number of keys that the
 * file has room for. If `keys` is 0, an existing file keeps its number, and a new file has room for
 * PLOCK_LOCAL_KEYS.
 *
 * The folder and the file must belong to the user and must not be writable by others. They must not
 * be symbolic links or on a network file system. The store refuses a file that is not plock's. If
 * no lease in the file is held, the store replaces a file that is from before a reboot, of another
 * version, truncated or damaged.
 *
 * Returns PLOCK_OK or PLOCK_NO_MEMORY. Returns PLOCK_BAD_CONFIG if the store refuses the file; the
 * error says why. Returns PLOCK_PROTOCOL if the file is damaged and in use. Returns PLOCK_SILENT if
 * another process, which may be stopped, blocks the file. */
PLOCK_MUST_USE plock_status plock_local_open(plock_local **store, const char *path, unsigned keys,
                                             plock_error *error);

/* Gives up this reference; leases keep the store alive. NULL is allowed. */
void plock_local_close(plock_local *store);

/* Closes the file as soon as no lease needs it. The next operation opens it again. */
void plock_local_disconnect(plock_local *store);
bool plock_local_disconnected(const plock_local *store);

const char *plock_local_path(const plock_local *store);

/* Returns why the store replaced an earlier file; NULL if it did not, or if that file was from
 * before a reboot. */
const char *plock_local_remade(const plock_local *store);

/* Returns a descriptor that other processes may inherit. As long as a process has a copy of the
 * descriptor, the store treats this process as alive. The descriptor belongs to the store. exec(2)
 * closes it unless the caller clears its FD_CLOEXEC. Returns -1 with an error on failure, and -1
 * without an error if the system's locks cannot be inherited. */
int plock_local_liveness(plock_local *store, plock_error *error);

typedef struct plock_local_acquire_options {
    plock_ns ttl;      /* PLOCK_TTL_MIN to PLOCK_TTL_MAX */
    plock_ns wait;     /* how long to try; 0: one attempt */
    plock_ns at_least; /* how long the key stays taken even if this process dies */
    plock_ns max_hold; /* renewal stops this long after the acquisition; 0: it never stops */
    bool renews, automatic, watched; /* as in plock_acquire_options */
    char mode;         /* 0: exclusive; otherwise holders with the same mode share the key */
    unsigned limit;    /* the most holders that may share the key, up to 65535; 0: no bound */
    const char *label; /* up to PLOCK_LOCAL_LABEL_MAX bytes, which may have any values */
    size_t label_length;
    const char *owner; /* NULL: a fresh token */
    size_t owner_length;
} plock_local_acquire_options;

/* Makes a lease on one key. The lease is not held yet. Returns PLOCK_OK, PLOCK_MISUSE (empty key),
 * PLOCK_NO_MEMORY or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock_local_lease_new(plock_lease **lease, plock_local *store,
                                                  const char *key, size_t length);

/* Begins to acquire the lease; plock_lease_step carries it out. Returns PLOCK_OK, PLOCK_NO_MEMORY,
 * PLOCK_CRYPTO, or PLOCK_MISUSE if the lease is held or a span is out of range. The operation may
 * also end with PLOCK_STORE_FULL, PLOCK_SILENT (a stopped process is in the critical section),
 * PLOCK_PROTOCOL (the file is damaged) or PLOCK_DESCRIPTORS. */
PLOCK_MUST_USE plock_status plock_local_lease_acquire(plock_lease *lease,
                                                      const plock_local_acquire_options *terms);

/* Begins to adopt a lease that was left (plock_lease_leave). `left` is the owner that left the
 * lease. The lease gets a new owner (terms->owner, or a fresh token) and a greater fence, so it can
 * be adopted only once. After the adoption the lease ends when this process ends.
 *
 * If terms->ttl is 0, the lease keeps its expiry. If the earlier owner acquired the lease with an
 * at_least, terms->at_least can lengthen that span but not shorten it. Of `terms`, the operation
 * also uses max_hold, renews, automatic and watched. The operation ends with PLOCK_OK,
 * PLOCK_NOT_OWNER or a failure. */
PLOCK_MUST_USE plock_status plock_local_lease_adopt(plock_lease *lease, const char *left,
                                                    size_t length,
                                                    const plock_local_acquire_options *terms);

/* Begins to release the lease that this owner holds, no matter which process acquired it. The
 * operation ends with PLOCK_OK, PLOCK_NOT_OWNER or a failure. */
PLOCK_MUST_USE plock_status plock_local_lease_release_owned(plock_lease *lease, const char *owner,
                                                            size_t length);

/* Acquires all leases or none, in one attempt. The keys must differ. Returns PLOCK_OK, PLOCK_AGAIN
 * with interest, PLOCK_REFUSED (*refused: the index of a key that is held or waited for), or a
 * failure. */
PLOCK_MUST_USE plock_status plock_local_acquire_all(plock_lease *const *leases, size_t count,
                                                    const plock_local_acquire_options *terms,
                                                    size_t *refused, plock_interest *interest,
                                                    plock_error *error);

/* Makes the lease object forget that its lease is held. The key stays taken until
 * plock_local_lease_release_owned releases it, the lease expires, or this process ends. The lease
 * must not be watched, and must have been acquired with wait 0. */
void plock_local_lease_forget(plock_lease *lease);

/* The following calls must be repeated after PLOCK_AGAIN, with the same deadline. After the
 * deadline, they no longer wait for another process, and return PLOCK_SILENT. PLOCK_LOCAL_PATIENCE
 * from the first call is a good deadline. */

/* A holder or a waiter. */
typedef struct plock_local_person {
    bool waits;
    char mode;
    plock_ns left; /* for a holder: the time until the lease expires; for a waiter: 0 */
    /* fence: 0 for a waiter; since: when the hold or the wait began, in microseconds since 1970 */
    int64_t fence, since, pid, thread;
    size_t label_length;
    char label[PLOCK_LOCAL_LABEL_MAX];
} plock_local_person;

/* Writes up to `room` holders and waiters: first the holders, then the waiters in the order of the
 * queue. Sets *count to the number of all holders and waiters. Returns PLOCK_OK, PLOCK_AGAIN with
 * interest, or a failure. */
PLOCK_MUST_USE plock_status plock_local_examine(plock_local *store, const char *key, size_t length,
                                                plock_local_person *people, size_t room,
                                                size_t *count, plock_ns deadline,
                                                plock_interest *interest, plock_error *error);

#define PLOCK_LOCAL_KEY_MAX 200 /* bytes; longer keys are not listed */

/* Finds the next held key from *cursor on, and moves *cursor past that key. *cursor must be 0 at
 * the first call. After the last key, sets *length to 0. Returns PLOCK_OK, PLOCK_AGAIN with
 * interest, or a failure. */
PLOCK_MUST_USE plock_status plock_local_next_key(plock_local *store, uint32_t *cursor,
                                                 char key[PLOCK_LOCAL_KEY_MAX], size_t *length,
                                                 plock_ns deadline, plock_interest *interest,
                                                 plock_error *error);

/* Takes the key away from the holders that have one of the `count` fences in `only`, or from all
 * holders if `only` is NULL. Returns PLOCK_OK, PLOCK_NOT_OWNER if there are no such holders,
 * PLOCK_AGAIN with interest, or a failure. */
PLOCK_MUST_USE plock_status plock_local_break(plock_local *store, const char *key, size_t length,
                                              const int64_t *only, size_t count, plock_ns deadline,
                                              plock_interest *interest, plock_error *error);

#endif
