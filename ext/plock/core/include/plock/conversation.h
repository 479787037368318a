/* A conversation: plain commands to the server, on a connection of its own, for whoever wants to know what server that is and
 * how it is set up. Locks need none of it, and their connections are left alone. */
#ifndef PLOCK_CONVERSATION_H
#define PLOCK_CONVERSATION_H

#include <stddef.h>
#include <stdint.h>

#include "plock/operation.h"
#include "plock/store.h"

#define PLOCK_QUESTION_WORDS 11 /* at most */

typedef struct plock_conversation plock_conversation;

typedef struct plock_word {
    const char *text;
    size_t length;
} plock_word;

/* A part of an answer, which stand in the order in which they are read: a list comes before what is in it. */
typedef struct plock_part {
    enum { PLOCK_PART_NOTHING, PLOCK_PART_NUMBER, PLOCK_PART_TEXT, PLOCK_PART_LIST } kind;
    int64_t number;   /* NUMBER */
    const char *text; /* TEXT: good until the next question */
    size_t length;    /* TEXT: bytes; LIST: how many there are in it */
} plock_part;

/* PLOCK_OK or PLOCK_NO_MEMORY. Nothing is sent yet. */
PLOCK_MUST_USE plock_status plock_conversation_new(plock_conversation **conversation, plock_store *store);
void plock_conversation_free(plock_conversation *conversation); /* NULL is allowed */

/* Begins to ask; the words must stay until it is done. What was under way is given up. PLOCK_OK or PLOCK_MISUSE (none, or too many). */
PLOCK_MUST_USE plock_status plock_conversation_ask(plock_conversation *conversation, unsigned count, const plock_word *words);

/* PLOCK_OK: answered. PLOCK_AGAIN with want. Else the failure, what the server itself calls an error among them; it has
 * connect_timeout to connect and command_timeout to answer. */
PLOCK_MUST_USE plock_status plock_conversation_step(plock_conversation *conversation, plock_want *want);
plock_operation plock_conversation_operation(plock_conversation *conversation);
const plock_error *plock_conversation_error(const plock_conversation *conversation);

/* The answer, part by part. */
size_t plock_conversation_parts(const plock_conversation *conversation);
plock_part plock_conversation_part(const plock_conversation *conversation, size_t part); /* NOTHING beyond the last */

#endif
