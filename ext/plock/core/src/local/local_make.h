/* A local store's file before it is mapped. */
#ifndef PLOCK__LOCAL_MAKE_H
#define PLOCK__LOCAL_MAKE_H

#include "local/local_map.h"

/* Where each part begins. */
typedef struct plock__local_plan {
    uint64_t processes, buckets, keys, claims, size;
    uint32_t bucket_count, claim_count;
} plock__local_plan;

plock__local_plan plock__local_plan_for(uint32_t keys);

/* Fills in the title for this host, except its random mark and its checksum. */
void plock__local_write_title(plock__local_title *title, uint32_t keys);

typedef struct plock__local_verdict {
    /* ours: the file is plock's; readable: its title is */
    bool ours, readable, usable;
    bool rebooted; /* the clock is earlier than in the file, which proves a reboot */
    /* rebooted, or the boot id differs, which another container may cause, too */
    bool left_over;
    const char *why; /* the reason why it cannot be used */
    plock__local_title title;
    int64_t outlives_until, fence;
} plock__local_verdict;

plock__local_verdict plock__local_judge(int fd);

/* Fills in the error with these words. Returns the status. */
plock_status plock__local_refuse(plock_error *error, plock_status status, const char *path,
                                 const char *why, const char *because);

/* Can the file be replaced? It is unusable, or may be from before a reboot and holds nothing that
 * counts. */
bool plock__local_is_replaceable(int fd, const plock__local_verdict *v);

/* May such a file be replaced without taking a lock from its holder? Returns PLOCK_OK or
 * PLOCK_PROTOCOL. */
PLOCK_MUST_USE plock_status plock__local_may_be_replaced(int fd, const plock__local_verdict *v,
                                                         const char *path, plock_error *error);

/* Puts a new file in its place. Requires the lock on making it. PLOCK_OK, PLOCK_STORE_FULL,
 * PLOCK_BAD_CONFIG or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__local_make(int folder, const char *name, const char *path,
                                              uint32_t keys, int64_t fence, plock_error *error);

/* Writes zeros; 0, or -1 with errno. */
PLOCK_MUST_USE int plock__local_fill(int fd, uint64_t from, uint64_t until);

#endif
