/* Replies that no honest server sends. Each must cause a protocol error at once, whatever length it
 * announces. */
#include "test.h"

#include "base/memory.h"
#include "net/reply.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { SPARE_BYTES = 64 * 1024 * 1024 };

/* Feeds the bytes in pieces, and reads all replies. Returns the first error, or PLOCK_AGAIN if
 * there was none. */
static plock_status fate(const char *bytes, size_t length, size_t piece, plock_error *error) {
    plock_reader *reader = plock__reader_new(false);
    plock_status status = PLOCK_AGAIN;
    for (size_t at = 0; at < length && status == PLOCK_AGAIN; at += piece) {
        const plock_value *values;
        status = plock__reader_feed(reader, bytes + at, length - at < piece ? length - at : piece,
                                    error);
        do {
            if (!status) status = plock__reader_next(reader, &values, error);
        } while (!status);
    }
    plock__reader_free(reader);
    return status;
}

static void check_refused(const char *bytes, size_t length) {
    for (size_t piece = 1; piece <= 4096; piece *= 8) {
        plock_error error = {PLOCK_OK, ""};
        if (!CHECK_STATUS(fate(bytes, length, piece, &error), PLOCK_PROTOCOL))
            CHECK_TEXT(bytes, "refused");
        CHECK_STATUS(error.status, PLOCK_PROTOCOL);
        CHECK_HAS(error.message, "answer");
    }
}

static void a_reply_that_announces_too_much_is_refused_at_once(void) {
    static const char *const HEADERS[] = {
        "*2147483647\r\n",
        "*257\r\n",
        "*-5\r\n",
        "*-2147483648\r\n",
        "*2\r\n:1\r\n*2147483647\r\n",
        "*1\r\n*-5\r\n",
        "$1073741824\r\n",
        "$1073741824",
        "$2147483647\r\n",
        "$9223372036854775807\r\n",
        "$99999999999999999999999999\r\n",
        "$16385\r\n",
        "$163850",
        "*2\r\n:1\r\n$1073741824\r\n",
        "*2\r\n$3\r\nabc\r\n$536870912\r\n",
    };
    for (unsigned i = 0; i < sizeof HEADERS / sizeof *HEADERS; i++)
        check_refused(HEADERS[i], strlen(HEADERS[i]));
}

/* When the second length arrives, the reader has already discarded the beginning of this long
 * reply. It must still refuse that length. */
static void a_long_beginning_does_not_hide_an_announcement(void) {
    char bytes[2048] = "*2\r\n$1200\r\n";
    const size_t head = strlen(bytes);
    memset(bytes + head, 'x', 1200);
    strcpy(bytes + head + 1200, "\r\n$1073741824\r\n");
    check_refused(bytes, strlen(bytes));
}

static void other_protocols_are_refused(void) {
    static const char *const GARBAGE[] = {"HTTP/1.1 400 Bad Request\r\n",
                                          "\r\n",
                                          "\x15\x03\x01\x02",
                                          "OK\r\n",
                                          "*1\r\nx\r\n",
                                          "?",
                                          "=3\r\n",
                                          "=7\r\ntxt:abc\r\n",
                                          "%1\r\n:1\r\n:2\r\n",
                                          "~1\r\n:1\r\n",
                                          ">1\r\n:1\r\n",
                                          ",1.5\r\n",
                                          "#t\r\n",
                                          "(1\r\n",
                                          "*1\r\n=3",
                                          "!5\r\nerror\r\n"};
    for (unsigned i = 0; i < sizeof GARBAGE / sizeof *GARBAGE; i++)
        check_refused(GARBAGE[i], strlen(GARBAGE[i]));
    check_refused("\0\0\0\0", 4);
}

/* If a length is invalid, some versions of hiredis read nil or an empty string, and others refuse
 * the reply. No version returns any bytes. */
static void a_length_that_is_none_gives_no_value(void) {
    static const char *const LENGTHS[] = {"$-5\r\n", "$abc\r\n", "$-2147483649\r\n", "$\r\n"};
    for (unsigned i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        plock_reader *reader = plock__reader_new(false);
        const plock_value *values;
        plock_error error;
        CHECK_STATUS(plock__reader_feed(reader, LENGTHS[i], strlen(LENGTHS[i]), &error), PLOCK_OK);
        const plock_status status = plock__reader_next(reader, &values, &error);
        CHECK(status == PLOCK_PROTOCOL ||
              (status == PLOCK_OK && (values->type == PLOCK__NIL || values->length == 0)));
        plock__reader_free(reader);
    }
}

