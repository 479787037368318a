/* A call runs one script once, on a pooled or a new connection. It loads the script if the server
 * does not know it. */
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

static const plock_request RELEASE = {
    .script = PLOCK__RELEASE, .keys = 1, .arguments = 1, .texts = {{"k", 1}, {"me", 2}}};
static const plock_request ACQUIRE = {
    .script = PLOCK__ACQUIRE,
    .keys = 1,
    .arguments = 6,
    .texts = {
        {"k", 1}, {"me", 2}, {"3000", 4}, {"host 1 2 - -", 12}, {"3000", 4}, {"0", 1}, {"5", 1}}};

static void begin(const char *url) {
    fake_clock_start();
    store = fake_store(url);
}

static void end(void) { fake_end(NULL, store); }

static void start(const plock_request *request) {
    plock__call_begin(&call, &store->node, request, plock_now() + PLOCK_SECOND);
    error = (plock_error){PLOCK_OK, ""};
}

static plock_status step(void) { return plock__call_step(&call, &value, &interest, &error); }

/* Makes a call that succeeds. */
static void call_once(void) {
    start(&RELEASE);
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK(value->type == PLOCK__INTEGER && value->integer == 1);
    plock__call_finish(&call);
}

static void a_script_is_called_by_its_hash(void) {
    begin("redis://h");
    fake_peers[0].answers[0] = FAKE_DONE;
    fake_peers[0].answers[1] = FAKE_HELD;
    call_once();
    CHECK_TEXT(fake_peers[0].commands[1], "EVALSHA release 1 k me");
    CHECK(plock__call_left(&call));
    start(&ACQUIRE);
    CHECK(!plock__call_left(&call));
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK(value->type == PLOCK__STRING && value->length == 16);
    CHECK_TEXT(fake_peers[0].commands[2], "EVALSHA acquire 1 k me 3000 host 1 2 - - 3000 0 5");
    CHECK_INT(call.left_at, plock_now());
    plock__call_finish(&call);
    CHECK_INT(fake_connections(), 1);
    CHECK_INT(fake_peers[0].command_count, 3);
    end();
}

static void a_script_that_the_server_does_not_know_is_loaded(void) {
    begin("redis://h");
    fake_peers[0].answers[0] = FAKE_NOSCRIPT;
    start(&RELEASE);
    /* the commands that load and call the script leave together, but are answered one by one */
    fake_peers[0].read_chunk = 1;
    CHECK_STATUS(step(), PLOCK_AGAIN);
    CHECK_INT(fake_peers[0].command_count, 4);
    CHECK_TEXT(fake_peers[0].commands[2], "SCRIPT LOAD release");
    CHECK_TEXT(fake_peers[0].commands[3], "EVALSHA release 1 k me");
    fake_say(&fake_peers[0], FAKE_LOADED, strlen(FAKE_LOADED));
    CHECK_STATUS(step(), PLOCK_AGAIN);
    fake_say(&fake_peers[0], FAKE_DONE, strlen(FAKE_DONE));
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK(value->type == PLOCK__INTEGER && value->integer == 1);
    plock__call_finish(&call);
    CHECK(!fake_peers[0].destroyed);
    end();
}

/* The server is expected not to know the script at first, so the call reports no failure. */
static void a_script_loaded_meanwhile_is_no_failure(void) {
    begin("redis://h");
    fake_peers[0].answers[0] = FAKE_NOSCRIPT;
    fake_peers[0].answers[1] = FAKE_LOADED;
    fake_peers[0].answers[2] = FAKE_DONE;
    start(&RELEASE);
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK_STATUS(error.status, PLOCK_OK);
    CHECK_TEXT(error.message, "");
    plock__call_finish(&call);
    end();
}

static void it_is_loaded_only_once(void) {
    begin("redis://h");
    fake_peers[0].answers[0] = FAKE_NOSCRIPT;
    fake_peers[0].answers[1] = FAKE_LOADED;
    fake_peers[0].answers[2] = FAKE_NOSCRIPT;
    start(&RELEASE);
    CHECK_STATUS(step(), PLOCK_NOSCRIPT);
    CHECK_INT(fake_peers[0].command_count, 4);
    CHECK_INT(call.state, PLOCK__CALL_NONE);
    CHECK(!fake_peers[0].destroyed); /* the connection is kept, because no answer is outstanding */
    end();
}

