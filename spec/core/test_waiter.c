/* The requests of a waiter and their effects, until the waiter has the lock or gives up. */
#include "fake_native.h"
#include "test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static plock_store *store;
static plock_lease *lease;
static plock_interest interest;
static plock_ns began;

/* The number of the first acquire that is granted. */
static atomic_uint granted_from;

static const char *grant(const char *command, unsigned nth) {
    return nth >= granted_from ? NULL : fake_refuses(command, nth);
}

/* The number of the acquire that gets no answer. */
static atomic_uint silent_at;

static const char *fall_silent(const char *command, unsigned nth) {
    if (!strncmp(command, "EVALSHA acquire", 15) && nth == silent_at) return FAKE_SILENCE;
    return grant(command, nth);
}

/* The holder's lease lasts only 50 ms longer, and the next acquire is granted. */
static const char *grant_soon(const char *command, unsigned nth) {
    if (strncmp(command, "EVALSHA acquire", 15)) return NULL;
    return nth == 0 ? "*2\r\n:0\r\n:50\r\n" : FAKE_HELD;
}

static void begin(const char *(*says)(const char *command, unsigned nth)) {
    granted_from = silent_at = 1000;
    fake_clock_start();
    store = fake_native_store(says);
    lease = fake_lease(store);
    began = plock_now();
}

static void end(void) { fake_end(lease, store); }

/* Gives the lease a place in the queue, with two acquires. */
static void join_the_queue(void) {
    fake_await_turn(lease, 10 * PLOCK_SECOND);
    fake_await("EVALSHA acquire", 2);
}

static void check_leave(const char *call, unsigned acquire, const char *doubt) {
    char command[3 * FAKE_COMMAND_ROOM], value[FAKE_COMMAND_ROOM], signature[FAKE_COMMAND_ROOM];
    (void)snprintf(command, sizeof command, "%s leave 1 k %s %s %s", call,
                   fake_value(acquire, value), doubt, fake_signature(acquire, signature));
    CHECK_INT(fake_commands_like(command), 1);
}

/* Publishes a turn for an unknown waiter, which causes a leave. When the leave arrives, all earlier
 * messages have been read. */
static void await_hearing(unsigned leaves) {
    CHECK(fake_publish("= no-one k"));
    fake_await("EVALSHA leave", leaves);
}

static void answer_last_acquire(const char *answer) {
    for (unsigned p = 0; p < fake_connections(); p++) {
        fake_peer *peer = &fake_peers[p];
        if (!peer->destroyed && peer->command_count > 0 &&
            !strncmp(peer->commands[peer->command_count - 1], "EVALSHA acquire", 15))
            fake_say(peer, answer, strlen(answer));
    }
}

/* --- in the queue --- */

static void a_refused_waiter_subscribes_and_then_queues(void) {
    char first[FAKE_COMMAND_ROOM], subscribe[FAKE_COMMAND_ROOM], second[FAKE_COMMAND_ROOM],
        word[FAKE_COMMAND_ROOM], value[FAKE_COMMAND_ROOM];
    begin(fake_refuses);
    join_the_queue();
    (void)fake_command("EVALSHA acquire", 0, first);
    (void)fake_command("SUBSCRIBE", 0, subscribe);
    (void)fake_command("EVALSHA acquire", 1, second);
    CHECK(!fake_queues(first)); /* it cannot queue yet, because no message could reach it */
    CHECK_TEXT(fake_word(first, 9, word), "-");
    CHECK_HAS(subscribe, "SUBSCRIBE plock:1:wake:");
    const char *channel = subscribe + strlen("SUBSCRIBE plock:1:wake:");
    CHECK_INT(strlen(channel), 16);
    CHECK_INT(strspn(channel, "0123456789abcdef"), 16);
    CHECK_TEXT(fake_word(second, 9, word), channel);
    CHECK_TEXT(fake_word(second, 12, word), "0"); /* the waiter has no ticket yet */
    /* the key is not shared with processes of the older implementation */
    CHECK_TEXT(fake_word(second, 13, word), "0");
    (void)fake_value(0, value);
    /* the server certainly refused this token, so it can be sent again */
    CHECK_TEXT(fake_value(1, word), value);
    end();
}

