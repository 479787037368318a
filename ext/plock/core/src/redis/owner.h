/* The owner of a lock: the value in the lock's key, and the readable record in the lock's
 * companion. The value is a fresh random token for each attempt, or a value that the caller
 * brings. */
#ifndef PLOCK__OWNER_H
#define PLOCK__OWNER_H

#include "base/text.h"
#include "net/config.h"
#include "plock/digest.h"
#include "plock/redis.h"

enum {
    PLOCK__MARSHAL_MAX = 48,
    PLOCK__CHANNEL_LENGTH = 16, /* the length of a channel's id */
    PLOCK__TAG_ROOM = 6,        /* for the hash tag that follows the id on a cluster, and a NUL */
    PLOCK__CHANNEL_MAX = PLOCK__CHANNEL_LENGTH + PLOCK__TAG_ROOM,
    PLOCK__SIGNATURE_MAX = 480, /* room for host, pid, thread, number, channel and label */
};

typedef struct plock_owner {
    plock_text value; /* the value of the key in the store */
    /* "host pid thread channel label"; '-' stands for a missing channel or label. The record in
     * companion and queue is the signature, a blank, and the value */
    plock_text signature;
    /* the channel and label for the next signature; another object owns their bytes. A label has no
     * blanks, and at most PLOCK_LABEL_MAX bytes */
    plock_text channel, label;
    /* a copy of the value that the caller brought, with room for its signature; NULL: the owner
     * uses fresh tokens */
    char *brought;
    char token[PLOCK_TOKEN_LENGTH], marshalled[PLOCK__MARSHAL_MAX], written[PLOCK__SIGNATURE_MAX];
} plock_owner;

/* Sets the caller's own value. Returns PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_MISUSE (the value is
 * empty). */
PLOCK_MUST_USE plock_status plock__owner_bring(plock_owner *owner, plock_text value);

/* Copies the value and the signature. Returns PLOCK_OK or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__owner_copy(plock_owner *copy, const plock_owner *owner);

/* Does the same for an owner with a fresh token, which needs no memory. */
void plock__owner_copy_fresh(plock_owner *copy, const plock_owner *owner);

/* Makes a fresh token and writes its signature. Returns PLOCK_OK or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__owner_renew(plock_owner *owner, plock_encoding encoding);

/* Writes the signature of a value that the caller brought. The caller may bring the same value
 * again, so the signature has a number ("host pid thread.number …") that distinguishes the
 * acquires. */
void plock__owner_number(plock_owner *owner);

/* Writes the signature of a fresh token again, with this channel and label. */
void plock__owner_sign(plock_owner *owner, plock_text channel, plock_text label);

/* Returns the value as the user knows it. For a marshalled token, that is the token itself. Returns
 * an empty text if there is no value yet. */
plock_text plock__owner_name(const plock_owner *owner);

void plock__owner_clear(plock_owner *owner);

#endif
