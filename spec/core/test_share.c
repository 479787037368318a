/* Locks with several holders: the requests to the server, and the answers. */
#include "fake_native.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static plock_store *store;
static plock_lease *lease;
static plock_interest interest;

static void begin(const char *share) {
    fake_clock_start();
    store = fake_store("redis://h");
    lease = fake_lease(store);
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    CHECK_STATUS(plock_lease_share(lease, share), PLOCK_OK);
}

static void end(void) { fake_end(lease, store); }

/* Returns the last command that was sent on the first connection. */
static const char *last(void) { return fake_peers[0].commands[fake_peers[0].command_count - 1]; }

static const char *own(char value[FAKE_COMMAND_ROOM]) {
    size_t length;
    const char *owner = plock_lease_owner(lease, &length);
    (void)snprintf(value, FAKE_COMMAND_ROOM, "%.*s", (int)length, owner);
    return value;
}

/* --- the kinds of shares --- */

static void a_share_is_one_of_three_kinds(void) {
    static const char *const GOOD[] = {"r", "w", "s1", "s3", "s65535"};
    static const char *const BAD[] = {"",    "x",   "R",   "rr",  "w1",       "s",   "s0",
                                      "s01", "s-1", "s 3", "s3 ", "s1234567", "s3x", "3"};
    fake_clock_start();
    store = fake_store("redis://h");
    lease = fake_lease(store);
    CHECK_TEXT(plock_lease_shares(lease), "");
    for (unsigned i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        CHECK_STATUS(plock_lease_share(lease, GOOD[i]), PLOCK_OK);
        CHECK_TEXT(plock_lease_shares(lease), GOOD[i]);
    }
    for (unsigned i = 0; i < sizeof BAD / sizeof *BAD; i++)
        CHECK_STATUS(plock_lease_share(lease, BAD[i]), PLOCK_MISUSE);
    CHECK_TEXT(plock_lease_shares(lease), "s65535");
    end();
}

static void a_share_is_chosen_before_it_is_asked_for(void) {
    begin("r");
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_share(lease, "w"), PLOCK_MISUSE);
    CHECK_STATUS(fake_finish(lease), PLOCK_OK);
    CHECK_STATUS(plock_lease_share(lease, "w"), PLOCK_MISUSE);
    end();
}

static void an_owner_that_was_brought_shares_nothing(void) {
    fake_clock_start();
    store = fake_store("redis://h");
    lease = fake_lease(store);
    CHECK_STATUS(plock_lease_own(lease, "me", 2), PLOCK_OK);
    CHECK_STATUS(plock_lease_share(lease, "r"), PLOCK_MISUSE);
    end();
}

/* --- the operations of a share --- */