static void while_the_channel_is_open_it_queues_at_once(void) {
    char word[FAKE_COMMAND_ROOM];
    begin(fake_refuses);
    join_the_queue();
    plock_lease *other = fake_lease(store);
    fake_await_turn(other, PLOCK_SECOND);
    fake_await("EVALSHA acquire", 3);
    CHECK_TEXT(fake_ticket(2, word), "0");
    CHECK_INT(fake_commands_like("SUBSCRIBE"), 1);
    plock_lease_free(other);
    end();
}

static void one_attempt_is_made_without_queueing(void) {
    char word[FAKE_COMMAND_ROOM];
    begin(fake_refuses);
    join_the_queue();
    plock_lease *other = fake_lease(store);
    CHECK_STATUS(fake_acquire(other, 0), PLOCK_REFUSED);
    CHECK_TEXT(fake_ticket(2, word), "");
    plock_lease_free(other);
    end();
    /* only the waiter leaves, because the single attempt never queued */
    CHECK_INT(fake_commands_like("EVALSHA leave"), 1);
}

static void the_record_has_its_label(void) {
    char command[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    begin(fake_refuses);
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND,
                                                                     .wait = PLOCK_SECOND,
                                                                     .label = "nightly%20job"}),
                 PLOCK_OK);
    fake_carry_on(lease);
    fake_await("EVALSHA acquire", 2);
    for (unsigned i = 0; i < 2; i++)
        CHECK_TEXT(fake_word(fake_command("EVALSHA acquire", i, command), 10, word),
                   "nightly%20job");
    end();
}

/* --- the turn --- */

static void at_its_turn_it_asks_with_its_ticket_and_holds(void) {
    char first[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    begin(grant);
    granted_from = 2;
    join_the_queue();
    fake_clock_pass(PLOCK_SECOND); /* so that the last request is later than the first ones */
    fake_call("=", 1);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK(plock_lease_valid(lease));
    CHECK_INT(plock_lease_fence(lease), FAKE_HELD_FENCE);
    CHECK_INT(plock_lease_acquired_at(lease), began + PLOCK_SECOND);
    CHECK_INT(plock_lease_valid_until(lease), began + 4 * PLOCK_SECOND - 32 * PLOCK_MILLISECOND);
    fake_await("EVALSHA acquire", 3);
    CHECK_TEXT(fake_ticket(2, word), FAKE_TICKET);
    CHECK_TEXT(fake_signature(2, word), fake_signature(1, first));
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 1);
    CHECK_INT(fake_commands_like("EVALSHA leave"), 0);
}

static void a_turn_that_came_to_nothing_is_waited_for_again(void) {
    begin(grant);
    granted_from = 3;
    join_the_queue();
    fake_call("=", 1);
    fake_await("EVALSHA acquire", 3); /* refused, because another client was faster */
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    fake_call("=", 1);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK_INT(plock_now(), began);
    end();
}

/* The server refuses and queues the waiter, and then the holder releases. The message about the
 * turn arrives before the refusal. */
static void a_turn_that_comes_before_the_refusal_is_remembered(void) {
    char word[FAKE_COMMAND_ROOM];
    begin(fall_silent);
    silent_at = 1;
    granted_from = 2;
    fake_await_turn(lease, 10 * PLOCK_SECOND);
    fake_await("EVALSHA acquire", 2);
    fake_call("=", 1);
    await_hearing(1);
    fake_await("EVALSHA acquire", 2); /* no third acquire until the second one is answered */
    answer_last_acquire(FAKE_QUEUED);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    fake_await("EVALSHA acquire", 3);
    CHECK_TEXT(fake_ticket(2, word), FAKE_TICKET);
    CHECK_INT(plock_now(), began);
    end();
}

static void so_it_is_if_its_own_thread_asks(void) {
    char word[FAKE_COMMAND_ROOM];
    begin(fall_silent);
    join_the_queue(); /* this waiter opens the channel */
    plock_lease *other = fake_lease(store);
    silent_at = 2;
    granted_from = 3;
    fake_await_turn(other, 10 * PLOCK_SECOND);
    fake_call("=", 2);
    await_hearing(1);
    answer_last_acquire(FAKE_QUEUED);
    CHECK_STATUS(fake_await_end(other), PLOCK_OK);
    fake_await("EVALSHA acquire", 4);
    CHECK_TEXT(fake_ticket(3, word), FAKE_TICKET);
    CHECK_STATUS(fake_release(other), PLOCK_OK);
    plock_lease_free(other);
    end();
}

