/* Notices: events of leases that no call is waiting for, for a thread that listens. */
#ifndef PLOCK_NOTICE_H
#define PLOCK_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plock/clock.h"

typedef enum plock_notice_kind {
    PLOCK_LOST,      /* a watched lease is lost */
    PLOCK_RENEWED,   /* a lease was renewed; `took` says how long that took */
    PLOCK_ABANDONED, /* a held lease was freed, and is released */
    PLOCK_UNRELEASED /* a background release failed: the lock stays until its lease expires */
} plock_notice_kind;

typedef struct plock_notice {
    struct plock_notice *next;
    plock_notice_kind kind;
    uint64_t id; /* plock_lease_id */
    plock_ns took;
    int64_t fence;
    size_t key_length;
    char key[];
} plock_notice;

/* Returns the oldest notice, which the caller frees; NULL: none. */
plock_notice *plock_notice_next(void);
void plock_notice_free(plock_notice *notice);

/* A descriptor that becomes readable when there may be a notice, until plock_notice_clear. -1 with
 * errno. */
int plock_notice_descriptor(void);
void plock_notice_clear(void);

/* Makes the descriptor readable even without a notice. */
void plock_notice_wake(void);

/* Are renewals reported? Initially they are not. */
void plock_notice_renewals(bool wanted);

#endif