static void each_operation_has_its_script(void) {
    static const char *const SHARES[] = {"r", "w", "s3"};
    for (unsigned i = 0; i < 3; i++) {
        char value[FAKE_COMMAND_ROOM], expected[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
        begin(SHARES[i]);
        CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
        CHECK_INT(plock_lease_fence(lease), FAKE_HELD_FENCE);
        (void)own(value);
        (void)snprintf(expected, sizeof expected, "EVALSHA shared_acquire 1 k %.40s 3000 ", value);
        CHECK_HAS(last(), expected);
        CHECK_TEXT(fake_word(last(), 12, word), SHARES[i]);
        CHECK_TEXT(fake_word(last(), 13, word), "");
        CHECK_STATUS(plock_lease_extend(lease, PLOCK_SECOND), PLOCK_OK);
        CHECK_STATUS(fake_finish(lease), PLOCK_OK);
        (void)snprintf(expected, sizeof expected, "EVALSHA shared_extend 1 k %.40s 1000 3600000",
                       value);
        CHECK_TEXT(last(), expected);
        CHECK_STATUS(fake_release(lease), PLOCK_OK);
        (void)snprintf(expected, sizeof expected, "EVALSHA shared_release 1 k %.40s 3600000 held",
                       value);
        CHECK_TEXT(last(), expected);
        end();
    }
}

static void a_place_that_is_kept_is_released_with_its_time(void) {
    char word[FAKE_COMMAND_ROOM];
    begin("s2");
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK_STATUS(plock_lease_release(lease, 700 * PLOCK_MILLISECOND), PLOCK_OK);
    CHECK_STATUS(fake_finish(lease), PLOCK_OK);
    CHECK_HAS(last(), "EVALSHA shared_release 1 ");
    CHECK_TEXT(fake_word(last(), 6, word), "701");
    end();
}

static void a_release_does_not_say_that_a_lease_is_valid_that_is_over(void) {
    char word[FAKE_COMMAND_ROOM];
    begin("s2");
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    fake_clock_pass(3 * PLOCK_SECOND);
    CHECK_STATUS(plock_lease_release(lease, 0), PLOCK_OK);
    (void)fake_finish(lease);
    CHECK_HAS(last(), "EVALSHA shared_release 1 ");
    CHECK_TEXT(fake_word(last(), 6, word), "");
    end();
}

static void what_was_given_up_is_taken_back(void) {
    begin("r");
    fake_peers[0].answers[0] = FAKE_SILENCE;
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    plock_lease_cancel(lease);
    end();
    CHECK_INT(fake_commands_like("EVAL shared_release 1 k "), 1);
    CHECK_INT(fake_commands_like("EVALSHA shared_release 1 k "), 1);
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
}

/* --- a writer becomes a reader --- */

static void a_writer_becomes_a_reader(void) {
    char value[FAKE_COMMAND_ROOM], expected[FAKE_COMMAND_ROOM];
    begin("w");
    CHECK_STATUS(plock_lease_downgrade(lease), PLOCK_MISUSE); /* nothing is held yet */
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    const plock_ns until = plock_lease_valid_until(lease);
    CHECK_STATUS(plock_lease_downgrade(lease), PLOCK_OK);
    /* one operation at a time */
    CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_IN_USE);
    CHECK_STATUS(fake_finish(lease), PLOCK_OK);
    (void)snprintf(expected, sizeof expected, "EVALSHA shared_downgrade 1 k %.40s 3600000",
                   own(value));
    CHECK_TEXT(last(), expected);
    CHECK_TEXT(plock_lease_shares(lease), "r");
    CHECK(plock_lease_valid(lease));
    CHECK_INT(plock_lease_valid_until(lease), until);
    CHECK_STATUS(plock_lease_downgrade(lease), PLOCK_OK); /* a reader stays a reader */
    CHECK_STATUS(fake_finish(lease), PLOCK_OK);
    CHECK_TEXT(plock_lease_shares(lease), "r");
    end();
}

static void a_downgrade_without_an_answer_may_have_made_it_one(void) {
    begin("w");
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    fake_peers[0].answers[0] = FAKE_SILENCE;
    CHECK_STATUS(plock_lease_downgrade(lease), PLOCK_OK);
    CHECK_STATUS(fake_finish(lease), PLOCK_SILENT);
    CHECK_TEXT(plock_lease_shares(lease), "r");
    CHECK_STATUS(plock_lease_downgrade(lease), PLOCK_OK);
    CHECK_STATUS(fake_finish(lease), PLOCK_OK);
    CHECK_TEXT(plock_lease_shares(lease), "r");
    end();
}

static void so_may_one_that_is_given_up(void) {
    begin("w");
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK_STATUS(plock_lease_downgrade(lease), PLOCK_OK);
    plock_lease_cancel(lease);
    CHECK_TEXT(plock_lease_shares(lease), "w"); /* the request was not sent */
    fake_peers[0].answers[0] = FAKE_SILENCE;
    CHECK_STATUS(plock_lease_downgrade(lease), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    plock_lease_cancel(lease);
    CHECK_TEXT(plock_lease_shares(lease), "r");
    end();
}

static void one_that_lost_it_does_not(void) {
    begin("w");
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    fake_peers[0].answers[0] = FAKE_NOT_OURS;
    CHECK_STATUS(plock_lease_downgrade(lease), PLOCK_OK);
    CHECK_STATUS(fake_finish(lease), PLOCK_NOT_OWNER);
    CHECK(plock_lease_lost(lease));
    CHECK_TEXT(plock_lease_shares(lease), "w");
    CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_MISUSE);
    end();
}

static void nor_one_that_is_refused(void) {
    begin("w");
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    fake_peers[0].answers[0] = "-OOM x\r\n";
    for (unsigned i = 1; i < FAKE_ANSWERS; i++) fake_peers[0].answers[i] = "-OOM x\r\n";
    CHECK_STATUS(plock_lease_downgrade(lease), PLOCK_OK);
    CHECK_STATUS(fake_finish(lease), PLOCK_OOM);
    CHECK(plock_lease_valid(lease));
    CHECK_TEXT(plock_lease_shares(lease), "w");
    fake_leave(lease);
    end();
}

/* --- waiting --- */

