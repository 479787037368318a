/* Patience: waiting for a held lock, further attempts after a failure, and the end of both. */
#include "fake_native.h"
#include "test.h"

#include "net/pool.h"
#include "redis/store.h"

#include <stdio.h>
#include <string.h>

static plock_store *store;
static plock_lease *lease;
static plock_ns began;

static void begin(const char *url) {
    fake_clock_start();
    store = fake_store(url);
    lease = fake_lease(store);
    began = plock_now();
}

static void end(void) { fake_end(lease, store); }

static void answer_always(fake_peer *peer, const char *answer) {
    for (unsigned i = 0; i < FAKE_ANSWERS; i++) peer->answers[i] = answer;
}

/* When a waiter's patience ends, its caller waits at most this long for the answer to the leave
 * request. Then the caller returns, and the worker thread completes the leave. */
static const plock_ns PARTING_SPAN = 20 * PLOCK_MILLISECOND;

/* --- a lock that is held --- */

static void begin_in_line(const char *(*says)(const char *command, unsigned nth), plock_ns wait) {
    fake_clock_start();
    store = fake_native_store(says);
    lease = fake_lease(store);
    began = plock_now();
    fake_await_turn(lease, wait);
    fake_await("EVALSHA acquire", 2);
}

static void patience_ends_exactly(void) {
    static const plock_ns WAITS[] = {PLOCK_MILLISECOND, 7 * PLOCK_MILLISECOND, 33333333,
                                     100 * PLOCK_MILLISECOND};
    for (unsigned i = 0; i < sizeof WAITS / sizeof *WAITS; i++) {
        begin_in_line(fake_refuses, WAITS[i]);
        CHECK_STATUS(fake_finish(lease), PLOCK_TIMED_OUT);
        CHECK(plock_now() >= began + WAITS[i] && plock_now() <= began + WAITS[i] + PARTING_SPAN);
        CHECK_STATUS(plock_lease_error(lease)->status, PLOCK_TIMED_OUT);
        CHECK_INT(fake_failed_tries, 0); /* a refusal is not a failed attempt */
        end();
    }
}

static void a_waiter_whose_patience_ends_leaves_the_queue_before_it_returns(void) {
    begin_in_line(fake_refuses, PLOCK_SECOND);
    fake_clock_pass(PLOCK_SECOND);
    CHECK_STATUS(fake_await_end(lease), PLOCK_TIMED_OUT);
    CHECK_INT(plock_now(), began + PLOCK_SECOND);
    CHECK_INT(fake_commands_like("EVALSHA leave"), 1);
    end();
}

static const char *never_lets_go(const char *command, unsigned nth) {
    return strncmp(command, "EVALSHA leave", 13) ? fake_refuses(command, nth) : FAKE_SILENCE;
}

static void a_server_that_does_not_answer_the_leave_delays_it_for_a_moment_only(void) {
    plock_interest interest;
    begin_in_line(never_lets_go, PLOCK_SECOND);
    fake_clock_pass(PLOCK_SECOND);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    CHECK_INT(interest.deadline, plock_now() + PARTING_SPAN);
    fake_await("EVALSHA leave", 1);
    fake_clock_pass(PARTING_SPAN - 1);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    fake_clock_pass(1);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_TIMED_OUT);
    end();
}

/* The waiter is cancelled or freed while it waits for the answer to its leave request. */
static void a_leaving_waiter_can_be_cancelled(void) {
    for (int frees = 0; frees < 2; frees++) {
        plock_interest interest;
        begin_in_line(never_lets_go, PLOCK_SECOND);
        fake_clock_pass(PLOCK_SECOND);
        CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
        if (frees)
            plock_lease_free(lease), lease = NULL;
        else
            plock_lease_cancel(lease);
        fake_await("EVALSHA leave", 1);
        end();
    }
}

/* The waiter's thread and the worker thread sleep until something happens. The holder notifies
 * waiters, but the server may lose the queue. So the waiter asks again once a second. */
