/* Replies that a server may send: every type, in pieces of every size, one after the other. */
#include "test.h"

#include "net/reply.h"

#include <stdio.h>
#include <string.h>

/* Writes the values of a reply as text: 'n' nil, 'i5' integer, 's"…"' string, '+"…"' status, 'e"…"'
 * error, 'a2' array. */
static const char *shown(const plock_value *values, char *text, size_t size) {
    size_t used = 0, left = 1;
    *text = 0;
    for (const plock_value *value = values; left > 0 && used < size; value++, left--) {
        char *to = text + used;
        const size_t room = size - used;
        int n = 0;
        switch (value->type) {
        case PLOCK__NIL: n = snprintf(to, room, " n"); break;
        case PLOCK__INTEGER: n = snprintf(to, room, " i%lld", (long long)value->integer); break;
        case PLOCK__STRING:
            n = snprintf(to, room, " s\"%.*s\"", (int)value->length, value->text);
            break;
        case PLOCK__DONE:
            n = snprintf(to, room, " +\"%.*s\"", (int)value->length, value->text);
            break;
        case PLOCK__ERROR:
            n = snprintf(to, room, " e\"%.*s\"", (int)value->length, value->text);
            break;
        case PLOCK__ARRAY:
            n = snprintf(to, room, " a%zu", value->length);
            left += value->length;
            break;
        }
        used += (size_t)n;
    }
    return text + (*text == ' ');
}

static const struct sample {
    const char *bytes, *shown;
} SAMPLES[] = {
    {"+OK\r\n", "+\"OK\""},
    {"+\r\n", "+\"\""},
    {"-ERR no\r\n", "e\"ERR no\""},
    {"-\r\n", "e\"\""},
    {":0\r\n", "i0"},
    {":-1\r\n", "i-1"},
    {":1700000000000001\r\n", "i1700000000000001"},
    {":9223372036854775807\r\n", "i9223372036854775807"},
    {"$5\r\nhello\r\n", "s\"hello\""},
    {"$0\r\n\r\n", "s\"\""},
    {"$9\r\na\r\n+b\r\n:1\r\n", "s\"a\r\n+b\r\n:1\""},
    {"$-1\r\n", "n"},
    {"*-1\r\n", "n"},
    {"*0\r\n", "a0"},
    {"*2\r\n:1\r\n:1700000000000001\r\n", "a2 i1 i1700000000000001"},
    {"*3\r\n$1\r\na\r\n$-1\r\n-ERR no\r\n", "a3 s\"a\" n e\"ERR no\""},
    {"*2\r\n*2\r\n:1\r\n:2\r\n*1\r\n*0\r\n", "a2 a2 i1 i2 a1 a0"},
    {"*1\r\n*1\r\n*1\r\n*1\r\n*0\r\n", "a1 a1 a1 a1 a0"},
};
enum { SAMPLE_COUNT = sizeof SAMPLES / sizeof *SAMPLES };

static void check_next(plock_reader *reader, const char *expected) {
    const plock_value *values;
    plock_error error = {PLOCK_OK, ""};
    char text[512];
    if (CHECK_STATUS(plock__reader_next(reader, &values, &error), PLOCK_OK))
        CHECK_TEXT(shown(values, text, sizeof text), expected);
}

static void check_needs_more(plock_reader *reader) {
    const plock_value *values;
    plock_error error = {PLOCK_OK, ""};
    CHECK_STATUS(plock__reader_next(reader, &values, &error), PLOCK_AGAIN);
}

static void feed(plock_reader *reader, const char *bytes, size_t length) {
    plock_error error = {PLOCK_OK, ""};
    CHECK_STATUS(plock__reader_feed(reader, bytes, length, &error), PLOCK_OK);
}

static void every_type_is_read(void) {
    for (unsigned i = 0; i < SAMPLE_COUNT; i++) {
        plock_reader *reader = plock__reader_new(false);
        check_needs_more(reader);
        feed(reader, SAMPLES[i].bytes, strlen(SAMPLES[i].bytes));
        check_next(reader, SAMPLES[i].shown);
        check_needs_more(reader);
        plock__reader_free(reader);
    }
}

static void a_reply_may_be_split_anywhere(void) {
    for (unsigned i = 0; i < SAMPLE_COUNT; i++) {
        const size_t length = strlen(SAMPLES[i].bytes);
        for (size_t at = 1; at < length; at++) {
            plock_reader *reader = plock__reader_new(false);
            feed(reader, SAMPLES[i].bytes, at);
            check_needs_more(reader);
            feed(reader, SAMPLES[i].bytes + at, length - at);
            check_next(reader, SAMPLES[i].shown);
            plock__reader_free(reader);
        }
    }
}

static void a_reply_may_come_byte_by_byte(void) {
    plock_reader *reader = plock__reader_new(false);
    for (unsigned i = 0; i < SAMPLE_COUNT; i++) {
        for (const char *c = SAMPLES[i].bytes; *c; c++) {
            check_needs_more(reader);
            feed(reader, c, 1);
        }
        check_next(reader, SAMPLES[i].shown);
    }
    plock__reader_free(reader);
}

