/* Queries: requests about locks, their answers, and their deadlines. */
#include "fake.h"
#include "test.h"

#include "base/process.h"
#include "plock/query.h"
#include "redis/store.h"

#include <stdio.h>
#include <string.h>

#define TEXT(bytes, length) "$" #length "\r\n" bytes "\r\n"
#define STATUS_OF_TWO                                                                              \
    "*8\r\n" TEXT("me", 2) ":2500\r\n" TEXT("1700000000000001 1:2 h 3 4 - - me",                   \
                                            33) ":2\r\n" TEXT("1700000000000002", 16)              \
        TEXT("h 5 6 - - a", 11) TEXT("1700000000000003", 16) TEXT("", 0)

static plock_store *store;
static plock_query *query;
static plock_interest interest;
static plock_ns began;

static void begin_at(const char *url, const char *key) {
    fake_clock_start();
    store = fake_store(url);
    CHECK_STATUS(plock_query_new(&query, store, key, strlen(key), false), PLOCK_OK);
    began = plock_now();
}

static void begin(void) { begin_at("redis://h", "k"); }

static void end(void) {
    plock_query_free(query);
    CHECK_INT(store->node.pool.waiting, 0);
    fake_end(NULL, store);
}

/* Steps the query to its end on the fake clock. */
static plock_status finish(void) {
    plock_status status;
    while ((status = plock_query_step(query, &interest)) == PLOCK_AGAIN)
        (void)fake_wait(NULL, &interest);
    return status;
}

static void check_text(size_t part, const char *expected) {
    char copy[FAKE_COMMAND_ROOM] = "(no text)";
    size_t length = 0;
    const char *text = plock_query_text(query, part, &length);
    if (text && CHECK(length < sizeof copy))
        (void)snprintf(copy, sizeof copy, "%.*s", (int)length, text);
    CHECK_TEXT(copy, expected);
    CHECK_INT(plock_query_number(query, part), 0);
}

static void check_number(size_t part, int64_t expected) {
    size_t length;
    CHECK_INT(plock_query_number(query, part), expected);
    CHECK(!plock_query_text(query, part, &length));
}

/* --- requests --- */

static void status_tells_who_holds_and_who_waits(void) {
    begin();
    fake_peers[0].answers[0] = STATUS_OF_TWO;
    plock_query_status(query, 0);
    CHECK_INT(fake_connections(), 0); /* only the step sends the request */
    CHECK_STATUS(finish(), PLOCK_OK);
    CHECK_TEXT(fake_peers[0].commands[1], "EVALSHA status 1 k 0 24");
    CHECK_INT(plock_query_parts(query), 8);
    check_text(0, "me");
    check_number(1, 2500);
    check_text(2, "1700000000000001 1:2 h 3 4 - - me");
    check_number(3, 2);
    check_text(4, "1700000000000002");
    check_text(5, "h 5 6 - - a");
    check_text(6, "1700000000000003");
    check_text(7, "");
    CHECK_STATUS(plock_query_error(query)->status, PLOCK_OK);
    end();
}

static void it_tells_page_by_page(void) {
    static const struct {
        int64_t first;
        const char *sent;
    } PAGES[] = {{24, "24"}, {48, "48"}, {1234567890123456789, "1234567890123456789"}};
    char word[FAKE_COMMAND_ROOM];
    begin();
    for (unsigned i = 0; i < 3; i++) {
        fake_peers[0].answers[i] = STATUS_OF_TWO;
        plock_query_status(query, PAGES[i].first);
        CHECK_STATUS(finish(), PLOCK_OK);
        CHECK_TEXT(fake_word(fake_peers[0].commands[1 + i], 4, word), PAGES[i].sent);
        CHECK_TEXT(fake_word(fake_peers[0].commands[1 + i], 5, word), "24");
    }
    CHECK_INT(fake_connections(), 1);
    end();
}

static void scan_tells_keys_and_where_to_go_on(void) {
    begin_at("redis://h", "plock:v1:*");
    fake_peers[0].answers[0] = "*3\r\n" TEXT("4611686018427387904", 19) TEXT("a", 1) TEXT("b c", 3);
    fake_peers[0].answers[1] = "*1\r\n" TEXT("0", 1);
    plock_query_scan(query, 0);
    CHECK_STATUS(finish(), PLOCK_OK);
    CHECK_INT(plock_query_parts(query), 3);
    check_text(0, "4611686018427387904");
    check_text(2, "b c");
    plock_query_scan(query, 4611686018427387904);
    CHECK_STATUS(finish(), PLOCK_OK);
    CHECK_INT(plock_query_parts(query), 1);
    check_text(0, "0");
    CHECK_TEXT(fake_peers[0].commands[1], "EVALSHA scan 0 0 plock:v1:*");
    CHECK_TEXT(fake_peers[0].commands[2], "EVALSHA scan 0 4611686018427387904 plock:v1:*");
    end();
}

