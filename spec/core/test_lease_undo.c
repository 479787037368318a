/* A request that was not answered is undone. The undo is sent on the same connection after the
 * request, and once more in the background. If the server said that it executed nothing, there is
 * no undo. */
#include "fake.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static plock_store *store;
static plock_lease *lease;
static plock_interest interest;

static void begin(void) {
    fake_clock_start();
    store = fake_store("redis://h");
    lease = fake_lease(store);
    for (unsigned p = 1; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
}

static void end(void) { fake_end(lease, store); }

static void start_acquire(plock_ns ttl, plock_ns wait) {
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = ttl, .wait = wait}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
}

/* Returns the token in this command of the peer, which must be an acquire. */
static const char *token_of(unsigned peer, unsigned command, char word[FAKE_COMMAND_ROOM]) {
    CHECK_HAS(fake_peers[peer].commands[command], "EVALSHA acquire");
    return fake_word(fake_peers[peer].commands[command], 4, word);
}

static const char *release_of(const char *call, const char *token,
                              char command[FAKE_COMMAND_ROOM]) {
    (void)snprintf(command, FAKE_COMMAND_ROOM, "%s release 1 k %.40s", call, token);
    return command;
}

/* Counts the releases in the background, which name the script by its SHA-1. */
static unsigned releases_of(const char *token) {
    char command[FAKE_COMMAND_ROOM];
    return fake_commands_like(release_of("EVALSHA", token, command));
}

/* The undo behind the acquire contains the script's text, because no later call would load a script
 * that the server does not know. */
static void check_undone_behind(unsigned peer, const char *token) {
    char command[FAKE_COMMAND_ROOM];
    CHECK_TEXT(fake_peers[peer].commands[2], release_of("EVAL", token, command));
    CHECK(fake_peers[peer].destroyed);
}

/* --- no answer, or an answer that leaves the result open --- */

static void a_silent_acquire_is_undone_behind_it_and_in_the_background(void) {
    char token[FAKE_COMMAND_ROOM];
    begin();
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_SILENT);
    CHECK(!plock_lease_valid(lease));
    check_undone_behind(0, token_of(0, 1, token));
    end();
    CHECK_INT(releases_of(token), 1);
}

static void whether_it_is_undone_depends_on_what_was_answered(void) {
    static const struct {
        const char *answer;
        plock_status status;
        bool undone;
    } ANSWERS[] = {
        {"-LOADING x\r\n", PLOCK_LOADING, false},
        {"-READONLY x\r\n", PLOCK_READONLY, false},
        {"-MASTERDOWN x\r\n", PLOCK_MASTERDOWN, false},
        {"-NOAUTH x\r\n", PLOCK_NOAUTH, false},
        {"-OOM x\r\n", PLOCK_OOM, false},
        {"-MOVED 1 h:1\r\n", PLOCK_MOVED, false},
        {"-CLUSTERDOWN x\r\n", PLOCK_CLUSTERDOWN, false},
        {"-BUSY x\r\n", PLOCK_BUSY, false},
        {FAKE_REFUSED, PLOCK_REFUSED, false},
        /* the script may have failed only at its second key, after it had acquired the lock */
        {"-NOPERM x\r\n", PLOCK_NOPERM, true},
        {"-ERR x\r\n", PLOCK_SERVER, true},
        {"-nonsense", PLOCK_SILENT, true},
        {"?\r\n", PLOCK_PROTOCOL, true},
        {":1\r\n", PLOCK_PROTOCOL, true},
        {"$15\r\n170000000000000\r\n", PLOCK_PROTOCOL, true},
        {"$16\r\n17000000000000x1\r\n", PLOCK_PROTOCOL, true},
        {"*2\r\n:1\r\n:5000\r\n", PLOCK_PROTOCOL, true},
        {"*1\r\n:0\r\n", PLOCK_PROTOCOL, true},
        {FAKE_CLOSES, PLOCK_DISCONNECTED, true},
    };
    for (unsigned i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        char token[FAKE_COMMAND_ROOM];
        begin();
        fake_peers[0].answers[0] = ANSWERS[i].answer;
        fake_peers[0].answers[1] = FAKE_DONE;
        CHECK_STATUS(fake_acquire(lease, 0), ANSWERS[i].status);
        CHECK(!plock_lease_valid(lease));
        (void)token_of(0, 1, token);
        end();
        if (!test_check((releases_of(token) > 0) == ANSWERS[i].undone, ANSWERS[i].answer, __FILE__,
                        __LINE__))
            continue;
    }
}

