/* The embedded store: locks among the processes of one host, in a file that all of them map. No
 * server, no I/O.
 *
 *   plock_local *store;
 *   plock_local_open(&store, NULL, 0, &error);              // the default place, or a path
 *   plock_lease *lease;
 *   plock_local_lease_new(&lease, store, "plock:v1:abc", 12);
 *   plock_local_lease_acquire(lease, &(plock_local_acquire_options){.ttl = 3 * PLOCK_SECOND, .wait
 * = PLOCK_SECOND}); plock_operation operation = plock_lease_operation(lease); status =
 * plock_carry_on(&operation, plock_wait_poll, NULL); // PLOCK_OK: held plock_lease_release(lease,
 * 0); status = plock_carry_on(&operation, plock_wait_poll, NULL); plock_lease_free(lease);
 *   plock_local_close(store);
 *
 * A lease ends with its time, as everywhere, and besides with its process: the kernel knows when
 * that dies, and whoever waits has the lock at once. Only what is meant to outlive its process ends
 * by its time alone: at_least, and a lease that was left, until it is adopted.
 *
 * Promised as long as nobody but plock writes to the file. One that was damaged, truncated or
 * removed is noticed within a tenth of a second by those who use it; in between whoever touches
 * what was cut off is ended by the kernel (SIGBUS). */
#ifndef PLOCK_LOCAL_H
#define PLOCK_LOCAL_H

#include <stddef.h>
#include <stdint.h>

#include "plock/lease.h"

typedef struct plock_local plock_local;

#define PLOCK_LOCAL_KEYS                                                                           \
    65536 /* that are held or waited for at a time, where nothing else is asked for */
#define PLOCK_LOCAL_KEYS_MIN  16
#define PLOCK_LOCAL_KEYS_MAX  1048576
#define PLOCK_LOCAL_LABEL_MAX 100 /* bytes */
#define PLOCK_LOCAL_PATIENCE                                                                       \
    PLOCK_SECOND /* for which an operation without patience of its own may find a process in the   \
                    way */
#define PLOCK_LOCAL_AT_ONCE_MAX 64 /* keys in one plock_local_acquire_all */

/* Opens the file, and makes it where there is none. path: absolute, or NULL: `locks` in
 * $XDG_RUNTIME_DIR/plock, else in a folder of the user's own below the temporary one. keys: how
 * many it has room for; 0: as many as the file has, or PLOCK_LOCAL_KEYS.
 *
 * Folder and file have to be the user's own, no symbolic links, not for others to write, and not on
 * a network. A file that is left from before a reboot, of another version, truncated or damaged is
 * made anew if nothing is held in it; one that is not plock's is refused. Returns PLOCK_OK,
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

/* Why the file was made anew when it was opened; NULL: it was not, or it was left from before a
 * reboot. */
const char *plock_local_remade(const plock_local *store);

/* A descriptor for a process that is to share this one's life: as long as that has inherited a copy
 * of it, this process counts as alive, even if it is not. It is the store's, and is closed in
 * programs that are started, unless that is switched off. -1 with error, or without one where the
 * system's locks belong to processes and cannot be shared. */
int plock_local_liveness(plock_local *store, plock_error *error);

typedef struct plock_local_acquire_options {
    plock_ns ttl;      /* PLOCK_TTL_MIN to PLOCK_TTL_MAX */
    plock_ns wait;     /* how long to try; 0: one attempt */
    plock_ns at_least; /* how long the key is to stay taken whatever becomes of this process */
    plock_ns max_hold; /* no renewal after that; 0: without a bound */
    bool renews, automatic, watched; /* as in plock_acquire_options */
    char mode;         /* 0: alone. Else only such as have the same are inside together, … */
    unsigned limit;    /* … and no more than so many; 0: without a bound. 65535 at most */
    const char *label; /* PLOCK_LOCAL_LABEL_MAX bytes at most, of any kind */
    size_t label_length;
    const char *owner; /* instead of a fresh token */
    size_t owner_length;
} plock_local_acquire_options;