/* The lease may have expired before the waiter's own thread sees the grant. */
static void what_was_granted_and_is_over_is_not_held(void) {
    begin(grant);
    granted_from = 2;
    join_the_queue();
    fake_call("=", 1);
    fake_await("EVALSHA acquire", 3);
    fake_clock_pass(3 * PLOCK_SECOND);
    CHECK_STATUS(fake_await_end(lease), PLOCK_TRY_FAILED);
    CHECK_HAS(plock_lease_error(lease)->message, "the lease was over");
    CHECK(!plock_lease_valid(lease));
    fake_await("EVALSHA leave", 1);
    check_leave("EVALSHA", 1, "1");
    end();
}

/* --- a lost answer --- */

static void after_a_lost_answer_it_goes_on_with_another_token_and_its_ticket(void) {
    char old[FAKE_COMMAND_ROOM], new[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    begin(fall_silent);
    silent_at = 2;
    granted_from = 3;
    join_the_queue();
    fake_call("=", 1);
    fake_await("EVALSHA acquire", 3);
    fake_native_pass(PLOCK_SECOND / 2); /* command_timeout */
    CHECK_STATUS(fake_await_end(lease), PLOCK_TRY_FAILED);
    CHECK_STATUS(plock_lease_error(lease)->status, PLOCK_SILENT);
    CHECK_STATUS(fake_finish(lease), PLOCK_OK);
    CHECK(strcmp(fake_value(2, old), fake_value(3, new)) != 0);
    CHECK_TEXT(fake_ticket(3, word), FAKE_TICKET);
    fake_await("EVALSHA leave", 1);
    check_leave("EVALSHA", 2, "1");
    end();
}

/* --- giving up --- */

static void a_waiter_that_gives_up_leaves_with_its_record(void) {
    enum { CANCEL, FREE, TIME_OVER, WAYS };
    for (int way = 0; way < WAYS; way++) {
        begin(fake_refuses);
        join_the_queue();
        if (way == CANCEL) plock_lease_cancel(lease);
        if (way == FREE) plock_lease_free(lease), lease = NULL;
        if (way == TIME_OVER) {
            CHECK_STATUS(fake_finish(lease), PLOCK_TIMED_OUT);
            /* the patience, and a moment for the leave */
            CHECK(plock_now() <= began + 10 * PLOCK_SECOND + 20 * PLOCK_MILLISECOND);
        }
        fake_await("EVALSHA leave", 1);
        /* the server refused the waiter, so it cannot hold the lock */
        check_leave("EVALSHA", 1, "0");
        end();
    }
}

static const char *leave_without_success(const char *command, unsigned nth) {
    return !strncmp(command, "EVALSHA leave", 13) && nth < 4 ? FAKE_SILENCE
                                                             : fake_refuses(command, nth);
}

/* The leave is retried for longer than a release, because no caller waits for it. Until it
 * succeeds, the status of the lock still counts the waiter. */
static void a_waiter_that_gives_up_leaves_as_soon_as_the_server_answers(void) {
    begin(leave_without_success);
    join_the_queue();
    plock_lease_cancel(lease);
    fake_await("EVALSHA leave", 1);
    for (unsigned i = 0; i < 100 && fake_commands_like("EVALSHA leave") < 5; i++)
        fake_native_pass(100 * PLOCK_MILLISECOND);
    fake_await("EVALSHA leave", 5);
    CHECK(plock_now() - began >= 2 * PLOCK_SECOND);
    end();
}

/* The waiter first waits for the answer, because giving up the request would cost a connection. */
static void a_waiter_that_gives_up_during_a_request_leaves_after_the_answer(void) {
    static const char *const ANSWERS[] = {FAKE_QUEUED, FAKE_HELD, "-LOADING x\r\n", "-ERR x\r\n"};
    static const char *const DOUBTS[] = {"0", "1", "0", "1"};
    for (unsigned i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        begin(fall_silent);
        silent_at = 2;
        join_the_queue();
        fake_call("=", 1);
        fake_await("EVALSHA acquire", 3);
        plock_lease_cancel(lease);
        fake_await("EVALSHA leave", 0);
        answer_last_acquire(ANSWERS[i]);
        fake_await("EVALSHA leave", 1);
        check_leave("EVALSHA", 2, DOUBTS[i]);
        fake_await("EVALSHA acquire", 3);
        end();
    }
}

/* Without a channel, waiters do not queue, but ask from time to time. If the waiter gives up during
 * such a request, and the request is granted, the lease is released. */
static void a_lease_got_without_queueing_is_released_after_giving_up(void) {
    char word[FAKE_COMMAND_ROOM];
    begin(grant_soon);
    fake_redis.subscriptions[0] = FAKE_SILENCE;
    fake_await_turn(lease, 10 * PLOCK_SECOND);
    fake_native_pass(100 * PLOCK_MILLISECOND);
    fake_await("EVALSHA acquire", 2);
    CHECK_TEXT(fake_ticket(1, word), "");
    plock_lease_cancel(lease);
    fake_await("EVALSHA leave", 1);
    check_leave("EVALSHA", 1, "1");
    end();
}

static void an_answer_that_does_not_come_is_not_waited_for_for_ever(void) {
    begin(fall_silent);
    silent_at = 2;
    join_the_queue();
    fake_call("=", 1);
    fake_await("EVALSHA acquire", 3);
    plock_lease_cancel(lease);
    fake_native_pass(PLOCK_SECOND / 2);
    fake_await("EVALSHA leave", 1);
    check_leave("EVALSHA", 2, "1");
    end();
}

static void a_waiter_that_gives_up_its_own_request_leaves_behind_it_and_once_more(void) {
    begin(fall_silent);
    join_the_queue();
    plock_lease *other = fake_lease(store);
    silent_at = 2;
    fake_await_turn(other, PLOCK_SECOND);
    plock_lease_free(other);
    fake_await("EVALSHA leave", 1);
    check_leave("EVALSHA", 2, "1");
    check_leave("EVAL", 2, "1");
    end();
}

static void the_lease_can_be_used_again(void) {
    char word[FAKE_COMMAND_ROOM];
    begin(grant);
    granted_from = 2;
    join_the_queue();
    plock_lease_cancel(lease);
    fake_await("EVALSHA leave", 1);
    CHECK_STATUS(fake_acquire(lease, PLOCK_SECOND), PLOCK_OK);
    /* ticket 0: the lease asks for a new place at the end of the queue */
    CHECK_TEXT(fake_ticket(2, word), "0");
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
}

/* --- processes that poll --- */

static void a_sharing_waiter_leaves_a_window_and_a_longer_one_if_a_holder_does_not_notify(void) {
    char command[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    begin(fake_refuses_untold);
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND,
                                                                     .wait = 10 * PLOCK_SECOND,
                                                                     .shares = true}),
                 PLOCK_OK);
    fake_carry_on(lease);
    fake_await("EVALSHA acquire", 2);
    CHECK_TEXT(fake_word(fake_command("EVALSHA acquire", 1, command), 13, word), "5");
    fake_native_pass(70 * PLOCK_MILLISECOND);
    fake_await("EVALSHA acquire", 3);
    CHECK_TEXT(fake_word(fake_command("EVALSHA acquire", 2, command), 13, word), "68");
    end();
}