static void a_lock_that_is_held_is_looked_at_once_a_second(void) {
    plock_interest interest;
    begin_in_line(fake_refuses, 4 * PLOCK_SECOND);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    CHECK_INT(interest.fd, -1); /* a thread in the wait queue needs no descriptor */
    CHECK(interest.waker != NULL);
    CHECK_INT(interest.deadline, began + 4 * PLOCK_SECOND);
    for (unsigned i = 0; i < 39; i++) fake_native_pass(100 * PLOCK_MILLISECOND);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    fake_await("EVALSHA acquire", 2 + 3);
    end();
}

static const char *grant_the_third(const char *command, unsigned nth) {
    return nth >= 2 ? NULL : fake_refuses(command, nth);
}

static void a_lock_that_becomes_free_is_acquired_at_once(void) {
    plock_interest interest;
    begin_in_line(grant_the_third, 10 * PLOCK_SECOND);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    fake_call("=", 1);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK(plock_lease_valid(lease));
    CHECK_INT(plock_now(), began);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
}

/* A claim must not fail, because the turn would pass to the next waiter. So even a connection that
 * was idle only for a moment is checked before the claim uses it. */
static void a_claim_leaves_on_no_connection_that_the_server_has_closed(void) {
    char ticket[FAKE_COMMAND_ROOM];
    begin_in_line(grant_the_third, 10 * PLOCK_SECOND);
    const unsigned before = fake_connections();
    for (unsigned i = 0; i < before; i++) fake_peers[i].looks_dead = true;
    fake_call("=", 1);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK_INT(fake_connections(), before + 1);
    CHECK_TEXT(fake_ticket(2, ticket), FAKE_TICKET);
    end();
}

enum { CONNECTIONS_MAX = 32 };

/* The server works and has refused the acquire, so there is no failure to report. */
static void a_refused_waiter_without_a_connection_at_the_end_times_out(void) {
    plock_connection *held[CONNECTIONS_MAX];
    unsigned count = 0;
    plock_turn turn = {0};
    plock_interest interest;
    begin_in_line(fake_refuses, 3 * PLOCK_SECOND);
    while (count < CONNECTIONS_MAX &&
           !plock__pool_take(&store->node.pool, &held[count], &turn, &interest))
        count++;
    plock__pool_leave(&store->node.pool, &turn);
    plock_status status = PLOCK_AGAIN;
    for (unsigned i = 0; i < 40 && (status == PLOCK_AGAIN || status == PLOCK_TRY_FAILED); i++) {
        fake_native_pass(100 * PLOCK_MILLISECOND);
        status = plock_lease_step(lease, &interest);
    }
    CHECK_STATUS(status, PLOCK_TIMED_OUT);
    CHECK_STATUS(plock_lease_error(lease)->status, PLOCK_TIMED_OUT);
    while (count-- > 0) {
        if (held[count])
            plock__pool_give(&store->node.pool, held[count], true);
        else
            plock__pool_give_room(&store->node.pool);
    }
    end();
}

static const char *claim_in_silence(const char *command, unsigned nth) {
    return nth >= 2 && !strncmp(command, "EVALSHA acquire", 15) ? FAKE_SILENCE
                                                                : fake_refuses(command, nth);
}

/* Without the undo, the server could still execute the claim. Then the lock would stay taken for
 * the whole TTL. */
static void a_claim_that_is_not_answered_is_undone_behind_it(void) {
    char value[FAKE_COMMAND_ROOM], undo[FAKE_COMMAND_ROOM];
    for (int gone = 0; gone < 2; gone++) {
        begin_in_line(claim_in_silence, 10 * PLOCK_SECOND);
        (void)snprintf(undo, sizeof undo, "EVAL leave 1 k %.36s 1", fake_value(1, value));
        fake_call("=", 1);
        fake_await("EVALSHA acquire", 3);
        if (gone) plock_lease_cancel(lease);
        fake_native_pass(PLOCK_SECOND / 2); /* the default of command_timeout */
        fake_await(undo, 1);
        end();
    }
}

