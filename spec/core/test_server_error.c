/* The meaning of a server's errors, in the words of Redis 6.2, Redis 7 and Valkey. */
#include "test.h"

#include "net/reply.h"

#include <stdio.h>
#include <string.h>

static plock_status meaning(const char *words, size_t length, plock_error *error) {
    *error = (plock_error){PLOCK_OK, ""};
    const plock_value value = {.type = PLOCK__ERROR, .length = length, .text = words};
    return plock__server_error(&value, error);
}

static const struct {
    const char *words;
    plock_status status;
} ERRORS[] = {
    {"LOADING Redis is loading the dataset in memory", PLOCK_LOADING},
    {"READONLY You can't write against a read only replica.", PLOCK_READONLY},
    {"READONLY You can't write against a read only replica. script: 5f8e, on @user_script:1.",
     PLOCK_READONLY},
    {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
     PLOCK_MASTERDOWN},
    {"NOAUTH Authentication required.", PLOCK_NOAUTH},
    {"WRONGPASS invalid username-password pair or user is disabled.", PLOCK_WRONGPASS},
    {"ERR AUTH <password> called without any password configured for the default user. Are you "
     "sure your configuration is correct?",
     PLOCK_WRONGPASS},
    {"ERR Client sent AUTH, but no password is set", PLOCK_WRONGPASS},
    {"NOPERM this user has no permissions to run the 'evalsha' command", PLOCK_NOPERM},
    {"NOPERM No permissions to access a key", PLOCK_NOPERM},
    {"NOPERM this user has no permissions to run the 'set' command script: 5f8e, on "
     "@user_script:1.",
     PLOCK_NOPERM},
    {"ERR ACL failure in script: No permissions to access a key script: 5f8e, on @user_script:2.",
     PLOCK_NOPERM},
    {"OOM command not allowed when used memory > 'maxmemory'.", PLOCK_OOM},
    {"OOM command not allowed when used memory > 'maxmemory'. script: 5f8e, on @user_script:1.",
     PLOCK_OOM},
    {"MOVED 3999 127.0.0.1:6381", PLOCK_MOVED},
    {"ASK 3999 127.0.0.1:6381", PLOCK_MOVED},
    {"CROSSSLOT Keys in request don't hash to the same slot", PLOCK_CROSSSLOT},
    {"CLUSTERDOWN Hash slot not served", PLOCK_CLUSTERDOWN},
    {"TRYAGAIN Multiple keys request during rehashing of slot", PLOCK_CLUSTERDOWN},
    {"NOSCRIPT No matching script. Please use EVAL.", PLOCK_NOSCRIPT},
    {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
     PLOCK_BUSY},
    {"ERR unknown command 'EVALSHA'", PLOCK_SERVER},
    {"ERR max number of clients reached", PLOCK_FULL},
    {"DENIED Redis is running in protected mode because protected mode is enabled.", PLOCK_NOAUTH},
    {"MISCONF Redis is configured to save RDB snapshots, but it is currently unable to persist to "
     "disk.",
     PLOCK_MISCONF},
    {"NOREPLICAS Not enough good replicas to write.", PLOCK_MISCONF},
    {"ERR DB index is out of range", PLOCK_BAD_CONFIG},
    {"ERR SELECT is not allowed in cluster mode", PLOCK_MOVED},
    {"WRONGTYPE Operation against a key holding the wrong kind of value", PLOCK_SERVER},
    {"BUSYGROUP Consumer Group name already exists", PLOCK_SERVER},
    {"BUSYKEY Target key name already exists.", PLOCK_SERVER},
    {"READONLYISH is another word", PLOCK_SERVER},
    {"err loading", PLOCK_SERVER},
    {"ERR LOADING is not the first word", PLOCK_SERVER},
    {"OOM", PLOCK_OOM},
    {"OOM\r", PLOCK_OOM},
    {"", PLOCK_SERVER},
    {" ", PLOCK_SERVER},
};

