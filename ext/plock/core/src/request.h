/* What is asked of the server, one script each, and what its answers mean. */
#ifndef PLOCK__REQUEST_H
#define PLOCK__REQUEST_H

#include "owner.h"
#include "reply.h"
#include "script.h"

enum { PLOCK__KEYS_MAX = 2, PLOCK__ARGUMENTS_MAX = 4 }; /* with three words before them: PLOCK__WORDS_MAX */

/* The texts must outlive whatever is made of it. */
typedef struct plock_request {
    plock_script_id script;
    unsigned keys, arguments;
    plock_text texts[PLOCK__KEYS_MAX + PLOCK__ARGUMENTS_MAX]; /* keys, then arguments */
} plock_request;

/* A lock's key, its companion's, and who asks. */
typedef struct plock_subject {
    plock_text key, companion;
    plock_owner owner;
    char ttl[24]; /* as text, for requests that have one */
} plock_subject;

/* `again`: an earlier request of the same owner may have got it already. */
plock_request plock__acquire_request(plock_subject *subject, plock_ns ttl, bool again);
plock_request plock__extend_request(plock_subject *subject, plock_ns ttl);
plock_request plock__release_request(const plock_subject *subject);
/* Takes back what the acquire with this very record may have got. */
plock_request plock__undo_request(const plock_subject *subject);

/* PLOCK_OK with the fence; PLOCK_REFUSED with the time until the lock can be free, PLOCK_NEVER where that is not known;
 * PLOCK_PROTOCOL. */
PLOCK_MUST_USE plock_status plock__read_acquired(const plock_value *answer, int64_t *fence, plock_ns *left, plock_error *error);

/* To all the others: PLOCK_OK, PLOCK_NOT_OWNER or PLOCK_PROTOCOL. */
PLOCK_MUST_USE plock_status plock__read_done(const plock_value *answer, plock_error *error);

#endif