static const char *say_little_is_left(const char *command, unsigned nth) {
    const char *answer = grant_the_third(command, nth);
    return answer && fake_queues(command) ? FAKE_PLACE(2, 0, FAKE_TICKET, 1) : answer;
}

static void it_is_looked_at_again_when_the_holders_time_is_over(void) {
    begin_in_line(say_little_is_left, 10 * PLOCK_SECOND);
    fake_native_pass(3 * PLOCK_MILLISECOND);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK_INT(plock_now(), began + 3 * PLOCK_MILLISECOND);
    end();
}

/* the answer to a queued waiter, with the time that the holder's lease still lasts */
static const char *time_left;

static const char *say_time_left(const char *command, unsigned nth) {
    const char *answer = grant_the_third(command, nth);
    return answer && fake_queues(command) ? time_left : answer;
}

/* If the answer states no usable time, the waiter asks again after a second. */
static void any_time_left_is_understood(void) {
    static const char *const LEFT[] = {FAKE_PLACE(-1, 0, FAKE_TICKET, 1),
                                       FAKE_PLACE(-2, 0, FAKE_TICKET, 1),
                                       FAKE_PLACE(9223372036854775807, 0, FAKE_TICKET, 1),
                                       FAKE_PLACE(-9223372036854775808, 0, FAKE_TICKET, 1),
                                       FAKE_PLACE(2147483647, 2147483647, FAKE_TICKET, 1),
                                       FAKE_PLACE(2147483646, 2147483647, FAKE_TICKET, 1)};
    for (unsigned i = 0; i < sizeof LEFT / sizeof *LEFT; i++) {
        time_left = LEFT[i];
        begin_in_line(say_time_left, 10 * PLOCK_SECOND);
        fake_native_pass(PLOCK_SECOND); /* at any rank, the waiter asks again within a second */
        fake_await("EVALSHA acquire", 3);
        CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
        end();
    }
}

/* A holder of the older implementation does not notify waiters. So they ask for its lock as often
 * as if there were no queue. */
static void a_holder_that_does_not_notify_is_looked_at_again_and_again(void) {
    begin_in_line(fake_refuses_untold, 10 * PLOCK_SECOND);
    for (unsigned i = 0; i < 8; i++) {
        fake_native_pass(65 * PLOCK_MILLISECOND);
        fake_await("EVALSHA acquire", 3 + i);
    }
    /* the waiter's own thread does not wake for these requests */
    CHECK_STATUS(plock_lease_step(lease, &(plock_interest){0}), PLOCK_AGAIN);
    end();
}

static void one_attempt_is_one_attempt(void) {
    begin("redis://h");
    answer_always(&fake_peers[0], FAKE_REFUSED);
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_REFUSED);
    CHECK_INT(fake_commands_like("EVALSHA acquire"), 1);
    CHECK_INT(fake_connections(), 1); /* no channel was opened */
    end();
    CHECK_INT(fake_commands_like("EVALSHA"), 1);
}

/* A lost attempt may have left its token on the server. The next attempt must not take that token
 * for its own. */
static void each_attempt_has_a_token_of_its_own(void) {
    char tokens[3][FAKE_COMMAND_ROOM], owner[64] = "";
    size_t length;
    begin("redis://h");
    fake_peers[0].answers[0] = fake_peers[0].answers[1] = "-LOADING x\r\n";
    fake_peers[0].obliging = true;
    CHECK_STATUS(fake_acquire(lease, PLOCK_SECOND), PLOCK_OK);
    CHECK_INT(fake_failed_tries, 2);
    for (unsigned i = 0; i < 3; i++) {
        (void)fake_word(fake_peers[0].commands[1 + i], 4, tokens[i]);
        for (unsigned other = 0; other < i; other++) CHECK(strcmp(tokens[i], tokens[other]) != 0);
    }
    memcpy(owner, plock_lease_owner(lease, &length), PLOCK_TOKEN_LENGTH);
    CHECK_TEXT(owner, tokens[2]);
    end();
}

/* --- a store that fails --- */

