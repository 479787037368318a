#include "plock/query.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "redis/redirect.h"
#include "redis/retry.h"
#include "redis/routes.h"

#include <stdio.h>
#include <string.h>

struct plock_query {
    plock_node *node;
    plock_subject subject;
    plock_retry retry;
    bool asks;           /* a request is under way */
    unsigned generation; /* of the process that sent the request */
    plock_error error;
    size_t parts;
    plock_value answer[PLOCK__REPLY_VALUES_MAX];
    char text[PLOCK__REPLY_BYTES_MAX];
    char note[PLOCK_NOTE_MAX]; /* A copy, because the request points to the text. */
    bool resumes; /* The scan of a cluster resumes at a node's cursor, and not at the node's first
                   * key. */
    char cursor[24]; /* The next cursor of a cluster's scan, as text. */
    char names[];
};

plock_status plock_query_new(plock_query **out, plock_store *store, const char *key, size_t length,
                             bool shared) {
    *out = NULL;
    if (length == 0) return PLOCK_MISUSE;
    plock_query *query = plock__allocate(sizeof *query + length);
    if (!query) return PLOCK_NO_MEMORY;
    plock__subject_name(&query->subject, query->names, plock__text(key, length),
                        store->config->fence_ttl);
    if (shared) *query->subject.share = '?';
    query->node = plock__node_retain(plock__store_node(store, query->subject.key));
    *out = query;
    return PLOCK_OK;
}

void plock_query_free(plock_query *query) {
    if (!query) return;
    plock__begin_step();
    plock__retry_cancel(&query->retry);
    plock__node_release(query->node);
    plock__free(query);
    plock__end_step();
}

/* --- a scan of a cluster ---
 *
 * A cluster's cursor has the number of a primary in its upper bits, and that primary's own cursor
 * in the lower CURSOR_BITS. Redis 8 uses 14 bits of a primary's cursor for a slot. */

enum { CURSOR_BITS = 48 };

static const int64_t CURSOR_MASK = ((int64_t)1 << CURSOR_BITS) - 1;

static void say_cursor(plock_query *query, int64_t cursor) {
    const int length = snprintf(query->cursor, sizeof query->cursor, "%lld", (long long)cursor);
    query->answer[0] =
        (plock_value){.type = PLOCK__STRING, .text = query->cursor, .length = (size_t)length};
}

/* Replaces the cursor in a primary's answer with the cluster's cursor. If the answer has the
 * primary's last keys, the new cursor leads to the next primary. If the old cursor's primary no
 * longer serves slots, the request went to another primary, for which the old cursor has no
 * meaning. So this function drops the answer, and the scan goes on at that other primary's first
 * key. */
static plock_status continue_scan(plock_query *query, plock_error *error) {
    const plock_node *node = query->retry.call.node;
    const plock_value *part = &query->answer[0];
    int64_t cursor = 0;
    if (query->resumes && node->number != query->retry.request.primary) {
        query->parts = 1;
        say_cursor(query, (int64_t)node->number << CURSOR_BITS);
        return PLOCK_OK;
    }
    if (!query->parts || part->type != PLOCK__STRING) return plock__not_our_answer(error);
    for (size_t i = 0; i < part->length; i++) {
        if (part->text[i] < '0' || part->text[i] > '9' || cursor > CURSOR_MASK)
            return plock__not_our_answer(error);
        cursor = cursor * 10 + (part->text[i] - '0');
    }
    if (cursor > CURSOR_MASK) return plock__not_our_answer(error);
    const plock_node *next = cursor ? node : plock__routes_primary(node->store, node->number + 1);
    if (next) cursor |= (int64_t)next->number << CURSOR_BITS;
    say_cursor(query, cursor);
    return PLOCK_OK;
}

/* If the cursor's primary no longer serves slots, the scan goes on at the next primary's first
 * key. */
static plock_request scan_request(plock_query *query, int64_t cursor) {
    plock_store *store = query->node->store;
    if (!store->routes) return plock__scan_request(&query->subject, cursor);
    const unsigned number = (unsigned)(cursor >> CURSOR_BITS);
    const plock_node *primary = plock__routes_primary(store, number);
    const bool there = !primary || primary->number == number;
    plock_request request = plock__scan_request(&query->subject, there ? cursor & CURSOR_MASK : 0);
    request.primary = primary ? primary->number : number;
    query->resumes = there && (cursor & CURSOR_MASK);
    return request;
}

static bool is_break(plock_script_id script) {
    return script == PLOCK__BREAK || script == PLOCK__SHARED_BREAK;
}

/* Reads the answer to a break. If the script has broken nothing, an earlier attempt may already
 * have taken the lock from its holder. In that case, the answer becomes 1, as if this attempt had
 * broken the lock. */
