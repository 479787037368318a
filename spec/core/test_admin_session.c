/* Admin sessions: requests, each kind of answer, and the life of the connection. */
#include "fake.h"
#include "test.h"

#include "base/memory.h"
#include "redis/store.h"

#include <stdio.h>
#include <string.h>

static plock_store *store;
static plock_admin_session *admin_session;

static void begin(const char *url) {
    fake_clock_start();
    store = fake_store(url);
    CHECK_STATUS(plock_admin_session_new(&admin_session, store), PLOCK_OK);
}

static void end(void) {
    plock_admin_session_free(admin_session);
    admin_session = NULL;
    CHECK_INT(store->node.pool.open, 0);
    fake_end(NULL, store);
    CHECK_INT(plock__live_allocations(), 0);
}

static plock_status finish(void) {
    const plock_operation operation = plock_admin_session_operation(admin_session);
    return plock_carry_on(&operation, fake_wait, NULL);
}

static const plock_word PING[] = {{"PING", 4}}, INFO[] = {{"INFO", 4}, {"server", 6}};

static plock_status ask(unsigned count, const plock_word *words) {
    CHECK_STATUS(plock_admin_session_ask(admin_session, count, words), PLOCK_OK);
    return finish();
}

static void check_text(size_t place, const char *expected) {
    const plock_part part = plock_admin_session_part(admin_session, place);
    CHECK_INT(part.kind, PLOCK_PART_TEXT);
    CHECK(part.length == strlen(expected) && !memcmp(part.text, expected, part.length));
}

/* --- requests and answers --- */

static void it_asks_on_a_connection_of_its_own_with_our_name(void) {
    begin("redis://ali:sesame@h/3?pool_size=1");
    fake_peers[0].answers[0] = "+PONG\r\n";
    fake_peers[0].answers[1] = "$5\r\nhello\r\n";
    CHECK_STATUS(ask(1, PING), PLOCK_OK);
    check_text(0, "PONG");
    CHECK_STATUS(ask(2, INFO), PLOCK_OK);
    check_text(0, "hello");
    CHECK_INT(fake_connections(), 1);
    CHECK_INT(store->node.pool.open, 0); /* the session's connection takes no place in the pool */
    CHECK_TEXT(fake_peers[0].commands[0], "AUTH ali sesame");
    CHECK_TEXT(fake_peers[0].commands[1], "SELECT 3");
    CHECK_TEXT(fake_peers[0].commands[3], "PING");
    CHECK_TEXT(fake_peers[0].commands[4], "INFO server");
    end();
}

static void an_answer_has_its_parts_in_the_order_in_which_they_are_read(void) {
    begin("redis://h");
    fake_peers[0].answers[0] = "*4\r\n$1\r\na\r\n*2\r\n:7\r\n*1\r\n$-1\r\n*0\r\n-ERR in it\r\n";
    CHECK_STATUS(ask(1, PING), PLOCK_OK);
    static const int KINDS[] = {PLOCK_PART_LIST,   PLOCK_PART_TEXT, PLOCK_PART_LIST,
                                PLOCK_PART_NUMBER, PLOCK_PART_LIST, PLOCK_PART_NOTHING,
                                PLOCK_PART_LIST,   PLOCK_PART_TEXT};
    CHECK_INT(plock_admin_session_parts(admin_session), 8);
    for (size_t i = 0; i < 8; i++)
        CHECK_INT(plock_admin_session_part(admin_session, i).kind, KINDS[i]);
    CHECK_INT(plock_admin_session_part(admin_session, 0).length, 4);
    CHECK_INT(plock_admin_session_part(admin_session, 2).length, 2);
    CHECK_INT(plock_admin_session_part(admin_session, 3).number, 7);
    CHECK_INT(plock_admin_session_part(admin_session, 6).length, 0);
    check_text(7, "ERR in it");
    CHECK_INT(plock_admin_session_part(admin_session, 8).kind, PLOCK_PART_NOTHING);
    end();
}