static void each_failed_attempt_is_told_and_another_follows(void) {
    plock_interest interest;
    begin("redis://h");
    fake_peers[0].connect_failure = PLOCK_CONNECT;
    fake_peers[1].answers[0] = "-LOADING Redis is loading the dataset in memory\r\n";
    fake_peers[1].obliging = true;
    CHECK_STATUS(plock_lease_acquire(
                     lease, &(plock_acquire_options){.ttl = PLOCK_SECOND, .wait = PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_TRY_FAILED);
    CHECK_STATUS(plock_lease_error(lease)->status, PLOCK_CONNECT);
    /* a pause precedes the next attempt */
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    CHECK(interest.deadline > plock_now());
    CHECK_STATUS(plock_drive(lease, fake_wait, NULL), PLOCK_TRY_FAILED);
    CHECK_STATUS(plock_lease_error(lease)->status, PLOCK_LOADING);
    CHECK_STATUS(plock_drive(lease, fake_wait, NULL), PLOCK_OK);
    CHECK_STATUS(plock_lease_error(lease)->status, PLOCK_OK);
    CHECK(plock_lease_valid(lease));
    end();
}

static void a_lasting_failure_ends_it_at_once(void) {
    static const struct {
        const char *answer;
        plock_status status;
    } ANSWERS[] = {
        {"-NOPERM this user has no permissions to access one of the keys\r\n", PLOCK_NOPERM},
        {"-NOAUTH Authentication required.\r\n", PLOCK_NOAUTH},
        {"-MOVED 3999 127.0.0.1:6381\r\n", PLOCK_MOVED},
        {"-ERR something else\r\n", PLOCK_SERVER},
        {"garbage\r\n", PLOCK_PROTOCOL},
        {"*2147483647\r\n", PLOCK_PROTOCOL},
    };
    for (unsigned i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        begin("redis://h");
        fake_peers[0].answers[0] = ANSWERS[i].answer;
        for (unsigned p = 1; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
        CHECK_STATUS(fake_acquire(lease, 10 * PLOCK_SECOND), ANSWERS[i].status);
        CHECK_INT(plock_now(), began);
        CHECK_INT(fake_failed_tries, 0);
        CHECK(!plock_lease_valid(lease));
        end();
    }
}

static void an_insisting_acquire_still_tries_until_the_end(void) {
    begin("redis://h");
    for (unsigned p = 0; p < FAKE_PEERS; p++)
        fake_peers[p].answers[0] =
            "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND,
                                                                     .wait = PLOCK_SECOND,
                                                                     .insists = true}),
                 PLOCK_OK);
    CHECK_STATUS(fake_finish(lease), PLOCK_TIMED_OUT);
    CHECK_INT(plock_now(), began + PLOCK_SECOND);
    CHECK_STATUS(plock_lease_error(lease)->status, PLOCK_WRONGPASS);
    CHECK(fake_failed_tries >= 4);
    end();
}

static void after_failures_only_the_last_one_is_still_told(void) {
    begin("redis://h");
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].connect_failure = PLOCK_CONNECT;
    CHECK_STATUS(fake_acquire(lease, PLOCK_SECOND), PLOCK_TIMED_OUT);
    CHECK_INT(plock_now(), began + PLOCK_SECOND);
    CHECK_STATUS(plock_lease_error(lease)->status, PLOCK_CONNECT);
    CHECK_HAS(plock_lease_error(lease)->message, "redis://h:6379: the fake says connect");
    /* the pauses grow from 10 ms to 250 ms */
    CHECK(fake_failed_tries >= 4 && fake_failed_tries <= 12);
    CHECK_INT(fake_connections(), fake_failed_tries);
    end();
}

static void with_one_attempt_a_failure_is_the_answer(void) {
    begin("redis://h");
    fake_peers[0].connect_failure = PLOCK_CONNECT;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_CONNECT);
    CHECK_INT(plock_now(), began);
    CHECK_INT(fake_connections(), 1);
    end();
}

/* --- a store that is silent --- */

