/* A watched lease whose program extends it during a renewal, releases it, uses it again, or
 * inherits it in a child. */
#include "one_watched.h"
#include "test.h"

#include "redis/coordinator.h"

#include <stdio.h>
#include <string.h>

static const plock_ns TTL = 3 * PLOCK_SECOND;
static const plock_acquire_options RENEWED = {.ttl = 3 * PLOCK_SECOND, .renews = true};
static const plock_acquire_options WATCHED = {.ttl = 3 * PLOCK_SECOND, .watched = true};

static plock_lease *other;

static plock_status extend(plock_ns ttl) {
    const plock_status status = plock_lease_extend(lease, ttl);
    return status ? status : fake_await_end(lease);
}

/* Begins a renewal that the server does not answer yet. It is the second extension that the server
 * receives. */
static void begin_renewal(void) {
    fake_watch(lease, &RENEWED);
    atomic_store(&fake_to_extend, FAKE_SILENCE);
    fake_native_pass(TTL / 3);
    renewals(2);
    atomic_store(&fake_to_extend, NULL);
}

/* --- extending --- */

static void the_next_renewal_asks_for_the_new_time(void) {
    char command[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    begin();
    fake_watch(lease, &RENEWED);
    fake_native_pass(PLOCK_SECOND / 2);
    const plock_ns extended = plock_now();
    CHECK_STATUS(extend(6 * PLOCK_SECOND), PLOCK_OK);
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(extended, 6 * PLOCK_SECOND));
    /* the request has no "longer", so the program's extension may also shorten the lease */
    CHECK_TEXT(fake_word(fake_command("EVALSHA extend", 1, command), 7, word), "");
    fake_native_pass(2 * PLOCK_SECOND - 1);
    renewals(2);
    fake_native_pass(1);
    renewals(3);
    CHECK_TEXT(fake_word(fake_command("EVALSHA extend", 2, command), 5, word), "6000");
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(plock_now(), 6 * PLOCK_SECOND));
    CHECK_INT(plock_lease_ttl(lease), 6 * PLOCK_SECOND);
    end();
}

/* The next renewal is due before the shortened lease ends, and not at the time that was planned
 * before the lease was shortened. */
static void one_that_is_shortened_is_renewed_in_time(void) {
    begin();
    fake_watch(lease, &(plock_acquire_options){.ttl = 30 * PLOCK_SECOND, .renews = true});
    CHECK_STATUS(extend(300 * PLOCK_MILLISECOND), PLOCK_OK);
    renewals(2);
    for (unsigned i = 3; i <= 8; i++) {
        fake_native_pass(100 * PLOCK_MILLISECOND);
        renewals(i);
        CHECK(plock_lease_valid(lease));
        CHECK_INT(plock_lease_valid_until(lease),
                  fake_reliable(plock_now(), 300 * PLOCK_MILLISECOND));
    }
    end();
}

/* The server may execute the shortening late, even after renewals that it has answered. So each of
 * these renewals counts only for the shorter time. */
static void so_is_one_that_may_have_been_shortened(void) {
    enum { GIVEN_UP, UNANSWERED, WAYS };
    for (int way = 0; way < WAYS; way++) {
        const plock_ns shorter = 300 * PLOCK_MILLISECOND * (way == UNANSWERED ? 10 : 1);
        plock_interest interest;
        begin();
        fake_watch(lease, &(plock_acquire_options){.ttl = 30 * PLOCK_SECOND, .renews = true});
        atomic_store(&fake_to_extend, FAKE_SILENCE);
        if (way == GIVEN_UP) {
            CHECK_STATUS(plock_lease_extend(lease, shorter), PLOCK_OK);
            CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
            plock_lease_cancel(lease);
        } else {
            CHECK_STATUS(plock_lease_extend(lease, shorter), PLOCK_OK);
            CHECK_STATUS(fake_finish(lease), PLOCK_SILENT);
        }
        CHECK_INT(plock_lease_valid_until(lease), fake_reliable(began, shorter));
        atomic_store(&fake_to_extend, NULL);
        for (unsigned i = 3; i <= 6; i++) {
            fake_native_pass(shorter / 3);
            renewals(i);
            CHECK(plock_lease_valid(lease));
            CHECK_INT(plock_lease_valid_until(lease), fake_reliable(plock_now(), shorter));
        }
        CHECK_STATUS(extend(60 * PLOCK_SECOND), PLOCK_OK); /* the server has confirmed this time */
        CHECK_INT(plock_lease_valid_until(lease), fake_reliable(plock_now(), 60 * PLOCK_SECOND));
        end();
    }
}

