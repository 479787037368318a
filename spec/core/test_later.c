/* Leases that are renewed automatically. If a lease is released soon, its renewal costs nothing. If
 * it is held for longer, it is renewed like any other. */
#include "base/process.h"
#include "one_watched.h"
#include "redis/owner.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static const plock_ns TTL = 3 * PLOCK_SECOND, LEFT_ALONE = 250 * PLOCK_MILLISECOND;
static const plock_acquire_options AUTOMATIC = {
    .ttl = 3 * PLOCK_SECOND, .renews = true, .automatic = true};

/* Waits until the lease's renewal begins. The first renewal tells the server on which channel the
 * owner listens. If the channel opens only later, another renewal follows. */
static void come_of_age(void) {
    fake_native_pass(LEFT_ALONE);
    fake_await("SUBSCRIBE", 1);
    for (unsigned rounds = 0; !fake_commands_like("EVALSHA extend") && test_patient(&rounds);)
        continue;
    for (int i = 0; i < 3; i++) fake_nudge();
}

static void a_short_one_costs_nothing(void) {
    begin();
    for (unsigned i = 0; i < 20; i++) {
        CHECK_STATUS(fake_hold(lease, &AUTOMATIC), PLOCK_OK);
        fake_native_pass(LEFT_ALONE - 1);
        CHECK_STATUS(fake_release(lease), PLOCK_OK);
    }
    fake_native_pass(TTL);
    CHECK_INT(fake_connections(), 1);
    fake_await("SUBSCRIBE", 0);
    fake_await("EVALSHA extend", 0);
    end();
}

static void a_long_one_is_renewed(void) {
    begin();
    CHECK_STATUS(fake_hold(lease, &AUTOMATIC), PLOCK_OK);
    come_of_age();
    const unsigned renewals = fake_commands_like("EVALSHA extend");
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(plock_now(), TTL));
    for (unsigned i = 1; i <= 6; i++) {
        fake_native_pass(TTL / 3);
        fake_await("EVALSHA extend", renewals + i);
        CHECK(plock_lease_valid(lease));
    }
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    fake_native_pass(TTL);
    fake_await("EVALSHA extend", renewals + 6);
    end();
}

/* The acquire could not name a channel in the owner's record, because none was open. */
static void its_first_renewal_notes_where_its_owner_listens(void) {
    char command[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM], channel[FAKE_COMMAND_ROOM],
        value[FAKE_COMMAND_ROOM];
    char expected[2 * FAKE_COMMAND_ROOM];
    begin();
    CHECK_STATUS(fake_hold(lease, &AUTOMATIC), PLOCK_OK);
    CHECK_TEXT(fake_word(fake_command("EVALSHA acquire", 0, command), 9, word), "-");
    come_of_age();
    size_t length;
    const char *identity = plock__identity(&length);
    (void)fake_word(fake_command("EVALSHA extend", 0, command), 11, channel);
    (void)snprintf(expected, sizeof expected,
                   "EVALSHA extend 1 k %.40s 3000 3603000 longer %.*s %.16s", fake_value(0, value),
                   (int)length, identity, channel);
    CHECK_TEXT(command, expected);
    CHECK_INT(strlen(channel), PLOCK__CHANNEL_LENGTH);
    CHECK_HAS(fake_command("SUBSCRIBE", 0, command), channel);
    const unsigned renewals = fake_commands_like("EVALSHA extend");
    fake_call("!", 0);
    fake_await("EVALSHA extend", renewals + 1);
    (void)snprintf(expected, sizeof expected, "EVALSHA extend 1 k %.40s 3000 3603000 longer",
                   value);
    CHECK_TEXT(fake_command("EVALSHA extend", renewals, command), expected);
    end();
}

static void a_break_before_is_found_when_it_begins(void) {
    begin();
    CHECK_STATUS(fake_hold(lease, &AUTOMATIC), PLOCK_OK);
    atomic_store(&fake_to_extend, FAKE_NOT_OURS);
    fake_native_pass(LEFT_ALONE);
    for (unsigned rounds = 0; !plock_lease_lost(lease) && test_patient(&rounds);) continue;
    CHECK(plock_lease_lost(lease));
    end(); /* no notice is left, because the lease is not watched */
}