/* The map of a cluster is a long answer. */
static void a_node_of_a_cluster_may_give_a_long_answer(void) {
    enum { NUMBERS = 5000 };
    static char answer[16 + NUMBERS * 4];
    int length = snprintf(answer, sizeof answer, "*%d\r\n", NUMBERS);
    for (int i = 0; i < NUMBERS; i++, length += 4) memcpy(answer + length, ":1\r\n", 4);
    fake_clock_start();
    store = fake_store("redis+cluster://127.0.0.1:1");
    CHECK_STATUS(plock_admin_session_to_node(&admin_session, store, "127.0.0.1", "7000"), PLOCK_OK);
    fake_peers[0].answers[0] = answer;
    fake_peers[0].answers[1] = "+PONG\r\n";
    CHECK_STATUS(ask(1, PING), PLOCK_OK);
    CHECK_INT(plock_admin_session_parts(admin_session), 1 + NUMBERS);
    CHECK_INT(plock_admin_session_part(admin_session, 0).length, NUMBERS);
    CHECK_INT(plock_admin_session_part(admin_session, NUMBERS).number, 1);
    CHECK_STATUS(ask(1, PING), PLOCK_OK);
    CHECK_INT(plock_admin_session_parts(admin_session), 1);
    check_text(0, "PONG");
    end();
}

static void what_the_server_calls_an_error_is_one_and_the_connection_stays(void) {
    begin("redis://h");
    fake_peers[0].answers[0] =
        "-NOPERM this user has no permissions to run the 'config|get' command\r\n";
    fake_peers[0].answers[1] = ":1\r\n";
    CHECK_STATUS(ask(1, PING), PLOCK_NOPERM);
    CHECK_HAS(plock_admin_session_error(admin_session)->message, "config|get");
    CHECK_INT(plock_admin_session_parts(admin_session), 0);
    CHECK_STATUS(ask(1, PING), PLOCK_OK);
    CHECK_INT(fake_connections(), 1);
    end();
}

/* --- failures --- */

static void one_that_is_silent_or_gone_is_not_asked_again_on_the_same_connection(void) {
    static const char *const ANSWERS[] = {FAKE_SILENCE, FAKE_CLOSES, "?\r\n", "*300\r\n"};
    static const plock_status STATUSES[] = {PLOCK_SILENT, PLOCK_DISCONNECTED, PLOCK_PROTOCOL,
                                            PLOCK_PROTOCOL};
    for (unsigned i = 0; i < sizeof STATUSES / sizeof *STATUSES; i++) {
        begin("redis://h?command_timeout=0.3");
        fake_peers[0].answers[0] = ANSWERS[i];
        fake_peers[1].answers[0] = "+PONG\r\n";
        const plock_ns asked_at = plock_now();
        CHECK_STATUS(ask(1, PING), STATUSES[i]);
        CHECK(plock_now() - asked_at <= 300 * PLOCK_MILLISECOND);
        CHECK(*plock_admin_session_error(admin_session)->message);
        CHECK_STATUS(ask(1, PING), PLOCK_OK);
        CHECK_INT(fake_connections(), 2);
        end();
    }
}

static void one_that_cannot_be_reached_says_why(void) {
    begin("redis://h");
    fake_peers[0].connect_failure = PLOCK_CONNECT;
    CHECK_STATUS(ask(1, PING), PLOCK_CONNECT);
    CHECK_HAS(plock_admin_session_error(admin_session)->message, "the fake says connect");
    end();
}

static void a_question_that_was_given_up_leaves_no_answer_behind(void) {
    plock_interest interest;
    begin("redis://h");
    fake_peers[0].answers[0] = FAKE_SILENCE;
    fake_peers[1].answers[0] = "+PONG\r\n";
    CHECK_STATUS(plock_admin_session_ask(admin_session, 2, INFO), PLOCK_OK);
    CHECK_STATUS(plock_admin_session_operation(admin_session).step(admin_session, &interest),
                 PLOCK_AGAIN);
    CHECK_STATUS(ask(1, PING), PLOCK_OK);
    CHECK_INT(fake_connections(), 2);
    end();
}