static plock_status read_break(plock_query *query) {
    plock_value *answer = &query->answer[0];
    if (!query->parts || answer->type != PLOCK__INTEGER) return PLOCK_OK;
    if (answer->integer == PLOCK__UNFINISHED) return PLOCK_AGAIN;
    if (!answer->integer && (query->retry.begun || query->retry.doubt)) answer->integer = 1;
    return PLOCK_OK;
}

/* Copies the answer, because its text is valid only until the connection is used again. */
static plock_status keep(void *context, const plock_value *answer, plock_error *error) {
    plock_query *query = context;
    const size_t parts = answer->type == PLOCK__ARRAY ? answer->length : 1;
    const plock_value *values = answer->type == PLOCK__ARRAY ? answer + 1 : answer;
    char *to = query->text;
    for (size_t i = 0; i < parts; i++) {
        query->answer[i] = values[i];
        if (values[i].type == PLOCK__ARRAY) return plock__not_our_answer(error);
        if (values[i].type != PLOCK__STRING) continue;
        query->answer[i].text = memcpy(to, values[i].text, values[i].length);
        to += values[i].length;
    }
    query->parts = parts;
    if (is_break(query->retry.request.script)) return read_break(query);
    return query->retry.request.script == PLOCK__SCAN && query->node->store->routes
               ? continue_scan(query, error)
               : PLOCK_OK;
}

static void ask(plock_query *query, plock_request request) {
    plock__begin_step();
    plock__retry_cancel(&query->retry);
    query->asks = true;
    query->generation = plock__generation();
    query->parts = 0;
    plock__store_use(query->node->store);
    plock__retry_begin(&query->retry, query->node, &request,
                       plock_after(plock_now(), query->node->config->command_timeout), false);
    plock__retry_heed(&query->retry, keep, NULL, NULL, query);
    plock__end_step();
}

void plock_query_status(plock_query *query, int64_t first) {
    ask(query, plock__status_request(&query->subject, first));
}

void plock_query_scan(plock_query *query, int64_t cursor) {
    ask(query, scan_request(query, cursor));
    /* nodes do not redirect requests without keys, so a scan begins with a fresh map */
    if (cursor || !query->node->store->routes) return;
    plock__begin_step();
    plock__redirect_renew(&query->retry.call);
    plock__end_step();
}

void plock_query_break_only(plock_query *query, const char *fences, size_t length) {
    ask(query, plock__break_request(&query->subject, plock__text(fences, length)));
}

plock_status plock_query_note(plock_query *query, const char *note, size_t length, bool replace) {
    if (length > sizeof query->note) return PLOCK_MISUSE;
    plock_query_cancel(query);
    memcpy(query->note, note, length);
    ask(query, plock__note_request(&query->subject, plock__text(query->note, length), replace));
    return PLOCK_OK;
}

void plock_query_hurry(plock_query *query, plock_ns deadline) {
    plock__retry_hurry(&query->retry, deadline);
}

static plock_status step(plock_query *query, plock_interest *interest) {
    if (!query->asks) return PLOCK_MISUSE;
    if (query->generation == plock__generation())
        return plock__retry_step(&query->retry, interest, &query->error);
    plock__retry_cancel(&query->retry);
    return plock__fail_plainly(&query->error, PLOCK_FORKED);
}

plock_status plock_query_step(plock_query *query, plock_interest *interest) {
    plock__begin_step();
    const plock_status status = step(query, interest);
    query->asks = status == PLOCK_AGAIN;
    plock__end_step();
    return status;
}

/* Forgets the request without an undo, because a read changes nothing, and a break or a note cannot
 * be undone. */
void plock_query_cancel(plock_query *query) {
    plock__begin_step();
    plock__retry_cancel(&query->retry);
    query->asks = false;
    plock__end_step();
}

static plock_status step_any(void *query, plock_interest *interest) {
    return plock_query_step(query, interest);
}

static void cancel_any(void *query) { plock_query_cancel(query); }

static void hurry_any(void *query, plock_ns deadline) { plock_query_hurry(query, deadline); }

plock_operation plock_query_operation(plock_query *query) {
    return (plock_operation){
        .of = query, .step = step_any, .cancel = cancel_any, .hurry = hurry_any};
}

const plock_error *plock_query_error(const plock_query *query) { return &query->error; }

size_t plock_query_parts(const plock_query *query) { return query->parts; }

const char *plock_query_text(const plock_query *query, size_t part, size_t *length) {
    const plock_value *value = part < query->parts ? &query->answer[part] : NULL;
    if (!value || value->type != PLOCK__STRING) return NULL;
    *length = value->length;
    return value->text;
}

int64_t plock_query_number(const plock_query *query, size_t part) {
    const plock_value *value = part < query->parts ? &query->answer[part] : NULL;
    return value && value->type == PLOCK__INTEGER ? value->integer : 0;
}
