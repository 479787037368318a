/* The life of a lease without failures: acquire, hold, extend, release, and its validity. */
#include "fake.h"
#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static plock_store *store;
static plock_lease *lease;

static void begin(const char *url) {
    fake_clock_start();
    store = fake_store(url);
    lease = fake_lease(store);
}

static void end(void) { fake_end(lease, store); }

static void check_owner(const char *expected) {
    size_t length;
    char owner[64] = "";
    const char *bytes = plock_lease_owner(lease, &length);
    if (CHECK(length < sizeof owner)) memcpy(owner, bytes, length);
    CHECK_TEXT(owner, expected);
}

static void a_free_key_is_acquired_and_released(void) {
    char word[FAKE_COMMAND_ROOM];
    size_t length;
    begin("redis://h");
    fake_peers[0].answers[0] = FAKE_HELD;
    fake_peers[0].answers[1] = FAKE_DONE;
    CHECK(!plock_lease_valid(lease));
    CHECK_INT(plock_lease_fence(lease), 0);
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK(plock_lease_valid(lease));
    CHECK(!plock_lease_inherited(lease));
    CHECK_INT(plock_lease_fence(lease), FAKE_HELD_FENCE);
    CHECK_INT(plock_lease_ttl(lease), 3 * PLOCK_SECOND);
    CHECK(!strncmp(plock_lease_key(lease, &length), "k", 1) && length == 1);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    CHECK(!plock_lease_valid(lease));
    const char *acquire = fake_peers[0].commands[1], *release = fake_peers[0].commands[2];
    CHECK_HAS(acquire, "EVALSHA acquire 1 k ");
    check_owner(fake_word(acquire, 4, word));
    CHECK_TEXT(fake_word(acquire, 5, word), "3000");
    CHECK_HAS(release, "EVALSHA release 1 k ");
    check_owner(fake_word(release, 4, word));
    /* the release has neither a window for processes that poll nor a time for which the key stays
     * taken */
    CHECK_TEXT(fake_word(release, 5, word), "");
    CHECK_INT(fake_connections(), 1);
    end();
    CHECK_INT(fake_commands_like("EVALSHA"), 2); /* no request was sent in the background */
}

static void the_owner_record_says_who_it_is(void) {
    char word[FAKE_COMMAND_ROOM], host[128] = "", expected[64];
    begin("redis://h");
    fake_peers[0].answers[0] = FAKE_REFUSED;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_REFUSED);
    const char *acquire = fake_peers[0].commands[1];
    (void)gethostname(host, sizeof host - 1);
    CHECK_TEXT(fake_word(acquire, 6, word), host);
    (void)snprintf(expected, sizeof expected, "%ld", (long)getpid());
    CHECK_TEXT(fake_word(acquire, 7, word), expected);
    CHECK(*fake_word(acquire, 8, word) >= '0' && *word <= '9');
    CHECK_TEXT(fake_word(acquire, 9, word), "-");        /* the owner listens on no channel */
    CHECK_TEXT(fake_word(acquire, 10, word), "-");       /* the owner has no label */
    CHECK_TEXT(fake_word(acquire, 11, word), "3603000"); /* the TTL plus an hour */
    /* the word "again" is missing, because this is the owner's first request */
    CHECK_TEXT(fake_word(acquire, 12, word), "");
    end();
}

static void a_held_key_is_refused(void) {
    begin("redis://h");
    fake_peers[0].answers[0] = FAKE_REFUSED;
    const plock_ns before = plock_now();
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_REFUSED);
    CHECK_INT(plock_now(), before);
    CHECK_TEXT(plock_lease_error(lease)->message, "held by another owner");
    CHECK(!plock_lease_valid(lease));
    CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_extend(lease, PLOCK_SECOND), PLOCK_MISUSE);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
}

/* A lease is valid from the moment before its request left, for its TTL less a margin for clock
 * drift. The margin is 1 % and 2 ms. */