static void break_takes_it_only_from_the_fences_that_are_named(void) {
    plock_query *shared;
    static const char FENCES[] = " 1700000000000000 - ";
    begin();
    CHECK_STATUS(plock_query_new(&shared, store, "shared", 6, true), PLOCK_OK);
    fake_peers[0].answers[0] = ":0\r\n";
    fake_peers[0].answers[1] = ":1\r\n";
    const plock_operation operation = plock_query_operation(shared);
    plock_query_break_only(query, FENCES, sizeof FENCES - 1);
    CHECK_STATUS(finish(), PLOCK_OK);
    check_number(0, 0);
    plock_query_break_only(shared, FENCES, sizeof FENCES - 1);
    CHECK_STATUS(plock_carry_on(&operation, fake_wait, NULL), PLOCK_OK);
    CHECK_INT(plock_query_number(shared, 0), 1);
    CHECK_TEXT(fake_peers[0].commands[1], "EVALSHA break 1 k  1700000000000000 - ");
    CHECK_TEXT(fake_peers[0].commands[2],
               "EVALSHA shared_break 1 shared 3600000  1700000000000000 - ");
    plock_query_free(shared);
    end();
}

/* The answer 3 means that the server has skipped as many dead waiters as one call may skip. So the
 * query sends the break again. */
static void an_unfinished_break_is_asked_for_again(void) {
    static const char *const LAST[] = {":0\r\n", ":1\r\n", ":2\r\n"};
    for (size_t i = 0; i < sizeof LAST / sizeof *LAST; i++) {
        begin();
        fake_peers[0].answers[0] = fake_peers[0].answers[1] = ":3\r\n";
        fake_peers[0].answers[2] = LAST[i];
        plock_query_break_only(query, "", 0);
        CHECK_STATUS(finish(), PLOCK_OK);
        check_number(0, i == 2 ? 2 : 1);
        CHECK_INT(fake_commands_like("EVALSHA break"), 3);
        end();
    }
}

static void break_tells_whether_it_was_held(void) {
    begin();
    for (unsigned i = 0; i < 3; i++) {
        fake_peers[0].answers[i] = i == 0 ? ":0\r\n" : i == 1 ? ":1\r\n" : ":2\r\n";
        plock_query_break_only(query, "", 0);
        CHECK_STATUS(finish(), PLOCK_OK);
        CHECK_INT(plock_query_parts(query), 1);
        check_number(0, i);
        CHECK_TEXT(fake_peers[0].commands[1 + i], "EVALSHA break 1 k");
    }
    end();
}

static void a_note_is_kept_or_only_looked_at(void) {
    static const char LONG[PLOCK_NOTE_MAX + 1] = {'x'};
    begin();
    fake_peers[0].answers[0] = TEXT("mine", 4);
    fake_peers[0].answers[1] = TEXT("", 0);
    fake_peers[0].answers[2] = TEXT("yours", 5);
    CHECK_STATUS(plock_query_note(query, "mine", 4, false), PLOCK_OK);
    CHECK_STATUS(finish(), PLOCK_OK);
    check_text(0, "mine");
    CHECK_STATUS(plock_query_note(query, "", 0, false), PLOCK_OK);
    CHECK_STATUS(finish(), PLOCK_OK);
    check_text(0, "");
    CHECK_STATUS(plock_query_note(query, "yours", 5, true), PLOCK_OK);
    CHECK_STATUS(finish(), PLOCK_OK);
    check_text(0, "yours");
    CHECK_TEXT(fake_peers[0].commands[1], "EVALSHA note 1 k mine");
    CHECK_TEXT(fake_peers[0].commands[2], "EVALSHA note 1 k ");
    CHECK_TEXT(fake_peers[0].commands[3], "EVALSHA note 1 k yours replace");
    CHECK_STATUS(plock_query_note(query, LONG, sizeof LONG, false), PLOCK_MISUSE);
    end();
}

/* For a lock with several holders, a query uses different scripts. */
static void of_a_shared_one_it_asks_the_same(void) {
    plock_query *shared;
    begin();
    CHECK_STATUS(plock_query_new(&shared, store, "shared", 6, true), PLOCK_OK);
    fake_peers[0].answers[0] = "*2\r\n:0\r\n:0\r\n";
    fake_peers[0].answers[1] = ":1\r\n";
    const plock_operation operation = plock_query_operation(shared);
    plock_query_status(shared, 24);
    CHECK_STATUS(plock_carry_on(&operation, fake_wait, NULL), PLOCK_OK);
    CHECK_INT(plock_query_parts(shared), 2);
    plock_query_break_only(shared, "", 0);
    CHECK_STATUS(plock_carry_on(&operation, fake_wait, NULL), PLOCK_OK);
    CHECK_INT(plock_query_number(shared, 0), 1);
    CHECK_TEXT(fake_peers[0].commands[1], "EVALSHA shared_status 1 shared 24 24");
    CHECK_TEXT(fake_peers[0].commands[2], "EVALSHA shared_break 1 shared 3600000");
    plock_query_free(shared);
    end();
}

