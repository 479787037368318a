/* Notices tell a listening thread of events that no call returns, such as the loss of a lease. */
#ifndef PLOCK_NOTICE_H
#define PLOCK_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plock/clock.h"

typedef enum plock_notice_kind {
    PLOCK_LOST,        /* A watched lease is lost. */
    PLOCK_RENEWED,     /* A lease was renewed. */
    PLOCK_ABANDONED,   /* The program forgot a held lease, which plock_lease_abandon releases. */
    PLOCK_UNRELEASED,  /* A background release failed, so the lock stays until its lease expires. */
    PLOCK_LOST_BEFORE, /* A trailing release found that the lease had been lost. */
    PLOCK_EXPIRED      /* The program forgot a held lease that had expired or been lost. */
} plock_notice_kind;

typedef struct plock_notice {
    struct plock_notice *next;
    plock_notice_kind kind;
    uint64_t id;   /* plock_lease_id */
    plock_ns took; /* PLOCK_RENEWED: how long the renewal took; 0 in the local store */
    int64_t fence;
    size_t key_length;
    char key[];
} plock_notice;

/* Returns the oldest notice, which the caller frees, or NULL if there is none. */
plock_notice *plock_notice_next(void);
void plock_notice_free(plock_notice *notice);

/* Returns a descriptor that becomes readable when there may be a notice, and stays readable until
 * plock_notice_clear. Returns -1 with errno on failure. */
int plock_notice_descriptor(void);
void plock_notice_clear(void);

/* Returns true if plock_notice_descriptor has been called in this process. */
bool plock_notice_awaited(void);

/* Makes the descriptor readable even without a notice. */
void plock_notice_wake(void);

/* Sets whether PLOCK_RENEWED or PLOCK_EXPIRED is reported. Initially neither is. */
void plock_notice_want(plock_notice_kind kind, bool wanted);

#endif
