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

/* As it is to be here and now, but for what tells one file from another. */
void plock__local_write_title(plock__local_title *title, uint32_t keys);

typedef struct plock__local_verdict {
    /* ours: there is nothing of anybody else's in it; readable: its title is */
    bool ours, readable, usable;
    bool rebooted; /* the clock has begun anew since: that is proof */
    /* that, or the boot has another name now, which may mean no more than another container */
    bool left_over;
    const char *why; /* it cannot be used */
    plock__local_title title;
    int64_t outlives_until, fence;
} plock__local_verdict;

plock__local_verdict plock__local_judge(int fd);

/* Fails with the status and these words. */
plock_status plock__local_refuse(plock_error *error, plock_status status, const char *path,
                                 const char *why, const char *because);

/* It cannot be used; or it is left from before a reboot, perhaps, and nothing in it counts any
 * more. */
bool plock__local_goes(int fd, const plock__local_verdict *v);

/* One that goes: nothing may be taken from anybody. PLOCK_OK, or PLOCK_PROTOCOL. */
PLOCK_MUST_USE plock_status plock__local_may_be_made_anew(int fd, const plock__local_verdict *v,
                                                          const char *path, plock_error *error);

/* Puts a new one in its place, with the lock on making it. PLOCK_OK, PLOCK_STORE_FULL,
 * PLOCK_BAD_CONFIG or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__local_make(int folder, const char *name, const char *path,
                                              uint32_t keys, int64_t fence, plock_error *error);

/* Writes zeros; 0, or -1 with errno. */
PLOCK_MUST_USE int plock__local_fill(int fd, uint64_t from, uint64_t until);

#endif