static void nothing_is_undone_that_never_left(void) {
    begin();
    fake_peers[0].connect_failure = PLOCK_CONNECT;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_CONNECT);
    end();
    begin();
    fake_peers[0].silent_greeting = true;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_SILENT);
    end();
    CHECK_INT(fake_commands_like("EVALSHA"), 0);
}

/* The process was stopped, or the machine slept. The answer has arrived, but the lease that it
 * grants has expired. */
static void an_answer_that_comes_too_late_grants_nothing(void) {
    static const plock_ns DELAYS[] = {PLOCK_SECOND - 12 * PLOCK_MILLISECOND, 5 * PLOCK_SECOND};
    for (unsigned i = 0; i < 2; i++) {
        char token[FAKE_COMMAND_ROOM];
        begin();
        start_acquire(PLOCK_SECOND, 0);
        fake_say(&fake_peers[0], FAKE_HELD, strlen(FAKE_HELD));
        fake_clock_pass(DELAYS[i]);
        CHECK_STATUS(fake_finish(lease), PLOCK_SILENT);
        CHECK(!plock_lease_valid(lease));
        CHECK_HAS(plock_lease_error(lease)->message, "the lease was over");
        (void)token_of(0, 1, token);
        end();
        CHECK(releases_of(token) > 0);
    }
}

static void one_that_comes_just_in_time_does(void) {
    begin();
    start_acquire(PLOCK_SECOND, 0);
    fake_say(&fake_peers[0], FAKE_HELD, strlen(FAKE_HELD));
    fake_clock_pass(PLOCK_SECOND - 12 * PLOCK_MILLISECOND - 1);
    CHECK_STATUS(fake_finish(lease), PLOCK_OK);
    CHECK(plock_lease_valid(lease));
    end();
}

/* --- patience, and connections that were closed --- */

static void the_next_attempt_has_another_token_and_the_first_is_taken_back(void) {
    char first[FAKE_COMMAND_ROOM], second[FAKE_COMMAND_ROOM];
    begin();
    fake_peers[0].answers[0] = FAKE_CLOSES;
    CHECK_STATUS(fake_acquire(lease, 5 * PLOCK_SECOND), PLOCK_OK);
    CHECK_INT(fake_failed_tries, 1);
    (void)token_of(0, 1, first);
    size_t length;
    (void)memcpy(second, plock_lease_owner(lease, &length), PLOCK_TOKEN_LENGTH);
    second[PLOCK_TOKEN_LENGTH] = 0;
    CHECK(strcmp(first, second) != 0);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
    CHECK_INT(releases_of(first), 1);
    CHECK_INT(releases_of(second), 1);
}

static void a_connection_found_closed_is_replaced_without_a_word(void) {
    char token[FAKE_COMMAND_ROOM];
    begin();
    fake_peers[0].answers[0] = FAKE_HELD;
    fake_peers[0].answers[1] = FAKE_DONE;
    fake_peers[0].answers[2] = FAKE_CLOSES;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    const plock_ns before = plock_now();
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK_INT(plock_now(), before);
    CHECK_INT(fake_failed_tries, 0);
    CHECK_STATUS(plock_lease_error(lease)->status, PLOCK_OK);
    (void)token_of(0, 3, token);
    end();
    /* the server may have executed the request before the connection closed */
    CHECK_INT(releases_of(token), 1);
}

