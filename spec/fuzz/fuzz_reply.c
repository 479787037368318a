/* Sends arbitrary bytes, in arbitrary pieces, to the reader of replies. The reader must stay
 * within its limits, return only consistent values, and give the same result however the bytes
 * are cut. Input: one byte that says how to cut, then the stream. */
#include "fuzz.h"

#include "net/reply.h"

#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The result: the last status, and a checksum of all values before it. */
typedef struct outcome {
    plock_status status;
    unsigned replies;
    uint64_t sum;
} outcome;

static bool is_text(const plock_value *value) {
    return value->type == PLOCK__STRING || value->type == PLOCK__ERROR ||
           value->type == PLOCK__DONE;
}

/* Checks the values of one reply: there are as many as the arrays say, no text exceeds the limit,
 * and all bytes were in the input. */
static void check_reply(const plock_value *values, outcome *seen) {
    size_t left = 1, count = 0, text = 0;
    for (const plock_value *value = values; left > 0; value++, left--) {
        REQUIRE(++count <= PLOCK__REPLY_VALUES_MAX);
        fuzz_add(&seen->sum, &value->type, sizeof value->type);
        if (value->type == PLOCK__ARRAY) {
            REQUIRE(value->length <= PLOCK__REPLY_VALUES_MAX);
            left += value->length;
        } else if (value->type == PLOCK__INTEGER) {
            fuzz_add(&seen->sum, &value->integer, sizeof value->integer);
        } else if (is_text(value)) {
            text += value->length;
            REQUIRE(text <= PLOCK__REPLY_BYTES_MAX);
            /* reads all bytes, so that the sanitizer checks that they are allocated */
            fuzz_add(&seen->sum, value->text, value->length);
        }
    }
    for (size_t i = 0; i <= values->length && i < PLOCK__REPLY_VALUES_MAX; i++) {
        const plock_value *element = plock__element(values, i, PLOCK__INTEGER);
        REQUIRE(!element || (values->type == PLOCK__ARRAY && i < values->length &&
                             element == &values[1 + i] && element->type == PLOCK__INTEGER));
    }
    if (values->type != PLOCK__ERROR) return;
    plock_error error = {PLOCK_OK, ""};
    const plock_status status = plock__server_error(values, &error);
    REQUIRE(status && status == error.status && memchr(error.message, 0, sizeof error.message));
    for (const char *c = error.message; *c; c++) REQUIRE((unsigned char)*c >= ' ');
}

static outcome read_stream(const uint8_t *data, size_t size, size_t first, size_t step) {
    outcome seen = {PLOCK_AGAIN, 0, UINT64_C(0xcbf29ce484222325)};
    plock_reader *reader = plock__reader_new(false);
    plock_error error = {PLOCK_OK, ""};
    REQUIRE(reader);
    for (size_t at = 0, piece = first; at < size && seen.status == PLOCK_AGAIN;
         at += piece, piece = step) {
        if (piece > size - at) piece = size - at;
        seen.status = plock__reader_feed(reader, (const char *)data + at, piece, &error);
        const plock_value *values;
        while (!seen.status && !(seen.status = plock__reader_next(reader, &values, &error))) {
            check_reply(values, &seen);
            REQUIRE(++seen.replies <= size);
        }
        REQUIRE(seen.status == PLOCK_AGAIN || seen.status == PLOCK_PROTOCOL);
        REQUIRE(seen.status == PLOCK_AGAIN ||
                (error.status == seen.status && memchr(error.message, 0, sizeof error.message)));
    }
    plock__reader_free(reader);
    REQUIRE(plock__live_allocations() == 0);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    const size_t step = 1 + data[0] % 32, first = 1 + data[0] / 32;
    const outcome whole = read_stream(data + 1, size - 1, size, size),
                  cut = read_stream(data + 1, size - 1, first, step);
    /* Both readings must agree. A stream that is longer than a reply may be is left out, because
     * the reader refuses it earlier when it comes in larger pieces. */
    if (size - 1 <= PLOCK__REPLY_BYTES_MAX)
        REQUIRE(whole.status == cut.status && whole.replies == cut.replies && whole.sum == cut.sum);
    return 0;
}
