/* What is asked of the server, one script each, and what its answers mean. */
#ifndef PLOCK__REQUEST_H
#define PLOCK__REQUEST_H

#include "net/reply.h"
#include "plock/group.h"
#include "plock/query.h"
#include "redis/script.h"
#include "redis/subject.h"

/* with three words before them: PLOCK__WORDS_MAX */
enum { PLOCK__KEYS_MAX = 3, PLOCK__ARGUMENTS_MAX = 6 };

/* The texts must outlive whatever is made of it. */
typedef struct plock_request {
    plock_script_id script;
    unsigned keys, arguments;
    plock_text texts[PLOCK__KEYS_MAX + PLOCK__ARGUMENTS_MAX]; /* keys, then arguments … */
    /* … or these instead; NULL: there is no list */
    const plock_text *list;
    /* a turn may be lost with it: it goes before others, and on no connection that is known to be
     * closed */
    bool irreplaceable;
} plock_request;

/* A place in the queue of a lock. */
typedef struct plock_place {
    int64_t ticket; /* 0: none yet */
    int64_t rank;   /* who is before us */
    /* until the lock can be free; PLOCK_NEVER where that is not known; 0: ask again at once, the
     * server has not finished */
    plock_ns free_in;
    bool notified; /* its holder is one who will tell when it is */
    bool lost;     /* it was no longer in the queue, and has been put back */
} plock_place;

/* What was got: for a lease's arithmetic, and for those who wait. */
typedef struct plock_grant {
    int64_t fence;
    plock_ns asked_at; /* when the request left */
    /* until the lock changes by itself, where that may be before this lease ends; PLOCK_NEVER: it
     * is not */
    plock_ns next_in;
} plock_grant;

/* `again`: an earlier request of the same owner may have got it already. */
plock_request plock__acquire_request(plock_subject *subject, plock_ns ttl, bool again);
/* To queue, or to look again: with the ticket, 0 for a new one. window: for how long at the
 * beginning of each second the lock is left to those who poll for it. */
plock_request plock__queue_request(plock_subject *subject, plock_ns ttl, int64_t ticket,
                                   plock_ns window);
plock_request plock__extend_request(plock_subject *subject, plock_ns ttl);
/* The subject's owner takes over what another owner has left under this value. */
plock_request plock__adopt_request(plock_subject *subject, plock_text left, plock_ns ttl);
/* An extension that shortens nothing: one that is late does no harm. place: "host pid thread
 * channel" of its owner, to be noted; empty: that stays. */
plock_request plock__renew_request(plock_subject *subject, plock_ns ttl, plock_text place);
plock_request plock__check_request(const plock_subject *subject);
/* A writer becomes a reader. */
plock_request plock__downgrade_request(plock_subject *subject);
plock_request plock__break_request(plock_subject *subject);
/* The waiters from the first-th on, up to PLOCK_WAITERS_TOLD. */
plock_request plock__status_request(plock_subject *subject, int64_t first);
/* The subject's key is the pattern. */
plock_request plock__scan_request(plock_subject *subject, int64_t cursor);
/* The subject's key is the note's. An empty note only looks. */
plock_request plock__note_request(const plock_subject *subject, plock_text note, bool replace);
/* keep: for how long it stays taken all the same. */
plock_request plock__release_request(plock_subject *subject, plock_ns window, plock_ns keep);
/* Out of the queue. doubt: the lock itself may be ours. */
plock_request plock__leave_request(plock_subject *subject, bool doubt);
/* Of several locks, up to PLOCK_GROUP_MAX; the requests refer to the texts. */
#define PLOCK__GROUP_TEXTS(count) (5 * (count) + 2) /* at most */
plock_request plock__acquire_all_request(plock_subject *const *subjects, size_t count, plock_ns ttl,
                                         plock_text *texts);
plock_request plock__release_all_request(plock_subject *const *subjects, size_t count,
                                         plock_ns keep, plock_text *texts);

/* Takes back what the acquire with this very record may have got. */
plock_request plock__undo_request(const plock_subject *subject);

/* PLOCK_OK with the grant but for its asked_at; PLOCK_REFUSED with what is known of our place;
 * PLOCK_PROTOCOL. */
PLOCK_MUST_USE plock_status plock__read_acquired(const plock_value *answer, plock_grant *grant,
                                                 plock_place *place, plock_error *error);

/* PLOCK_PROTOCOL: an answer that none of our scripts gives. */
plock_status plock__not_our_answer(plock_error *error);

/* The fence of what was adopted. PLOCK_OK, PLOCK_NOT_OWNER or PLOCK_PROTOCOL. */
PLOCK_MUST_USE plock_status plock__read_adopted(const plock_value *answer, int64_t *fence,
                                                plock_error *error);

/* A fence or a ticket: microseconds, in 16 digits. */
bool plock__read_number(const plock_value *value, int64_t *number);

/* A script has done as much as one call may, and there is more to do: the same request once more.
 * The second is what acquire_all says. */
enum { PLOCK__UNFINISHED = 3, PLOCK__ASK_AGAIN = -1 };

/* To all the others: PLOCK_OK, PLOCK_NOT_OWNER, PLOCK_AGAIN (unfinished) or PLOCK_PROTOCOL. */
PLOCK_MUST_USE plock_status plock__read_done(plock_script_id script, const plock_value *answer,
                                             plock_error *error);

#endif
