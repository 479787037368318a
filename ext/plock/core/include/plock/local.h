/* The embedded store: locks among the processes of one host, in a file that all of them map. It
 * needs no server.
 *
 *   plock_local *store;
 *   plock_local_open(&store, NULL, 0, &error);              // the default place, or a path
 *   plock_lease *lease;
 *   plock_local_lease_new(&lease, store, "plock:v1:abc", 12);
 *   plock_operation operation = plock_lease_operation(lease);
 *   plock_local_lease_acquire(lease, &(plock_local_acquire_options){.ttl = 3 * PLOCK_SECOND});
 *   status = plock_carry_on(&operation, plock_wait_poll, NULL); // PLOCK_OK: held
 *   plock_lease_release(lease, 0);
 *   status = plock_carry_on(&operation, plock_wait_poll, NULL);
 *   plock_lease_free(lease);
 *   plock_local_close(store);
 *
 * A lease expires as in the other stores, and it also ends with its process: the kernel reports the
 * death, and the next waiter has the lock at once. Only at_least outlives the process, and so does
 * a lease that was left, until it is adopted.
 *
 * The store keeps its promises as long as only plock writes to the file. Processes that use the
 * file notice within a tenth of a second that it was damaged, truncated or removed. Until then, the
 * kernel ends a process that reads a part that was cut off (SIGBUS). */
#ifndef PLOCK_LOCAL_H
#define PLOCK_LOCAL_H

#include <stddef.h>
#include <stdint.h>

#include "plock/lease.h"

typedef struct plock_local plock_local;

/* keys that are held or waited for at a time, by default */
#define PLOCK_LOCAL_KEYS      65536
#define PLOCK_LOCAL_KEYS_MIN  16
#define PLOCK_LOCAL_KEYS_MAX  1048576
#define PLOCK_LOCAL_LABEL_MAX 100 /* bytes */
/* how long an operation without a wait of its own may find the critical section taken */
#define PLOCK_LOCAL_PATIENCE    PLOCK_SECOND
#define PLOCK_LOCAL_AT_ONCE_MAX 64 /* keys in one plock_local_acquire_all */

/* Opens the file, and makes it if there is none. path: absolute, or NULL for `locks` in
 * $XDG_RUNTIME_DIR/plock, otherwise in a folder of the user's own below the temporary folder.
 * keys: how many it has room for; 0: as many as the file has, or PLOCK_LOCAL_KEYS.
 *
 * Folder and file must belong to the user, must not be symbolic links or on a network, and must
 * not be writable by others. A file from before a reboot, of another version, truncated or damaged
 * is replaced if nothing is held in it. A file that is not plock's is refused. Returns PLOCK_OK,
 * PLOCK_BAD_CONFIG (refused; the error says why), PLOCK_PROTOCOL (damaged, and in use),
 * PLOCK_SILENT or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock_local_open(plock_local **store, const char *path, unsigned keys,
                                             plock_error *error);

/* Gives up this reference; leases keep the store alive. NULL is allowed. */
void plock_local_close(plock_local *store);

/* Lets go of the file as soon as no lease needs it. The next operation opens it again. */
void plock_local_disconnect(plock_local *store);
bool plock_local_disconnected(const plock_local *store);

const char *plock_local_path(const plock_local *store);

/* Why opening the store replaced the file; NULL if it did not, or if the file was from before a
 * reboot. */
const char *plock_local_remade(const plock_local *store);

/* A descriptor that keeps this process alive for the store: as long as another process has an
 * inherited copy, this one counts as alive. It belongs to the store, and is closed on exec unless
 * the caller clears that flag. Returns -1 with an error, or without one if the system's locks
 * cannot be inherited. */
int plock_local_liveness(plock_local *store, plock_error *error);

typedef struct plock_local_acquire_options {
    plock_ns ttl;                    /* PLOCK_TTL_MIN to PLOCK_TTL_MAX */
    plock_ns wait;                   /* how long to try; 0: one attempt */
    plock_ns at_least;               /* how long the key stays taken even if this process dies */
    plock_ns max_hold;               /* no renewal after that; 0: no bound */
    bool renews, automatic, watched; /* as in plock_acquire_options */
    char mode;         /* 0: exclusive; otherwise only holders of one mode share the key, … */
    unsigned limit;    /* … and no more than this; 0: no bound. At most 65535 */
    const char *label; /* PLOCK_LOCAL_LABEL_MAX bytes at most, of any kind */
    size_t label_length;
    const char *owner; /* instead of a fresh token */
    size_t owner_length;
} plock_local_acquire_options;

