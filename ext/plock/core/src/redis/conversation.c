#include "plock/conversation.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "redis/store.h"

#include <string.h>

_Static_assert(PLOCK_QUESTION_WORDS == PLOCK__WORDS_MAX, "a question is one command");

struct plock_conversation {
    plock_store *store;
    plock_connection *connection;
    enum { SILENT, CONNECTING, ASKING, LISTENING } state;
    plock_ns deadline;
    unsigned count;
    plock_text words[PLOCK__WORDS_MAX];
    plock_error error;
    size_t parts;
    plock_part answer[PLOCK__REPLY_VALUES_MAX];
    char text[PLOCK__REPLY_BYTES_MAX];
};

plock_status plock_conversation_new(plock_conversation **out, plock_store *store) {
    plock_conversation *conversation = *out = plock__allocate(sizeof *conversation);
    if (!conversation) return PLOCK_NO_MEMORY;
    conversation->store = plock__store_retain(store);
    return PLOCK_OK;
}

/* An answer may still come: nobody else is to read it. */
static void hang_up(plock_conversation *conversation) {
    if (conversation->connection) plock__pool_give(&conversation->store->pool, conversation->connection, false);
    conversation->connection = NULL;
    conversation->state = SILENT;
}

void plock_conversation_free(plock_conversation *conversation) {
    if (!conversation) return;
    plock__begin_step();
    hang_up(conversation);
    plock__store_release(conversation->store);
    plock__free(conversation);
    plock__end_step();
}

/* --- asking --- */

static void begin(plock_conversation *conversation, unsigned count, const plock_word *words) {
    if (conversation->state != SILENT || (conversation->connection && !plock__connection_at_rest(conversation->connection))) hang_up(conversation);
    conversation->count = count;
    for (unsigned i = 0; i < count; i++) conversation->words[i] = plock__text(words[i].text, words[i].length);
    conversation->parts = 0;
    conversation->state = conversation->connection ? ASKING : CONNECTING;
    conversation->deadline = plock_after(plock_now(), conversation->store->config->connect_timeout);
}

plock_status plock_conversation_ask(plock_conversation *conversation, unsigned count, const plock_word *words) {
    if (count == 0 || count > PLOCK_QUESTION_WORDS) return PLOCK_MISUSE;
    plock__begin_step();
    begin(conversation, count, words);
    plock__end_step();
    return PLOCK_OK;
}

/* --- the answer --- */

/* Keeps it: the reader's own is only good until the connection is used again. */
static void keep(plock_conversation *conversation, const plock_value *value) {
    size_t left = 1;
    char *to = conversation->text;
    for (; left > 0; left--, value++) {
        plock_part *part = &conversation->answer[conversation->parts++];
        *part = (plock_part){.length = value->length, .number = value->integer};
        switch (value->type) {
        case PLOCK__NIL: part->kind = PLOCK_PART_NOTHING; break;
        case PLOCK__INTEGER: part->kind = PLOCK_PART_NUMBER; break;
        case PLOCK__ARRAY:
            part->kind = PLOCK_PART_LIST;
            left += value->length;
            break;
        case PLOCK__STRING:
        case PLOCK__DONE:
        case PLOCK__ERROR: /* within a list */
            part->kind = PLOCK_PART_TEXT;
            part->text = memcpy(to, value->text, value->length);
            to += value->length;
        }
    }
}

/* --- steps --- */

static plock_status open_connection(plock_conversation *conversation, plock_want *want) {
    plock_error *error = &conversation->error;
    plock_status status = PLOCK_OK;
    if (!conversation->connection) status = plock__store_connect_beside(conversation->store, &conversation->connection, error);
    if (!status) status = plock__connection_open(conversation->connection, conversation->deadline, want, error);
    if (!status) conversation->state = ASKING;
    return status;
}

static plock_status ask(plock_conversation *conversation) {
    conversation->state = LISTENING;
    conversation->deadline = plock_after(plock_now(), conversation->store->config->command_timeout);
    return plock__connection_send(conversation->connection, conversation->count, conversation->words, &conversation->error);
}

static plock_status listen_for_answer(plock_conversation *conversation, plock_want *want) {
    const plock_value *value;
    const plock_status status = plock__connection_receive(conversation->connection, &value, want, &conversation->error);
    if (status) return status;
    conversation->state = SILENT;
    if (value->type == PLOCK__ERROR) return plock__server_error(value, &conversation->error);
    keep(conversation, value);
    return PLOCK_OK;
}

static plock_status advance(plock_conversation *conversation, plock_want *want) {
    *want = (plock_want){.fd = -1, .deadline = conversation->deadline};
    conversation->error.status = PLOCK_OK;
    plock_status status = conversation->state == SILENT ? plock__fail_plainly(&conversation->error, PLOCK_MISUSE) : PLOCK_OK;
    if (!status && conversation->state == CONNECTING) status = open_connection(conversation, want);
    if (!status && conversation->state == ASKING) status = ask(conversation);
    if (!status) status = listen_for_answer(conversation, want);
    if (status == PLOCK_AGAIN) {
        if (want->deadline > conversation->deadline) want->deadline = conversation->deadline;
        if (plock_now() < conversation->deadline) return PLOCK_AGAIN;
        status = conversation->connection ? plock__connection_silent(conversation->connection, &conversation->error)
                                          : plock__fail_plainly(&conversation->error, PLOCK_SILENT);
    }
    if (status && conversation->state != SILENT) hang_up(conversation);
    return status;
}

plock_status plock_conversation_step(plock_conversation *conversation, plock_want *want) {
    plock__begin_step();
    const plock_status status = advance(conversation, want);
    plock__end_step();
    return status;
}

static plock_status step_any(void *conversation, plock_want *want) {
    return plock_conversation_step(conversation, want);
}

static void cancel_any(void *of) {
    plock_conversation *conversation = of;
    plock__begin_step();
    hang_up(conversation);
    plock__end_step();
}

static void hurry_any(void *of, plock_ns deadline) {
    plock_conversation *conversation = of;
    if (deadline < conversation->deadline) conversation->deadline = deadline;
}

plock_operation plock_conversation_operation(plock_conversation *conversation) {
    return (plock_operation){.of = conversation, .step = step_any, .cancel = cancel_any, .hurry = hurry_any};
}

const plock_error *plock_conversation_error(const plock_conversation *conversation) {
    return &conversation->error;
}

size_t plock_conversation_parts(const plock_conversation *conversation) {
    return conversation->parts;
}

plock_part plock_conversation_part(const plock_conversation *conversation, size_t part) {
    return part < conversation->parts ? conversation->answer[part] : (plock_part){.kind = PLOCK_PART_NOTHING};
}
