/* The renewal of a lease by the worker thread: when, for how long, and what ends it. */
#include "one_watched.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static const plock_ns TTL = 3 * PLOCK_SECOND;
static const plock_acquire_options RENEWED = {.ttl = 3 * PLOCK_SECOND, .renews = true};

/* --- when --- */

static void it_is_renewed_each_time_a_third_of_its_time_is_over(void) {
    begin();
    fake_watch(lease, &RENEWED);
    for (unsigned i = 1; i <= 12; i++) {
        fake_native_pass(TTL / 3 - 1);
        renewals(i);
        fake_native_pass(1);
        renewals(i + 1);
        CHECK_INT(plock_lease_valid_until(lease), fake_reliable(plock_now(), TTL));
        CHECK(plock_lease_valid(lease) && !plock_lease_lost(lease));
    }
    CHECK_INT(plock_now(), began + 4 * TTL);
    CHECK_INT(plock_lease_acquired_at(lease), began);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
}

static void a_renewal_shortens_nothing(void) {
    char command[FAKE_COMMAND_ROOM], expected[FAKE_COMMAND_ROOM], value[FAKE_COMMAND_ROOM];
    begin();
    fake_watch(lease, &RENEWED);
    fake_native_pass(TTL / 3);
    renewals(2);
    (void)snprintf(expected, sizeof expected, "EVALSHA extend 1 k %.40s 3000 3603000 longer",
                   fake_value(0, value));
    for (unsigned i = 0; i < 2; i++)
        CHECK_TEXT(fake_command("EVALSHA extend", i, command), expected);
    end();
}

/* A share of a lock is renewed and checked with the scripts for shares, even after a downgrade. */
static void a_share_is_renewed_and_looked_at_as_such(void) {
    char command[FAKE_COMMAND_ROOM], expected[FAKE_COMMAND_ROOM], value[FAKE_COMMAND_ROOM];
    plock_acquire_options patience = RENEWED;
    patience.max_hold = PLOCK_SECOND + 1;
    begin();
    CHECK_STATUS(plock_lease_share(lease, "w"), PLOCK_OK);
    CHECK_STATUS(fake_hold(lease, &patience), PLOCK_OK);
    fake_await("SUBSCRIBE", 1);
    fake_await("EVALSHA shared_extend", 1);
    CHECK_STATUS(plock_lease_downgrade(lease), PLOCK_OK);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    fake_native_pass(TTL / 3);
    fake_await("EVALSHA shared_extend", 2);
    (void)fake_word(fake_command("EVALSHA shared_acquire", 0, command), 4, value);
    (void)snprintf(expected, sizeof expected, "EVALSHA shared_extend 1 k %.40s 3000 3600000 longer",
                   value);
    for (unsigned i = 0; i < 2; i++)
        CHECK_TEXT(fake_command("EVALSHA shared_extend", i, command), expected);
    fake_native_pass(1); /* from now on, the lease is only watched */
    (void)snprintf(expected, sizeof expected, "! %.40s k", value);
    CHECK(fake_publish(expected));
    fake_await("EVALSHA shared_extend", 3);
    (void)snprintf(expected, sizeof expected, "EVALSHA shared_extend 1 k %.40s", value);
    CHECK_TEXT(fake_command("EVALSHA shared_extend", 2, command), expected);
    /* a check does not extend the lease */
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(began + TTL / 3, TTL));
    fake_await("EVALSHA extend", 0);
    fake_await("EVALSHA check", 0);
    end();
}

static void its_time_counts_from_when_the_renewal_left(void) {
    begin();
    fake_watch(lease, &RENEWED);
    atomic_store(&fake_to_extend, FAKE_SILENCE);
    fake_native_pass(TTL / 3);
    renewals(2);
    const plock_ns left = plock_now();
    fake_native_pass(400 * PLOCK_MILLISECOND);
    /* unchanged until the renewal is confirmed */
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(began, TTL));
    atomic_store(&fake_to_extend, NULL);
    fake_answer("EVALSHA extend", 1, FAKE_DONE);
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(left, TTL));
    fake_native_pass(TTL / 3 - 400 * PLOCK_MILLISECOND - 1);
    renewals(2);
    fake_native_pass(1);
    renewals(3);
    end();
}

