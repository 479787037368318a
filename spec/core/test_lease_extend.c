/* Extending or shortening a lease, and the state of the lease if no answer comes. */
#include "fake.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static plock_store *store;
static plock_lease *lease;

/* Acquires a lease for 3 s, and returns the current time. */
static plock_ns begin(void) {
    fake_clock_start();
    store = fake_store("redis://h");
    lease = fake_lease(store);
    fake_peers[0].answers[0] = FAKE_HELD;
    for (unsigned p = 1; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    return plock_now();
}

static void end(void) { fake_end(lease, store); }

static plock_status extend(plock_ns ttl) {
    const plock_status status = plock_lease_extend(lease, ttl);
    return status ? status : fake_finish(lease);
}

static plock_ns relied_on(plock_ns ttl) { return ttl - ttl / 100 - 2 * PLOCK_MILLISECOND; }

static void an_extension_counts_from_when_it_was_asked_for(void) {
    char word[FAKE_COMMAND_ROOM], token[FAKE_COMMAND_ROOM];
    begin();
    fake_clock_pass(PLOCK_SECOND);
    fake_peers[0].answers[1] = FAKE_DONE;
    CHECK_STATUS(extend(10 * PLOCK_SECOND), PLOCK_OK);
    CHECK(plock_lease_valid(lease));
    CHECK_INT(plock_lease_ttl(lease), 10 * PLOCK_SECOND);
    CHECK_INT(plock_lease_valid_until(lease), plock_now() + relied_on(10 * PLOCK_SECOND));
    const char *extension = fake_peers[0].commands[2];
    CHECK_HAS(extension, "EVALSHA extend 1 k ");
    (void)fake_word(fake_peers[0].commands[1], 4, token);
    CHECK_TEXT(fake_word(extension, 4, word), token);
    CHECK_TEXT(fake_word(extension, 5, word), "10000");
    end();
}

static void an_extension_may_shorten(void) {
    begin();
    fake_peers[0].answers[1] = FAKE_DONE;
    CHECK_STATUS(extend(100 * PLOCK_MILLISECOND), PLOCK_OK);
    CHECK_INT(plock_lease_valid_until(lease), plock_now() + relied_on(100 * PLOCK_MILLISECOND));
    fake_clock_pass(relied_on(100 * PLOCK_MILLISECOND));
    CHECK(!plock_lease_valid(lease));
    end();
}

static void what_was_lost_cannot_be_extended(void) {
    begin();
    fake_peers[0].answers[1] = FAKE_NOT_OURS;
    CHECK_STATUS(extend(PLOCK_SECOND), PLOCK_NOT_OWNER);
    CHECK_STATUS(plock_lease_error(lease)->status, PLOCK_NOT_OWNER);
    CHECK(!plock_lease_valid(lease));
    CHECK_STATUS(plock_lease_extend(lease, PLOCK_SECOND), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_MISUSE);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
}

static void nonsense_is_refused(void) {
    static const plock_ns TTLS[] = {0, -1, PLOCK_TTL_MIN - 1, PLOCK_TTL_MAX + 1, PLOCK_NEVER};
    begin();
    for (unsigned i = 0; i < sizeof TTLS / sizeof *TTLS; i++)
        CHECK_STATUS(plock_lease_extend(lease, TTLS[i]), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_extend(lease, PLOCK_TTL_MIN), PLOCK_OK);
    /* an extension is in progress */
    CHECK_STATUS(plock_lease_extend(lease, PLOCK_TTL_MIN), PLOCK_IN_USE);
    CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_IN_USE);
    CHECK(plock_lease_valid(lease) && !plock_lease_lost(lease));
    end();
}

/* --- extensions without an answer --- */

/* Until the server's answer arrives, either the old or the new time may count. So plock relies on
 * the shorter one. */
static void a_shorter_time_counts_as_soon_as_it_is_asked_for(void) {
    plock_interest interest;
    const plock_ns acquired = begin();
    CHECK_STATUS(plock_lease_extend(lease, PLOCK_SECOND), PLOCK_OK);
    /* the request has not been sent yet */
    CHECK_INT(plock_lease_valid_until(lease), acquired + relied_on(3 * PLOCK_SECOND));
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    CHECK_INT(plock_lease_valid_until(lease), acquired + relied_on(PLOCK_SECOND));
    CHECK_STATUS(fake_finish(lease), PLOCK_SILENT);
    CHECK_INT(plock_lease_valid_until(lease), acquired + relied_on(PLOCK_SECOND));
    end();
}

/* The server may execute the unanswered request late, after another extension. That would shorten
 * the lease. So a request for the old time follows the unanswered request. */
