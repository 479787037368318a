/* Several leases at once: all or none. */
#include "fake.h"
#include "test.h"

#include "base/process.h"
#include "redis/store.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEASES = 3 };

#define FENCE(digit) "$16\r\n170000000000000" #digit "\r\n"
static const char HELD[] = "*3\r\n" FENCE(1) FENCE(2) FENCE(3);
static const char GONE[] = "*3\r\n:1\r\n:1\r\n:2\r\n";

static plock_store *store;
static plock_lease *leases[LEASES];
static plock_group *group;
static plock_interest interest;

static void begin_at(const char *url) {
    static const char *const KEYS[LEASES] = {"a", "b", "c"};
    fake_clock_start();
    store = fake_store(url);
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    for (unsigned i = 0; i < LEASES; i++)
        CHECK_STATUS(plock_lease_new(&leases[i], store, KEYS[i], 1), PLOCK_OK);
    CHECK_STATUS(plock_group_new(&group, leases, LEASES), PLOCK_OK);
}

static void begin(void) { begin_at("redis://h"); }

static void end(void) {
    plock_group_free(group);
    for (unsigned i = 1; i < LEASES; i++) plock_lease_free(leases[i]);
    fake_end(leases[0], store);
}

static plock_status finish(void) {
    const plock_operation operation = plock_group_operation(group);
    return plock_carry_on(&operation, fake_wait, NULL);
}

static const plock_acquire_options TERMS = {.ttl = 3 * PLOCK_SECOND};

static plock_status acquire(void) {
    const plock_status status = plock_group_acquire(group, &TERMS);
    return status ? status : finish();
}

static plock_status release(plock_ns keep) {
    const plock_status status = plock_group_release(group, keep);
    return status ? status : finish();
}

static const char *value_of(unsigned i, char value[FAKE_COMMAND_ROOM]) {
    size_t length;
    const char *owner = plock_lease_owner(leases[i], &length);
    (void)snprintf(value, FAKE_COMMAND_ROOM, "%.*s", (int)length, owner);
    return value;
}

static unsigned held(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < LEASES; i++) count += plock_lease_valid(leases[i]);
    return count;
}

/* --- acquiring --- */