static const char PLACE[] = FAKE_PLACE(5000, 0, FAKE_TICKET, 1);
static const char SOON[] = FAKE_PLACE(400, 0, FAKE_TICKET, 1);
static const char HELD_BEFORE_OTHERS[] = "*2\r\n" FAKE_HELD ":400\r\n";

static const char *refuses_first(const char *command, unsigned nth) {
    char ticket[FAKE_COMMAND_ROOM];
    if (strncmp(command, "EVALSHA shared_acquire", 22)) return NULL;
    if (*fake_word(command, 13, ticket) == 0) return FAKE_REFUSED;
    return nth < 2 ? PLACE : HELD_BEFORE_OTHERS;
}

static void wait_in_line(plock_lease *who) {
    CHECK_STATUS(plock_lease_acquire(who, &(plock_acquire_options){.ttl = 3 * PLOCK_SECOND,
                                                                   .wait = 100 * PLOCK_SECOND}),
                 PLOCK_OK);
    fake_carry_on(who);
}

static void begin_natively(const char *(*says)(const char *command, unsigned nth),
                           const char *share) {
    fake_clock_start();
    store = fake_native_store(says);
    lease = fake_lease(store);
    CHECK_STATUS(plock_lease_share(lease, share), PLOCK_OK);
}

static void a_waiter_queues_with_its_share_and_claims_when_called(void) {
    char command[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM], message[FAKE_COMMAND_ROOM];
    begin_natively(refuses_first, "r");
    wait_in_line(lease);
    fake_await("EVALSHA shared_acquire", 2);
    (void)fake_command("EVALSHA shared_acquire", 1, command);
    CHECK_TEXT(fake_word(command, 12, word), "r");
    CHECK_TEXT(fake_word(command, 13, word), "0");
    (void)snprintf(message, sizeof message, "+ %.40s k", fake_word(command, 4, word));
    CHECK(fake_publish(message));
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    (void)fake_command("EVALSHA shared_acquire", 2, command);
    CHECK_TEXT(fake_word(command, 13, word), FAKE_TICKET);
    CHECK_INT(plock_lease_fence(lease), FAKE_HELD_FENCE);
    end();
    CHECK_INT(fake_commands_like("EVALSHA shared_release"), 1);
    CHECK_INT(fake_commands_like("EVALSHA shared_leave"), 0);
}

static void a_waiter_that_gives_up_leaves_with_its_share(void) {
    char command[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    begin_natively(refuses_first, "s3");
    wait_in_line(lease);
    fake_await("EVALSHA shared_acquire", 2);
    plock_lease_cancel(lease);
    fake_await("EVALSHA shared_leave", 1);
    (void)fake_command("EVALSHA shared_leave", 0, command);
    CHECK_HAS(command, "EVALSHA shared_leave 1 k ");
    CHECK_TEXT(fake_word(command, 5, word), "0");
    CHECK_TEXT(fake_word(command, 6, word), "3600000");
    CHECK_TEXT(fake_word(command, 7, word), "s3");
    CHECK(*fake_word(command, 12, word) != 0); /* the waiter's record is part of the request */
    end();
}

static void a_shared_turn_without_a_waiter_here_is_passed_on(void) {
    char command[FAKE_COMMAND_ROOM];
    begin_natively(refuses_first, "r");
    wait_in_line(lease);
    fake_await("EVALSHA shared_acquire", 2);
    CHECK(fake_publish("+ stranger some key"));
    fake_await("EVALSHA shared_leave", 1);
    CHECK_TEXT(fake_command("EVALSHA shared_leave", 0, command), "EVALSHA shared_leave 1 some key "
                                                                 "stranger 0 3600000");
    end();
}

/* One of two waiters is granted a share. The server's answer also says that a lease of another
 * process ends in 400 ms. So the other waiter asks again in 400 ms. */
static void a_later_waiter_looks_when_any_lease_ends(void) {
    plock_lease *other;
    char command[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM], message[FAKE_COMMAND_ROOM];
    begin_natively(refuses_first, "s2");
    other = fake_lease(store);
    CHECK_STATUS(plock_lease_share(other, "s2"), PLOCK_OK);
    wait_in_line(lease);
    fake_await("EVALSHA shared_acquire", 2);
    fake_redis.says = NULL;
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].answers[0] = NULL;
    fake_redis.says = refuses_first;
    fake_redis.acquires = 1; /* the other waiter is also refused */
    wait_in_line(other);
    fake_await("EVALSHA shared_acquire", 3);
    (void)fake_command("EVALSHA shared_acquire", 1, command);
    (void)snprintf(message, sizeof message, "+ %.40s k", fake_word(command, 4, word));
    CHECK(fake_publish(message));
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    fake_native_pass(390 * PLOCK_MILLISECOND);
    fake_await("EVALSHA shared_acquire", 4);
    fake_native_pass(20 * PLOCK_MILLISECOND);
    fake_await("EVALSHA shared_acquire", 5);
    CHECK_STATUS(fake_await_end(other), PLOCK_OK);
    plock_lease_free(other);
    end();
}