static void a_shorter_time_that_comes_late_is_followed_by_the_old_one(void) {
    static const struct {
        plock_ns ttl;
        unsigned undone;
    } TTLS[] = {{PLOCK_SECOND, 1}, {3 * PLOCK_SECOND, 0}, {60 * PLOCK_SECOND, 0}};
    for (unsigned i = 0; i < sizeof TTLS / sizeof *TTLS; i++)
        for (int cancelled = 0; cancelled < 2; cancelled++) {
            plock_interest interest;
            char token[FAKE_COMMAND_ROOM], old[FAKE_COMMAND_ROOM];
            begin();
            CHECK_STATUS(plock_lease_extend(lease, TTLS[i].ttl), PLOCK_OK);
            CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
            if (cancelled)
                plock_lease_cancel(lease);
            else
                CHECK_STATUS(fake_finish(lease), PLOCK_SILENT);
            (void)fake_word(fake_peers[0].commands[1], 4, token);
            (void)snprintf(old, sizeof old, "EVAL extend 1 k %.40s 3000 3603000 longer", token);
            CHECK_INT(fake_commands_like(old), TTLS[i].undone);
            end();
        }
}

/* A request that only waits for a connection shortens nothing. */
static void a_shorter_time_that_was_never_asked_for_does_not_count(void) {
    plock_interest interest;
    fake_clock_start();
    store = fake_store("redis://h?pool_size=1");
    lease = fake_lease(store);
    plock_lease *other = fake_lease(store);
    fake_peers[0].answers[0] = FAKE_HELD;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    const plock_ns until = plock_lease_valid_until(lease);
    CHECK_STATUS(plock_lease_acquire(other, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(other, &interest), PLOCK_AGAIN);
    CHECK_STATUS(plock_lease_extend(lease, 100 * PLOCK_MILLISECOND), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    fake_clock_pass(200 * PLOCK_MILLISECOND);
    CHECK_INT(plock_lease_valid_until(lease), until);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    CHECK(plock_lease_valid(lease));
    plock_lease_cancel(lease);
    CHECK(plock_lease_valid(lease) && !plock_lease_lost(lease));
    CHECK_INT(fake_commands_like("EVALSHA extend"), 0);
    plock_lease_free(other);
    end();
}

static void a_longer_time_counts_only_when_it_is_confirmed(void) {
    const plock_ns acquired = begin();
    CHECK_STATUS(extend(60 * PLOCK_SECOND), PLOCK_SILENT);
    CHECK(plock_lease_valid(lease));
    CHECK_INT(plock_lease_valid_until(lease), acquired + relied_on(3 * PLOCK_SECOND));
    CHECK_STATUS(plock_lease_error(lease)->status, PLOCK_SILENT);
    end();
}

static void an_unanswered_extension_ends_by_its_deadline(void) {
    const plock_ns acquired = begin();
    for (unsigned p = 1; p < FAKE_PEERS; p++) fake_peers[p].obliging = false;
    CHECK_STATUS(extend(PLOCK_SECOND), PLOCK_SILENT);
    CHECK_INT(plock_now(), acquired + PLOCK_SECOND / 2); /* the default of command_timeout */
    for (unsigned p = 1; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    end();
}

static void an_answer_of_another_kind_is_no_confirmation(void) {
    static const char *const ANSWERS[] = {"+OK\r\n", ":2\r\n",       ":-1\r\n", "$1\r\n1\r\n",
                                          "$-1\r\n", "*1\r\n:1\r\n", FAKE_HELD};
    for (unsigned i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        const plock_ns acquired = begin();
        fake_peers[0].answers[1] = ANSWERS[i];
        CHECK_STATUS(extend(60 * PLOCK_SECOND), PLOCK_PROTOCOL);
        CHECK_INT(plock_lease_valid_until(lease), acquired + relied_on(3 * PLOCK_SECOND));
        CHECK(fake_peers[0].destroyed);
        end();
    }
}

/* --- retries --- */

static void a_passing_failure_is_tried_again(void) {
    const plock_ns acquired = begin();
    fake_peers[0].answers[1] = "-BUSY Redis is busy running a script.\r\n";
    fake_peers[0].answers[2] = FAKE_DONE;
    CHECK_STATUS(extend(5 * PLOCK_SECOND), PLOCK_OK);
    CHECK_INT(fake_commands_like("EVALSHA extend"), 2);
    CHECK(plock_now() > acquired && plock_now() < acquired + 100 * PLOCK_MILLISECOND);
    CHECK_INT(plock_lease_valid_until(lease), plock_now() + relied_on(5 * PLOCK_SECOND));
    end();
}

static void a_connection_that_was_closed_meanwhile_is_replaced_at_once(void) {
    const plock_ns acquired = begin();
    fake_peers[0].answers[1] = FAKE_CLOSES;
    CHECK_STATUS(extend(5 * PLOCK_SECOND), PLOCK_OK);
    CHECK_INT(plock_now(), acquired);
    CHECK_INT(fake_connections(), 2);
    end();
}

static void a_lasting_failure_is_reported_at_once(void) {
    begin();
    fake_peers[0].answers[1] =
        "-NOPERM this user has no permissions to run the 'pexpire' command\r\n";
    CHECK_STATUS(extend(5 * PLOCK_SECOND), PLOCK_NOPERM);
    CHECK(plock_lease_valid(lease)); /* the lease is still valid for its old time */
    CHECK_INT(fake_commands_like("EVALSHA extend"), 1);
    end();
}

/* --- releasing an extended lease --- */

static void an_extended_lease_is_released_for_as_long_as_it_lasts(void) {
    begin();
    fake_peers[0].obliging = true;
    fake_clock_pass(2 * PLOCK_SECOND);
    CHECK_STATUS(extend(3 * PLOCK_SECOND), PLOCK_OK);
    /* after this, the first TTL is over, and the second is not */
    fake_clock_pass(2 * PLOCK_SECOND);
    CHECK(plock_lease_valid(lease));
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 1);
}

static void one_whose_extension_is_in_doubt_is_released_in_any_case(void) {
    begin();
    CHECK_STATUS(extend(60 * PLOCK_SECOND), PLOCK_SILENT);
    /* After 10 s, the lease has expired for this process. But if the server executed the
     * extension, the lease still exists on the server. */
    fake_clock_pass(10 * PLOCK_SECOND);
    CHECK(!plock_lease_valid(lease));
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 1);
}

static void so_is_one_whose_extension_was_given_up(void) {
    plock_interest interest;
    begin();
    CHECK_STATUS(plock_lease_extend(lease, 60 * PLOCK_SECOND), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    plock_lease_cancel(lease);
    /* After 10 s, the lease has expired for this process. But if the server executed the
     * extension, the lease still exists on the server. */
    fake_clock_pass(10 * PLOCK_SECOND);
    CHECK(!plock_lease_valid(lease));
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 1);
}

static void one_that_is_over_is_not_released(void) {
    begin();
    fake_peers[0].obliging = true;
    CHECK_STATUS(extend(5 * PLOCK_SECOND), PLOCK_OK);
    fake_clock_pass(5 * PLOCK_SECOND);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
}

static void one_that_is_freed_in_mid_extension_is_released(void) {
    plock_interest interest;
    begin();
    CHECK_STATUS(plock_lease_extend(lease, 10 * PLOCK_SECOND), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 1);
    CHECK(fake_peers[0].destroyed); /* an answer was still outstanding on this connection */
}

static void an_extension_that_is_given_up_leaves_the_lease_held(void) {
    plock_interest interest;
    begin();
    CHECK_STATUS(plock_lease_extend(lease, 10 * PLOCK_SECOND), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    plock_lease_cancel(lease);
    CHECK(plock_lease_valid(lease));
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 1);
}

int main(void) {
    RUN(an_extension_counts_from_when_it_was_asked_for);
    RUN(an_extension_may_shorten);
    RUN(what_was_lost_cannot_be_extended);
    RUN(nonsense_is_refused);
    RUN(a_shorter_time_counts_as_soon_as_it_is_asked_for);
    RUN(a_shorter_time_that_comes_late_is_followed_by_the_old_one);
    RUN(a_shorter_time_that_was_never_asked_for_does_not_count);
    RUN(a_longer_time_counts_only_when_it_is_confirmed);
    RUN(an_unanswered_extension_ends_by_its_deadline);
    RUN(an_answer_of_another_kind_is_no_confirmation);
    RUN(a_passing_failure_is_tried_again);
    RUN(a_connection_that_was_closed_meanwhile_is_replaced_at_once);
    RUN(a_lasting_failure_is_reported_at_once);
    RUN(an_extended_lease_is_released_for_as_long_as_it_lasts);
    RUN(one_whose_extension_is_in_doubt_is_released_in_any_case);
    RUN(so_is_one_whose_extension_was_given_up);
    RUN(one_that_is_over_is_not_released);
    RUN(one_that_is_freed_in_mid_extension_is_released);
    RUN(an_extension_that_is_given_up_leaves_the_lease_held);
    return test_end("lease extend");
}