static void replies_may_come_together(void) {
    plock_reader *reader = plock__reader_new(false);
    char all[1024] = "";
    for (unsigned i = 0; i < SAMPLE_COUNT; i++) strcat(all, SAMPLES[i].bytes);
    feed(reader, all, strlen(all));
    for (unsigned i = 0; i < SAMPLE_COUNT; i++) check_next(reader, SAMPLES[i].shown);
    check_needs_more(reader);
    plock__reader_free(reader);
}

/* The limits apply to one reply. A connection carries any number of replies. */
static void a_reader_never_wears_out(void) {
    enum { REPLIES = 5000 };
    char bytes[1100];
    memset(bytes, 'x', sizeof bytes);
    const int head = snprintf(bytes, sizeof bytes, "$1000\r\n");
    bytes[head] = 'y';
    memcpy(bytes + head + 1000, "\r\n", 2);
    plock_reader *reader = plock__reader_new(false);
    bool whole = true;
    for (int i = 0; i < REPLIES; i++) {
        const plock_value *values;
        plock_error error;
        whole = whole && !plock__reader_feed(reader, bytes, (size_t)head + 1002, &error) &&
                !plock__reader_next(reader, &values, &error) && values->type == PLOCK__STRING &&
                values->length == 1000 && values->text[0] == 'y' && values->text[999] == 'x';
    }
    CHECK(whole);
    plock__reader_free(reader);
}

static void the_values_stay_until_the_next_reply_is_read(void) {
    plock_reader *reader = plock__reader_new(false);
    const plock_value *values;
    plock_error error;
    char text[64];
    feed(reader, "*2\r\n$1\r\na\r\n$1\r\nb\r\n", 18);
    CHECK_STATUS(plock__reader_next(reader, &values, &error), PLOCK_OK);
    feed(reader, "*2\r\n$1\r\nc\r\n$1", 13);
    CHECK_TEXT(shown(values, text, sizeof text), "a2 s\"a\" s\"b\"");
    check_needs_more(reader);
    feed(reader, "\r\nd\r\n", 5);
    check_next(reader, "a2 s\"c\" s\"d\"");
    plock__reader_free(reader);
}

static void a_string_may_hold_any_byte(void) {
    static const char BYTES[] = "$6\r\na\0\r\n\xff$\r\n";
    plock_reader *reader = plock__reader_new(false);
    const plock_value *values;
    plock_error error;
    feed(reader, BYTES, sizeof BYTES - 1);
    CHECK_STATUS(plock__reader_next(reader, &values, &error), PLOCK_OK);
    CHECK_INT(values->length, 6);
    CHECK(!memcmp(values->text, "a\0\r\n\xff$", 6));
    plock__reader_free(reader);
}

static void elements_are_found_by_place_and_type(void) {
    const plock_value flat[] = {{.type = PLOCK__ARRAY, .length = 2},
                                {.type = PLOCK__INTEGER, .integer = 1},
                                {.type = PLOCK__STRING, .length = 1, .text = "a"}};
    const plock_value deep[] = {{.type = PLOCK__ARRAY, .length = 2},
                                {.type = PLOCK__INTEGER, .integer = 1},
                                {.type = PLOCK__ARRAY, .length = 0}};
    const plock_value first_deep[] = {{.type = PLOCK__ARRAY, .length = 2},
                                      {.type = PLOCK__ARRAY, .length = 1},
                                      {.type = PLOCK__INTEGER},
                                      {.type = PLOCK__INTEGER}};
    CHECK(plock__element(flat, 0, PLOCK__INTEGER) == &flat[1]);
    CHECK(plock__element(flat, 1, PLOCK__STRING) == &flat[2]);
    CHECK(plock__element(flat, 1, PLOCK__INTEGER) == NULL);
    CHECK(plock__element(flat, 2, PLOCK__INTEGER) == NULL);
    CHECK(plock__element(&flat[1], 0, PLOCK__INTEGER) == NULL); /* an integer has no elements */
    CHECK(plock__element(deep, 0, PLOCK__INTEGER) == &deep[1]);
    CHECK(plock__element(deep, 1, PLOCK__ARRAY) == NULL);
    /* the value at this place is an element of the nested array */
    CHECK(plock__element(first_deep, 1, PLOCK__INTEGER) == NULL);
}

int main(void) {
    RUN(every_type_is_read);
    RUN(a_reply_may_be_split_anywhere);
    RUN(a_reply_may_come_byte_by_byte);
    RUN(replies_may_come_together);
    RUN(a_reader_never_wears_out);
    RUN(the_values_stay_until_the_next_reply_is_read);
    RUN(a_string_may_hold_any_byte);
    RUN(elements_are_found_by_place_and_type);
    return test_end("reply");
}