static void a_lease_is_valid_for_its_time_less_drift(void) {
    begin("redis://h");
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = 10 * PLOCK_SECOND}),
                 PLOCK_OK);
    fake_clock_pass(50 * PLOCK_MILLISECOND); /* the time before the request leaves is not counted */
    const plock_ns left = plock_now();
    plock_interest interest;
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    fake_clock_pass(70 * PLOCK_MILLISECOND);
    fake_say(&fake_peers[0], FAKE_HELD, strlen(FAKE_HELD));
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_OK);
    CHECK_INT(plock_lease_acquired_at(lease), left);
    CHECK_INT(plock_lease_valid_until(lease),
              left + 10 * PLOCK_SECOND - 100 * PLOCK_MILLISECOND - 2 * PLOCK_MILLISECOND);
    fake_clock_pass(plock_lease_valid_until(lease) - plock_now() - 1);
    CHECK(plock_lease_valid(lease));
    fake_clock_pass(1);
    CHECK(!plock_lease_valid(lease));
    end();
}

static void the_time_to_live_is_sent_in_milliseconds(void) {
    static const struct {
        plock_ns ttl;
        const char *sent;
    } TTLS[] = {{PLOCK_TTL_MIN, "5"},
                {6999999, "6"},
                {30 * PLOCK_SECOND, "30000"},
                {86400 * PLOCK_SECOND, "86400000"},
                {PLOCK_TTL_MAX, "31622400000"}};
    char word[FAKE_COMMAND_ROOM];
    for (unsigned i = 0; i < sizeof TTLS / sizeof *TTLS; i++) {
        begin("redis://h");
        fake_peers[0].answers[0] = FAKE_REFUSED;
        CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = TTLS[i].ttl}),
                     PLOCK_OK);
        CHECK_STATUS(fake_finish(lease), PLOCK_REFUSED);
        CHECK_TEXT(fake_word(fake_peers[0].commands[1], 5, word), TTLS[i].sent);
        end();
    }
}

static void a_value_may_be_written_as_marshal_writes_it(void) {
    char word[FAKE_COMMAND_ROOM], expected[128], owner[64] = "";
    size_t length;
    plock_error error;
    plock_config *config;
    fake_clock_start();
    fake_reset();
    CHECK_STATUS(plock_config_new(&config, "redis://h", &error), PLOCK_OK);
    CHECK_STATUS(plock_config_set(config, "encoding", "marshal", &error), PLOCK_OK);
    CHECK_STATUS(plock_store_open(&store, config, &error), PLOCK_OK);
    fake_transport_for(store);
    lease = fake_lease(store);
    fake_peers[0].answers[0] = FAKE_HELD;
    fake_peers[0].answers[1] = FAKE_DONE;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    memcpy(owner, plock_lease_owner(lease, &length), PLOCK_TOKEN_LENGTH);
    CHECK_INT(length, PLOCK_TOKEN_LENGTH); /* the fresh token has the usual length */
    (void)snprintf(expected, sizeof expected,
                   "\x04\bI\")%s\x06:\x06"
                   "EF",
                   owner);
    CHECK_TEXT(fake_word(fake_peers[0].commands[1], 4, word), expected);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    CHECK_TEXT(fake_word(fake_peers[0].commands[2], 4, word), expected);
    end();
}

/* --- an owner given by the caller --- */

static void an_owner_can_be_given(void) {
    begin("redis://h");
    char word[FAKE_COMMAND_ROOM];
    fake_peers[0].answers[0] = FAKE_HELD;
    fake_peers[0].answers[1] = FAKE_DONE;
    CHECK_STATUS(plock_lease_own(lease, "me", 2), PLOCK_OK);
    check_owner("me");
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK_TEXT(fake_word(fake_peers[0].commands[1], 4, word), "me");
    CHECK_STATUS(plock_lease_own(lease, "you", 3), PLOCK_MISUSE); /* the lease is held */
    fake_leave(lease);
    CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_release_owned(lease), PLOCK_OK);
    CHECK_STATUS(fake_finish(lease), PLOCK_OK);
    CHECK_TEXT(fake_peers[0].commands[2], "EVALSHA release 1 k me");
    end();
}