/* A wish for one key; nothing is held. PLOCK_OK, PLOCK_MISUSE (empty) or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock_local_lease_new(plock_lease **lease, plock_local *store,
                                                  const char *key, size_t length);

/* Begins an operation; plock_lease_step carries it out. PLOCK_OK, or PLOCK_MISUSE if the lease is
 * held or a span is out of range. Besides what plock/lease.h lists, it ends with PLOCK_STORE_FULL,
 * PLOCK_SILENT (a process that is stopped is in the way), PLOCK_PROTOCOL (the file is damaged),
 * PLOCK_DESCRIPTORS … */
PLOCK_MUST_USE plock_status plock_local_lease_acquire(plock_lease *lease,
                                                      const plock_local_acquire_options *terms);

/* Takes over what this owner left by plock_lease_leave. It keeps its end where the terms' ttl is 0,
 * and gets another owner, a fresh token or the terms', and a greater fence: it can be adopted once.
 * From now on it ends with this process; but its at_least goes on to count: the ttl is no shorter
 * than what is left of that, and the terms' at_least may lengthen it. Of the terms max_hold,
 * renews, automatic and watched count besides. Done: PLOCK_OK or PLOCK_NOT_OWNER. */
PLOCK_MUST_USE plock_status plock_local_lease_adopt(plock_lease *lease, const char *left,
                                                    size_t length,
                                                    const plock_local_acquire_options *terms);

/* Releases what this owner holds, whoever acquired it. Done: PLOCK_OK or PLOCK_NOT_OWNER. */
PLOCK_MUST_USE plock_status plock_local_lease_release_owned(plock_lease *lease, const char *owner,
                                                            size_t length);

/* Acquires all, or nothing: one attempt. Their keys are different ones. PLOCK_OK, PLOCK_AGAIN,
 * PLOCK_REFUSED (*refused: which one is held or waited for), or a failure. */
PLOCK_MUST_USE plock_status plock_local_acquire_all(plock_lease *const *leases, size_t count,
                                                    const plock_local_acquire_options *terms,
                                                    size_t *refused, plock_interest *interest,
                                                    plock_error *error);

/* Leaves what it holds to whoever releases it by its owner; it still ends with this process. Only
 * what was acquired in one attempt and is not watched. */
void plock_local_lease_forget(plock_lease *lease);

/* Who is inside, or waits. */
typedef struct plock_local_person {
    bool waits;
    char mode;
    plock_ns left;                     /* holders: until it ends by itself */
    int64_t fence, since, pid, thread; /* since: microseconds since 1970 */
    size_t label_length;
    char label[PLOCK_LOCAL_LABEL_MAX];
} plock_local_person;

/* Writes up to `room` of them, holders first, then waiters in order; *count: how many there are.
 * PLOCK_OK, PLOCK_AGAIN or a failure. */
PLOCK_MUST_USE plock_status plock_local_examine(plock_local *store, const char *key, size_t length,
                                                plock_local_person *people, size_t room,
                                                size_t *count, plock_interest *interest,
                                                plock_error *error);

#define PLOCK_LOCAL_KEY_MAX 200 /* bytes of a key that can be told; a longer one is not listed */

/* The next key from *cursor on (0 at first) that is held: *length is 0 at the end. PLOCK_OK,
 * PLOCK_AGAIN or a failure. */
PLOCK_MUST_USE plock_status plock_local_next_key(plock_local *store, uint32_t *cursor,
                                                 char key[PLOCK_LOCAL_KEY_MAX], size_t *length,
                                                 plock_interest *interest, plock_error *error);

/* Takes it away from all who hold it. PLOCK_OK, PLOCK_NOT_OWNER (nobody), PLOCK_AGAIN or a failure.
 */
PLOCK_MUST_USE plock_status plock_local_break(plock_local *store, const char *key, size_t length,
                                              plock_interest *interest, plock_error *error);

#endif