static void each_error_has_its_status_and_keeps_its_words(void) {
    for (unsigned i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++) {
        plock_error error;
        if (!CHECK_STATUS(meaning(ERRORS[i].words, strlen(ERRORS[i].words), &error),
                          ERRORS[i].status))
            CHECK_TEXT(ERRORS[i].words, "understood");
        CHECK_STATUS(error.status, ERRORS[i].status);
        char beginning[32];
        (void)snprintf(beginning, sizeof beginning, "%.20s", ERRORS[i].words);
        for (char *c = beginning; *c; c++)
            if (*c == '\r') *c = ' ';
        CHECK_HAS(error.message, beginning);
    }
}

/* If a script fails, Redis 6 puts the error into a message of its own. In this message, a command's
 * error keeps its dash, but an ACL check's error has none. */
static const struct {
    const char *words;
    plock_status status;
} WRAPPED[] = {
    {"ERR Error running script (call to f_5f8e): @user_script:1: @user_script: 1: -READONLY You "
     "can't write against a read only replica.",
     PLOCK_READONLY},
    {"ERR Error running script (call to f_5f8e): @user_script:1: @user_script: 1: -OOM command not "
     "allowed when used memory > 'maxmemory'.",
     PLOCK_OOM},
    {"ERR Error running script (call to f_5f8e): @user_script:1: @user_script: 1: -MASTERDOWN Link "
     "with MASTER is down",
     PLOCK_MASTERDOWN},
    {"ERR Error running script (call to f_5f8e): @user_script:1: WRONGTYPE Operation against a key "
     "holding the wrong kind of value",
     PLOCK_SERVER},
    {"ERR Error running script (call to f_5f8e): @user_script:1: @user_script: 1: Script attempted "
     "to access a non local key in a cluster node",
     PLOCK_MIGRATING},
    {"ERR Error running script (call to f_5f8e): @user_script:1: @user_script: 1: Script attempted "
     "to execute a write command while the cluster is down and readonly",
     PLOCK_CLUSTERDOWN},
    {"ERR Error running script (call to f_5f8e): @user_script:1: user_script:1: attempt to compare "
     "nil with number",
     PLOCK_SERVER},
};

static void an_error_inside_a_script_is_unwrapped(void) {
    for (unsigned i = 0; i < sizeof WRAPPED / sizeof *WRAPPED; i++) {
        plock_error error;
        if (!CHECK_STATUS(meaning(WRAPPED[i].words, strlen(WRAPPED[i].words), &error),
                          WRAPPED[i].status))
            CHECK_TEXT(WRAPPED[i].words, "understood");
        CHECK_HAS(error.message, "ERR Error running script");
    }
}

static void a_missing_permission_inside_a_script_of_redis_6_is_one(void) {
    static const char *const WORDS[] = {
        "ERR Error running script (call to f_5f8e): @user_script:1: @user_script: 1: The user "
        "executing the script can't run this command or subcommand",
        "ERR Error running script (call to f_5f8e): @user_script:1: @user_script: 1: The user "
        "executing the script can't access at least one of the keys "
        "mentioned in the command arguments",
    };
    for (unsigned i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        plock_error error;
        CHECK_STATUS(meaning(WORDS[i], strlen(WORDS[i]), &error), PLOCK_NOPERM);
    }
}

static void a_message_has_no_control_characters_and_fits(void) {
    static char longer[10000];
    plock_error error;
    memset(longer, 'x', sizeof longer);
    memcpy(longer, "OOM ", 4);
    CHECK_STATUS(meaning(longer, sizeof longer, &error), PLOCK_OOM);
    CHECK(strlen(error.message) < sizeof error.message);
    CHECK_STATUS(meaning("ERR a\nb\x1b[31mc\td", 15, &error), PLOCK_SERVER);
    for (const char *c = error.message; *c; c++) CHECK((unsigned char)*c >= ' ');
    CHECK_STATUS(meaning("OOM\0LOADING", 11, &error), PLOCK_OOM);
}

int main(void) {
    RUN(each_error_has_its_status_and_keeps_its_words);
    RUN(an_error_inside_a_script_is_unwrapped);
    RUN(a_missing_permission_inside_a_script_of_redis_6_is_one);
    RUN(a_message_has_no_control_characters_and_fits);
    return test_end("server error");
}
