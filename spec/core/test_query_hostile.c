/* Queries under bad conditions: a hostile server's answers, invalid calls, and a fork. */
#include "fake.h"
#include "test.h"

#include "base/memory.h"
#include "base/process.h"
#include "net/reply.h"
#include "plock/query.h"
#include "redis/store.h"

#include <stdio.h>
#include <string.h>

static plock_store *store;
static plock_query *query, *other;
static plock_interest interest;

static void begin_at(const char *url) {
    fake_clock_start();
    store = fake_store(url);
    for (unsigned p = 1; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    CHECK_STATUS(plock_query_new(&query, store, "k", 1, false), PLOCK_OK);
    CHECK_STATUS(plock_query_new(&other, store, "other", 5, false), PLOCK_OK);
}

static void begin(void) { begin_at("redis://h"); }

static void end(void) {
    plock_query_free(query);
    plock_query_free(other);
    CHECK_INT(store->node.pool.waiting, 0);
    fake_end(NULL, store);
}

static plock_status finish(void) {
    plock_status status;
    while ((status = plock_query_step(query, &interest)) == PLOCK_AGAIN)
        (void)fake_wait(NULL, &interest);
    return status;
}

/* The query `other` takes the only connection, so the next query waits for it. */
static void take_the_connection(void) {
    plock_query_status(other, 0);
    CHECK_STATUS(plock_query_step(other, &interest), PLOCK_AGAIN);
}

static void give_it_back(void) {
    plock_query_free(other);
    other = NULL;
}

/* --- answers --- */

static void what_no_script_of_ours_says_is_refused_and_the_connection_closed(void) {
    static const char *const ANSWERS[] = {/* nested arrays */
                                          "*2\r\n*1\r\n:1\r\n:2\r\n",
                                          "*1\r\n*0\r\n",
                                          "*3\r\n:1\r\n*2\r\n:1\r\n:2\r\n$1\r\nx\r\n",
                                          "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
                                          "*257\r\n",
                                          "*2147483647\r\n",
                                          "*-2\r\n",
                                          "$20000\r\n",
                                          "$2147483647\r\n",
                                          "?\r\n",
                                          "hello\r\n"};
    for (unsigned i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        size_t length;
        begin();
        fake_peers[0].answers[0] = ANSWERS[i];
        plock_query_status(query, 0);
        test_status(finish(), PLOCK_PROTOCOL, ANSWERS[i], __FILE__, __LINE__);
        CHECK_STATUS(plock_query_error(query)->status, PLOCK_PROTOCOL);
        CHECK_INT(plock_query_parts(query), 0);
        CHECK(!plock_query_text(query, 0, &length));
        CHECK(fake_peers[0].destroyed);
        CHECK_INT(fake_commands_like("EVALSHA"), 1); /* another attempt would get the same answer */
        end();
    }
}

/* A nil, a status and an error are neither texts nor numbers. */
static void parts_of_other_kinds_are_neither_texts_nor_numbers(void) {
    static const struct {
        const char *said;
        size_t parts;
    } ANSWERS[] = {{"$-1\r\n", 1},
                   {"*-1\r\n", 1},
                   {"+OK\r\n", 1},
                   {"*0\r\n", 0},
                   {"*3\r\n$-1\r\n+OK\r\n-ERR inside\r\n", 3}};
    for (unsigned i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        size_t length;
        begin();
        fake_peers[0].answers[0] = ANSWERS[i].said;
        plock_query_status(query, 0);
        test_status(finish(), PLOCK_OK, ANSWERS[i].said, __FILE__, __LINE__);
        CHECK_INT(plock_query_parts(query), ANSWERS[i].parts);
        for (size_t part = 0; part < 5; part++) {
            CHECK(!plock_query_text(query, part, &length));
            CHECK_INT(plock_query_number(query, part), 0);
        }
        end();
    }
}

static void numbers_are_as_they_are(void) {
    begin();
    fake_peers[0].answers[0] = "*3\r\n:9223372036854775807\r\n:-9223372036854775808\r\n:-2\r\n";
    plock_query_status(query, 0);
    CHECK_STATUS(finish(), PLOCK_OK);
    CHECK(plock_query_number(query, 0) == INT64_MAX);
    CHECK(plock_query_number(query, 1) == INT64_MIN);
    CHECK_INT(plock_query_number(query, 2), -2);
    CHECK_INT(plock_query_number(query, 3), 0);
    CHECK_INT(plock_query_number(query, SIZE_MAX), 0);
    end();
}

/* The answer has as many parts as one reply may have. In the second round, it has one more. */
static void the_longest_answer_is_kept_whole(void) {
    enum { PARTS = PLOCK__REPLY_VALUES_MAX - 1, PART = 50, ROOM = PLOCK__REPLY_BYTES_MAX + 1 };
    static char answer[ROOM];
    for (int more = 0; more < 2; more++) {
        size_t length = (size_t)snprintf(answer, sizeof answer, "*%d\r\n", PARTS + more);
        for (int i = 0; i < PARTS + more; i++)
            length += (size_t)snprintf(answer + length, sizeof answer - length, "$%d\r\n%0*d\r\n",
                                       PART, PART, i);
        CHECK(length < sizeof answer);
        begin();
        fake_peers[0].answers[0] = answer;
        plock_query_status(query, 0);
        CHECK_STATUS(finish(), more ? PLOCK_PROTOCOL : PLOCK_OK);
        CHECK_INT(plock_query_parts(query), more ? 0 : PARTS);
        for (int i = 0; i < PARTS && !more; i++) {
            char expected[PART + 1];
            (void)snprintf(expected, sizeof expected, "%0*d", PART, i);
            const char *text = plock_query_text(query, (size_t)i, &length);
            if (!CHECK(text && length == PART && !memcmp(text, expected, PART))) break;
        }
        end();
    }
}

static void one_long_text_is_kept_whole(void) {
    enum { LONGEST = PLOCK__REPLY_BYTES_MAX - 16 };
    static char answer[PLOCK__REPLY_BYTES_MAX + 64];
    for (int more = 0; more < 2; more++) {
        const int head = snprintf(answer, sizeof answer, "$%d\r\n", LONGEST + 100 * more);
        memset(answer + head, 'x', LONGEST);
        (void)snprintf(answer + head + LONGEST, sizeof answer - (size_t)head - LONGEST, "\r\n");
        size_t length = 0;
        begin();
        fake_peers[0].answers[0] = answer;
        plock_query_status(query, 0);
        CHECK_STATUS(finish(), more ? PLOCK_PROTOCOL : PLOCK_OK);
        const char *text = plock_query_text(query, 0, &length);
        CHECK_INT(text != NULL, !more);
        if (text) CHECK(length == LONGEST && text[0] == 'x' && text[LONGEST - 1] == 'x');
        end();
    }
}

static void an_answer_may_come_byte_by_byte(void) {
    begin();
    fake_peers[0].read_chunk = 1;
    fake_peers[0].read_dribbles = true;
    fake_peers[0].answers[0] = "*2\r\n$3\r\nabc\r\n:7\r\n";
    plock_query_status(query, 0);
    plock_status status;
    for (unsigned steps = 0;
         (status = plock_query_step(query, &interest)) == PLOCK_AGAIN && CHECK(steps < 1000);
         steps++)
        continue;
    CHECK_STATUS(status, PLOCK_OK);
    CHECK_INT(plock_query_number(query, 1), 7);
    end();
}

/* --- misuse --- */

static void an_query_is_about_something(void) {
    begin();
    plock_query *made = query;
    CHECK_STATUS(plock_query_new(&made, store, "", 0, false), PLOCK_MISUSE);
    CHECK(!made);
    made = query;
    (void)plock__fail_allocation(1);
    CHECK_STATUS(plock_query_new(&made, store, "k", 1, false), PLOCK_NO_MEMORY);
    (void)plock__fail_allocation(0);
    CHECK(!made);
    plock_query_free(NULL);
    end();
}

static void there_is_nothing_to_carry_out_without_a_question(void) {
    begin();
    CHECK_STATUS(plock_query_step(query, &interest), PLOCK_MISUSE);
    plock_query_hurry(query, plock_now());
    CHECK_INT(plock_query_parts(query), 0);
    fake_peers[0].answers[0] = ":1\r\n";
    fake_peers[0].answers[1] = "-ERR x\r\n";
    for (unsigned i = 0; i < 2; i++) {
        plock_query_break_only(query, "", 0);
        CHECK_STATUS(finish(), i == 0 ? PLOCK_OK : PLOCK_SERVER);
        /* the query has already been answered */
        CHECK_STATUS(plock_query_step(query, &interest), PLOCK_MISUSE);
        CHECK_INT(plock_query_number(query, 0), i == 0);
    }
    CHECK_INT(fake_commands_like("EVALSHA"), 2);
    end();
}

/* If a query begins again before the answer has arrived, the earlier request is given up. */
static void it_asks_one_thing_at_a_time(void) {
    enum { WAITING, ASKING, PAUSING, STATES };
    for (int state = 0; state < STATES; state++) {
        begin_at("redis://h?pool_size=1");
        if (state == WAITING) take_the_connection();
        if (state == PAUSING) fake_peers[0].answers[0] = "-LOADING x\r\n";
        plock_query_status(query, 0);
        CHECK_STATUS(plock_query_step(query, &interest), PLOCK_AGAIN);
        CHECK_INT(store->node.pool.waiting, state == WAITING);
        fake_peers[0].answers[1] = fake_peers[1].answers[0] = ":1\r\n";
        plock_query_break_only(query, "", 0);
        CHECK_INT(store->node.pool.waiting, 0);
        if (state == WAITING) give_it_back();
        CHECK_STATUS(finish(), PLOCK_OK);
        CHECK_INT(plock_query_number(query, 0), 1);
        CHECK_INT(store->node.pool.open, 1);
        end();
    }
}

static void it_can_be_given_up_and_freed_at_any_moment(void) {
    enum { NOT_STEPPED, OPENING, ASKING, PAUSING, STATES };
    for (int state = 0; state < 2 * STATES; state++) {
        const bool cancels = state >= STATES;
        begin();
        if (state % STATES == OPENING) fake_peers[0].connect_again = 5;
        if (state % STATES == PAUSING) fake_peers[0].answers[0] = "-LOADING x\r\n";
        plock_query_status(query, 0);
        if (state % STATES != NOT_STEPPED)
            CHECK_STATUS(plock_query_step(query, &interest), PLOCK_AGAIN);
        if (cancels) {
            plock_query_cancel(query);
            CHECK_STATUS(plock_query_step(query, &interest), PLOCK_MISUSE);
            CHECK_INT(plock_query_parts(query), 0);
            fake_peers[0].obliging = true;        /* used only if the connection could be kept */
            plock_query_break_only(query, "", 0); /* the query can be used again */
            CHECK_STATUS(finish(), PLOCK_OK);
            plock_query_cancel(query); /* cancelling keeps an answer that has arrived */
            CHECK_INT(plock_query_number(query, 0), 1);
        }
        end();
        if (!cancels) CHECK_INT(fake_connections(), state != NOT_STEPPED);
    }
}

/* --- the store --- */

static void it_keeps_its_store_alive_and_opens_it_again(void) {
    begin();
    for (unsigned p = 0; p < 2; p++) fake_peers[p].answers[0] = ":1\r\n";
    plock_query_break_only(query, "", 0);
    CHECK_STATUS(finish(), PLOCK_OK);
    plock_store_disconnect(store);
    CHECK(fake_peers[0].destroyed && plock_store_disconnected(store));
    plock_store_close(store);
    plock_query_break_only(query, "", 0);
    CHECK(!plock_store_disconnected(store));
    CHECK_STATUS(finish(), PLOCK_OK);
    plock_query_free(other);
    plock_query_free(query);
    fake_end(NULL, NULL);
    CHECK(fake_peers[1].destroyed);
}

/* --- fork --- */

static void go_on_in_child(void *context) {
    (void)context;
    const unsigned commands = fake_commands_like("");
    CHECK_STATUS(plock_query_step(query, &interest), PLOCK_FORKED);
    CHECK_STATUS(plock_query_error(query)->status, PLOCK_FORKED);
    CHECK_STATUS(plock_query_step(query, &interest), PLOCK_MISUSE);
    /* the child has sent nothing on the parent's connection */
    CHECK_INT(fake_commands_like(""), commands);
    fake_peers[1].answers[0] = ":1\r\n";
    plock_query_break_only(query, "", 0); /* the query can be used in the child */
    CHECK_STATUS(finish(), PLOCK_OK);
    CHECK_INT(plock_query_number(query, 0), 1);
    CHECK_INT(fake_connections(), 2);
    end();
}

static void free_in_child(void *context) {
    (void)context;
    const unsigned commands = fake_commands_like("");
    end();
    CHECK_INT(fake_commands_like(""), commands);
}

static void a_question_does_not_go_on_in_a_child(void) {
    for (int waits = 0; waits < 2; waits++) {
        begin_at("redis://h?pool_size=1");
        if (waits) take_the_connection();
        plock_query_status(query, 0);
        CHECK_STATUS(plock_query_step(query, &interest), PLOCK_AGAIN);
        test_in_child(go_on_in_child, NULL);
        test_in_child(free_in_child, NULL);
        if (waits)
            give_it_back();
        else
            fake_say(&fake_peers[0], ":1\r\n", 4);
        CHECK_STATUS(finish(), PLOCK_OK); /* the parent's query is unaffected */
        end();
    }
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(what_no_script_of_ours_says_is_refused_and_the_connection_closed);
    RUN(parts_of_other_kinds_are_neither_texts_nor_numbers);
    RUN(numbers_are_as_they_are);
    RUN(the_longest_answer_is_kept_whole);
    RUN(one_long_text_is_kept_whole);
    RUN(an_answer_may_come_byte_by_byte);
    RUN(an_query_is_about_something);
    RUN(there_is_nothing_to_carry_out_without_a_question);
    RUN(it_asks_one_thing_at_a_time);
    RUN(it_can_be_given_up_and_freed_at_any_moment);
    RUN(it_keeps_its_store_alive_and_opens_it_again);
    RUN(a_question_does_not_go_on_in_a_child);
    return test_end("query hostile");
}