static void a_lease_that_was_left_is_not_released_when_freed(void) {
    begin("redis://h");
    fake_peers[0].answers[0] = FAKE_HELD;
    CHECK_STATUS(plock_lease_own(lease, "me", 2), PLOCK_OK);
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    fake_leave(lease);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
}

static void what_another_owner_holds_is_not_released(void) {
    begin("redis://h");
    fake_peers[0].answers[0] = FAKE_NOT_OURS;
    CHECK_STATUS(plock_lease_own(lease, "me", 2), PLOCK_OK);
    CHECK_STATUS(plock_lease_release_owned(lease), PLOCK_OK);
    CHECK_STATUS(fake_finish(lease), PLOCK_NOT_OWNER);
    end();
}

/* --- a key that is kept after its release --- */

static void a_release_before_its_time_leaves_the_key_taken_for_the_rest(void) {
    static const struct {
        plock_ns held;
        const char *kept, *noted;
    } TIMES[] = {{0, "60001", "3660001"},
                 {20 * PLOCK_SECOND, "40001", "3640001"},
                 {60 * PLOCK_SECOND, "", ""},
                 {70 * PLOCK_SECOND, "", ""}};
    for (unsigned i = 0; i < sizeof TIMES / sizeof *TIMES; i++) {
        char word[FAKE_COMMAND_ROOM];
        begin("redis://h");
        fake_peers[0].obliging = true;
        CHECK_STATUS(
            plock_lease_acquire(lease, &(plock_acquire_options){.ttl = 10 * PLOCK_SECOND,
                                                                .at_least = 60 * PLOCK_SECOND}),
            PLOCK_OK);
        CHECK_STATUS(fake_finish(lease), PLOCK_OK);
        /* the TTL is at least as long as at_least */
        CHECK_TEXT(fake_word(fake_peers[0].commands[1], 5, word), "60000");
        fake_clock_pass(TIMES[i].held);
        CHECK_STATUS(fake_release(lease), PLOCK_OK);
        const bool kept = *TIMES[i].kept;
        CHECK_HAS(fake_peers[0].commands[2], "EVALSHA release 1 k ");
        CHECK_TEXT(fake_word(fake_peers[0].commands[2], 5, word), kept ? "0" : "");
        CHECK_TEXT(fake_word(fake_peers[0].commands[2], 6, word), TIMES[i].kept);
        /* the fence is remembered for longer than the key is kept */
        CHECK_TEXT(fake_word(fake_peers[0].commands[2], 7, word), TIMES[i].noted);
        end();
    }
}

/* --- misuse --- */

static void nonsense_is_refused(void) {
    plock_lease *none;
    plock_interest interest;
    begin("redis://h");
    CHECK_STATUS(plock_lease_new(&none, store, "", 0), PLOCK_MISUSE);
    CHECK(none == NULL);
    CHECK_STATUS(plock_lease_own(lease, "", 0), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_release_owned(lease), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_extend(lease, PLOCK_SECOND), PLOCK_MISUSE);
    static const plock_acquire_options IMPOSSIBLE[] = {
        {.ttl = 0},
        {.ttl = -1},
        {.ttl = PLOCK_TTL_MIN - 1},
        {.ttl = PLOCK_TTL_MAX + 1},
        {.ttl = PLOCK_NEVER},
        {.ttl = PLOCK_SECOND, .wait = -1},
        {.ttl = PLOCK_SECOND, .at_least = -1},
        {.ttl = PLOCK_SECOND, .at_least = PLOCK_TTL_MAX + 1}};
    char label[PLOCK_LABEL_MAX + 2];
    memset(label, 'x', sizeof label);
    label[PLOCK_LABEL_MAX + 1] = 0;
    CHECK_STATUS(
        plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND, .label = label}),
        PLOCK_MISUSE);
    for (unsigned i = 0; i < sizeof IMPOSSIBLE / sizeof *IMPOSSIBLE; i++)
        CHECK_STATUS(plock_lease_acquire(lease, &IMPOSSIBLE[i]), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    /* an acquire is in progress */
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_own(lease, "me", 2), PLOCK_MISUSE);
    plock_lease_cancel(lease);
    plock_lease_cancel(lease);
    plock_lease_free(NULL);
    end();
    CHECK_INT(fake_connections(), 0);
}

