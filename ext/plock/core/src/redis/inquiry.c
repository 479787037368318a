#include "plock/inquiry.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "redis/errand.h"

#include <string.h>

struct plock_inquiry {
    plock_store *store;
    plock_subject subject;
    plock_errand errand;
    bool asks; /* a question is under way … */
    unsigned generation; /* … of the process that asked it */
    plock_error error;
    size_t parts;
    plock_value answer[PLOCK__REPLY_VALUES_MAX];
    char text[PLOCK__REPLY_BYTES_MAX];
    char note[PLOCK_NOTE_MAX]; /* the request refers to it */
    char names[];
};

plock_status plock_inquiry_new(plock_inquiry **out, plock_store *store, const char *key, size_t length, bool shared) {
    *out = NULL;
    if (length == 0) return PLOCK_MISUSE;
    plock_inquiry *inquiry = plock__allocate(sizeof *inquiry + plock__names_room(length));
    if (!inquiry) return PLOCK_NO_MEMORY;
    plock__subject_name(&inquiry->subject, inquiry->names, plock__text(key, length), store->config->fence_ttl);
    if (shared) *inquiry->subject.share = '?';
    inquiry->store = plock__store_retain(store);
    *out = inquiry;
    return PLOCK_OK;
}

void plock_inquiry_free(plock_inquiry *inquiry) {
    if (!inquiry) return;
    plock__begin_step();
    plock__errand_cancel(&inquiry->errand);
    plock__store_release(inquiry->store);
    plock__free(inquiry);
    plock__end_step();
}

/* Keeps the answer: the reader's own is only good until the connection is used again. */
static plock_status keep(void *context, const plock_value *answer, plock_error *error) {
    plock_inquiry *inquiry = context;
    const size_t parts = answer->type == PLOCK__ARRAY ? answer->length : 1;
    const plock_value *values = answer->type == PLOCK__ARRAY ? answer + 1 : answer;
    char *to = inquiry->text;
    for (size_t i = 0; i < parts; i++) {
        inquiry->answer[i] = values[i];
        if (values[i].type == PLOCK__ARRAY) return plock__fail(error, PLOCK_PROTOCOL, "an answer that none of our scripts gives");
        if (values[i].type != PLOCK__STRING) continue;
        inquiry->answer[i].text = memcpy(to, values[i].text, values[i].length);
        to += values[i].length;
    }
    inquiry->parts = parts;
    return PLOCK_OK;
}

/* One that is under way is given up. */
static void ask(plock_inquiry *inquiry, const plock_request *request) {
    plock__begin_step();
    plock__errand_cancel(&inquiry->errand);
    inquiry->asks = true;
    inquiry->generation = plock__generation();
    inquiry->parts = 0;
    plock__pool_use(&inquiry->store->pool);
    plock__errand_begin(&inquiry->errand, inquiry->store, request, plock_after(plock_now(), inquiry->store->config->command_timeout), false);
    plock__errand_heed(&inquiry->errand, keep, NULL, NULL, inquiry);
    plock__end_step();
}

void plock_inquiry_status(plock_inquiry *inquiry, int64_t first) {
    const plock_request request = plock__status_request(&inquiry->subject, first);
    ask(inquiry, &request);
}

void plock_inquiry_scan(plock_inquiry *inquiry, int64_t cursor) {
    const plock_request request = plock__scan_request(&inquiry->subject, cursor);
    ask(inquiry, &request);
}

void plock_inquiry_break(plock_inquiry *inquiry) {
    const plock_request request = plock__break_request(&inquiry->subject);
    ask(inquiry, &request);
}

plock_status plock_inquiry_note(plock_inquiry *inquiry, const char *note, size_t length, bool replace) {
    if (length > sizeof inquiry->note) return PLOCK_MISUSE;
    plock_inquiry_cancel(inquiry);
    memcpy(inquiry->note, note, length);
    const plock_request request = plock__note_request(&inquiry->subject, plock__text(inquiry->note, length), replace);
    ask(inquiry, &request);
    return PLOCK_OK;
}

void plock_inquiry_hurry(plock_inquiry *inquiry, plock_ns deadline) {
    plock__errand_hurry(&inquiry->errand, deadline);
}

static plock_status step(plock_inquiry *inquiry, plock_want *want) {
    if (!inquiry->asks) return PLOCK_MISUSE;
    if (inquiry->generation == plock__generation()) return plock__errand_step(&inquiry->errand, want, &inquiry->error);
    plock__errand_cancel(&inquiry->errand);
    return plock__fail_plainly(&inquiry->error, PLOCK_FORKED);
}

plock_status plock_inquiry_step(plock_inquiry *inquiry, plock_want *want) {
    plock__begin_step();
    const plock_status status = step(inquiry, want);
    inquiry->asks = status == PLOCK_AGAIN;
    plock__end_step();
    return status;
}

/* What it asked for it forgets: that changes nothing, or what it was to change has been changed. */
void plock_inquiry_cancel(plock_inquiry *inquiry) {
    plock__begin_step();
    plock__errand_cancel(&inquiry->errand);
    inquiry->asks = false;
    plock__end_step();
}

static plock_status step_any(void *inquiry, plock_want *want) {
    return plock_inquiry_step(inquiry, want);
}

static void cancel_any(void *inquiry) {
    plock_inquiry_cancel(inquiry);
}

static void hurry_any(void *inquiry, plock_ns deadline) {
    plock_inquiry_hurry(inquiry, deadline);
}

plock_operation plock_inquiry_operation(plock_inquiry *inquiry) {
    return (plock_operation){.of = inquiry, .step = step_any, .cancel = cancel_any, .hurry = hurry_any};
}

const plock_error *plock_inquiry_error(const plock_inquiry *inquiry) {
    return &inquiry->error;
}

size_t plock_inquiry_parts(const plock_inquiry *inquiry) {
    return inquiry->parts;
}

const char *plock_inquiry_text(const plock_inquiry *inquiry, size_t part, size_t *length) {
    const plock_value *value = part < inquiry->parts ? &inquiry->answer[part] : NULL;
    if (!value || value->type != PLOCK__STRING) return NULL;
    *length = value->length;
    return value->text;
}

int64_t plock_inquiry_number(const plock_inquiry *inquiry, size_t part) {
    const plock_value *value = part < inquiry->parts ? &inquiry->answer[part] : NULL;
    return value && value->type == PLOCK__INTEGER ? value->integer : 0;
}
