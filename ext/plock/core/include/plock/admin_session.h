/* An admin session sends plain commands to the server, to identify it and to check its
 * configuration. It has a connection of its own, and never uses the connections of the locks. */
#ifndef PLOCK_ADMIN_SESSION_H
#define PLOCK_ADMIN_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "plock/operation.h"
#include "plock/store.h"

#define PLOCK_QUESTION_WORDS 11

typedef struct plock_admin_session plock_admin_session;

typedef struct plock_word {
    const char *text;
    size_t length;
} plock_word;

/* A part of an answer. The parts are in the order in which the server sent them, so a list comes
 * before its elements. */
typedef struct plock_part {
    enum { PLOCK_PART_NOTHING, PLOCK_PART_NUMBER, PLOCK_PART_TEXT, PLOCK_PART_LIST } kind;
    int64_t number;   /* NUMBER: its value */
    const char *text; /* TEXT: valid until the next question */
    size_t length;    /* TEXT: in bytes; LIST: the number of its elements */
} plock_part;

/* Makes a session with the store's server, and sends nothing yet. Returns PLOCK_OK or
 * PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock_admin_session_new(plock_admin_session **admin_session,
                                                    plock_store *store);

/* Makes a session with one of the sentinels in the store's URL, which are numbered from 0. Returns
 * PLOCK_MISUSE if there is no such sentinel. */
PLOCK_MUST_USE plock_status plock_admin_session_to_sentinel(plock_admin_session **admin_session,
                                                            plock_store *store, unsigned number);

/* Makes a session with a node of the store's cluster. Returns PLOCK_MISUSE if the store is not on a
 * cluster, or if the address is not valid. */
PLOCK_MUST_USE plock_status plock_admin_session_to_node(plock_admin_session **admin_session,
                                                        plock_store *store, const char *host,
                                                        const char *port);
void plock_admin_session_free(plock_admin_session *admin_session); /* NULL is allowed */

/* Begins a question, and gives up an earlier question that has no answer yet. The words must stay
 * in memory until the answer has come. Returns PLOCK_OK or PLOCK_MISUSE (no words, or too many). */
PLOCK_MUST_USE plock_status plock_admin_session_ask(plock_admin_session *admin_session,
                                                    unsigned count, const plock_word *words);

/* Returns the question as an operation. A step returns PLOCK_OK when the answer has come,
 * PLOCK_AGAIN with interest, or the failure. An error reply is also a failure. Connecting may take
 * up to connect_timeout, and the answer up to command_timeout. */
plock_operation plock_admin_session_operation(plock_admin_session *admin_session);
const plock_error *plock_admin_session_error(const plock_admin_session *admin_session);

size_t plock_admin_session_parts(const plock_admin_session *admin_session);
/* Returns PLOCK_PART_NOTHING if the answer has no such part. */
plock_part plock_admin_session_part(const plock_admin_session *admin_session, size_t part);

#endif