static void the_first_attempt_always_has_its_time(void) {
    static const plock_ns WAITS[] = {0, PLOCK_MILLISECOND, 199 * PLOCK_MILLISECOND};
    for (unsigned i = 0; i < sizeof WAITS / sizeof *WAITS; i++) {
        begin("redis://h?attempt_timeout=0.2");
        for (unsigned p = 1; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
        const plock_status status = fake_acquire(lease, WAITS[i]);
        CHECK(status == PLOCK_SILENT || status == PLOCK_TIMED_OUT);
        CHECK_STATUS(plock_lease_error(lease)->status, PLOCK_SILENT);
        CHECK_INT(plock_now(), began + 200 * PLOCK_MILLISECOND);
        end();
    }
}

static void no_server_makes_a_call_last_beyond_its_budget(void) {
    static const plock_ns WAITS[] = {200 * PLOCK_MILLISECOND, 500 * PLOCK_MILLISECOND,
                                     510 * PLOCK_MILLISECOND, 777 * PLOCK_MILLISECOND,
                                     2 * PLOCK_SECOND};
    static const plock_ns GRACE = 50 * PLOCK_MILLISECOND;
    for (unsigned i = 0; i < sizeof WAITS / sizeof *WAITS; i++)
        for (int opening = 0; opening < 2; opening++) {
            begin("redis://h?unavailable_timeout=60");
            for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].silent_greeting = opening;
            const plock_status status = fake_acquire(lease, WAITS[i]);
            CHECK(status == PLOCK_SILENT || status == PLOCK_TIMED_OUT);
            CHECK(plock_now() >= began + WAITS[i] && plock_now() <= began + WAITS[i] + GRACE);
            end();
        }
}

/* --- a server that cannot be reached at all --- */

static const plock_ns LONG = 300 * PLOCK_SECOND, GIVES_UP = PLOCK_SECOND,
                      ROUND = 50 * PLOCK_MILLISECOND;
static const plock_ns LAST_ATTEMPT = 30 * PLOCK_MILLISECOND;

static void refuse_connections_from(unsigned first) {
    for (unsigned p = first; p < FAKE_PEERS; p++) fake_peers[p].connect_failure = PLOCK_CONNECT;
}

static void a_server_that_refuses_connections_ends_it_long_before_patience(void) {
    static const struct {
        const char *url;
        plock_ns gives_up;
    } STORES[] = {
        {"redis://h", PLOCK_SECOND},
        {"redis://h?unavailable_timeout=0.3", 300 * PLOCK_MILLISECOND},
        {"redis://h?unavailable_timeout=0.01", 200 * PLOCK_MILLISECOND}}; /* attempt_timeout */
    for (unsigned i = 0; i < sizeof STORES / sizeof *STORES; i++) {
        begin(STORES[i].url);
        refuse_connections_from(0);
        CHECK_STATUS(fake_acquire(lease, LONG), PLOCK_CONNECT);
        CHECK_INT(plock_now(), began + STORES[i].gives_up);
        CHECK_HAS(plock_lease_error(lease)->message, "redis://h:6379: the fake says connect");
        CHECK_HAS(plock_lease_error(lease)->message, "unavailable_timeout");
        CHECK(fake_failed_tries >= 2); /* the acquire makes more than one attempt */
        end();
    }
}

static void so_does_one_that_is_silent(void) {
    for (int opening = 0; opening < 2; opening++) {
        begin("redis://h?connect_timeout=20&command_timeout=20");
        for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].silent_greeting = opening;
        CHECK_STATUS(fake_acquire(lease, LONG), PLOCK_SILENT);
        CHECK(plock_now() >= began + GIVES_UP && plock_now() <= began + GIVES_UP + LAST_ATTEMPT);
        end();
    }
}