int main(void) {
    RUN(a_refused_waiter_subscribes_and_then_queues);
    RUN(while_the_channel_is_open_it_queues_at_once);
    RUN(one_attempt_is_made_without_queueing);
    RUN(the_record_has_its_label);
    RUN(at_its_turn_it_asks_with_its_ticket_and_holds);
    RUN(a_turn_that_came_to_nothing_is_waited_for_again);
    RUN(a_turn_that_comes_before_the_refusal_is_remembered);
    RUN(so_it_is_if_its_own_thread_asks);
    RUN(what_was_granted_and_is_over_is_not_held);
    RUN(after_a_lost_answer_it_goes_on_with_another_token_and_its_ticket);
    RUN(a_waiter_that_gives_up_leaves_with_its_record);
    RUN(a_waiter_that_gives_up_leaves_as_soon_as_the_server_answers);
    RUN(a_waiter_that_gives_up_during_a_request_leaves_after_the_answer);
    RUN(a_lease_got_without_queueing_is_released_after_giving_up);
    RUN(an_answer_that_does_not_come_is_not_waited_for_for_ever);
    RUN(a_waiter_that_gives_up_its_own_request_leaves_behind_it_and_once_more);
    RUN(the_lease_can_be_used_again);
    RUN(a_sharing_waiter_leaves_a_window_and_a_longer_one_if_a_holder_does_not_notify);
    return test_end("waiter");
}
