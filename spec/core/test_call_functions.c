/* Calls by a Redis user that may call functions, but not scripts. */
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

static const char NO_SCRIPTS[] =
    "-NOPERM User plock has no permissions to run the 'evalsha' command\r\n",
                  NO_FUNCTIONS[] =
                      "-NOPERM User plock has no permissions to run the 'fcall' command\r\n",
                  UNKNOWN[] = "-ERR unknown command `FCALL`, with args beginning with: `x`\r\n",
                  NOT_FOUND[] = "-ERR Function not found\r\n",
                  LOADED[] = "$14\r\nplock_01234567\r\n";

static void begin(void) {
    fake_clock_start();
    store = fake_store("redis://h");
}

static void end(void) { fake_end(NULL, store); }

static plock_status step(void) { return plock__call_step(&call, &value, &interest, &error); }

static void start(void) {
    plock__call_begin(&call, &store->node, &RELEASE, plock_now() + PLOCK_SECOND);
    error = (plock_error){PLOCK_OK, ""};
}

static void answer(unsigned nth, const char *text) { fake_peers[0].answers[nth] = text; }

static void functions_are_loaded_once_and_called_from_then_on(void) {
    begin();
    answer(0, NO_SCRIPTS);
    answer(1, NOT_FOUND);
    answer(2, LOADED);
    answer(3, FAKE_DONE);
    answer(4, FAKE_DONE);
    start();
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK_INT(value->integer, 1);
    plock__call_finish(&call);
    CHECK_HAS(fake_peers[0].commands[2], "FCALL plock_");
    CHECK_HAS(fake_peers[0].commands[2], "_release 1 k me");
    CHECK_HAS(fake_peers[0].commands[3], "FUNCTION LOAD REPLACE #!lua name=plock_");
    CHECK_HAS(fake_peers[0].commands[4], "FCALL plock_");
    start();
    CHECK_STATUS(step(), PLOCK_OK);
    plock__call_finish(&call);
    CHECK_HAS(fake_peers[0].commands[5], "FCALL plock_");
    CHECK_INT(fake_peers[0].command_count, 6);
    CHECK_INT(fake_connections(), 1);
    end();
}

static void without_either_the_error_names_both(void) {
    const char *const REFUSALS[] = {NO_FUNCTIONS, UNKNOWN};
    for (size_t i = 0; i < sizeof REFUSALS / sizeof *REFUSALS; i++) {
        begin();
        answer(0, NO_SCRIPTS);
        answer(1, REFUSALS[i]);
        start();
        CHECK_STATUS(step(), PLOCK_NOPERM);
        CHECK_HAS(error.message, "EVALSHA (or FCALL, from Redis 7 on)");
        CHECK(!store->node.functions);
        CHECK(!fake_peers[0].destroyed);
        end();
    }
}

static void a_library_that_cannot_be_loaded_ends_the_call(void) {
    begin();
    answer(0, NO_SCRIPTS);
    answer(1, NOT_FOUND);
    answer(2, "-NOPERM User plock has no permissions to run the 'function|load' command\r\n");
    answer(3, NOT_FOUND);
    start();
    CHECK_STATUS(step(), PLOCK_NOPERM);
    CHECK_HAS(error.message, "function|load");
    CHECK(!fake_peers[0].destroyed); /* the connection is kept, because no answer is outstanding */
    end();
}

static void an_undo_is_a_function_too(void) {
    begin();
    atomic_store(&store->node.functions, true);
    answer(0, FAKE_SILENCE);
    start();
    CHECK_STATUS(step(), PLOCK_AGAIN);
    plock__call_cancel(&call, &RELEASE);
    CHECK_INT(fake_peers[0].command_count, 3);
    CHECK_HAS(fake_peers[0].commands[2], "FCALL plock_");
    end();
}

/* The user lacks a permission for a command in the script. A function would run the same command,
 * so a change from scripts to functions would not help. */
static void a_refusal_inside_of_a_script_changes_nothing(void) {
    begin();
    answer(0, "-ERR The user executing the script can't run this command or subcommand script: "
              "0123, on @user_script:3.\r\n");
    start();
    CHECK_STATUS(step(), PLOCK_NOPERM);
    CHECK_INT(fake_peers[0].command_count, 2);
    end();
}

static void check_library(bool clustered) {
    const plock_text library = plock__script_library(clustered);
    CHECK_INT(strlen(library.bytes), library.length);
    for (int id = 0; id < PLOCK__SCRIPTS; id++) {
        const plock_script *script = plock__script((plock_script_id)id, clustered);
        CHECK_HAS(library.bytes, script->text);
        CHECK_HAS(library.bytes, script->function);
        CHECK(!memcmp(library.bytes + strlen("#!lua name="), script->function, 14));
    }
}

static void each_library_has_each_script_as_a_function(void) {
    check_library(false);
    check_library(true);
    CHECK(strcmp(plock__script(PLOCK__ACQUIRE, false)->function,
                 plock__script(PLOCK__ACQUIRE, true)->function) != 0);
}

int main(void) {
    RUN(each_library_has_each_script_as_a_function);
    RUN(functions_are_loaded_once_and_called_from_then_on);
    RUN(without_either_the_error_names_both);
    RUN(a_library_that_cannot_be_loaded_ends_the_call);
    RUN(an_undo_is_a_function_too);
    RUN(a_refusal_inside_of_a_script_changes_nothing);
    return test_end("calls of functions");
}
