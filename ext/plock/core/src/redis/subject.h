/* What a request is about: a lock's key and those beside it, and who asks. */
#ifndef PLOCK__SUBJECT_H
#define PLOCK__SUBJECT_H

#include "redis/owner.h"

typedef struct plock_subject {
    plock_text key, companion, queue; /* their bytes are in the room that was given for them */
    plock_owner owner;
    /* of a lock with several holders: "s3", "r", "w"; "": it has one */
    char share[PLOCK_SHARE_MAX + 1];
    plock_ns fence_ttl; /* for how long the fence is kept when the lease is over */
    char ttl[24], ticket[24], window[8], noted_for[24]; /* as text, for requests that have them */
} plock_subject;

/* Bytes of room for the names of a lock with a key of this length. */
size_t plock__names_room(size_t key_length);

/* Names the lock: `plock:1:{key}:fence` and so on, in one cluster slot. fence_ttl: the store's. */
void plock__subject_name(plock_subject *subject, char *room, plock_text key, plock_ns fence_ttl);

/* The same names, in another room, and the same owner. PLOCK_OK or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__subject_copy(plock_subject *copy, char *room,
                                                const plock_subject *subject);

#endif