/* The channel is already open, because another lease needs it. */
static void so_it_is_where_the_channel_was_open_before(void) {
    begin();
    plock_lease *other = fake_lease(store);
    CHECK_STATUS(
        fake_hold(other, &(plock_acquire_options){.ttl = 3600 * PLOCK_SECOND, .watched = true}),
        PLOCK_OK);
    fake_await("SUBSCRIBE", 1);
    CHECK_STATUS(fake_hold(lease, &AUTOMATIC), PLOCK_OK);
    atomic_store(&fake_to_extend, FAKE_NOT_OURS);
    fake_native_pass(LEFT_ALONE);
    fake_await("EVALSHA extend", 1);
    CHECK(plock_lease_lost(lease));
    plock_lease_free(other);
    end();
}

static void its_loss_is_told_where_that_is_wanted(void) {
    plock_acquire_options patience = AUTOMATIC;
    patience.watched = true;
    begin();
    CHECK_STATUS(fake_hold(lease, &patience), PLOCK_OK);
    atomic_store(&fake_to_extend, FAKE_NOT_OURS);
    fake_native_pass(LEFT_ALONE);
    fake_await_notice(PLOCK_LOST, lease);
    end();
}

static void one_that_lasts_for_a_moment_only_is_renewed_in_time(void) {
    plock_acquire_options patience = AUTOMATIC;
    patience.ttl = 60 * PLOCK_MILLISECOND;
    begin();
    CHECK_STATUS(fake_hold(lease, &patience), PLOCK_OK);
    for (unsigned i = 0; i < 60; i++) {
        fake_native_pass(5 * PLOCK_MILLISECOND);
        CHECK(plock_lease_valid(lease));
    }
    end();
}

static void one_that_is_shortened_is_renewed_in_time(void) {
    begin();
    CHECK_STATUS(fake_hold(lease, &AUTOMATIC), PLOCK_OK);
    CHECK_STATUS(plock_lease_extend(lease, 60 * PLOCK_MILLISECOND), PLOCK_OK);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    for (unsigned i = 0; i < 60; i++) {
        fake_native_pass(5 * PLOCK_MILLISECOND);
        CHECK(plock_lease_valid(lease));
    }
    end();
}

static void it_is_renewed_no_longer_than_it_may_be_held(void) {
    plock_acquire_options patience = AUTOMATIC;
    patience.max_hold = PLOCK_SECOND;
    begin();
    CHECK_STATUS(fake_hold(lease, &patience), PLOCK_OK);
    come_of_age();
    const plock_ns until = plock_lease_valid_until(lease);
    fake_native_pass(until - plock_now() - 1);
    CHECK(plock_lease_valid(lease));
    fake_native_pass(1);
    CHECK(plock_lease_lost(lease));
    end();
}

/* The lease's own thread may be late to see the grant. */
static void one_that_waited_is_renewed_before_its_thread_sees_it(void) {
    begin();
    /* this lease opens the channel, and makes the second lease queue */
    plock_lease *first = fake_lease(store);
    CHECK_STATUS(fake_hold(first, &(plock_acquire_options){.ttl = TTL, .watched = true}), PLOCK_OK);
    fake_await("SUBSCRIBE", 1);
    plock_acquire_options patience = AUTOMATIC;
    patience.wait = 100 * PLOCK_SECOND;
    grant_unseen(first, &patience);
    for (unsigned i = 0; i < 12; i++) fake_native_pass(TTL / 4);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK(plock_lease_valid(lease));
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
}

static void leave_in_child(void *context) {
    (void)context;
    CHECK(!plock_lease_valid(lease));
    plock_lease_free(lease);
    lease = NULL;
    fake_end(lease, store);
}

static void a_child_renews_nothing_of_its_parents(void) {
    begin();
    CHECK_STATUS(fake_hold(lease, &AUTOMATIC), PLOCK_OK);
    test_in_child(leave_in_child, NULL);
    come_of_age();
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(plock_now(), TTL));
    end();
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(a_short_one_costs_nothing);
    RUN(a_long_one_is_renewed);
    RUN(its_first_renewal_notes_where_its_owner_listens);
    RUN(a_break_before_is_found_when_it_begins);
    RUN(so_it_is_where_the_channel_was_open_before);
    RUN(its_loss_is_told_where_that_is_wanted);
    RUN(one_that_lasts_for_a_moment_only_is_renewed_in_time);
    RUN(one_that_is_shortened_is_renewed_in_time);
    RUN(it_is_renewed_no_longer_than_it_may_be_held);
    RUN(one_that_waited_is_renewed_before_its_thread_sees_it);
    RUN(a_child_renews_nothing_of_its_parents);
    return test_end("later");
}
