/* Who holds a lock: what stands in the store for that, and what is written beside it for people who
 * ask. Either a fresh random token for each attempt, or what the caller brings. */
#ifndef PLOCK__OWNER_H
#define PLOCK__OWNER_H

#include "base/text.h"
#include "net/config.h"
#include "plock/digest.h"
#include "plock/redis.h"

enum {
    PLOCK__MARSHAL_MAX = 48,
    PLOCK__CHANNEL_LENGTH = 16,
    PLOCK__SIGNATURE_MAX = 480, /* host, pid, thread, number, channel, label */
};

typedef struct plock_owner {
    plock_text value; /* of the lock, in the store */
    /* "host pid thread channel label value", into companion and queue; '-' where there is no
     * channel or label */
    plock_text record;
    /* for the next record; their bytes are not the owner's. A label has no blanks, PLOCK_LABEL_MAX
     * at most */
    plock_text channel, label;
    /* a copy of the caller's value, with room for its record; NULL: fresh tokens */
    char *brought;
    char token[PLOCK_TOKEN_LENGTH], marshalled[PLOCK__MARSHAL_MAX],
        written[PLOCK__SIGNATURE_MAX + PLOCK__MARSHAL_MAX];
} plock_owner;

/* The caller's own value. PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_MISUSE (empty). */
PLOCK_MUST_USE plock_status plock__owner_bring(plock_owner *owner, plock_text value);

/* The same value and record once more. PLOCK_OK or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__owner_copy(plock_owner *copy, const plock_owner *owner);

/* Moves an owner to another place in memory; the old one is empty then. */
void plock__owner_move(plock_owner *to, plock_owner *from);

/* A fresh token and its record. PLOCK_OK or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__owner_renew(plock_owner *owner, plock_encoding encoding);

/* A record for a value that was brought. Since the same may be brought again, it has a number of
 * its own, "host pid thread.number …": so one acquire can be told from another. */
void plock__owner_number(plock_owner *owner);

/* The record of a fresh token once more, with these. */
void plock__owner_sign(plock_owner *owner, plock_text channel, plock_text label);

/* The value as its user knows it, not as it is written. Without bytes where there is none yet. */
plock_text plock__owner_name(const plock_owner *owner);

void plock__owner_clear(plock_owner *owner);

#endif