/* Makes a lease of one key, which is not held yet. PLOCK_OK, PLOCK_MISUSE (empty) or
 * PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock_local_lease_new(plock_lease **lease, plock_local *store,
                                                  const char *key, size_t length);

/* Begins an operation; plock_lease_step carries it out. PLOCK_OK, or PLOCK_MISUSE if the lease is
 * held or a span is out of range. Beyond the statuses in plock/lease.h, it ends with
 * PLOCK_STORE_FULL, PLOCK_SILENT (a stopped process is in the critical section), PLOCK_PROTOCOL
 * (the file is damaged) or PLOCK_DESCRIPTORS. */
PLOCK_MUST_USE plock_status plock_local_lease_acquire(plock_lease *lease,
                                                      const plock_local_acquire_options *terms);

/* Takes over the lease that this owner left by plock_lease_leave. The lease keeps its expiry if
 * the terms' ttl is 0. It gets another owner (a fresh token or the terms') and a greater fence, so
 * it can be adopted once. From now on it ends with this process. Its at_least still counts: the
 * ttl is no shorter than the rest of it, and the terms' at_least may lengthen it. Of the terms,
 * max_hold, renews, automatic and watched count, too. Done: PLOCK_OK or PLOCK_NOT_OWNER. */
PLOCK_MUST_USE plock_status plock_local_lease_adopt(plock_lease *lease, const char *left,
                                                    size_t length,
                                                    const plock_local_acquire_options *terms);

/* Releases the lease that this owner holds, in any process. Done: PLOCK_OK or PLOCK_NOT_OWNER. */
PLOCK_MUST_USE plock_status plock_local_lease_release_owned(plock_lease *lease, const char *owner,
                                                            size_t length);

/* Acquires all or none, in one attempt. The keys must differ. PLOCK_OK, PLOCK_AGAIN, PLOCK_REFUSED
 * (*refused: which one is held or waited for), or a failure. */
PLOCK_MUST_USE plock_status plock_local_acquire_all(plock_lease *const *leases, size_t count,
                                                    const plock_local_acquire_options *terms,
                                                    size_t *refused, plock_interest *interest,
                                                    plock_error *error);

/* Forgets a held lease, which then ends with this process or by plock_local_lease_release_owned.
 * Requires a lease that was acquired in one attempt and is not watched. */
void plock_local_lease_forget(plock_lease *lease);

/* A holder or a waiter. */
typedef struct plock_local_person {
    bool waits;
    char mode;
    plock_ns left;                     /* holders: until it ends by itself */
    int64_t fence, since, pid, thread; /* since: microseconds since 1970 */
    size_t label_length;
    char label[PLOCK_LOCAL_LABEL_MAX];
} plock_local_person;

/* Writes up to `room` holders and waiters, holders first, then waiters in order; *count: how many
 * there are. PLOCK_OK, PLOCK_AGAIN or a failure. */
PLOCK_MUST_USE plock_status plock_local_examine(plock_local *store, const char *key, size_t length,
                                                plock_local_person *people, size_t room,
                                                size_t *count, plock_interest *interest,
                                                plock_error *error);

#define PLOCK_LOCAL_KEY_MAX 200 /* bytes of a key that is listed; a longer one is not */

/* The next key from *cursor on (0 at first) that is held: *length is 0 at the end. PLOCK_OK,
 * PLOCK_AGAIN or a failure. */
PLOCK_MUST_USE plock_status plock_local_next_key(plock_local *store, uint32_t *cursor,
                                                 char key[PLOCK_LOCAL_KEY_MAX], size_t *length,
                                                 plock_interest *interest, plock_error *error);

/* Takes the key away from all its holders. PLOCK_OK, PLOCK_NOT_OWNER (none), PLOCK_AGAIN or a
 * failure. */
PLOCK_MUST_USE plock_status plock_local_break(plock_local *store, const char *key, size_t length,
                                              plock_interest *interest, plock_error *error);

#endif
