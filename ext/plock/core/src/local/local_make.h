/* Checks or makes a local store's file, before the file is mapped. */
#ifndef PLOCK__LOCAL_MAKE_H
#define PLOCK__LOCAL_MAKE_H

#include "local/local_map.h"

/* Where each part of the file begins, and the size of the whole file. */
typedef struct plock__local_plan {
    uint64_t processes, buckets, keys, claims, size;
    uint32_t bucket_count, claim_count;
} plock__local_plan;

plock__local_plan plock__local_plan_for(uint32_t keys);

typedef struct plock__local_verdict {
    /* `ours`: the file is plock's. `readable`: its title can be read. `usable`: the file is
     * complete, undamaged and of the current layout. */
    bool ours, readable, usable;
    bool same_clock; /* The file's times come from this process's clock. */
    bool rebooted;   /* The clock is behind a time in the file, which proves a reboot. */
    /* The file may be from before a reboot: `rebooted` is true, or the file has a different boot
     * id. A file that was made in a container may also have a different boot id. */
    bool left_over;
    const char *why; /* Why this process cannot use the file, for instance because of another clock.
                      * NULL: it can use the file. */
    plock__local_title title;
    int64_t outlives_until, fence;
} plock__local_verdict;

plock__local_verdict plock__local_judge(int fd);

/* Fills in the error. Its message says that the store at `path` cannot be used, and continues with
 * `why` and `because`. Returns the status. */
plock_status plock__local_refuse(plock_error *error, plock_status status, const char *path,
                                 const char *why, const char *because);

/* Should the file be replaced? It should if it is unusable. It also should if it may be from before
 * a reboot, no process uses it, and no lock in it outlives its process. */
bool plock__local_is_replaceable(int fd, const plock__local_verdict *v);

/* Checks that no holder loses a lock if the file is replaced. Returns PLOCK_OK or
 * PLOCK_PROTOCOL. */
PLOCK_MUST_USE plock_status plock__local_may_be_replaced(int fd, const plock__local_verdict *v,
                                                         const char *path, plock_error *error);

/* Makes a new file, and replaces an existing one. Requires the lock of plock__local_lock_making.
 * Returns PLOCK_OK, PLOCK_BAD_CONFIG, or a status of plock__local_unusable. */
PLOCK_MUST_USE plock_status plock__local_make(int folder, const char *name, const char *path,
                                              uint32_t keys, int64_t fence, plock_error *error);

/* Writes zeros from the offset `from` up to the offset `until`. Returns 0, or -1 with errno. */
PLOCK_MUST_USE int plock__local_fill(int fd, uint64_t from, uint64_t until);

#endif