/* The generic functions for operations also work for a query: they drive it, hurry it and cancel
 * it. */
static void it_is_an_operation_like_any_other(void) {
    begin();
    const plock_operation operation = plock_query_operation(query);
    plock_query_status(query, 0);
    CHECK_STATUS(operation.step(operation.of, &interest), PLOCK_AGAIN);
    operation.hurry(operation.of, began + 5 * PLOCK_MILLISECOND);
    CHECK_STATUS(plock_carry_on(&operation, fake_wait, NULL), PLOCK_SILENT);
    CHECK_INT(plock_now(), began + 5 * PLOCK_MILLISECOND);
    plock_query_status(query, 0);
    CHECK_STATUS(operation.step(operation.of, &interest), PLOCK_AGAIN);
    operation.cancel(operation.of);
    CHECK_STATUS(operation.step(operation.of, &interest), PLOCK_MISUSE);
    CHECK(fake_peers[1].destroyed); /* this connection still had an answer outstanding */
    end();
}

/* The query copies its answer, because the reader's memory is reused for the next reply on the
 * connection. */
static void an_answer_lasts_until_the_next_question(void) {
    begin();
    fake_peers[0].answers[0] = STATUS_OF_TWO;
    fake_peers[0].obliging = true;
    plock_query_status(query, 0);
    CHECK_STATUS(finish(), PLOCK_OK);
    plock_lease *lease = fake_lease(store);
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    plock_lease_free(lease);
    CHECK_INT(fake_connections(), 1);
    check_text(0, "me");
    check_text(4, "1700000000000002");
    CHECK_INT(plock_query_parts(query), 8);
    plock_query_break_only(query, "", 0);
    CHECK_INT(plock_query_parts(query), 0);
    check_text(0, "(no text)");
    check_number(0, 0);
    end();
}

static void a_key_may_hold_any_byte(void) {
    enum { LENGTH = 5 };
    begin();
    plock_query *other;
    CHECK_STATUS(plock_query_new(&other, store, "a\0b\n\xff", LENGTH, false), PLOCK_OK);
    /* the fake sends the text up to its zero byte, so the rest is sent below */
    fake_peers[0].answers[0] = "*1\r\n$5\r\na\0b";
    plock_query_status(other, 0);
    CHECK_STATUS(plock_query_step(other, &interest), PLOCK_AGAIN);
    fake_say(&fake_peers[0], "\0b\n\xff\r\n", 6);
    CHECK_STATUS(plock_query_step(other, &interest), PLOCK_OK);
    size_t length = 0;
    const char *text = plock_query_text(other, 0, &length);
    CHECK(text && length == LENGTH && !memcmp(text, "a\0b\n\xff", LENGTH));
    plock_query_free(other);
    end();
}

static void a_script_that_is_not_known_is_loaded(void) {
    begin();
    fake_peers[0].answers[0] = FAKE_NOSCRIPT;
    fake_peers[0].answers[1] = FAKE_LOADED;
    fake_peers[0].answers[2] = STATUS_OF_TWO;
    plock_query_status(query, 0);
    CHECK_STATUS(finish(), PLOCK_OK);
    CHECK_TEXT(fake_peers[0].commands[2], "SCRIPT LOAD status");
    CHECK_INT(plock_query_parts(query), 8);
    end();
}

/* --- failures --- */

static void a_lasting_failure_is_reported_at_once(void) {
    static const struct {
        const char *said;
        plock_status status;
    } ERRORS[] = {
        {"-NOPERM this user has no permissions to run the 'zrange' command\r\n", PLOCK_NOPERM},
        {"-NOAUTH x\r\n", PLOCK_NOAUTH},
        {"-MOVED 1 h:1\r\n", PLOCK_MOVED},
        {"-ERR x\r\n", PLOCK_SERVER}};
    for (unsigned i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++) {
        begin();
        fake_peers[0].answers[0] = ERRORS[i].said;
        plock_query_status(query, 0);
        CHECK_STATUS(finish(), ERRORS[i].status);
        CHECK_STATUS(plock_query_error(query)->status, ERRORS[i].status);
        CHECK_HAS(plock_query_error(query)->message, "redis://h:6379: ");
        CHECK_INT(plock_query_parts(query), 0);
        CHECK_INT(plock_now(), began);
        end();
    }
}