static void one_request_gets_all(void) {
    char value[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    begin();
    fake_peers[0].answers[0] = HELD;
    CHECK_STATUS(acquire(), PLOCK_OK);
    CHECK_INT(fake_peers[0].command_count, 2); /* the greeting and one request */
    const char *command = fake_peers[0].commands[1];
    CHECK_HAS(command, "EVALSHA acquire_all 3 a b c ");
    CHECK_TEXT(fake_word(command, 6, word), "3000");
    CHECK_TEXT(fake_word(command, 7, word), "3603000"); /* the TTL plus an hour */
    /* all leases share one signature of five words */
    CHECK_TEXT(fake_word(command, 15, word), "-");
    CHECK_TEXT(fake_word(command, 16, word), "");
    for (unsigned i = 0; i < LEASES; i++) {
        CHECK_TEXT(fake_word(command, 8 + i, word), value_of(i, value));
        CHECK_INT(plock_lease_fence(leases[i]), 1700000000000001 + i);
        CHECK(plock_lease_valid(leases[i]));
        CHECK_INT(plock_lease_valid_until(leases[i]),
                  plock_now() + 3 * PLOCK_SECOND - 32 * PLOCK_MILLISECOND);
    }
    /* the leases are already held */
    CHECK_STATUS(plock_group_acquire(group, &TERMS), PLOCK_MISUSE);
    end();
    /* end() has released each lease with a request of its own, because the group did not */
    CHECK_INT(fake_commands_like("EVALSHA release "), 3);
}

static void refused_it_has_none(void) {
    begin();
    fake_peers[0].answers[0] = ":2\r\n";
    CHECK_STATUS(acquire(), PLOCK_REFUSED);
    CHECK_INT(plock_group_free_ones(group), 2);
    CHECK_INT(held(), 0);
    CHECK(!plock_lease_contended(leases[1]) && plock_lease_contended(leases[2]));
    fake_peers[0].answers[1] = HELD; /* the group may ask again, with other tokens */
    CHECK_STATUS(acquire(), PLOCK_OK);
    CHECK_INT(held(), LEASES);
    char first[FAKE_COMMAND_ROOM], second[FAKE_COMMAND_ROOM];
    CHECK(strcmp(fake_word(fake_peers[0].commands[1], 8, first),
                 fake_word(fake_peers[0].commands[2], 8, second)) != 0);
    for (unsigned i = 0; i < LEASES; i++) fake_leave(leases[i]);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
}

static void what_is_in_doubt_is_given_back_each_by_itself(void) {
    static const char *const ANSWERS[] = {FAKE_SILENCE,
                                          FAKE_CLOSES,
                                          "-ERR x\r\n",
                                          ":3\r\n",
                                          ":-2\r\n",
                                          "$1\r\nx\r\n",
                                          "*2\r\n" FENCE(1) FENCE(2),
                                          "*3\r\n" FENCE(1) FENCE(2) ":5\r\n",
                                          "*3\r\n" FENCE(1) "$2\r\n17\r\n" FENCE(3)};
    static const plock_status STATUSES[] = {PLOCK_SILENT,   PLOCK_DISCONNECTED, PLOCK_SERVER,
                                            PLOCK_PROTOCOL, PLOCK_PROTOCOL,     PLOCK_PROTOCOL,
                                            PLOCK_PROTOCOL, PLOCK_PROTOCOL,     PLOCK_PROTOCOL};
    for (unsigned i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        char value[FAKE_COMMAND_ROOM], expected[FAKE_COMMAND_ROOM];
        begin();
        fake_peers[0].answers[0] = ANSWERS[i];
        CHECK_STATUS(acquire(), STATUSES[i]);
        CHECK_STATUS(plock_group_error(group)->status, STATUSES[i]);
        CHECK_INT(held(), 0);
        CHECK_INT(fake_commands_like("EVAL release_all 3 a b c "),
                  STATUSES[i] == PLOCK_SILENT || STATUSES[i] == PLOCK_PROTOCOL);
        (void)snprintf(expected, sizeof expected, "EVALSHA release 1 b %.40s", value_of(1, value));
        end();
        CHECK_INT(fake_commands_like("EVALSHA release 1 "), LEASES);
        CHECK_INT(fake_commands_like(expected), 1);
    }
}

static void what_never_left_is_not_given_back(void) {
    begin();
    fake_peers[0].connect_failure = PLOCK_CONNECT;
    CHECK_STATUS(acquire(), PLOCK_CONNECT);
    end();
    CHECK_INT(fake_commands_like("EVAL"), 0);
}

static unsigned asked;

/* Gives the answers in the order of the requests on all connections, because background work also
 * uses connections. */
static const char *refuses_closes_grants(const char *command, unsigned nth) {
    (void)nth;
    const char *const answers[] = {":0\r\n", FAKE_CLOSES, HELD};
    return !strncmp(command, "EVALSHA acquire_all", 19) && asked < 3 ? answers[asked++] : NULL;
}

static void an_idle_connection_that_was_closed_is_replaced(void) {
    char value[FAKE_COMMAND_ROOM], expected[FAKE_COMMAND_ROOM];
    begin();
    asked = 0;
    fake_redis.says = refuses_closes_grants;
    CHECK_STATUS(acquire(), PLOCK_REFUSED);
    CHECK_STATUS(acquire(), PLOCK_OK);
    CHECK_INT(held(), LEASES);
    /* the token of the request that may have been executed */
    (void)fake_word(fake_peers[0].commands[2], 8, value);
    (void)snprintf(expected, sizeof expected, "EVALSHA release 1 a %.40s", value);
    for (unsigned i = 0; i < LEASES; i++) fake_leave(leases[i]);
    end();
    CHECK_INT(fake_commands_like(expected), 1);
    CHECK_INT(fake_commands_like("EVALSHA release 1 "), LEASES);
}

static void keys_of_different_nodes_cannot_be_had_at_once(void) {
    begin();
    fake_peers[0].answers[0] = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    CHECK_STATUS(acquire(), PLOCK_CROSSSLOT);
    CHECK_INT(held(), 0);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
}

static void an_answer_that_comes_too_late_gets_none(void) {
    begin();
    fake_peers[0].answers[0] = FAKE_SILENCE;
    CHECK_STATUS(plock_group_acquire(group, &TERMS), PLOCK_OK);
    CHECK_STATUS(plock_group_operation(group).step(group, &interest), PLOCK_AGAIN);
    fake_clock_pass(3 * PLOCK_SECOND);
    fake_say(&fake_peers[0], HELD, sizeof HELD - 1);
    CHECK_STATUS(finish(), PLOCK_SILENT);
    CHECK_INT(held(), 0);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release 1 "), LEASES);
}

/* The caller has already spent `asking` on earlier attempts. This attempt may take the rest of
 * attempt_timeout or the rest of the caller's wait, `left`, whichever is longer. It may take at
 * least 20 ms, and at most a whole attempt_timeout. */
static void an_attempt_takes_no_longer_than_its_caller_has_left(void) {
    static const struct {
        plock_ns asking, left, ends_after;
    } CASES[] = {{0, 0, 200},      {150, 0, 50}, {150, 80, 80}, {500, 80, 80},
                 {500, 3000, 200}, {500, 0, 20}, {190, 5, 20}};
    for (unsigned i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        begin();
        fake_peers[0].answers[0] = FAKE_SILENCE;
        const plock_ns began = plock_now();
        const plock_acquire_options terms = {.ttl = TERMS.ttl,
                                             .wait = CASES[i].left * PLOCK_MILLISECOND,
                                             .asking = CASES[i].asking * PLOCK_MILLISECOND};
        CHECK_STATUS(plock_group_acquire(group, &terms), PLOCK_OK);
        CHECK_STATUS(finish(), PLOCK_SILENT);
        CHECK_INT(plock_now() - began, CASES[i].ends_after * PLOCK_MILLISECOND);
        end();
    }
}

static void giving_up_gives_all_back(void) {
    begin();
    fake_peers[0].answers[0] = FAKE_SILENCE;
    CHECK_STATUS(plock_group_acquire(group, &TERMS), PLOCK_OK);
    CHECK_STATUS(plock_group_operation(group).step(group, &interest), PLOCK_AGAIN);
    CHECK_STATUS(plock_group_acquire(group, &TERMS), PLOCK_MISUSE);
    plock_group_operation(group).cancel(group);
    CHECK_STATUS(plock_group_operation(group).step(group, &interest), PLOCK_MISUSE);
    /* each lease can again be used without the group */
    CHECK_STATUS(plock_lease_acquire(leases[0], &TERMS), PLOCK_OK);
    plock_lease_cancel(leases[0]);
    end();
    CHECK_INT(fake_commands_like("EVAL release_all 3 "), 1);
    CHECK_INT(fake_commands_like("EVALSHA release 1 "), LEASES);
}

static void it_ends_with_its_time(void) {
    begin();
    fake_peers[0].answers[0] = FAKE_SILENCE;
    CHECK_STATUS(plock_group_acquire(group, &TERMS), PLOCK_OK);
    const plock_ns until = plock_now() + 50 * PLOCK_MILLISECOND;
    plock_group_operation(group).hurry(group, until);
    CHECK_STATUS(finish(), PLOCK_SILENT);
    CHECK_INT(plock_now(), until);
    end();
}

/* --- releasing --- */

static void one_request_releases_all(void) {
    char value[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    begin();
    fake_peers[0].answers[0] = HELD;
    fake_peers[0].answers[1] = GONE;
    CHECK_STATUS(acquire(), PLOCK_OK);
    CHECK_STATUS(release(0), PLOCK_OK);
    const char *command = fake_peers[0].commands[2];
    /* two empty words follow the keys */
    CHECK_HAS(command, "EVALSHA release_all 3 a b c   ");
    CHECK_TEXT(fake_word(command, 10, word), value_of(2, value));
    for (unsigned i = 0; i < LEASES; i++) CHECK(plock_group_released(group, i));
    CHECK_INT(held(), 0);
    CHECK_STATUS(plock_group_release(group, 0), PLOCK_MISUSE); /* nothing is held any more */
    end();
    CHECK_INT(fake_connections(), 1);
}

static void each_learns_whether_it_was_ours(void) {
    begin();
    fake_peers[0].answers[0] = HELD;
    fake_peers[0].answers[1] = "*2\r\n:0\r\n:1\r\n";
    CHECK_STATUS(acquire(), PLOCK_OK);
    fake_leave(leases[0]); /* a lease that is no longer held is skipped */
    CHECK_STATUS(release(500 * PLOCK_MILLISECOND), PLOCK_OK);
    CHECK_HAS(fake_peers[0].commands[2], "EVALSHA release_all 2 b c 501 3600501 ");
    CHECK(!plock_group_released(group, 0) && !plock_group_released(group, 1) &&
          plock_group_released(group, 2));
    end();
}

static void a_release_whose_answer_is_lost_is_a_release(void) {
    begin();
    fake_peers[0].answers[0] = HELD;
    fake_peers[0].answers[1] = FAKE_CLOSES;
    fake_peers[1].obliging = false;
    fake_peers[1].answers[0] = "*3\r\n:0\r\n:0\r\n:0\r\n";
    CHECK_STATUS(acquire(), PLOCK_OK);
    CHECK_STATUS(release(0), PLOCK_OK);
    for (unsigned i = 0; i < LEASES; i++) CHECK(plock_group_released(group, i));
    end();
}

static void what_a_named_owner_has_is_released_with_a_lease(void) {
    char value[FAKE_COMMAND_ROOM], expected[FAKE_COMMAND_ROOM];
    begin();
    CHECK_STATUS(plock_lease_own(leases[0], "me", 2), PLOCK_OK);
    fake_peers[0].answers[0] = FAKE_HELD;
    fake_peers[0].answers[1] = "*2\r\n:1\r\n:2\r\n";
    CHECK_STATUS(plock_lease_acquire(leases[1], &TERMS), PLOCK_OK);
    CHECK_STATUS(fake_finish(leases[1]), PLOCK_OK);
    CHECK_STATUS(release(0), PLOCK_OK);
    (void)snprintf(expected, sizeof expected, "EVALSHA release_all 2 a b   me %s",
                   value_of(1, value));
    CHECK_TEXT(fake_peers[0].commands[2], expected);
    CHECK(plock_group_released(group, 0) && plock_group_released(group, 1) &&
          !plock_group_released(group, 2));
    /* a group does not acquire for a named owner, because other processes may know the name */
    CHECK_STATUS(acquire(), PLOCK_MISUSE);
    end();
}

static void what_a_named_owner_has_is_released_in_the_background(void) {
    begin();
    CHECK_STATUS(plock_lease_own(leases[0], "me", 2), PLOCK_OK);
    fake_peers[0].answers[0] = FAKE_SILENCE;
    CHECK_STATUS(plock_group_release(group, 0), PLOCK_OK);
    CHECK_STATUS(plock_group_operation(group).step(group, &interest), PLOCK_AGAIN);
    plock_group_operation(group).cancel(group);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release 1 a me"), 1);
}

/* The server must first remove the records of dead processes. It removes only some of them at each
 * request, so the group sends its request again. */
static void an_unfinished_request_is_sent_again(void) {
    begin();
    fake_peers[0].answers[0] = fake_peers[0].answers[1] = ":-1\r\n";
    fake_peers[0].answers[2] = HELD;
    fake_peers[0].answers[3] = "*3\r\n:1\r\n:3\r\n:0\r\n";
    fake_peers[0].answers[4] = "*3\r\n:0\r\n:2\r\n:0\r\n";
    CHECK_STATUS(acquire(), PLOCK_OK);
    CHECK_INT(held(), LEASES);
    CHECK_STATUS(release(0), PLOCK_OK);
    CHECK(plock_group_released(group, 0) && plock_group_released(group, 1) &&
          !plock_group_released(group, 2));
    end();
    CHECK_INT(fake_commands_like("EVALSHA acquire_all"), 3);
    CHECK_INT(fake_commands_like("EVALSHA release_all"), 2);
}

static void what_lives_on_different_nodes_is_released_one_by_one(void) {
    static const char CROSSSLOT[] = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    char value[FAKE_COMMAND_ROOM], expected[FAKE_COMMAND_ROOM];
    begin();
    const char *const answers[] = {HELD, CROSSSLOT, FAKE_DONE, FAKE_NOT_OURS, FAKE_DONE};
    for (unsigned i = 0; i < 5; i++) fake_peers[0].answers[i] = answers[i];
    CHECK_STATUS(acquire(), PLOCK_OK);
    CHECK_STATUS(release(500 * PLOCK_MILLISECOND), PLOCK_OK);
    CHECK(plock_group_released(group, 0) && !plock_group_released(group, 1) &&
          plock_group_released(group, 2));
    (void)snprintf(expected, sizeof expected, "EVALSHA release 1 c %.40s 0 501 3600501",
                   value_of(2, value));
    CHECK_TEXT(fake_peers[0].commands[5], expected);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release 1 "), LEASES);
}

static void a_release_that_is_given_up_goes_on_in_the_background(void) {
    begin();
    fake_peers[0].answers[0] = HELD;
    fake_peers[0].answers[1] = FAKE_SILENCE;
    CHECK_STATUS(acquire(), PLOCK_OK);
    CHECK_STATUS(plock_group_release(group, 0), PLOCK_OK);
    CHECK_STATUS(plock_group_operation(group).step(group, &interest), PLOCK_AGAIN);
    plock_group_operation(group).cancel(group);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release 1 "), LEASES);
}

static const char *silent_to_all(const char *command, unsigned nth) {
    (void)nth;
    return strncmp(command, "EVALSHA release_all", 19) ? NULL : FAKE_SILENCE;
}

static void a_release_without_time_goes_on_in_the_background(void) {
    begin();
    fake_peers[0].answers[0] = HELD;
    fake_redis.says = silent_to_all;
    CHECK_STATUS(acquire(), PLOCK_OK);
    CHECK_STATUS(plock_group_release(group, 0), PLOCK_OK);
    const plock_ns until = plock_now() + 20 * PLOCK_MILLISECOND;
    plock_group_operation(group).hurry(group, until);
    CHECK_STATUS(finish(), PLOCK_SILENT);
    CHECK(plock_now() <= until);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release 1 "), LEASES);
}

static void a_release_that_failed_goes_on_in_the_background(void) {
    begin();
    fake_peers[0].answers[0] = HELD;
    fake_redis.says = silent_to_all;
    CHECK_STATUS(acquire(), PLOCK_OK);
    CHECK_STATUS(release(0), PLOCK_SILENT);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release 1 "), LEASES);
}

/* Lease 0 belongs to a named owner. Lease 1 is acquired. */
static void hold_beside_a_named_owner(void) {
    CHECK_STATUS(plock_lease_own(leases[0], "me", 2), PLOCK_OK);
    fake_peers[0].answers[0] = FAKE_HELD;
    CHECK_STATUS(plock_lease_acquire(leases[1], &TERMS), PLOCK_OK);
    CHECK_STATUS(fake_finish(leases[1]), PLOCK_OK);
}

/* The named owner's key is not released in the background, because the owner may have acquired the
 * key again meanwhile. */
static void end_and_check_who_was_released(void) {
    end();
    CHECK_INT(fake_commands_like("EVALSHA release 1 b "), 1);
    CHECK_INT(fake_commands_like("EVALSHA release 1 a me"), 0);
}

static void one_that_failed_goes_on_without_the_named_owner(void) {
    begin();
    fake_redis.says = silent_to_all;
    hold_beside_a_named_owner();
    CHECK_STATUS(release(0), PLOCK_SILENT);
    CHECK(!plock_group_released(group, 0) && !plock_group_released(group, 1));
    end_and_check_who_was_released();
}

static void without_time_the_named_owner_is_not_released_later(void) {
    begin();
    fake_redis.says = silent_to_all;
    hold_beside_a_named_owner();
    CHECK_STATUS(plock_group_release(group, 0), PLOCK_OK);
    plock_group_operation(group).hurry(group, plock_now() + 20 * PLOCK_MILLISECOND);
    CHECK_STATUS(finish(), PLOCK_SILENT);
    end_and_check_who_was_released();
}

static void without_a_connection_the_named_owner_is_no_success(void) {
    begin_at("redis://h?pool_size=1");
    hold_beside_a_named_owner();
    plock_connection *busy;
    plock_turn turn = {0};
    CHECK_STATUS(plock__pool_take(&store->node.pool, &busy, &turn, &interest), PLOCK_OK);
    CHECK_STATUS(release(0), PLOCK_SATURATED);
    plock__pool_give(&store->node.pool, busy, true);
    end_and_check_who_was_released();
}

static void one_that_found_no_connection_has_not_failed(void) {
    begin_at("redis://h?pool_size=1");
    fake_peers[0].answers[0] = HELD;
    CHECK_STATUS(acquire(), PLOCK_OK);
    plock_connection *busy;
    plock_turn turn = {0};
    CHECK_STATUS(plock__pool_take(&store->node.pool, &busy, &turn, &interest), PLOCK_OK);
    CHECK_STATUS(release(0), PLOCK_OK);
    for (size_t i = 0; i < LEASES; i++) CHECK(plock_group_released(group, i));
    plock__pool_give(&store->node.pool, busy, true);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release_all"), 0);
    CHECK_INT(fake_commands_like("EVALSHA release 1 "), LEASES);
}

static void a_server_that_makes_no_sense_is_not_believed(void) {
    static const char *const ANSWERS[] = {":1\r\n", "*2\r\n:1\r\n:1\r\n",
                                          "*3\r\n:1\r\n:1\r\n:3\r\n",
                                          "*3\r\n:1\r\n:1\r\n$1\r\n1\r\n"};
    for (unsigned i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        begin();
        fake_peers[0].answers[0] = HELD;
        fake_peers[0].answers[1] = ANSWERS[i];
        CHECK_STATUS(acquire(), PLOCK_OK);
        CHECK_STATUS(release(0), PLOCK_PROTOCOL);
        end();
    }
}

/* --- misuse --- */

static void what_does_not_belong_together_is_no_group(void) {
    plock_lease *many[PLOCK_GROUP_MAX + 1], *other;
    plock_group *none;
    begin();
    for (unsigned i = 0; i <= PLOCK_GROUP_MAX; i++) many[i] = leases[0];
    CHECK_STATUS(plock_group_new(&none, many, 0), PLOCK_MISUSE);
    CHECK_STATUS(plock_group_new(&none, many, PLOCK_GROUP_MAX + 1), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_new(&other, store, "k", 1), PLOCK_OK);
    many[1] = other;
    CHECK_STATUS(plock_lease_share(other, "r"), PLOCK_OK);
    CHECK_STATUS(plock_group_new(&none, many, 2), PLOCK_MISUSE);
    CHECK(none == NULL);
    plock_lease_free(other);
    CHECK_STATUS(
        plock_group_acquire(group, &(plock_acquire_options){.ttl = PLOCK_SECOND, .wait = -1}),
        PLOCK_MISUSE);
    CHECK_STATUS(plock_group_acquire(group, &(plock_acquire_options){.ttl = 1}), PLOCK_MISUSE);
    CHECK_STATUS(plock_group_operation(group).step(group, &interest), PLOCK_MISUSE);
    end();
}

static void one_that_is_busy_stops_all_and_goes_on(void) {
    begin();
    CHECK_STATUS(plock_lease_acquire(leases[1], &TERMS), PLOCK_OK);
    CHECK_STATUS(plock_group_acquire(group, &TERMS), PLOCK_MISUSE);
    /* the group's failed acquire has not begun an operation on this lease */
    CHECK_STATUS(plock_lease_acquire(leases[0], &TERMS), PLOCK_OK);
    plock_lease_cancel(leases[0]);
    fake_peers[0].answers[0] = FAKE_HELD;
    CHECK_STATUS(fake_finish(leases[1]), PLOCK_OK);
    fake_leave(leases[1]);
    end();
}

static void a_child_has_none_of_its_parents(void) {
    begin();
    fake_peers[0].answers[0] = HELD;
    fake_peers[0].answers[1] = FAKE_SILENCE;
    CHECK_STATUS(acquire(), PLOCK_OK);
    CHECK_STATUS(plock_group_release(group, 0), PLOCK_OK);
    CHECK_STATUS(plock_group_operation(group).step(group, &interest), PLOCK_AGAIN);
    const pid_t child = fork();
    if (child == 0) {
        const bool apart = plock_group_operation(group).step(group, &interest) == PLOCK_FORKED &&
                           plock_group_release(group, 0) == PLOCK_MISUSE;
        _exit(apart ? 0 : 1);
    }
    int status = -1;
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(status, 0);
    fake_say(&fake_peers[0], GONE, sizeof GONE - 1);
    CHECK_STATUS(finish(), PLOCK_OK);
    end();
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(one_request_gets_all);
    RUN(refused_it_has_none);
    RUN(what_is_in_doubt_is_given_back_each_by_itself);
    RUN(what_never_left_is_not_given_back);
    RUN(an_idle_connection_that_was_closed_is_replaced);
    RUN(keys_of_different_nodes_cannot_be_had_at_once);
    RUN(an_answer_that_comes_too_late_gets_none);
    RUN(an_attempt_takes_no_longer_than_its_caller_has_left);
    RUN(giving_up_gives_all_back);
    RUN(it_ends_with_its_time);
    RUN(one_request_releases_all);
    RUN(each_learns_whether_it_was_ours);
    RUN(a_release_whose_answer_is_lost_is_a_release);
    RUN(what_a_named_owner_has_is_released_with_a_lease);
    RUN(what_a_named_owner_has_is_released_in_the_background);
    RUN(an_unfinished_request_is_sent_again);
    RUN(what_lives_on_different_nodes_is_released_one_by_one);
    RUN(a_release_that_is_given_up_goes_on_in_the_background);
    RUN(a_release_without_time_goes_on_in_the_background);
    RUN(a_release_that_failed_goes_on_in_the_background);
    RUN(one_that_failed_goes_on_without_the_named_owner);
    RUN(without_time_the_named_owner_is_not_released_later);
    RUN(without_a_connection_the_named_owner_is_no_success);
    RUN(one_that_found_no_connection_has_not_failed);
    RUN(a_server_that_makes_no_sense_is_not_believed);
    RUN(what_does_not_belong_together_is_no_group);
    RUN(one_that_is_busy_stops_all_and_goes_on);
    RUN(a_child_has_none_of_its_parents);
    return test_end("group");
}