static void arrays_nest_only_so_deep(void) {
    char bytes[256] = "";
    for (int depth = 0; depth < PLOCK__REPLY_DEPTH_MAX; depth++) strcat(bytes, "*1\r\n");
    strcat(bytes, ":1\r\n");
    plock_error error;
    /* the reply has been read, and the reader waits for the next one */
    CHECK_STATUS(fate(bytes, strlen(bytes), sizeof bytes, &error), PLOCK_AGAIN);
    *bytes = 0;
    for (int depth = 0; depth <= PLOCK__REPLY_DEPTH_MAX; depth++) strcat(bytes, "*1\r\n");
    strcat(bytes, ":1\r\n");
    check_refused(bytes, strlen(bytes));
    *bytes = 0;
    for (int depth = 0; depth < 40; depth++) strcat(bytes, "*1\r\n");
    check_refused(bytes, strlen(bytes));
}

static void values_are_counted_over_all_arrays(void) {
    char bytes[8192] = "*2\r\n";
    plock_error error;
    for (int half = 0; half < 2; half++) {
        strcat(bytes, "*126\r\n");
        for (int i = 0; i < 126; i++) strcat(bytes, ":1\r\n");
    }
    /* 255 values are allowed */
    CHECK_STATUS(fate(bytes, strlen(bytes), sizeof bytes, &error), PLOCK_AGAIN);
    strcpy(bytes, "*2\r\n");
    for (int half = 0; half < 2; half++) {
        strcat(bytes, "*127\r\n");
        for (int i = 0; i < 127; i++) strcat(bytes, ":1\r\n");
    }
    check_refused(bytes, strlen(bytes)); /* 257 values are too many */
}

static void check_endless(const char *head, char filling) {
    static char bytes[4 * PLOCK__REPLY_BYTES_MAX];
    memset(bytes, filling, sizeof bytes);
    memcpy(bytes, head, strlen(head));
    check_refused(bytes, sizeof bytes);
}

static void a_reply_without_end_is_refused(void) {
    check_endless("+OK", 'x');
    check_endless("-ERR ", 'x');
    check_endless(":", '1');
    check_endless("$", '0');
    check_endless("*", '0');
    check_endless("*2\r\n+OK\r\n+", 'x');
}

static void a_reply_just_within_the_cap_is_read(void) {
    static char bytes[PLOCK__REPLY_BYTES_MAX] = "$16000\r\n";
    plock_error error;
    memset(bytes + 8, 'x', 16000);
    memcpy(bytes + 8 + 16000, "\r\n", 2);
    CHECK_STATUS(fate(bytes, 8 + 16002, 4096, &error), PLOCK_AGAIN);
}

static void a_reader_that_has_refused_stays_refusing(void) {
    plock_reader *reader = plock__reader_new(false);
    const plock_value *values;
    plock_error error;
    CHECK_STATUS(plock__reader_feed(reader, "*2147483647\r\n", 13, &error), PLOCK_OK);
    CHECK_STATUS(plock__reader_next(reader, &values, &error), PLOCK_PROTOCOL);
    CHECK(plock__reader_feed(reader, ":1\r\n", 4, &error) != PLOCK_AGAIN);
    CHECK_STATUS(plock__reader_next(reader, &values, &error), PLOCK_PROTOCOL);
    plock__reader_free(reader);
}

/* Repeats the refusals, and checks how much memory they take. The reader must not reserve memory
 * for an announced length. */
static void refuse_in_little_memory(void *context) {
    (void)context;
    struct rusage before, after;
    CHECK(getrusage(RUSAGE_SELF, &before) == 0);
    a_reply_that_announces_too_much_is_refused_at_once();
    a_reply_without_end_is_refused();
    CHECK(getrusage(RUSAGE_SELF, &after) == 0);
    CHECK((after.ru_maxrss - before.ru_maxrss) * 1024L < SPARE_BYTES);
}

static void a_hostile_reply_costs_no_memory(void) { test_in_child(refuse_in_little_memory, NULL); }

int main(void) {
    RUN(a_reply_that_announces_too_much_is_refused_at_once);
    RUN(a_long_beginning_does_not_hide_an_announcement);
    RUN(other_protocols_are_refused);
    RUN(a_length_that_is_none_gives_no_value);
    RUN(arrays_nest_only_so_deep);
    RUN(values_are_counted_over_all_arrays);
    RUN(a_reply_without_end_is_refused);
    RUN(a_reply_just_within_the_cap_is_read);
    RUN(a_reader_that_has_refused_stays_refusing);
    RUN(a_hostile_reply_costs_no_memory);
    return test_end("reply hostile");
}
