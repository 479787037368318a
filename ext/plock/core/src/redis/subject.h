/* The subject of a request: the key of a lock, and the owner. The scripts make the names of the
 * lock's companion and queue from the key. */
#ifndef PLOCK__SUBJECT_H
#define PLOCK__SUBJECT_H

#include "redis/owner.h"

enum { PLOCK__NUMBER_ROOM = 24 };

typedef struct plock_subject {
    plock_text key; /* its bytes are in the room passed to plock__subject_name */
    plock_owner owner;
    /* for a lock that can have several holders: "s3", "r" or "w"; "": the lock has one holder */
    char share[PLOCK_SHARE_MAX + 1];
    unsigned replicas;  /* how many replicas must confirm a grant or an extension */
    plock_ns fence_ttl; /* how long the fence outlasts the lease */
    /* room for a request's numbers as text */
    char ttl[PLOCK__NUMBER_ROOM], ticket[PLOCK__NUMBER_ROOM], window[PLOCK__NUMBER_ROOM],
        noted_for[PLOCK__NUMBER_ROOM];
} plock_subject;

/* Copies the key of the lock into `room`. fence_ttl: the store's setting. */
void plock__subject_name(plock_subject *subject, char *room, plock_text key, plock_ns fence_ttl);

/* Copies the key into another room, and copies the owner. Returns PLOCK_OK or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__subject_copy(plock_subject *copy, char *room,
                                                const plock_subject *subject);

#endif
