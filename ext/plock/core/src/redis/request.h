/* The requests that run the scripts, and the readers of the server's answers. */
#ifndef PLOCK__REQUEST_H
#define PLOCK__REQUEST_H

#include "net/reply.h"
#include "plock/group.h"
#include "plock/query.h"
#include "redis/owner.h"
#include "redis/script.h"

enum { PLOCK__NUMBER_ROOM = 24 };

/* The subject of a request: the key of a lock, and the owner. The scripts make the names of the
 * lock's companion and queue from the key. */
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

/* a command has three more words before its keys; see PLOCK__WORDS_MAX */
enum { PLOCK__KEYS_MAX = 1, PLOCK__ARGUMENTS_MAX = 6 };

/* The texts must outlive every call that sends the request. */
typedef struct plock_request {
    plock_script_id script;
    unsigned keys, arguments;
    plock_text texts[PLOCK__KEYS_MAX + PLOCK__ARGUMENTS_MAX]; /* the keys, then the arguments */
    const plock_text *list; /* the keys and arguments of a request for several locks; NULL: they are
                             * in `texts` */
    /* If this request is lost, a turn may be lost. So it goes before other requests, and even a
     * connection that was idle only briefly is checked before its use. */
    bool irreplaceable;
    unsigned replicas; /* how many replicas must confirm a grant; 0: none */
    unsigned primary;  /* a request without keys on a cluster goes to the first primary with at
                        * least this number */
} plock_request;

/* A place in the queue of a lock. */
typedef struct plock_place {
    int64_t ticket; /* 0: none yet */
    int64_t rank;   /* how many waiters are before this one */
    /* the time until the lock can be free; PLOCK_NEVER: unknown; 0: the server has not finished, so
     * the client asks again at once */
    plock_ns free_in;
    bool notified; /* the holder notifies waiters when it releases */
    bool lost;     /* the waiter was no longer in the queue, and the server has put it back */
} plock_place;

typedef struct plock_grant {
    int64_t fence;
    plock_ns asked_at; /* when the request was sent */
    /* the time until the earliest lease on this lock expires; PLOCK_NEVER: the server did not
     * say */
    plock_ns next_in;
} plock_grant;

/* Asks for the lock. again: an earlier request of the same owner may have acquired it already. */
plock_request plock__acquire_request(plock_subject *subject, plock_ns ttl, bool again);
/* Asks for the lock, and joins the queue (ticket 0) or keeps the place that has this ticket.
 * window: a span at the start of each second that is reserved for processes that poll for the
 * lock. */
plock_request plock__queue_request(plock_subject *subject, plock_ns ttl, int64_t ticket,
                                   plock_ns window);
plock_request plock__extend_request(plock_subject *subject, plock_ns ttl);
/* Makes the subject's owner the holder of a lease that another owner has left. `left` is the other
 * owner's value. */
plock_request plock__adopt_request(plock_subject *subject, plock_text left, plock_ns ttl);
/* Makes an extension that never shortens the lease. So it does no harm if the server executes it
 * late. place: the owner's new "host pid thread channel" for the signature; empty: the record does
 * not change. */
plock_request plock__renew_request(plock_subject *subject, plock_ns ttl, plock_text place);
plock_request plock__check_request(const plock_subject *subject);
/* Turns a write lock into a read lock. */
plock_request plock__downgrade_request(plock_subject *subject);
/* only: the fences whose holders lose the lock, written as for plock_query_break_only; empty: all
 * holders lose it */
plock_request plock__break_request(plock_subject *subject, plock_text only);
/* Changes a request that breaks a lock for all holders. The request then succeeds even if the
 * companion, with a holder's channel, is on another node of the cluster. In that case, the script
 * cannot notify the holder. */
void plock__break_anyway(plock_request *request);
/* Lists up to PLOCK_WAITERS_TOLD waiters, beginning with rank `first`. */
plock_request plock__status_request(plock_subject *subject, int64_t first);
/* Lists keys that match a pattern, which is the subject's key. */
plock_request plock__scan_request(plock_subject *subject, int64_t cursor);
/* The subject's key is the key of the note. With an empty note, the request only reads. */
plock_request plock__note_request(const plock_subject *subject, plock_text note, bool replace);
/* window: as in plock__queue_request; keep: how long the key stays taken after the release; 0: it
 * is free at once. */
plock_request plock__release_request(plock_subject *subject, plock_ns window, plock_ns keep);
/* Releases a share whose lease is still valid. This costs the server less than a request of
 * plock__release_request. */
plock_request plock__release_valid_request(plock_subject *subject);
/* Leaves the queue. doubt: the owner may hold the lock, which is then released. */
plock_request plock__leave_request(plock_subject *subject, bool doubt);
/* Requests for up to PLOCK_GROUP_MAX locks. The functions write the words of a request to `texts`,
 * which must outlive the request. */
#define PLOCK__GROUP_TEXTS(count) (3 * (count) + 2) /* the number of words, at most */
plock_request plock__acquire_all_request(plock_subject *const *subjects, size_t count, plock_ns ttl,
                                         plock_text *texts);
plock_request plock__release_all_request(plock_subject *const *subjects, size_t count,
                                         plock_ns keep, plock_text *texts);

/* Releases the lease that was granted to an acquire with exactly this signature. */
plock_request plock__undo_request(const plock_subject *subject);

/* Reads the answer to an acquire. Returns PLOCK_OK and the grant (without asked_at), PLOCK_REFUSED
 * and the place, or PLOCK_PROTOCOL. */
PLOCK_MUST_USE plock_status plock__read_acquired(const plock_value *answer, plock_grant *grant,
                                                 plock_place *place, plock_error *error);

/* Does the answer grant, extend or renew a lease? If so, replicas must confirm it. */
bool plock__grants(plock_script_id script, const plock_value *answer);

/* Does the answer show that the server is a primary, because the script has written? */
bool plock__shows_primary(const plock_request *request, const plock_value *answer);

/* Reports an answer that none of our scripts gives. Returns PLOCK_PROTOCOL. */
plock_status plock__not_our_answer(plock_error *error);

/* Reads a fence or a ticket: a time in microseconds, as text. Returns false if it is neither. */
bool plock__read_number(const plock_value *value, int64_t *number);

/* Two answers of scripts that have reached the limit of one call and must be called again.
 * PLOCK__ASK_AGAIN comes from acquire_all, PLOCK__UNFINISHED from the scripts that hand a lock
 * over. */
enum { PLOCK__UNFINISHED = 3, PLOCK__ASK_AGAIN = -1 };

/* Reads the answer of a script that releases, leaves, extends, checks or downgrades. Returns
 * PLOCK_OK, PLOCK_NOT_OWNER, PLOCK_AGAIN (unfinished) or PLOCK_PROTOCOL. */
PLOCK_MUST_USE plock_status plock__read_done(plock_script_id script, const plock_value *answer,
                                             plock_error *error);

#endif