static void loading_may_be_refused(void) {
    begin("redis://h");
    fake_peers[0].answers[0] = FAKE_NOSCRIPT;
    fake_peers[0].answers[1] =
        "-NOPERM this user has no permissions to run the 'script|load' command\r\n";
    fake_peers[0].answers[2] = FAKE_NOSCRIPT;
    start(&RELEASE);
    CHECK_STATUS(step(), PLOCK_NOPERM);
    CHECK(!fake_peers[0].destroyed); /* the connection is kept, because no answer is outstanding */
    end();
}

static void an_error_names_the_store_and_keeps_the_servers_words(void) {
    begin("redis://:sesame@h/1");
    fake_peers[0].answers[0] = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    start(&RELEASE);
    CHECK_STATUS(step(), PLOCK_OOM);
    CHECK_STATUS(error.status, PLOCK_OOM);
    CHECK_HAS(
        error.message,
        "redis://h:6379/1: the server is out of memory (the server says: OOM command not allowed");
    CHECK_LACKS(error.message, "sesame");
    end();
}

static void an_error_decides_whether_the_connection_lives(void) {
    static const struct {
        const char *answer;
        plock_status status;
        bool keeps;
    } ERRORS[] = {
        {"-OOM x\r\n", PLOCK_OOM, true},
        {"-LOADING x\r\n", PLOCK_LOADING, true},
        {"-BUSY x\r\n", PLOCK_BUSY, true},
        {"-NOPERM x\r\n", PLOCK_NOPERM, true},
        {"-MOVED 1 h:1\r\n", PLOCK_MOVED, true},
        {"-CLUSTERDOWN x\r\n", PLOCK_CLUSTERDOWN, true},
        {"-ERR x\r\n", PLOCK_SERVER, true},
        {"-READONLY x\r\n", PLOCK_READONLY, false},
        {"-MASTERDOWN x\r\n", PLOCK_MASTERDOWN, false},
        {"-NOAUTH x\r\n", PLOCK_NOAUTH, false},
        {"nonsense\r\n", PLOCK_PROTOCOL, false},
        {FAKE_CLOSES, PLOCK_DISCONNECTED, false},
    };
    for (unsigned i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++) {
        begin("redis://h");
        fake_peers[0].answers[0] = ERRORS[i].answer;
        start(&RELEASE);
        CHECK_STATUS(step(), ERRORS[i].status);
        CHECK_INT(fake_peers[0].destroyed, !ERRORS[i].keeps);
        CHECK_INT(store->node.pool.open, ERRORS[i].keeps);
        end();
    }
}

static void make_two_idle(void) {
    plock_call other;
    fake_peers[0].answers[0] = fake_peers[1].answers[0] = FAKE_DONE;
    start(&RELEASE);
    CHECK_STATUS(step(), PLOCK_OK);
    plock__call_begin(&other, &store->node, &RELEASE, plock_now() + PLOCK_SECOND);
    CHECK_STATUS(plock__call_step(&other, &value, &interest, &error), PLOCK_OK);
    plock__call_finish(&other);
    plock__call_finish(&call); /* now peer 0 is the next to be used */
    CHECK_INT(fake_connections(), 2);
}

/* The server's name may resolve to another address now, but idle connections still lead to the old
 * address. So they are closed. */
static void a_replicas_answer_makes_all_connections_new(void) {
    begin("redis://h");
    make_two_idle();
    fake_peers[0].answers[1] = "-READONLY You can't write against a read only replica.\r\n";
    start(&RELEASE);
    CHECK_STATUS(step(), PLOCK_READONLY);
    CHECK(fake_peers[0].destroyed && fake_peers[1].destroyed);
    end();
}

