/* Messages about held leases: messages that arrive, messages that may be lost, and how long the
 * channel stays open. */
#include "one_watched.h"
#include "test.h"

#include "base/process.h"
#include "redis/coordinator.h"
#include "redis/store.h"

#include <stdio.h>
#include <string.h>

static const plock_ns TTL = 3 * PLOCK_SECOND;
static const plock_acquire_options RENEWED = {.ttl = 3 * PLOCK_SECOND, .renews = true};
static const plock_acquire_options WATCHED = {.ttl = 3 * PLOCK_SECOND, .watched = true};
static const plock_acquire_options *const PATIENCES[] = {&RENEWED, &WATCHED};

static void checks(unsigned count) { fake_await("EVALSHA check", count); }

/* Makes the server answer from now on that another owner has the lock. */
static void break_it(void) {
    atomic_store(&fake_to_extend, FAKE_NOT_OURS);
    atomic_store(&fake_to_check, FAKE_NOT_OURS);
}

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

/* --- a break is announced --- */

static void a_break_message_starts_a_check_at_once(void) {
    for (unsigned i = 0; i < 2; i++) {
        begin();
        fake_watch(lease, PATIENCES[i]);
        fake_native_pass(TTL / 6);
        break_it();
        fake_call("!", 0);
        check_lost();
        renewals(i == 0 ? 2 : 0);
        checks(i == 0 ? 0 : 2);
        end();
    }
}

/* The server may have executed the break after the check whose answer is still awaited. So another
 * check must follow. */
static void a_message_during_a_check_starts_another(void) {
    for (unsigned i = 0; i < 2; i++) {
        const char *const looks = i == 0 ? "EVALSHA extend" : "EVALSHA check";
        begin();
        fake_watch(lease, PATIENCES[i]);
        atomic_store(&fake_to_extend, FAKE_SILENCE);
        atomic_store(&fake_to_check, FAKE_SILENCE);
        fake_call("!", 0);
        fake_await(looks, 2);
        fake_call("!", 0);
        fake_await(looks, 2); /* only one check at a time */
        break_it();
        fake_answer(looks, 1, FAKE_DONE);
        fake_await(looks, 3);
        check_lost();
        end();
    }
}

/* Any client may publish a break, so the lease is checked first. */
static void it_is_not_believed_without_looking(void) {
    begin();
    fake_watch(lease, &WATCHED);
    for (unsigned i = 2; i <= 4; i++) {
        fake_call("!", 0);
        checks(i);
        check_kept();
    }
    end();
}

static void messages_about_others_are_skipped(void) {
    char message[2 * FAKE_COMMAND_ROOM], value[FAKE_COMMAND_ROOM];
    begin();
    fake_watch(lease, &WATCHED);
    atomic_store(&fake_to_check, FAKE_NOT_OURS);
    (void)fake_value(0, value);
    CHECK(fake_publish("! someone k"));
    (void)snprintf(message, sizeof message, "! %.40s kk", value);
    CHECK(fake_publish(message));
    (void)snprintf(message, sizeof message, "! %.35s k", value);
    CHECK(fake_publish(message));
    (void)snprintf(message, sizeof message, "~5 %.40s k", value);
    CHECK(fake_publish(message));
    checks(1);
    check_kept();
    end();
}

static void a_check_that_fails_is_made_again_while_there_is_time(void) {
    begin();
    fake_watch(lease, &WATCHED);
    atomic_store(&fake_to_check, "-LOADING x\r\n");
    fake_call("!", 0);
    checks(2);
    pass(PLOCK_SECOND, 50 * PLOCK_MILLISECOND);
    check_kept();
    CHECK(fake_commands_like("EVALSHA check") >= 4);
    atomic_store(&fake_to_check, FAKE_NOT_OURS);
    pass(400 * PLOCK_MILLISECOND, 50 * PLOCK_MILLISECOND);
    check_lost();
    end();
}

/* A check that fails for good is also repeated, because it does not prove that the lease is still
 * held. */
static void so_is_one_that_fails_for_good(void) {
    static const char *const FAILURES[] = {"-NOPERM x\r\n", "-ERR x\r\n", "+OK\r\n"};
    for (unsigned i = 0; i < 3; i++) {
        begin();
        fake_watch(lease, &WATCHED);
        atomic_store(&fake_to_check, FAILURES[i]);
        fake_call("!", 0);
        checks(2);
        fake_native_pass(TTL / 12 - 1);
        checks(2);
        fake_native_pass(1);
        checks(3);
        fake_call("!", 0); /* after another message, the lease is checked at once */
        checks(4);
        atomic_store(&fake_to_check, FAKE_NOT_OURS);
        fake_native_pass(TTL / 12);
        check_lost();
        end();
    }
}

/* A renewal is also a check. If the renewal fails, and no other renewal follows, a check replaces
 * it. */
static void a_renewal_that_fails_is_made_up_for_when_it_is_not_renewed_any_more(void) {
    plock_acquire_options patience = RENEWED;
    patience.max_hold = TTL / 6 + 10 * PLOCK_MILLISECOND;
    begin();
    fake_watch(lease, &patience);
    fake_native_pass(TTL / 6);
    atomic_store(&fake_to_extend, "-NOPERM x\r\n");
    atomic_store(&fake_to_check, FAKE_NOT_OURS);
    fake_call("!", 0);
    renewals(2);
    pass(400 * PLOCK_MILLISECOND, 50 * PLOCK_MILLISECOND);
    check_lost();
    end();
}