static void it_is_replaced_only_once(void) {
    begin();
    for (unsigned p = 1; p < FAKE_PEERS; p++) fake_peers[p].answers[0] = FAKE_CLOSES;
    fake_peers[0].answers[0] = FAKE_HELD;
    fake_peers[0].answers[1] = FAKE_DONE;
    fake_peers[0].answers[2] = FAKE_CLOSES;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_DISCONNECTED);
    CHECK_INT(fake_commands_like("EVALSHA acquire"), 3);
    end();
}

/* --- a script that has to be loaded first: two answers for one request --- */

static void a_failed_loading_does_not_hide_that_the_lock_was_acquired(void) {
    begin();
    fake_peers[0].answers[0] = FAKE_NOSCRIPT;
    fake_peers[0].answers[1] = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    fake_peers[0].answers[2] = FAKE_HELD; /* another client has loaded the script meanwhile */
    fake_peers[0].answers[3] = FAKE_DONE;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK(plock_lease_valid(lease));
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
}

static void a_failed_loading_is_the_reason_when_the_script_is_still_unknown(void) {
    begin();
    fake_peers[0].answers[0] = FAKE_NOSCRIPT;
    fake_peers[0].answers[1] = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    fake_peers[0].answers[2] = FAKE_NOSCRIPT;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OOM);
    CHECK_HAS(plock_lease_error(lease)->message, "OOM command not allowed");
    CHECK(!fake_peers[0].destroyed); /* the connection is kept, because no answer is outstanding */
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
}

static void silence_after_a_failed_loading_is_in_doubt(void) {
    char token[FAKE_COMMAND_ROOM];
    begin();
    fake_peers[0].answers[0] = FAKE_NOSCRIPT;
    fake_peers[0].answers[1] = "-BUSY Redis is busy running a script.\r\n";
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_SILENT);
    (void)token_of(0, 1, token);
    end();
    CHECK(releases_of(token) >= 1);
}

/* --- giving up --- */

static void an_acquire_that_is_given_up_is_undone(void) {
    char token[FAKE_COMMAND_ROOM];
    begin();
    start_acquire(PLOCK_SECOND, PLOCK_SECOND);
    plock_lease_cancel(lease);
    check_undone_behind(0, token_of(0, 1, token));
    end();
    CHECK_INT(releases_of(token), 1);
}

static void giving_up_in_a_pause_leaves_nothing_to_undo(void) {
    begin();
    fake_peers[0].answers[0] = "-LOADING x\r\n";
    CHECK_STATUS(plock_lease_acquire(
                     lease, &(plock_acquire_options){.ttl = PLOCK_SECOND, .wait = PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_TRY_FAILED);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    CHECK_INT(interest.fd, -1);
    plock_lease_cancel(lease);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
    CHECK(fake_peers[0].destroyed); /* the connection was closed with the store */
}

static void freeing_in_mid_acquire_is_giving_up(void) {
    char token[FAKE_COMMAND_ROOM];
    begin();
    start_acquire(PLOCK_SECOND, PLOCK_SECOND);
    end();
    (void)token_of(0, 1, token);
    CHECK(releases_of(token) >= 1);
}

int main(void) {
    RUN(a_silent_acquire_is_undone_behind_it_and_in_the_background);
    RUN(whether_it_is_undone_depends_on_what_was_answered);
    RUN(nothing_is_undone_that_never_left);
    RUN(an_answer_that_comes_too_late_grants_nothing);
    RUN(one_that_comes_just_in_time_does);
    RUN(the_next_attempt_has_another_token_and_the_first_is_taken_back);
    RUN(a_connection_found_closed_is_replaced_without_a_word);
    RUN(it_is_replaced_only_once);
    RUN(a_failed_loading_does_not_hide_that_the_lock_was_acquired);
    RUN(a_failed_loading_is_the_reason_when_the_script_is_still_unknown);
    RUN(silence_after_a_failed_loading_is_in_doubt);
    RUN(an_acquire_that_is_given_up_is_undone);
    RUN(giving_up_in_a_pause_leaves_nothing_to_undo);
    RUN(freeing_in_mid_acquire_is_giving_up);
    return test_end("lease undo");
}