static void a_shorter_outage_is_ridden_out(void) {
    plock_interest interest;
    plock_status status = PLOCK_AGAIN;
    begin("redis://h");
    refuse_connections_from(0);
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = LONG, .wait = LONG}),
                 PLOCK_OK);
    while (status == PLOCK_AGAIN || status == PLOCK_TRY_FAILED) {
        status = plock_lease_step(lease, &interest);
        if (status == PLOCK_AGAIN) (void)fake_wait(NULL, &interest);
        if (plock_now() < began + GIVES_UP) continue;
        for (unsigned p = fake_connections(); p < FAKE_PEERS; p++) {
            /* the server is back just before the last attempt */
            fake_peers[p].connect_failure = PLOCK_OK;
            fake_peers[p].obliging = true;
        }
    }
    CHECK_STATUS(status, PLOCK_OK);
    CHECK_INT(plock_now(), began + GIVES_UP);
    end();
}

static void an_enduring_or_insisting_acquire_tries_until_the_end(void) {
    for (int insists = 0; insists < 2; insists++) {
        begin("redis://h");
        refuse_connections_from(0);
        const plock_acquire_options patience = {
            .ttl = LONG, .wait = 5 * PLOCK_SECOND, .endures = !insists, .insists = insists};
        CHECK_STATUS(plock_lease_acquire(lease, &patience), PLOCK_OK);
        CHECK_STATUS(fake_finish(lease), PLOCK_TIMED_OUT);
        CHECK_INT(plock_now(), began + 5 * PLOCK_SECOND);
        end();
    }
}

static const char *say_loading(const char *command, unsigned nth) {
    (void)command, (void)nth;
    return "-LOADING x\r\n";
}

static void a_server_that_answers_is_no_such_server(void) {
    begin("redis://h");
    fake_redis.says = say_loading;
    CHECK_STATUS(fake_acquire(lease, 5 * PLOCK_SECOND), PLOCK_TIMED_OUT);
    CHECK_INT(plock_now(), began + 5 * PLOCK_SECOND);
    CHECK_STATUS(plock_lease_error(lease)->status, PLOCK_LOADING);
    end();
}

/* Drives the waiter until it ends, or until the span is over. */
static plock_status pass_in_line(plock_ns span) {
    const plock_ns until = plock_now() + span;
    plock_interest interest;
    plock_status status = PLOCK_AGAIN;
    while ((status == PLOCK_AGAIN || status == PLOCK_TRY_FAILED) && plock_now() < until) {
        fake_native_pass(ROUND);
        do status = plock_lease_step(lease, &interest);
        while (status == PLOCK_TRY_FAILED);
    }
    return status;
}

static void go_away(void) {
    refuse_connections_from(fake_connections());
    for (unsigned p = 0; p < fake_connections(); p++)
        fake_peers[p].write_failure = PLOCK_DISCONNECTED;
    fake_cut_channel();
}

static void a_queued_waiter_gives_up_too_counted_from_the_servers_end(void) {
    begin_in_line(fake_refuses, LONG);
    CHECK_STATUS(pass_in_line(3 * PLOCK_SECOND), PLOCK_AGAIN); /* longer than unavailable_timeout */
    const plock_ns gone = plock_now();
    go_away();
    CHECK_STATUS(pass_in_line(LONG), PLOCK_CONNECT);
    CHECK(plock_now() >= gone + GIVES_UP && plock_now() <= gone + GIVES_UP + 4 * ROUND);
    end();
}

static void a_queued_waiter_survives_a_shorter_outage(void) {
    begin_in_line(fake_refuses, LONG);
    const unsigned before = fake_connections();
    go_away();
    CHECK_STATUS(pass_in_line(GIVES_UP / 2), PLOCK_AGAIN);
    CHECK(fake_connections() > before);
    for (unsigned p = fake_connections(); p < FAKE_PEERS; p++)
        fake_peers[p].connect_failure = PLOCK_OK;
    CHECK_STATUS(pass_in_line(3 * GIVES_UP), PLOCK_AGAIN); /* the waiter is still in the queue */
    CHECK(fake_channel_is_open());
    end();
}

/* --- an operation that gets less time --- */