static void one_whose_extension_has_not_left_is_renewed_as_ever(void) {
    begin();
    fake_watch(lease, &RENEWED);
    CHECK_STATUS(plock_lease_extend(lease, 300 * PLOCK_MILLISECOND), PLOCK_OK);
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(began, TTL));
    plock_lease_cancel(lease);
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(began, TTL));
    fake_native_pass(TTL / 3);
    renewals(2);
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(plock_now(), TTL));
    end();
}

static void one_that_is_only_watched_lasts_as_long_as_the_program_says(void) {
    begin();
    fake_watch(lease, &WATCHED);
    CHECK_STATUS(extend(60 * PLOCK_SECOND), PLOCK_OK);
    fake_native_pass(50 * PLOCK_SECOND);
    CHECK(plock_lease_valid(lease));
    CHECK_STATUS(extend(PLOCK_SECOND), PLOCK_OK);
    fake_native_pass(fake_reliable(0, PLOCK_SECOND) - 1);
    fake_no_notice();
    fake_native_pass(1);
    fake_await_notice(PLOCK_LOST, lease);
    end();
}

/* The server may execute the extension and the renewal in either order. The program's extension
 * counts, because a renewal never shortens a lease. */
static void while_a_renewal_is_under_way_the_programs_dates_count(void) {
    begin();
    begin_renewal();
    fake_clock_pass(10 * PLOCK_MILLISECOND);
    const plock_ns until = fake_reliable(plock_now(), 60 * PLOCK_SECOND);
    CHECK_STATUS(extend(60 * PLOCK_SECOND), PLOCK_OK);
    CHECK_INT(plock_lease_valid_until(lease), until);
    fake_clock_pass(10 * PLOCK_MILLISECOND);
    fake_answer("EVALSHA extend", 1, FAKE_DONE);
    CHECK_INT(plock_lease_valid_until(lease), until);
    CHECK(plock_lease_valid(lease));
    pass(120 * PLOCK_SECOND, 10 * PLOCK_SECOND);
    CHECK(plock_lease_valid(lease)); /* it is still being renewed */
    end();
}

/* If the server executed the renewal last, the key would stay for the longer time. So the extension
 * waits for the renewal. */
static void an_extension_that_shortens_it_lets_a_renewal_go_ahead(void) {
    plock_interest interest;
    begin();
    begin_renewal();
    CHECK_STATUS(plock_lease_extend(lease, 500 * PLOCK_MILLISECOND), PLOCK_OK);
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
        CHECK_INT(interest.deadline, plock_now() + PLOCK_MILLISECOND);
        fake_clock_pass(PLOCK_MILLISECOND);
    }
    renewals(2);
    /* the extension has not been sent yet */
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(began, TTL));
    fake_answer("EVALSHA extend", 1, FAKE_DONE);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    renewals(3);
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(plock_now(), 500 * PLOCK_MILLISECOND));
    pass(PLOCK_SECOND, 80 * PLOCK_MILLISECOND);
    CHECK(plock_lease_valid(lease));
    end();
}

static void but_one_that_is_given_up_meanwhile_has_not_been_asked_for(void) {
    plock_interest interest;
    begin();
    begin_renewal();
    CHECK_STATUS(plock_lease_extend(lease, 500 * PLOCK_MILLISECOND), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    plock_lease_cancel(lease);
    fake_answer("EVALSHA extend", 1, FAKE_DONE);
    /* The program began its extension after the renewal left. So the answer to that renewal does
     * not change the lease's validity, and another renewal follows at once. */
    renewals(3);
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(plock_now(), TTL));
    end();
}

static void so_they_do_while_both_are_under_way(void) {
    plock_interest interest;
    begin();
    begin_renewal();
    atomic_store(&fake_to_extend, FAKE_SILENCE);
    fake_clock_pass(10 * PLOCK_MILLISECOND);
    CHECK_STATUS(plock_lease_extend(lease, PLOCK_SECOND), PLOCK_OK);
    fake_clock_pass(PLOCK_SECOND / 4); /* a renewal's time limit is half of command_timeout */
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    renewals(3);
    const plock_ns left = plock_now();
    /* the extension has been sent, so the lease may be shorter now */
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(left, PLOCK_SECOND));
    fake_answer("EVALSHA extend", 1, FAKE_DONE);
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(left, PLOCK_SECOND));
    fake_answer("EVALSHA extend", 2, FAKE_DONE);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(left, PLOCK_SECOND));
    end();
}

/* If an extension and a renewal were in flight together, the server could execute them in either
 * order. So no renewal is sent while an extension is in flight. */