static void one_may_be_hurried_and_given_up(void) {
    begin("redis://h");
    fake_peers[0].answers[0] = FAKE_SILENCE;
    const plock_operation operation = plock_admin_session_operation(admin_session);
    const plock_ns asked_at = plock_now();
    plock_interest interest;
    CHECK_STATUS(plock_admin_session_ask(admin_session, 1, PING), PLOCK_OK);
    CHECK_STATUS(operation.step(operation.of, &interest), PLOCK_AGAIN);
    operation.hurry(operation.of, asked_at + PLOCK_MILLISECOND);
    CHECK_STATUS(finish(), PLOCK_SILENT);
    CHECK_INT(plock_now(), asked_at + PLOCK_MILLISECOND);
    CHECK_STATUS(plock_admin_session_ask(admin_session, 1, PING), PLOCK_OK);
    CHECK_STATUS(operation.step(operation.of, &interest), PLOCK_AGAIN);
    operation.cancel(operation.of);
    CHECK_STATUS(finish(), PLOCK_MISUSE);
    end();
}

static void questions_that_cannot_be_are_refused(void) {
    plock_interest interest;
    plock_word words[PLOCK_QUESTION_WORDS + 1];
    for (unsigned i = 0; i <= PLOCK_QUESTION_WORDS; i++) words[i] = PING[0];
    begin("redis://h");
    CHECK_STATUS(plock_admin_session_ask(admin_session, 0, words), PLOCK_MISUSE);
    CHECK_STATUS(plock_admin_session_ask(admin_session, PLOCK_QUESTION_WORDS + 1, words),
                 PLOCK_MISUSE);
    /* no request has been made */
    CHECK_STATUS(plock_admin_session_operation(admin_session).step(admin_session, &interest),
                 PLOCK_MISUSE);
    CHECK_INT(fake_connections(), 0);
    end();
}

static void a_child_has_a_connection_of_its_own(void *unused) {
    (void)unused;
    fake_peers[1].answers[0] = "+CHILD\r\n";
    CHECK_STATUS(ask(1, PING), PLOCK_OK);
    check_text(0, "CHILD");
}

static void it_works_on_both_sides_of_a_fork(void) {
    begin("redis://h");
    fake_peers[0].answers[0] = fake_peers[0].answers[1] = "+PONG\r\n";
    CHECK_STATUS(ask(1, PING), PLOCK_OK);
    test_in_child(a_child_has_a_connection_of_its_own, NULL);
    CHECK_STATUS(ask(1, PING), PLOCK_OK);
    CHECK_INT(fake_connections(), 1);
    end();
}

static void each_allocation_may_fail(void) {
    for (unsigned long n = 1, made = 1; n <= made; n++) {
        fake_clock_start();
        store = fake_store("redis://h");
        fake_peers[0].answers[0] = fake_peers[1].answers[0] = "+PONG\r\n";
        (void)plock__fail_allocation(n);
        plock_status status = plock_admin_session_new(&admin_session, store);
        if (!status) status = ask(1, PING);
        made = plock__fail_allocation(0);
        CHECK(status == PLOCK_OK || status == PLOCK_NO_MEMORY);
        CHECK(status || n > made);
        if (admin_session) CHECK_STATUS(ask(1, PING), PLOCK_OK);
        end();
    }
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(it_asks_on_a_connection_of_its_own_with_our_name);
    RUN(an_answer_has_its_parts_in_the_order_in_which_they_are_read);
    RUN(a_node_of_a_cluster_may_give_a_long_answer);
    RUN(what_the_server_calls_an_error_is_one_and_the_connection_stays);
    RUN(one_that_is_silent_or_gone_is_not_asked_again_on_the_same_connection);
    RUN(one_that_cannot_be_reached_says_why);
    RUN(a_question_that_was_given_up_leaves_no_answer_behind);
    RUN(one_may_be_hurried_and_given_up);
    RUN(questions_that_cannot_be_are_refused);
    RUN(it_works_on_both_sides_of_a_fork);
    RUN(each_allocation_may_fail);
    return test_end("admin session");
}