/* The answer to the acquire took most of the lease's time. */
static void a_lease_granted_late_is_renewed_in_time(void) {
    enum { LATE_MS = 280 };
    plock_interest interest;
    begin();
    /* The first lease opens the channel. Otherwise, the worker thread would check the second lease
     * when the channel opens. */
    plock_lease *first = fake_lease(store);
    fake_watch(first, &(plock_acquire_options){.ttl = 3600 * PLOCK_SECOND, .renews = true});
    atomic_store(&fake_to_acquire, FAKE_SILENCE);
    const plock_acquire_options patience = {
        .ttl = 300 * PLOCK_MILLISECOND, .wait = PLOCK_SECOND, .renews = true};
    CHECK_STATUS(plock_lease_acquire(lease, &patience), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    fake_clock_pass(LATE_MS * PLOCK_MILLISECOND);
    fake_answer("EVALSHA acquire", 1, FAKE_HELD);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    pass(100 * PLOCK_MILLISECOND, 5 * PLOCK_MILLISECOND);
    CHECK(plock_lease_valid(lease));
    CHECK_INT(plock_lease_valid_until(lease) > began + 400 * PLOCK_MILLISECOND, true);
    plock_lease_free(first);
    end();
}

static void a_lease_that_is_only_watched_is_not_renewed(void) {
    begin();
    fake_watch(lease, &(plock_acquire_options){.ttl = TTL, .watched = true});
    pass(fake_reliable(0, TTL) - 1, fake_reliable(0, TTL) - 1);
    CHECK(plock_lease_valid(lease));
    fake_no_notice();
    fake_native_pass(1);
    CHECK(!plock_lease_valid(lease) && plock_lease_lost(lease));
    fake_await_notice(PLOCK_LOST, lease);
    renewals(0);
    end();
}

static void an_unwatched_lease_costs_nothing(void) {
    begin();
    CHECK_STATUS(fake_hold(lease, &(plock_acquire_options){.ttl = TTL}), PLOCK_OK);
    fake_native_pass(2 * TTL);
    CHECK_INT(fake_connections(), 1);
    CHECK_INT(fake_commands_like("EVALSHA"), 1);
    end();
}

static void each_lease_is_renewed_at_its_own_time(void) {
    enum { LEASES = 5 };
    plock_lease *leases[LEASES];
    char key[2] = "a", beginning[32];
    begin();
    for (unsigned i = 0; i < LEASES; i++, key[0]++) {
        CHECK_STATUS(plock_lease_new(&leases[i], store, key, 1), PLOCK_OK);
        if (i == 0)
            fake_watch(leases[i], &RENEWED);
        else
            CHECK_STATUS(fake_hold(leases[i], &RENEWED), PLOCK_OK);
        fake_native_pass(100 * PLOCK_MILLISECOND);
    }
    fake_native_pass(400 * PLOCK_MILLISECOND);
    for (unsigned i = 0; i < LEASES; i++) {
        /* until a third of the lease's TTL has passed since its acquire */
        fake_native_pass(100 * PLOCK_MILLISECOND);
        (void)snprintf(beginning, sizeof beginning, "EVALSHA extend 1 %c ", 'a' + (char)i);
        fake_await(beginning, i == 0 ? 2 : 1);
        renewals(2 + i);
    }
    for (unsigned i = 0; i < LEASES; i++) plock_lease_free(leases[i]);
    end();
}

/* There are more renewals than the worker thread can poll at a time. */
static void so_are_any_number_of_them(void) {
    enum { LEASES = 300 };
    static plock_lease *leases[LEASES];
    unsigned renewed = 0;
    begin();
    for (unsigned i = 0; i < LEASES; i++) {
        leases[i] = fake_lease(store);
        CHECK_STATUS(fake_hold(leases[i], &RENEWED), PLOCK_OK);
    }
    fake_await("SUBSCRIBE", 1);
    pass(TTL / 3, TTL / 3);
    for (unsigned rounds = 0;
         renewed < LEASES && test_patient(&rounds);) /* some renewals wait for a connection */
        if (plock_lease_valid_until(leases[renewed]) >= fake_reliable(began + TTL / 3, TTL))
            renewed++;
    CHECK_INT(renewed, LEASES);
    for (unsigned i = 0; i < LEASES; i++) CHECK_STATUS(fake_release(leases[i]), PLOCK_OK);
    for (unsigned i = 0; i < LEASES; i++) plock_lease_free(leases[i]);
    end();
}

/* --- a lease that waited --- */

/* The waiter's own thread may read the grant late, so the renewals begin at the grant. */
static void a_lease_granted_to_a_waiter_is_renewed_before_it_sees_it(void) {
    plock_lease *first;
    begin();
    /* so that the channel is open, and the waiter queues */
    CHECK_STATUS(plock_lease_new(&first, store, "first", 5), PLOCK_OK);
    fake_watch(first, &(plock_acquire_options){.ttl = TTL, .watched = true});
    const plock_acquire_options patience = {.ttl = TTL, .wait = 100 * PLOCK_SECOND, .renews = true};
    grant_unseen(first, &patience);
    pass(3 * TTL, TTL / 3);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK(plock_lease_valid(lease));
    CHECK_INT(plock_lease_acquired_at(lease), began);
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(began + 3 * TTL, TTL));
    fake_native_pass(TTL / 3);
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(began + 3 * TTL + TTL / 3, TTL));
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
    CHECK_INT(fake_commands_like("EVALSHA leave"), 0);
}