static const char *answer;

static const char *answers_in_line(const char *command, unsigned nth) {
    char ticket[FAKE_COMMAND_ROOM];
    (void)nth;
    if (strncmp(command, "EVALSHA shared_acquire", 22)) return NULL;
    return *fake_word(command, 13, ticket) == 0 ? FAKE_REFUSED : answer;
}

/* One of two waiters has been refused, and will ask again in 400 ms. Then the other waiter is
 * granted a share. The answer to that waiter names no moment, so the refused waiter must still ask
 * after its 400 ms. */
static void a_refused_waiter_looks_as_planned_though_another_is_granted(void) {
    plock_lease *other;
    char command[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM], message[FAKE_COMMAND_ROOM];
    begin_natively(answers_in_line, "s2");
    other = fake_lease(store);
    CHECK_STATUS(plock_lease_share(other, "s2"), PLOCK_OK);
    answer = PLACE;
    wait_in_line(lease);
    fake_await("EVALSHA shared_acquire", 2);
    answer = SOON;
    wait_in_line(other);
    fake_await("EVALSHA shared_acquire", 3);
    answer = FAKE_HELD;
    (void)fake_command("EVALSHA shared_acquire", 1, command);
    (void)snprintf(message, sizeof message, "+ %.40s k", fake_word(command, 4, word));
    CHECK(fake_publish(message));
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    fake_native_pass(390 * PLOCK_MILLISECOND);
    fake_await("EVALSHA shared_acquire", 4);
    fake_native_pass(20 * PLOCK_MILLISECOND);
    fake_await("EVALSHA shared_acquire", 5);
    CHECK_STATUS(fake_await_end(other), PLOCK_OK);
    plock_lease_free(other);
    end();
}

/* The server's answer makes the first waiter ask again in 400 ms. The answer to the second waiter
 * names a later time, which must not delay the first waiter's request. */
static void a_longer_refusal_does_not_delay_the_others(void) {
    plock_lease *other;
    begin_natively(answers_in_line, "r");
    other = fake_lease(store);
    CHECK_STATUS(plock_lease_share(other, "w"), PLOCK_OK);
    answer = SOON;
    wait_in_line(lease);
    fake_await("EVALSHA shared_acquire", 2);
    answer = PLACE;
    wait_in_line(other);
    fake_await("EVALSHA shared_acquire", 3);
    answer = FAKE_HELD;
    fake_native_pass(390 * PLOCK_MILLISECOND);
    fake_await("EVALSHA shared_acquire", 3);
    fake_native_pass(20 * PLOCK_MILLISECOND);
    /* The first waiter got the lock without a message about its turn. So the queue may be lost, and
     * the second waiter asks for its place again. */
    fake_await("EVALSHA shared_acquire", 5);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    plock_lease_free(other);
    end();
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(a_share_is_one_of_three_kinds);
    RUN(a_share_is_chosen_before_it_is_asked_for);
    RUN(an_owner_that_was_brought_shares_nothing);
    RUN(each_operation_has_its_script);
    RUN(a_place_that_is_kept_is_released_with_its_time);
    RUN(a_release_does_not_say_that_a_lease_is_valid_that_is_over);
    RUN(what_was_given_up_is_taken_back);
    RUN(a_writer_becomes_a_reader);
    RUN(one_that_lost_it_does_not);
    RUN(nor_one_that_is_refused);
    RUN(a_downgrade_without_an_answer_may_have_made_it_one);
    RUN(so_may_one_that_is_given_up);
    RUN(a_waiter_queues_with_its_share_and_claims_when_called);
    RUN(a_waiter_that_gives_up_leaves_with_its_share);
    RUN(a_shared_turn_without_a_waiter_here_is_passed_on);
    RUN(a_later_waiter_looks_when_any_lease_ends);
    RUN(a_refused_waiter_looks_as_planned_though_another_is_granted);
    RUN(a_longer_refusal_does_not_delay_the_others);
    return test_end("share");
}