static void after_an_idle_connection_was_found_closed_the_others_are_not_trusted(void) {
    begin("redis://h");
    make_two_idle();
    fake_peers[0].answers[1] = FAKE_CLOSES;
    start(&RELEASE);
    CHECK_STATUS(step(), PLOCK_DISCONNECTED);
    CHECK(call.reused);
    CHECK(fake_peers[0].destroyed && fake_peers[1].destroyed);
    end();
}

static void a_new_connection_that_breaks_says_nothing_of_the_others(void) {
    begin("redis://h");
    make_two_idle();
    plock_connection *first, *second;
    plock_turn turn = {0};
    CHECK_STATUS(plock__pool_take(&store->node.pool, &first, &turn, &interest), PLOCK_OK);
    CHECK_STATUS(plock__pool_take(&store->node.pool, &second, &turn, &interest), PLOCK_OK);
    fake_peers[2].answers[0] = FAKE_CLOSES;
    start(&RELEASE);
    CHECK_STATUS(step(), PLOCK_DISCONNECTED);
    CHECK(!call.reused);
    plock__pool_give(&store->node.pool, first, true);
    CHECK(!fake_peers[0].destroyed);
    plock__pool_give(&store->node.pool, second, true);
    end();
}

/* --- time --- */

static void a_silent_server_is_waited_for_until_the_deadline(void) {
    begin("redis://h?command_timeout=0.3");
    start(&RELEASE);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    CHECK_INT(interest.deadline, plock_now() + 300 * PLOCK_MILLISECOND);
    fake_clock_pass(300 * PLOCK_MILLISECOND - 1);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    fake_clock_pass(1);
    CHECK_STATUS(step(), PLOCK_SILENT);
    CHECK_HAS(error.message, "the server did not answer in time");
    CHECK(!fake_peers[0].destroyed); /* the connection stays open for an undo */
    plock__call_cancel(&call, NULL);
    CHECK(fake_peers[0].destroyed);
    end();
}

static void the_callers_deadline_comes_first_if_it_is_sooner(void) {
    begin("redis://h?command_timeout=30");
    start(&RELEASE);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    CHECK_INT(interest.deadline, plock_now() + PLOCK_SECOND);
    plock__call_cancel(&call, NULL);
    end();
}

static void connecting_has_its_own_timeout(void) {
    begin("redis://h?connect_timeout=0.1");
    fake_peers[0].connect_again = 1000;
    start(&RELEASE);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    CHECK_INT(interest.deadline, plock_now() + 100 * PLOCK_MILLISECOND);
    fake_clock_pass(100 * PLOCK_MILLISECOND);
    CHECK_STATUS(step(), PLOCK_SILENT);
    CHECK_HAS(error.message, "in time");
    CHECK(!plock__call_left(&call));
    plock__call_cancel(&call, &RELEASE);
    CHECK(fake_peers[0].destroyed);
    CHECK_INT(fake_peers[0].command_count, 0);
    end();
}

static void a_greeting_without_answer_is_part_of_connecting(void) {
    begin("redis://:sesame@h?connect_timeout=0.1");
    fake_peers[0].silent_greeting = true;
    start(&RELEASE);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    fake_clock_pass(100 * PLOCK_MILLISECOND);
    CHECK_STATUS(step(), PLOCK_SILENT);
    CHECK(!plock__call_left(&call));
    plock__call_cancel(&call, &RELEASE);
    CHECK_INT(fake_peers[0].command_count, 2); /* the two commands of the greeting, and no undo */
    end();
}

static void an_answer_that_is_there_counts_even_at_the_deadline(void) {
    begin("redis://h");
    start(&RELEASE);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    fake_say(&fake_peers[0], FAKE_DONE, strlen(FAKE_DONE));
    fake_clock_pass(PLOCK_SECOND);
    CHECK_STATUS(step(), PLOCK_OK);
    plock__call_finish(&call);
    end();
}

/* --- giving up --- */