/* --- how long it is renewed --- */

static void a_release_ends_it(void) {
    begin();
    fake_watch(lease, &RENEWED);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    pass(2 * TTL, TTL / 3);
    renewals(1);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 1);
}

/* Whatever the server answers to the renewal in flight, the answer does not count as a loss. */
static void so_does_one_that_is_begun_while_a_renewal_is_under_way(void) {
    begin();
    fake_watch(lease, &RENEWED);
    atomic_store(&fake_to_extend, FAKE_SILENCE);
    fake_native_pass(TTL / 3);
    renewals(2);
    CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_OK);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    fake_nudge(); /* so that the worker thread gives up the renewal and its connection */
    pass(2 * TTL, TTL / 3);
    renewals(2);
    CHECK(!plock_lease_lost(lease));
    end();
}

static void freeing_or_leaving_it_ends_it(void) {
    enum { FREE, LEAVE, WAYS };
    for (int way = 0; way < WAYS; way++) {
        begin();
        fake_watch(lease, &RENEWED);
        if (way == LEAVE)
            fake_leave(lease);
        else
            plock_lease_free(lease), lease = NULL;
        fake_await("EVALSHA release", way == FREE);
        /* without this wait, the release would not be answered in time, and would be repeated */
        fake_await_settled(store);
        pass(2 * TTL, TTL / 3);
        renewals(1);
        end();
        CHECK_INT(fake_commands_like("EVALSHA release"), way == FREE);
    }
}

static void nothing_is_renewed_when_it_has_been_held_long_enough(void) {
    plock_acquire_options patience = RENEWED;
    patience.max_hold = 5 * PLOCK_SECOND;
    begin();
    fake_watch(lease, &patience);
    pass(4 * PLOCK_SECOND, PLOCK_SECOND);
    renewals(5);
    const plock_ns until = fake_reliable(began + 4 * PLOCK_SECOND, TTL);
    fake_native_pass(PLOCK_SECOND);
    renewals(5);
    fake_native_pass(until - plock_now() - 1);
    CHECK(plock_lease_valid(lease));
    fake_no_notice();
    fake_native_pass(1);
    fake_await_notice(PLOCK_LOST, lease);
    CHECK(plock_lease_lost(lease));
    pass(2 * TTL, TTL / 3);
    renewals(5);
    end();
}

/* --- reporting renewals --- */

static void renewals_are_told_where_that_is_wanted(void) {
    begin();
    plock_notice_want(PLOCK_RENEWED, true);
    fake_watch(lease, &RENEWED);
    fake_await_notice(PLOCK_RENEWED, lease);
    atomic_store(&fake_to_extend, FAKE_SILENCE);
    fake_native_pass(TTL / 3);
    renewals(2);
    fake_clock_pass(70 * PLOCK_MILLISECOND);
    fake_answer("EVALSHA extend", 1, FAKE_DONE);
    plock_notice *notice = plock_notice_next();
    if (CHECK(notice != NULL)) {
        CHECK_INT(notice->kind, PLOCK_RENEWED);
        CHECK_INT(notice->took, 70 * PLOCK_MILLISECOND);
    }
    plock_notice_free(notice);
    plock_notice_want(PLOCK_RENEWED, false);
    end();
}

int main(void) {
    RUN(it_is_renewed_each_time_a_third_of_its_time_is_over);
    RUN(a_renewal_shortens_nothing);
    RUN(a_share_is_renewed_and_looked_at_as_such);
    RUN(its_time_counts_from_when_the_renewal_left);
    RUN(a_lease_granted_late_is_renewed_in_time);
    RUN(a_lease_that_is_only_watched_is_not_renewed);
    RUN(an_unwatched_lease_costs_nothing);
    RUN(each_lease_is_renewed_at_its_own_time);
    RUN(so_are_any_number_of_them);
    RUN(a_lease_granted_to_a_waiter_is_renewed_before_it_sees_it);
    RUN(a_release_ends_it);
    RUN(so_does_one_that_is_begun_while_a_renewal_is_under_way);
    RUN(freeing_or_leaving_it_ends_it);
    RUN(nothing_is_renewed_when_it_has_been_held_long_enough);
    RUN(renewals_are_told_where_that_is_wanted);
    return test_end("watch");
}