static void nothing_is_renewed_while_the_program_extends_it(void) {
    plock_interest interest;
    begin();
    fake_watch(lease, &RENEWED);
    fake_native_pass(900 * PLOCK_MILLISECOND);
    atomic_store(&fake_to_extend, FAKE_SILENCE);
    CHECK_STATUS(plock_lease_extend(lease, TTL), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    const plock_ns asked = plock_now();
    fake_native_pass(200 * PLOCK_MILLISECOND); /* a renewal would be due now */
    fake_call("!", 0);
    renewals(2);
    fake_answer("EVALSHA extend", 1, FAKE_DONE);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    renewals(3); /* the break message has not been forgotten */
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(asked, TTL));
    fake_answer("EVALSHA extend", 2, FAKE_DONE);
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(plock_now(), TTL));
    fake_await("EVALSHA check", 0);
    end();
}

static void an_extension_that_fails_or_is_given_up_leaves_it_to_the_renewals(void) {
    enum { FAILS, GIVEN_UP, WAYS };
    for (int way = 0; way < WAYS; way++) {
        plock_interest interest;
        begin();
        fake_watch(lease, &RENEWED);
        fake_native_pass(TTL / 3 - 1);
        atomic_store(&fake_to_extend, way == FAILS ? "-NOPERM x\r\n" : FAKE_SILENCE);
        if (way == FAILS) {
            CHECK_STATUS(extend(60 * PLOCK_SECOND), PLOCK_NOPERM);
        } else {
            CHECK_STATUS(plock_lease_extend(lease, 60 * PLOCK_SECOND), PLOCK_OK);
            CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
            plock_lease_cancel(lease);
        }
        CHECK_INT(plock_lease_valid_until(lease), fake_reliable(began, TTL));
        atomic_store(&fake_to_extend, NULL);
        fake_native_pass(1);
        renewals(3);
        CHECK_INT(plock_lease_valid_until(lease), fake_reliable(plock_now(), TTL));
        pass(2 * TTL, TTL / 3);
        CHECK(plock_lease_valid(lease));
        end();
    }
}

/* The extension reports the loss to the caller, so there is no notice. */
static void an_extension_that_finds_another_owner_ends_it(void) {
    begin();
    fake_watch(lease, &RENEWED);
    atomic_store(&fake_to_extend, FAKE_NOT_OURS);
    CHECK_STATUS(extend(TTL), PLOCK_NOT_OWNER);
    CHECK(plock_lease_lost(lease) && !plock_lease_valid(lease));
    atomic_store(&fake_to_extend, NULL);
    pass(2 * TTL, TTL / 3);
    renewals(2);
    CHECK_STATUS(plock_lease_extend(lease, TTL), PLOCK_MISUSE);
    end();
}

/* --- used again --- */

/* Returns the channel in the record of this acquire, or "-" if the record names none. */
static const char *channel_of(unsigned nth, char word[FAKE_COMMAND_ROOM]) {
    char command[FAKE_COMMAND_ROOM];
    return fake_word(fake_command("EVALSHA acquire", nth, command), 9, word);
}

static void a_lease_that_is_used_again_names_the_channel_of_its_own_time(void) {
    enum { RELEASED, LEFT, REFUSED, WAYS };
    char first[FAKE_COMMAND_ROOM], again[FAKE_COMMAND_ROOM], subscribe[FAKE_COMMAND_ROOM];
    for (int way = 0; way < WAYS; way++) {
        begin();
        if (way == REFUSED) {
            atomic_store(&fake_to_acquire, FAKE_REFUSED);
            CHECK_STATUS(fake_hold(lease, &WATCHED), PLOCK_REFUSED);
            atomic_store(&fake_to_acquire, NULL);
        } else {
            CHECK_STATUS(fake_hold(lease, &WATCHED), PLOCK_OK);
            if (way == RELEASED)
                CHECK_STATUS(fake_release(lease), PLOCK_OK);
            else
                fake_leave(lease);
        }
        /* this acquire has no watch */
        CHECK_STATUS(fake_hold(lease, &(plock_acquire_options){.ttl = TTL}), PLOCK_OK);
        CHECK_TEXT(channel_of(1, again), "-");
        CHECK_STATUS(fake_release(lease), PLOCK_OK);
        CHECK_STATUS(fake_hold(lease, &WATCHED), PLOCK_OK);
        CHECK_TEXT(channel_of(2, again), channel_of(0, first));
        CHECK_INT(strlen(first), PLOCK__CHANNEL_LENGTH);
        fake_await("SUBSCRIBE", 1);
        CHECK_HAS(fake_command("SUBSCRIBE", 0, subscribe), first);
        end();
    }
}

/* A message about the lease's first acquire does not concern its second acquire. */
static void each_use_is_watched_by_itself(void) {
    begin();
    fake_watch(lease, &RENEWED);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    CHECK_STATUS(fake_hold(lease, &RENEWED), PLOCK_OK);
    fake_call("!", 0);
    renewals(1);
    fake_call("!", 1);
    renewals(2);
    fake_native_pass(TTL / 3);
    renewals(3);
    end();
}

