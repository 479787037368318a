/* An admin session: plain commands to the server, on a connection of its own, for whoever wants to
 * know what server that is and how it is set up. Locks need none of it, and their connections are
 * left alone. */
#ifndef PLOCK_ADMIN_SESSION_H
#define PLOCK_ADMIN_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "plock/operation.h"
#include "plock/store.h"

#define PLOCK_QUESTION_WORDS 11 /* at most */

typedef struct plock_admin_session plock_admin_session;

typedef struct plock_word {
    const char *text;
    size_t length;
} plock_word;

/* A part of an answer, which stand in the order in which they are read: a list comes before what is
 * in it. */
typedef struct plock_part {
    enum { PLOCK_PART_NOTHING, PLOCK_PART_NUMBER, PLOCK_PART_TEXT, PLOCK_PART_LIST } kind;
    int64_t number;   /* NUMBER */
    const char *text; /* TEXT: good until the next question */
    size_t length;    /* TEXT: bytes; LIST: how many there are in it */
} plock_part;

/* PLOCK_OK or PLOCK_NO_MEMORY. Nothing is sent yet. */
PLOCK_MUST_USE plock_status plock_admin_session_new(plock_admin_session **admin_session,
                                                    plock_store *store);
void plock_admin_session_free(plock_admin_session *admin_session); /* NULL is allowed */

/* Begins to ask; the words must stay until it is done. What was under way is given up. PLOCK_OK or
 * PLOCK_MISUSE (none, or too many). */
PLOCK_MUST_USE plock_status plock_admin_session_ask(plock_admin_session *admin_session,
                                                    unsigned count, const plock_word *words);

/* PLOCK_OK: answered. PLOCK_AGAIN with interest. Else the failure, what the server itself calls an
 * error among them; it has connect_timeout to connect and command_timeout to answer. */
PLOCK_MUST_USE plock_status plock_admin_session_step(plock_admin_session *admin_session,
                                                     plock_interest *interest);
plock_operation plock_admin_session_operation(plock_admin_session *admin_session);
const plock_error *plock_admin_session_error(const plock_admin_session *admin_session);

/* The answer, part by part. */
size_t plock_admin_session_parts(const plock_admin_session *admin_session);
/* NOTHING beyond the last */
plock_part plock_admin_session_part(const plock_admin_session *admin_session, size_t part);

#endif