static void a_passing_failure_is_tried_again(void) {
    begin();
    fake_peers[0].answers[0] = "-LOADING x\r\n";
    fake_peers[0].answers[1] = "-BUSY x\r\n";
    fake_peers[0].answers[2] = STATUS_OF_TWO;
    plock_query_status(query, 0);
    CHECK_STATUS(finish(), PLOCK_OK);
    CHECK(plock_now() > began);
    CHECK_INT(plock_query_parts(query), 8);
    CHECK_STATUS(plock_query_error(query)->status, PLOCK_OK);
    end();
}

static void it_ends_when_the_time_of_a_command_is_over(void) {
    static const char *const WAYS[] = {FAKE_SILENCE, "-LOADING x\r\n", "*8\r\n" TEXT("me", 2)};
    static const plock_status STATUSES[] = {PLOCK_SILENT, PLOCK_LOADING, PLOCK_SILENT};
    for (unsigned i = 0; i < 3; i++) {
        begin_at("redis://h?command_timeout=2", "k");
        for (unsigned a = 0; a < FAKE_ANSWERS; a++) fake_peers[0].answers[a] = WAYS[i];
        plock_query_status(query, 0);
        CHECK_STATUS(finish(), STATUSES[i]);
        CHECK_STATUS(plock_query_error(query)->status, STATUSES[i]);
        CHECK_INT(plock_now(), began + 2 * PLOCK_SECOND);
        CHECK_INT(plock_query_parts(query), 0);
        end();
    }
}

static void it_may_have_to_hurry(void) {
    enum { ASKING, OPENING, PAUSING, NOT_BEGUN, STATES };
    for (int state = 0; state < STATES; state++) {
        begin();
        if (state == OPENING) fake_peers[0].silent_greeting = true;
        if (state == PAUSING) fake_peers[0].answers[0] = "-LOADING x\r\n";
        plock_query_status(query, 0);
        if (state != NOT_BEGUN) CHECK_STATUS(plock_query_step(query, &interest), PLOCK_AGAIN);
        plock_query_hurry(query, began + 5 * PLOCK_MILLISECOND);
        plock_query_hurry(query, began + PLOCK_SECOND); /* a later deadline has no effect */
        CHECK_STATUS(finish(), state == PAUSING ? PLOCK_LOADING : PLOCK_SILENT);
        CHECK_INT(plock_now(), began + 5 * PLOCK_MILLISECOND);
        fake_peers[0].answers[1] = fake_peers[1].answers[0] = STATUS_OF_TWO;
        plock_query_status(query, 0); /* the next query has its own time */
        CHECK_STATUS(plock_query_step(query, &interest), PLOCK_OK);
        end();
    }
}

static void a_connection_found_closed_is_replaced_at_once_and_once(void) {
    for (int twice = 0; twice < 2; twice++) {
        begin();
        fake_peers[0].answers[0] = STATUS_OF_TWO;
        fake_peers[0].answers[1] = FAKE_CLOSES;
        plock_query_status(query, 0);
        CHECK_STATUS(finish(), PLOCK_OK);
        fake_peers[1].answers[0] = twice ? FAKE_CLOSES : ":1\r\n";
        fake_peers[2].answers[0] = ":0\r\n";
        plock_query_break_only(query, "", 0);
        CHECK_STATUS(plock_query_step(query, &interest), twice ? PLOCK_AGAIN : PLOCK_OK);
        CHECK_INT(plock_now(), began);
        if (twice) CHECK_STATUS(finish(), PLOCK_OK);
        CHECK_INT(plock_now() > began, twice); /* a pause precedes the second retry */
        /* counts as broken, because an attempt without an answer may have broken the lease */
        check_number(0, 1);
        CHECK_INT(fake_commands_like("EVALSHA break"), 2 + twice);
        end();
    }
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(status_tells_who_holds_and_who_waits);
    RUN(it_tells_page_by_page);
    RUN(scan_tells_keys_and_where_to_go_on);
    RUN(break_takes_it_only_from_the_fences_that_are_named);
    RUN(an_unfinished_break_is_asked_for_again);
    RUN(break_tells_whether_it_was_held);
    RUN(a_note_is_kept_or_only_looked_at);
    RUN(of_a_shared_one_it_asks_the_same);
    RUN(it_is_an_operation_like_any_other);
    RUN(an_answer_lasts_until_the_next_question);
    RUN(a_key_may_hold_any_byte);
    RUN(a_script_that_is_not_known_is_loaded);
    RUN(a_lasting_failure_is_reported_at_once);
    RUN(a_passing_failure_is_tried_again);
    RUN(it_ends_when_the_time_of_a_command_is_over);
    RUN(it_may_have_to_hurry);
    RUN(a_connection_found_closed_is_replaced_at_once_and_once);
    return test_end("query");
}