static void an_operation_can_be_hurried(void) {
    for (int opening = 0; opening < 2; opening++) {
        begin("redis://h");
        plock_interest interest;
        fake_peers[0].silent_greeting = opening;
        for (unsigned p = 1; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
        CHECK_STATUS(
            plock_lease_acquire(
                lease, &(plock_acquire_options){.ttl = PLOCK_SECOND, .wait = 10 * PLOCK_SECOND}),
            PLOCK_OK);
        CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
        plock_lease_hurry(lease, began + 20 * PLOCK_MILLISECOND);
        CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
        CHECK_INT(interest.deadline, began + 20 * PLOCK_MILLISECOND);
        CHECK_STATUS(fake_finish(lease), PLOCK_SILENT);
        CHECK_INT(plock_now(), began + 20 * PLOCK_MILLISECOND);
        end();
    }
}

static void a_pause_can_be_hurried(void) {
    begin("redis://h");
    plock_interest interest;
    fake_peers[0].answers[0] = "-LOADING x\r\n";
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND,
                                                                     .wait = 10 * PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_TRY_FAILED);
    plock_lease_hurry(lease, began + PLOCK_MILLISECOND);
    plock_lease_hurry(lease, began + PLOCK_SECOND); /* a later deadline has no effect */
    CHECK_STATUS(fake_finish(lease), PLOCK_TIMED_OUT);
    CHECK_INT(plock_now(), began + PLOCK_MILLISECOND);
    end();
}

static void so_can_waiting_in_the_queue(void) {
    begin_in_line(fake_refuses, 10 * PLOCK_SECOND);
    plock_lease_hurry(lease, began + PLOCK_MILLISECOND);
    plock_lease_hurry(lease, began + PLOCK_SECOND);
    CHECK_STATUS(fake_finish(lease), PLOCK_TIMED_OUT);
    CHECK(plock_now() >= began + PLOCK_MILLISECOND &&
          plock_now() <= began + PLOCK_MILLISECOND + PARTING_SPAN);
    end();
}

int main(void) {
    RUN(patience_ends_exactly);
    RUN(a_waiter_whose_patience_ends_leaves_the_queue_before_it_returns);
    RUN(a_server_that_does_not_answer_the_leave_delays_it_for_a_moment_only);
    RUN(a_leaving_waiter_can_be_cancelled);
    RUN(a_lock_that_is_held_is_looked_at_once_a_second);
    RUN(a_lock_that_becomes_free_is_acquired_at_once);
    RUN(a_claim_leaves_on_no_connection_that_the_server_has_closed);
    RUN(a_refused_waiter_without_a_connection_at_the_end_times_out);
    RUN(a_claim_that_is_not_answered_is_undone_behind_it);
    RUN(it_is_looked_at_again_when_the_holders_time_is_over);
    RUN(any_time_left_is_understood);
    RUN(a_holder_that_does_not_notify_is_looked_at_again_and_again);
    RUN(one_attempt_is_one_attempt);
    RUN(each_attempt_has_a_token_of_its_own);
    RUN(each_failed_attempt_is_told_and_another_follows);
    RUN(a_lasting_failure_ends_it_at_once);
    RUN(an_insisting_acquire_still_tries_until_the_end);
    RUN(after_failures_only_the_last_one_is_still_told);
    RUN(with_one_attempt_a_failure_is_the_answer);
    RUN(the_first_attempt_always_has_its_time);
    RUN(no_server_makes_a_call_last_beyond_its_budget);
    RUN(a_server_that_refuses_connections_ends_it_long_before_patience);
    RUN(so_does_one_that_is_silent);
    RUN(a_shorter_outage_is_ridden_out);
    RUN(an_enduring_or_insisting_acquire_tries_until_the_end);
    RUN(a_server_that_answers_is_no_such_server);
    RUN(a_queued_waiter_gives_up_too_counted_from_the_servers_end);
    RUN(a_queued_waiter_survives_a_shorter_outage);
    RUN(an_operation_can_be_hurried);
    RUN(a_pause_can_be_hurried);
    RUN(so_can_waiting_in_the_queue);
    return test_end("lease waiting");
}
