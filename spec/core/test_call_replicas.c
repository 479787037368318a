/* Calls in which replicas must confirm the grant. */
#include "fake.h"
#include "test.h"

#include "redis/call.h"
#include "redis/store.h"

#include <string.h>

static plock_store *store;
static plock_call call;
static plock_error error;
static plock_interest interest;
static const plock_value *value;

static const plock_request ACQUIRE = {.script = PLOCK__ACQUIRE,
                                      .keys = 1,
                                      .arguments = 2,
                                      .replicas = 2,
                                      .texts = {{"k", 1}, {"me", 2}, {"3000", 4}}};
static const plock_request RELEASE = {
    .script = PLOCK__RELEASE, .keys = 1, .arguments = 1, .texts = {{"k", 1}, {"me", 2}}};

static void begin(plock_ns budget) {
    fake_clock_start();
    store = fake_store("redis://h");
    plock__call_begin(&call, &store->node, &ACQUIRE, plock_now() + budget);
    error = (plock_error){PLOCK_OK, ""};
}

static void end(void) { fake_end(NULL, store); }

static plock_status step(void) { return plock__call_step(&call, &value, &interest, &error); }

/* Sets the server's answers to the script and to WAIT. */
static void answers(const char *script, const char *wait) {
    fake_peers[0].answers[0] = script;
    fake_peers[0].answers[1] = wait;
}

static plock_status ends_with(const char *script, const char *wait) {
    begin(PLOCK_SECOND / 5);
    answers(script, wait);
    return step();
}

static void a_grant_counts_when_enough_have_confirmed_it(void) {
    CHECK_STATUS(ends_with(FAKE_HELD, ":2\r\n"), PLOCK_OK);
    CHECK_TEXT(fake_peers[0].commands[2], "WAIT 2 100");
    CHECK(value->type == PLOCK__STRING && value->length == 16);
    CHECK(!memcmp(value->text, "1700000000000001", 16));
    plock__call_finish(&call);
    CHECK(!fake_peers[0].destroyed);
    CHECK_INT(fake_connections(), 1);
    end();
    CHECK_STATUS(ends_with("*2\r\n$16\r\n1700000000000001\r\n:5\r\n", ":3\r\n"), PLOCK_OK);
    CHECK(plock__element(value, 0, PLOCK__STRING) && plock__element(value, 1, PLOCK__INTEGER));
    CHECK_INT(value[2].integer, 5);
    plock__call_finish(&call);
    end();
}

static void the_lease_counts_from_the_request_and_not_from_wait(void) {
    begin(PLOCK_SECOND);
    answers(FAKE_HELD, FAKE_SILENCE);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    const plock_ns left_at = call.left_at;
    fake_clock_pass(PLOCK_SECOND / 10);
    fake_say(&fake_peers[0], ":2\r\n", 4);
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK_INT(call.left_at, left_at);
    plock__call_finish(&call);
    end();
}

static void too_few_end_the_call_and_keep_the_connection(void) {
    CHECK_STATUS(ends_with(FAKE_HELD, ":1\r\n"), PLOCK_UNREPLICATED);
    CHECK_TEXT(error.message, "redis://h:6379: 1 of 2 replicas confirmed the lease");
    CHECK(plock__call_left(&call) && plock_status_leaves_doubt(PLOCK_UNREPLICATED));
    CHECK(!fake_peers[0].destroyed);
    CHECK_INT(call.state, PLOCK__CALL_NONE);
    end();
}

static void a_refusal_asks_no_replica(void) {
    CHECK_STATUS(ends_with(FAKE_REFUSED, NULL), PLOCK_OK);
    CHECK(value->type == PLOCK__ARRAY);
    CHECK_INT(fake_peers[0].command_count, 2);
    plock__call_finish(&call);
    end();
}

/* A server may notice 100 ms late that WAIT has timed out. So WAIT times out 110 ms before the
 * call's deadline, or after half of the call's time if that is later. */
