/* The worker thread finds out by itself that a lease is lost, and reports the loss once. */
#include "one_watched.h"
#include "test.h"

static const plock_ns TTL = 3 * PLOCK_SECOND;
static const plock_acquire_options RENEWED = {.ttl = 3 * PLOCK_SECOND, .renews = true};

/* Checks that the loss is reported exactly once. */
static void check_lost(void) {
    fake_await_notice(PLOCK_LOST, lease);
    CHECK(plock_lease_lost(lease));
    CHECK(!plock_lease_valid(lease));
    fake_call("!", 0);
    pass(2 * TTL, TTL / 3);
    fake_no_notice();
    CHECK(plock_lease_lost(lease));
}

static void check_kept(void) {
    CHECK(plock_lease_valid(lease));
    CHECK(!plock_lease_lost(lease));
    fake_no_notice();
}

/* --- losses that an answer reports --- */

static void a_renewal_that_finds_another_owner_tells_of_the_loss(void) {
    begin();
    fake_watch(lease, &RENEWED);
    atomic_store(&fake_to_extend, FAKE_NOT_OURS);
    fake_native_pass(TTL / 3 - 1);
    check_kept();
    fake_native_pass(1);
    renewals(2);
    check_lost();
    renewals(2); /* the server is not asked again */
    end();
}

/* --- failures --- */

static void a_failure_that_may_pass_is_tried_again_until_it_has_passed(void) {
    static const char *const FAILURES[] = {"-LOADING x\r\n", "-BUSY x\r\n", FAKE_SILENCE,
                                           FAKE_CLOSES, "-OOM x\r\n"};
    for (unsigned i = 0; i < sizeof FAILURES / sizeof *FAILURES; i++) {
        begin();
        fake_watch(lease, &RENEWED);
        atomic_store(&fake_to_extend, FAILURES[i]);
        pass(2 * PLOCK_SECOND, 50 * PLOCK_MILLISECOND);
        CHECK(fake_commands_like("EVALSHA extend") >= 3);
        CHECK_INT(plock_lease_valid_until(lease), fake_reliable(began, TTL));
        check_kept();
        atomic_store(&fake_to_extend, NULL);
        pass(900 * PLOCK_MILLISECOND, 50 * PLOCK_MILLISECOND);
        CHECK(plock_lease_valid_until(lease) > fake_reliable(began + 2 * PLOCK_SECOND, TTL));
        pass(TTL, PLOCK_SECOND / 2);
        check_kept();
        end();
    }
}

static void one_that_lasts_ends_in_a_loss_at_the_end_of_its_time(void) {
    static const char *const FAILURES[] = {"-LOADING x\r\n", FAKE_SILENCE, "-NOPERM x\r\n",
                                           "+OK\r\n"};
    for (unsigned i = 0; i < sizeof FAILURES / sizeof *FAILURES; i++) {
        begin();
        fake_watch(lease, &RENEWED);
        atomic_store(&fake_to_extend, FAILURES[i]);
        const plock_ns until = fake_reliable(began, TTL);
        while (plock_now() + 100 * PLOCK_MILLISECOND < until)
            fake_native_pass(100 * PLOCK_MILLISECOND);
        fake_native_pass(until - plock_now() - 1);
        check_kept();
        const unsigned asked = fake_commands_like("EVALSHA extend");
        CHECK(asked >= 3);
        fake_native_pass(1);
        check_lost();
        renewals(asked);
        end();
    }
}

/* An operator may repair a lasting failure. Until then, the server is asked less often. */
static void a_failure_that_does_not_pass_is_tried_again_too(void) {
    begin();
    fake_watch(lease, &RENEWED);
    atomic_store(&fake_to_extend,
                 "-NOPERM this user has no permissions to run the 'pexpire' command\r\n");
    fake_native_pass(TTL / 3);
    renewals(2);
    for (unsigned i = 3; i <= 6; i++) {
        fake_native_pass(TTL / 12 - 1);
        renewals(i - 1);
        fake_native_pass(1);
        renewals(i);
    }
    atomic_store(&fake_to_extend, NULL);
    fake_native_pass(TTL / 12);
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(plock_now(), TTL));
    end();
}

static void an_answer_that_comes_after_the_end_of_its_time_changes_nothing(void) {
    begin();
    fake_watch(lease, &RENEWED);
    atomic_store(&fake_to_extend, FAKE_SILENCE);
    fake_native_pass(TTL / 3);
    renewals(2);
    fake_clock_pass(2 * TTL); /* as if the machine had slept */
    fake_answer("EVALSHA extend", 1, FAKE_DONE);
    fake_await_notice(PLOCK_LOST, lease);
    CHECK(plock_lease_lost(lease) && !plock_lease_valid(lease));
    end();
}

/* --- losses before a request --- */

/* The lease was granted, and then broken before its own thread saw the grant. */
static void a_waiter_that_lost_it_before_seeing_it_does_not_hold_it(void) {
    plock_lease *first;
    plock_acquire_options patience = RENEWED;
    patience.wait = 100 * PLOCK_SECOND;
    begin();
    /* so that the channel is open, and the waiter queues */
    CHECK_STATUS(plock_lease_new(&first, store, "first", 5), PLOCK_OK);
    fake_watch(first, &RENEWED);
    grant_unseen(first, &patience);
    atomic_store(&fake_to_extend, FAKE_NOT_OURS);
    fake_call("!", 2);
    fake_await_notice(PLOCK_LOST, lease);
    CHECK_STATUS(fake_await_end(lease), PLOCK_TRY_FAILED);
    CHECK(!plock_lease_valid(lease));
    atomic_store(&fake_to_extend, NULL);
    fake_native_pass(PLOCK_SECOND / 2);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    /* the new grant has another token and another watch */
    CHECK(plock_lease_valid(lease) && !plock_lease_lost(lease));
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
}

/* --- afterwards --- */

static void a_lost_lease_is_still_released(void) {
    begin();
    fake_watch(lease, &RENEWED);
    atomic_store(&fake_to_extend, FAKE_NOT_OURS);
    fake_native_pass(TTL / 3);
    fake_await_notice(PLOCK_LOST, lease);
    /* the release names the token, so it cannot release another owner's lease */
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    CHECK(!plock_lease_lost(lease));
    atomic_store(&fake_to_extend, NULL);
    CHECK_STATUS(fake_hold(lease, &RENEWED), PLOCK_OK);
    pass(2 * TTL, TTL / 3);
    check_kept();
    end();
}

int main(void) {
    RUN(a_renewal_that_finds_another_owner_tells_of_the_loss);
    RUN(a_failure_that_may_pass_is_tried_again_until_it_has_passed);
    RUN(one_that_lasts_ends_in_a_loss_at_the_end_of_its_time);
    RUN(a_failure_that_does_not_pass_is_tried_again_too);
    RUN(an_answer_that_comes_after_the_end_of_its_time_changes_nothing);
    RUN(a_waiter_that_lost_it_before_seeing_it_does_not_hold_it);
    RUN(a_lost_lease_is_still_released);
    return test_end("watch loss");
}