static void a_check_does_not_make_it_last_longer(void) {
    begin();
    fake_watch(lease, &WATCHED);
    fake_native_pass(TTL / 2);
    fake_call("!", 0);
    checks(2);
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(began, TTL));
    end();
}

/* --- messages while the channel is closed --- */

static void cut_and_wait(unsigned subscriptions) {
    fake_cut_channel();
    for (unsigned rounds = 0;
         fake_commands_like("SUBSCRIBE") < subscriptions && test_patient(&rounds);)
        fake_native_pass(5 * PLOCK_MILLISECOND);
    fake_await("SUBSCRIBE", subscriptions);
}

static void what_may_have_been_missed_is_looked_at_when_the_channel_is_open_again(void) {
    for (unsigned i = 0; i < 2; i++) {
        begin();
        fake_watch(lease, PATIENCES[i]);
        cut_and_wait(2);
        renewals(i == 0 ? 2 : 0);
        checks(i == 0 ? 0 : 2);
        check_kept();
        break_it();
        cut_and_wait(3);
        check_lost();
        end();
    }
}

static void a_channel_that_cannot_be_had_does_not_keep_it_from_being_renewed(void) {
    begin();
    for (unsigned i = 0; i < FAKE_ANSWERS; i++) fake_redis.subscriptions[i] = "-NOPERM x\r\n";
    CHECK_STATUS(fake_hold(lease, &RENEWED), PLOCK_OK);
    pass(3 * TTL, TTL / 6);
    check_kept();
    CHECK(fake_commands_like("EVALSHA extend") >= 8);
    end();
}

/* The message may arrive before the lease's own thread has read the grant. */
static void a_break_that_is_told_before_the_grant_was_read_is_remembered(void) {
    for (unsigned i = 0; i < 2; i++) {
        plock_interest interest;
        begin();
        plock_lease *first;
        /* so that the channel is open */
        CHECK_STATUS(plock_lease_new(&first, store, "first", 5), PLOCK_OK);
        fake_watch(first, &WATCHED);
        CHECK_STATUS(plock_lease_acquire(lease, PATIENCES[i]), PLOCK_OK);
        /* the server has granted the lease, but the lease's thread has not read the answer yet */
        CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
        fake_call("!", 1);
        fake_nudge();
        break_it();
        CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
        fake_await_notice(PLOCK_LOST, lease);
        CHECK(plock_lease_lost(lease));
        plock_lease_free(first);
        end();
    }
}

/* --- how long the channel stays open --- */

static bool coordinator_is_there(void) {
    plock__enter();
    const bool there = atomic_load(&store->node.coordinator);
    plock__leave();
    return there;
}

/* A lease that is not held needs no channel. When no lease has needed the channel for a while, the
 * coordinator closes it and ends. */
static void it_is_listened_for_no_longer_than_it_lasts(void) {
    enum { RELEASED, LOST, REFUSED, CANCELLED, WAYS };
    for (int way = 0; way < WAYS; way++) {
        plock_interest interest;
        begin();
        if (way == REFUSED) atomic_store(&fake_to_acquire, FAKE_REFUSED);
        if (way == CANCELLED) atomic_store(&fake_to_acquire, FAKE_SILENCE);
        if (way == RELEASED || way == LOST) fake_watch(lease, &WATCHED);
        if (way == RELEASED) CHECK_STATUS(fake_release(lease), PLOCK_OK);
        if (way == REFUSED) CHECK_STATUS(fake_hold(lease, &WATCHED), PLOCK_REFUSED);
        if (way == CANCELLED) {
            CHECK_STATUS(plock_lease_acquire(lease, &WATCHED), PLOCK_OK);
            CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
            fake_await("SUBSCRIBE", 1);
            atomic_store(&fake_to_acquire, NULL);
            plock_lease_cancel(lease);
        }
        if (way == LOST) {
            fake_native_pass(TTL);
            fake_await_notice(PLOCK_LOST, lease);
        }
        for (unsigned i = 0; i < 3; i++) fake_native_pass(5 * PLOCK_SECOND);
        test_check(!coordinator_is_there(),
                   way == RELEASED  ? "released"
                   : way == LOST    ? "lost"
                   : way == REFUSED ? "refused"
                                    : "cancelled",
                   __FILE__, __LINE__);
        end();
    }
}

int main(void) {
    RUN(a_break_message_starts_a_check_at_once);
    RUN(a_message_during_a_check_starts_another);
    RUN(it_is_not_believed_without_looking);
    RUN(messages_about_others_are_skipped);
    RUN(a_check_that_fails_is_made_again_while_there_is_time);
    RUN(so_is_one_that_fails_for_good);
    RUN(a_renewal_that_fails_is_made_up_for_when_it_is_not_renewed_any_more);
    RUN(a_check_does_not_make_it_last_longer);
    RUN(what_may_have_been_missed_is_looked_at_when_the_channel_is_open_again);
    RUN(a_channel_that_cannot_be_had_does_not_keep_it_from_being_renewed);
    RUN(a_break_that_is_told_before_the_grant_was_read_is_remembered);
    RUN(it_is_listened_for_no_longer_than_it_lasts);
    return test_end("watch channel");
}