static void wait_ends_before_the_call(void) {
    static const struct {
        plock_ns budget;
        const char *wait;
    } TIMES[] = {{400 * PLOCK_MILLISECOND, "WAIT 2 290"},
                 {PLOCK_SECOND, "WAIT 2 390"}, /* command_timeout is the limit */
                 {30 * PLOCK_MILLISECOND, "WAIT 2 15"},
                 {PLOCK_MILLISECOND, "WAIT 2 1"}};
    for (size_t i = 0; i < sizeof TIMES / sizeof *TIMES; i++) {
        begin(TIMES[i].budget);
        answers(FAKE_HELD, ":2\r\n");
        CHECK_STATUS(step(), PLOCK_OK);
        CHECK_TEXT(fake_peers[0].commands[2], TIMES[i].wait);
        plock__call_finish(&call);
        end();
    }
}

static void silence_means_too_few_and_closes_the_connection(void) {
    begin(PLOCK_SECOND / 5);
    answers(FAKE_HELD, FAKE_SILENCE);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    CHECK(plock__call_unanswered(&call));
    CHECK_INT(interest.deadline, call.deadline);
    fake_clock_pass(PLOCK_SECOND / 5);
    CHECK_STATUS(step(), PLOCK_UNREPLICATED);
    CHECK_HAS(error.message, "fewer than 2 replicas confirmed the lease in time");
    CHECK(fake_peers[0].destroyed); /* an answer may still arrive on the connection */
    end();
}

static void any_other_answer_ends_the_call(void) {
    static const struct {
        const char *answer;
        plock_status status;
    } ANSWERS[] = {
        {"-NOPERM this user has no permissions to run the 'wait' command\r\n", PLOCK_NOPERM},
        {"-UNBLOCKED force unblock from blocking operation\r\n", PLOCK_UNREPLICATED},
        {"-BUSY Redis is busy running a script\r\n", PLOCK_UNREPLICATED},
        {"-MASTERDOWN Link with MASTER is down\r\n", PLOCK_UNREPLICATED},
        {"-ERR WAIT cannot be used with replica instances\r\n", PLOCK_UNREPLICATED},
        {"$1\r\n2\r\n", PLOCK_PROTOCOL},
        {":-1\r\n", PLOCK_PROTOCOL},
        {"*1\r\n:2\r\n", PLOCK_PROTOCOL},
        {FAKE_CLOSES, PLOCK_DISCONNECTED}};
    for (size_t i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        CHECK_STATUS(ends_with(FAKE_HELD, ANSWERS[i].answer), ANSWERS[i].status);
        /* the script was executed, whatever the answer to WAIT is */
        CHECK(plock_status_leaves_doubt(ANSWERS[i].status));
        CHECK(fake_peers[0].destroyed == (ANSWERS[i].status != PLOCK_NOPERM));
        CHECK_INT(call.state, PLOCK__CALL_NONE);
        end();
    }
}

/* While WAIT blocks the connection, the server would not execute an undo behind it. */
static void a_cancel_sends_no_undo_behind_wait(void) {
    begin(PLOCK_SECOND / 5);
    answers(FAKE_HELD, FAKE_SILENCE);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    const unsigned commands = fake_peers[0].command_count;
    plock__call_cancel(&call, &RELEASE);
    CHECK_INT(fake_peers[0].command_count, commands);
    CHECK(fake_peers[0].destroyed);
    end();
}

int main(void) {
    RUN(a_grant_counts_when_enough_have_confirmed_it);
    RUN(the_lease_counts_from_the_request_and_not_from_wait);
    RUN(too_few_end_the_call_and_keep_the_connection);
    RUN(a_refusal_asks_no_replica);
    RUN(wait_ends_before_the_call);
    RUN(silence_means_too_few_and_closes_the_connection);
    RUN(any_other_answer_ends_the_call);
    RUN(a_cancel_sends_no_undo_behind_wait);
    return test_end("calls that replicas confirm");
}