static void a_key_may_hold_any_byte(void) {
    begin("redis://h");
    plock_lease *other;
    size_t length;
    CHECK_STATUS(plock_lease_new(&other, store, "a\0\r\n\xff", 5), PLOCK_OK);
    fake_peers[0].answers[0] = FAKE_REFUSED;
    CHECK_STATUS(fake_acquire(other, 0), PLOCK_REFUSED);
    CHECK(!memcmp(plock_lease_key(other, &length), "a\0\r\n\xff", 5) && length == 5);
    CHECK_INT(fake_peers[0].command_count, 2);
    plock_lease_free(other);
    end();
}

/* --- one lease, many times; one store, many threads --- */

static void a_lease_object_can_be_used_again(void) {
    char first[FAKE_COMMAND_ROOM], second[FAKE_COMMAND_ROOM];
    begin("redis://h");
    for (int i = 0; i < 4; i += 2) {
        fake_peers[0].answers[i] = FAKE_HELD;
        fake_peers[0].answers[i + 1] = FAKE_DONE;
        CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
        CHECK_STATUS(fake_release(lease), PLOCK_OK);
    }
    (void)fake_word(fake_peers[0].commands[1], 4, first);
    /* each acquire has its own token */
    CHECK(strcmp(first, fake_word(fake_peers[0].commands[3], 4, second)) != 0);
    end();
}

static void *acquire_and_release(void *argument) {
    plock_store *shared = argument;
    plock_lease *own = fake_lease(shared);
    CHECK_STATUS(plock_lease_acquire(own, &(plock_acquire_options){.ttl = PLOCK_SECOND}), PLOCK_OK);
    CHECK_STATUS(plock_drive(own, plock_wait_poll, NULL), PLOCK_OK);
    CHECK(plock_lease_valid(own));
    CHECK_STATUS(plock_lease_release(own, PLOCK_KEEP_AT_LEAST), PLOCK_OK);
    CHECK_STATUS(plock_drive(own, plock_wait_poll, NULL), PLOCK_OK);
    plock_lease_free(own);
    return NULL;
}

static void threads_share_a_store(void) {
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    store = fake_store("redis://h");
    for (int i = 0; i < FAKE_PEERS; i++) fake_peers[i].obliging = true;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, acquire_and_release, store) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_INT(fake_commands_like("EVALSHA acquire"), THREADS);
    CHECK_INT(fake_commands_like("EVALSHA release"), THREADS);
    fake_end(NULL, store);
}

int main(void) {
    RUN(a_free_key_is_acquired_and_released);
    RUN(the_owner_record_says_who_it_is);
    RUN(a_held_key_is_refused);
    RUN(a_lease_is_valid_for_its_time_less_drift);
    RUN(the_time_to_live_is_sent_in_milliseconds);
    RUN(a_value_may_be_written_as_marshal_writes_it);
    RUN(an_owner_can_be_given);
    RUN(a_lease_that_was_left_is_not_released_when_freed);
    RUN(what_another_owner_holds_is_not_released);
    RUN(a_release_before_its_time_leaves_the_key_taken_for_the_rest);
    RUN(nonsense_is_refused);
    RUN(a_key_may_hold_any_byte);
    RUN(a_lease_object_can_be_used_again);
    RUN(threads_share_a_store);
    return test_end("lease");
}
