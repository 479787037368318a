/* Notices: what happened to leases while nobody asked, for whoever the program lets listen. */
#ifndef PLOCK_NOTICE_H
#define PLOCK_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plock/clock.h"

typedef enum plock_notice_kind {
    PLOCK_LOST,      /* a watched lease is not ours any more */
    PLOCK_RENEWED,   /* and how long that took */
    PLOCK_ABANDONED, /* one that was held has been freed, and is released */
    PLOCK_UNRELEASED /* one whose release went on in the background could not be released: it ends
                        with its time */
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

/* The oldest, which now is the caller's; NULL where there is none. */
plock_notice *plock_notice_next(void);
void plock_notice_free(plock_notice *notice);

/* A descriptor that is readable when there may be a notice, until plock_notice_clear; -1 with
 * errno. */
int plock_notice_descriptor(void);
void plock_notice_clear(void);

/* Makes it readable all the same. */
void plock_notice_wake(void);

/* Are renewals told? At first they are not. */
void plock_notice_renewals(bool wanted);

#endif
