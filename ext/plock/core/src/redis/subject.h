/* The subject of a request: the names of a lock (its key, companion and queue), and the owner. */
#ifndef PLOCK__SUBJECT_H
#define PLOCK__SUBJECT_H

#include "redis/owner.h"

typedef struct plock_subject {
    plock_text key, companion, queue; /* their bytes are in `room`, below */
    plock_owner owner;
    /* for a lock with several holders: "s3", "r", "w"; "": the lock has one holder */
    char share[PLOCK_SHARE_MAX + 1];
    plock_ns fence_ttl; /* for how long the fence outlasts the lease */
    char ttl[24], ticket[24], window[8], noted_for[24]; /* room for a request's numbers as text */
} plock_subject;

/* Returns how many bytes the names of a lock with a key of this length need. */
size_t plock__names_room(size_t key_length);

/* Writes the names of the lock into `room`: the key, `plock:1:{key}:fence` and
 * `plock:1:{key}:queue`, all in one cluster slot. fence_ttl: the store's. */
void plock__subject_name(plock_subject *subject, char *room, plock_text key, plock_ns fence_ttl);

/* Copies the names into another room, and copies the owner. Returns PLOCK_OK or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__subject_copy(plock_subject *copy, char *room,
                                                const plock_subject *subject);

#endif