/* --- inherited --- */

static void use_in_child(void *context) {
    const bool threads = *(const bool *)context;
    const unsigned commands = fake_commands_like("");
    fake_clock_pass(TTL / 2);
    CHECK(plock_lease_inherited(lease) && !plock_lease_valid(lease));
    CHECK_STATUS(plock_lease_extend(lease, TTL), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_MISUSE);
    if (threads) {
        plock_lease *own;
        CHECK_STATUS(plock_lease_new(&own, store, "own", 3), PLOCK_OK);
        /* the child has its own coordinator and its own worker thread */
        CHECK_STATUS(fake_hold(own, &RENEWED), PLOCK_OK);
        fake_await("SUBSCRIBE", 2);
        fake_native_pass(TTL / 3);
        CHECK(fake_commands_like("EVALSHA extend 1 own ") >= 2);
        fake_await("EVALSHA extend 1 k ", 1); /* only the parent's renewal */
        CHECK_STATUS(fake_release(own), PLOCK_OK);
        plock_lease_free(own);
    }
    fake_leave(lease);
    fake_clock_pass(TTL);
    CHECK(!plock_notice_next());
    plock_lease_free(other);
    fake_end(lease, store);
    if (!threads) CHECK_INT(fake_commands_like(""), commands);
    CHECK_INT(fake_commands_like("EVALSHA release 1 k "), 0);
}

static void free_in_child(void *context) {
    (void)context;
    const unsigned commands = fake_commands_like("");
    plock_lease_free(lease);
    lease = NULL;
    fake_end(lease, store);
    CHECK_INT(fake_commands_like(""), commands);
}

static void a_child_neither_renews_nor_ends_what_its_parent_holds(void) {
    bool threads = !TEST_TSAN;
    begin();
    fake_watch(lease, &RENEWED);
    other = fake_lease(store); /* so that the list of watches has several entries */
    CHECK_STATUS(fake_hold(other, &WATCHED), PLOCK_OK);
    test_in_child(use_in_child, &threads);
    fake_native_pass(TTL / 3);
    renewals(2); /* in the parent, renewals and messages continue */
    fake_call("!", 0);
    renewals(3);
    fake_call("!", 1);
    fake_await("EVALSHA check", 1);
    plock_lease_free(other);
    end();
    if (!threads) test_skip("a worker thread in a child", "the sanitizer does not allow it");
}

static void a_child_that_does_nothing_leaks_nothing(void) {
    enum { RESTS, RENEWAL_UNDER_WAY, NOT_HELD_YET, LOST, STATES };
    for (int state = 0; state < STATES; state++) {
        plock_interest interest;
        begin();
        if (state == RENEWAL_UNDER_WAY)
            begin_renewal();
        else if (state != NOT_HELD_YET)
            fake_watch(lease, &RENEWED);
        if (state == NOT_HELD_YET) {
            CHECK_STATUS(plock_lease_acquire(lease, &RENEWED), PLOCK_OK);
            CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
            fake_await("SUBSCRIBE", 1);
        }
        if (state == LOST) {
            atomic_store(&fake_to_extend, FAKE_NOT_OURS);
            fake_native_pass(TTL / 3);
            fake_await_notice(PLOCK_LOST, lease);
        }
        test_in_child(free_in_child, NULL);
        end();
    }
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(the_next_renewal_asks_for_the_new_time);
    RUN(one_that_is_shortened_is_renewed_in_time);
    RUN(so_is_one_that_may_have_been_shortened);
    RUN(one_whose_extension_has_not_left_is_renewed_as_ever);
    RUN(one_that_is_only_watched_lasts_as_long_as_the_program_says);
    RUN(while_a_renewal_is_under_way_the_programs_dates_count);
    RUN(an_extension_that_shortens_it_lets_a_renewal_go_ahead);
    RUN(but_one_that_is_given_up_meanwhile_has_not_been_asked_for);
    RUN(so_they_do_while_both_are_under_way);
    RUN(nothing_is_renewed_while_the_program_extends_it);
    RUN(an_extension_that_fails_or_is_given_up_leaves_it_to_the_renewals);
    RUN(an_extension_that_finds_another_owner_ends_it);
    RUN(a_lease_that_is_used_again_names_the_channel_of_its_own_time);
    RUN(each_use_is_watched_by_itself);
    RUN(a_child_neither_renews_nor_ends_what_its_parent_holds);
    RUN(a_child_that_does_nothing_leaks_nothing);
    return test_end("watch program");
}