static void giving_up_sends_the_undo_after_the_request(void) {
    begin("redis://h");
    start(&ACQUIRE);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    plock__call_cancel(&call, &RELEASE);
    CHECK_TEXT(fake_peers[0].commands[1], "EVALSHA acquire 1 k me 3000 host 1 2 - - 3000 0 5");
    /* sent as text, because the answer that its SHA-1 is unknown would not be read */
    CHECK_TEXT(fake_peers[0].commands[2], "EVAL release 1 k me");
    CHECK(fake_peers[0].destroyed);
    end();
}

/* If bytes followed half a command, the server would take them for the other half. */
static void no_undo_follows_a_request_that_has_not_left_whole(void) {
    begin("redis://h");
    fake_peers[0].connect_again = 1;
    start(&ACQUIRE);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    plock__call_cancel(&call, &RELEASE); /* the call has not even connected */
    CHECK_INT(fake_peers[0].command_count, 0);
    start(&ACQUIRE);
    fake_peers[1].write_room = 82; /* room for the greeting and some bytes of the request */
    CHECK_STATUS(step(), PLOCK_AGAIN);
    CHECK(plock__call_left(&call));
    fake_peers[1].write_room = 0;
    plock__call_cancel(&call, &RELEASE);
    CHECK_INT(fake_peers[1].command_count, 1);
    CHECK(fake_peers[1].destroyed);
    end();
}

/* A turn is reserved for only one second. So a new acquire must not delay the claim of a turn. */
static void a_claim_gets_its_connection_before_a_new_acquire(void) {
    begin("redis://h?pool_size=1");
    plock_turn turn = {0};
    plock_connection *connection = NULL;
    /* takes the only place in the pool, without opening a connection */
    CHECK_STATUS(plock__pool_take(&store->node.pool, &connection, &turn, &interest), PLOCK_OK);
    plock_request claim = ACQUIRE;
    claim.irreplaceable = true;
    plock_call other;
    plock__call_begin(&other, &store->node, &ACQUIRE, PLOCK_NEVER);
    const plock_value *nothing;
    CHECK_STATUS(plock__call_step(&other, &nothing, &interest, &error), PLOCK_AGAIN);
    start(&claim);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    fake_peers[0].answers[0] = FAKE_HELD;
    plock__pool_give_room(&store->node.pool);
    CHECK_STATUS(plock__call_step(&other, &nothing, &interest, &error), PLOCK_AGAIN);
    CHECK(!plock__call_left(&other));
    CHECK_STATUS(step(), PLOCK_OK);
    plock__call_finish(&call);
    plock__call_cancel(&other, NULL);
    end();
}

static void giving_up_twice_or_nothing_is_harmless(void) {
    begin("redis://h");
    start(&ACQUIRE);
    plock__call_cancel(&call, &RELEASE);
    plock__call_cancel(&call, &RELEASE);
    call = (plock_call){0};
    plock__call_cancel(&call, &RELEASE);
    CHECK_INT(fake_connections(), 0);
    end();
}

int main(void) {
    RUN(a_script_is_called_by_its_hash);
    RUN(a_script_that_the_server_does_not_know_is_loaded);
    RUN(a_script_loaded_meanwhile_is_no_failure);
    RUN(it_is_loaded_only_once);
    RUN(loading_may_be_refused);
    RUN(an_error_names_the_store_and_keeps_the_servers_words);
    RUN(an_error_decides_whether_the_connection_lives);
    RUN(a_replicas_answer_makes_all_connections_new);
    RUN(after_an_idle_connection_was_found_closed_the_others_are_not_trusted);
    RUN(a_new_connection_that_breaks_says_nothing_of_the_others);
    RUN(a_silent_server_is_waited_for_until_the_deadline);
    RUN(the_callers_deadline_comes_first_if_it_is_sooner);
    RUN(connecting_has_its_own_timeout);
    RUN(a_greeting_without_answer_is_part_of_connecting);
    RUN(an_answer_that_is_there_counts_even_at_the_deadline);
    RUN(giving_up_sends_the_undo_after_the_request);
    RUN(no_undo_follows_a_request_that_has_not_left_whole);
    RUN(a_claim_gets_its_connection_before_a_new_acquire);
    RUN(giving_up_twice_or_nothing_is_harmless);
    return test_end("call");
}
