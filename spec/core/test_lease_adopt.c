/* Adopting a lease: a process that knows the token takes over a lease that another process left.
 * The lease gets a new owner and a new fence. */
#include "one_watched.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static const plock_ns TTL = 3 * PLOCK_SECOND;
static const plock_acquire_options PLAIN = {.ttl = 3 * PLOCK_SECOND};
static const plock_acquire_options RENEWED = {.ttl = 3 * PLOCK_SECOND, .renews = true};
static const plock_acquire_options WATCHED = {.ttl = 3 * PLOCK_SECOND, .watched = true};

static plock_interest interest;

static plock_status start_adopting(const char *owner, const plock_acquire_options *patience) {
    return plock_lease_adopt(lease, owner, strlen(owner), patience);
}

static plock_status adopt(const plock_acquire_options *patience) {
    const plock_status status = start_adopting("me", patience);
    return status ? status : fake_await_end(lease);
}

/* --- the owner --- */

/* The new token in the n-th adoption that the server received. */
static const char *heir(unsigned nth, char word[FAKE_COMMAND_ROOM]) {
    char command[FAKE_COMMAND_ROOM];
    return fake_word(fake_command("EVALSHA adopt", nth, command), 6, word);
}

static void check_released(const char *way, const char *token, unsigned times) {
    char release[FAKE_COMMAND_ROOM];
    (void)snprintf(release, sizeof release, "%s release 1 k %.40s", way, token);
    CHECK_INT(fake_commands_like(release), times);
}

static void any_owner_that_knows_the_value_takes_it_over(void) {
    size_t length;
    char token[FAKE_COMMAND_ROOM];
    begin();
    CHECK_STATUS(start_adopting("me", &PLAIN), PLOCK_OK);
    /* the lease counts from the moment when the request leaves … */
    fake_clock_pass(100 * PLOCK_MILLISECOND);
    atomic_store(&fake_to_adopt, FAKE_SILENCE);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    CHECK(!plock_lease_valid(lease));
    fake_clock_pass(70 * PLOCK_MILLISECOND); /* … and not from the answer */
    fake_answer("EVALSHA adopt", 0, FAKE_HELD);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK(plock_lease_valid(lease) && !plock_lease_lost(lease) && !plock_lease_inherited(lease));
    CHECK_INT(plock_lease_fence(lease), FAKE_HELD_FENCE);
    CHECK_INT(plock_lease_ttl(lease), TTL);
    CHECK_INT(plock_lease_acquired_at(lease), began + 100 * PLOCK_MILLISECOND);
    CHECK_INT(plock_lease_valid_until(lease), fake_reliable(began + 100 * PLOCK_MILLISECOND, TTL));
    CHECK_HAS(fake_peers[0].commands[1], "EVALSHA adopt 1 k me 3000 ");
    (void)heir(0, token);
    CHECK(strcmp(token, "me") && strlen(token) == PLOCK_TOKEN_LENGTH);
    CHECK(!memcmp(plock_lease_owner(lease, &length), token, PLOCK_TOKEN_LENGTH) &&
          length == PLOCK_TOKEN_LENGTH);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    check_released("EVALSHA", token, 1);
    end();
    CHECK_INT(fake_commands_like("EVALSHA"), 2);
}

static void each_adoption_has_a_token_of_its_own(void) {
    char first[FAKE_COMMAND_ROOM], second[FAKE_COMMAND_ROOM];
    begin();
    for (unsigned i = 0; i < 2; i++) {
        CHECK_STATUS(adopt(&PLAIN), PLOCK_OK);
        CHECK_STATUS(fake_release(lease), PLOCK_OK);
    }
    CHECK(strcmp(heir(0, first), heir(1, second)));
    end();
}

/* The caller may name the new owner, so that the lease can later be adopted by that name. */
static void it_can_be_given_to_an_owner_that_is_named(void) {
    size_t length;
    char word[FAKE_COMMAND_ROOM];
    begin();
    CHECK_STATUS(plock_lease_own(lease, "you", 3), PLOCK_OK);
    CHECK_STATUS(adopt(&PLAIN), PLOCK_OK);
    CHECK_TEXT(heir(0, word), "you");
    CHECK(!memcmp(plock_lease_owner(lease, &length), "you", 3) && length == 3);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    check_released("EVALSHA", "you", 1);
    end();
}

static void no_other_owner_does(void) {
    static const plock_acquire_options *const PATIENCES[] = {&PLAIN, &RENEWED, &WATCHED};
    for (unsigned i = 0; i < 3; i++) {
        begin();
        atomic_store(&fake_to_adopt, FAKE_NOT_OURS);
        CHECK_STATUS(adopt(PATIENCES[i]), PLOCK_NOT_OWNER);
        CHECK_STATUS(plock_lease_error(lease)->status, PLOCK_NOT_OWNER);
        CHECK(!plock_lease_valid(lease));
        CHECK(!plock_lease_lost(lease)); /* the lease was never ours, so it is not lost */
        CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_MISUSE);
        CHECK_STATUS(plock_lease_extend(lease, TTL), PLOCK_MISUSE);
        pass(2 * TTL, TTL / 3);
        end();
        CHECK_INT(fake_commands_like("EVALSHA"), 1); /* the lease is neither renewed nor released */
    }
}

/* Only this lease object knows the new token. If the server may have executed the adoption, a
 * release with the new token follows. If the lease still has the old token, that release does
 * nothing. */
static void a_failure_leaves_nothing_under_the_new_token(void) {
    static const struct {
        const char *said;
        plock_status status;
        bool doubt;
    } ANSWERS[] = {{"-NOPERM x\r\n", PLOCK_NOPERM, true}, {FAKE_SILENCE, PLOCK_SILENT, true},
                   {"+OK\r\n", PLOCK_PROTOCOL, true},     {":2\r\n", PLOCK_PROTOCOL, true},
                   {":1\r\n", PLOCK_PROTOCOL, true},      {"-LOADING x\r\n", PLOCK_LOADING, false}};
    for (unsigned i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        char token[FAKE_COMMAND_ROOM];
        begin();
        atomic_store(&fake_to_adopt, ANSWERS[i].said);
        CHECK_STATUS(start_adopting("me", &RENEWED), PLOCK_OK);
        CHECK_STATUS(fake_finish(lease), ANSWERS[i].status);
        CHECK(plock_now() <= began + PLOCK_SECOND / 2); /* command_timeout is the limit */
        CHECK(!plock_lease_valid(lease) && !plock_lease_lost(lease));
        (void)heir(0, token);
        /* The release must get a connection before the clock moves. Otherwise it would be sent
         * again. */
        fake_nudge();
        pass(TTL, TTL / 3);
        end();
        /* an undo behind the request, if the answer is missing or makes no sense */
        check_released("EVAL", token,
                       ANSWERS[i].status == PLOCK_SILENT || ANSWERS[i].status == PLOCK_PROTOCOL);
        check_released("EVALSHA", token, ANSWERS[i].doubt);
        check_released("EVALSHA", "me", 0);
        CHECK_INT(fake_commands_like("EVALSHA extend"), 0);
    }
}

/* Other processes know the owner's name, and can adopt the lease. So the lease is not released, and
 * lasts until it expires. */
static void a_failure_takes_nothing_from_an_owner_that_is_named(void) {
    begin();
    atomic_store(&fake_to_adopt, FAKE_SILENCE);
    CHECK_STATUS(plock_lease_own(lease, "you", 3), PLOCK_OK);
    CHECK_STATUS(start_adopting("me", &PLAIN), PLOCK_OK);
    CHECK_STATUS(fake_finish(lease), PLOCK_SILENT);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
    CHECK_INT(fake_commands_like("EVAL release"), 0);
}

/* The same request is sent again. A server that has already executed the request gives the same
 * answer. */
static void a_connection_that_ended_is_replaced_with_the_same_token(void) {
    char first[FAKE_COMMAND_ROOM], second[FAKE_COMMAND_ROOM];
    begin();
    CHECK_STATUS(fake_hold(lease, &PLAIN), PLOCK_OK);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    atomic_store(&fake_to_adopt, FAKE_CLOSES);
    CHECK_STATUS(start_adopting("me", &PLAIN), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    atomic_store(&fake_to_adopt, NULL);
    CHECK_STATUS(fake_finish(lease), PLOCK_OK);
    CHECK(plock_lease_valid(lease));
    CHECK_INT(fake_commands_like("EVALSHA adopt"), 2);
    CHECK_TEXT(heir(0, first), heir(1, second));
    end();
    check_released("EVALSHA", first, 1);
}

static void a_passing_failure_is_tried_again(void) {
    begin();
    fake_peers[0].answers[0] = "-LOADING x\r\n";
    CHECK_STATUS(start_adopting("me", &PLAIN), PLOCK_OK);
    CHECK_STATUS(fake_finish(lease), PLOCK_OK);
    CHECK(plock_lease_valid(lease));
    CHECK_INT(plock_lease_acquired_at(lease), plock_now());
    CHECK(plock_now() > began);
    CHECK_INT(fake_commands_like("EVALSHA adopt"), 2);
    end();
}

static void it_may_have_to_hurry(void) {
    begin();
    atomic_store(&fake_to_adopt, FAKE_SILENCE);
    CHECK_STATUS(start_adopting("me", &PLAIN), PLOCK_OK);
    plock_lease_hurry(lease, began + 10 * PLOCK_MILLISECOND);
    CHECK_STATUS(fake_finish(lease), PLOCK_SILENT);
    CHECK_INT(plock_now(), began + 10 * PLOCK_MILLISECOND);
    end();
}

/* --- misuse --- */

static void nonsense_is_refused(void) {
    static const plock_ns TTLS[] = {0, -1, PLOCK_TTL_MIN - 1, PLOCK_TTL_MAX + 1};
    begin();
    for (unsigned i = 0; i < sizeof TTLS / sizeof *TTLS; i++)
        CHECK_STATUS(start_adopting("me", &(plock_acquire_options){.ttl = TTLS[i]}), PLOCK_MISUSE);
    CHECK_STATUS(start_adopting("me", &(plock_acquire_options){.ttl = TTL, .max_hold = -1}),
                 PLOCK_MISUSE);
    CHECK_STATUS(start_adopting("", &PLAIN), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_MISUSE); /* no operation has begun */
    CHECK_STATUS(start_adopting("me", &PLAIN), PLOCK_OK);
    CHECK_STATUS(start_adopting("you", &PLAIN), PLOCK_MISUSE); /* an adoption is in progress */
    CHECK_STATUS(plock_lease_acquire(lease, &PLAIN), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_release_owned(lease), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_extend(lease, TTL), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_own(lease, "you", 3), PLOCK_MISUSE);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK_STATUS(start_adopting("you", &PLAIN), PLOCK_MISUSE); /* the lease is held */
    CHECK(plock_lease_valid(lease));
    end();
    char token[FAKE_COMMAND_ROOM];
    CHECK_INT(fake_commands_like("EVALSHA adopt 1 k me "), 1);
    check_released("EVALSHA", heir(0, token), 1);
}

/* --- giving up --- */

static void a_cancelled_adoption_holds_and_leaves_nothing(void) {
    enum { CANCEL, FREE, WAYS };
    for (int way = 0; way < WAYS; way++) {
        char token[FAKE_COMMAND_ROOM];
        begin();
        atomic_store(&fake_to_adopt, FAKE_SILENCE);
        CHECK_STATUS(start_adopting("me", &RENEWED), PLOCK_OK);
        CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
        (void)heir(0, token);
        if (way == FREE) {
            plock_lease_free(lease);
            lease = NULL;
        } else {
            plock_lease_cancel(lease);
            CHECK(!plock_lease_valid(lease) && !plock_lease_lost(lease));
            CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_MISUSE);
        }
        atomic_store(&fake_to_adopt, NULL);
        fake_await_settled(store); /* a release whose answer is late would be repeated */
        pass(2 * TTL, TTL / 3);
        if (way == CANCEL) CHECK_STATUS(adopt(&PLAIN), PLOCK_OK); /* the lease can adopt again */
        end();
        /* an undo behind the request, in case the server executes the request later … */
        check_released("EVAL", token, 1);
        check_released("EVALSHA", token, 1); /* … and a release in the background */
        CHECK_INT(fake_commands_like("EVALSHA extend"), 0);
    }
}

static void an_adoption_cancelled_before_it_left_needs_no_undo(void) {
    begin();
    fake_peers[0].connect_again = 1;
    CHECK_STATUS(start_adopting("me", &PLAIN), PLOCK_OK);
    plock_lease_cancel(lease);
    end();
    CHECK_INT(fake_commands_like("EVAL"), 0);
}

/* --- using the adopted lease --- */

static void it_is_renewed_like_any_other(void) {
    begin();
    CHECK_STATUS(adopt(&RENEWED), PLOCK_OK);
    fake_await("SUBSCRIBE", 1);
    /* the channel has just opened, so the lease is renewed at once */
    fake_await("EVALSHA extend", 1);
    for (unsigned i = 2; i <= 7; i++) {
        fake_native_pass(TTL / 3);
        fake_await("EVALSHA extend", i);
        CHECK_INT(plock_lease_valid_until(lease), fake_reliable(plock_now(), TTL));
    }
    char token[FAKE_COMMAND_ROOM], renewal[FAKE_COMMAND_ROOM], news[FAKE_COMMAND_ROOM];
    (void)snprintf(renewal, sizeof renewal, "EVALSHA extend 1 k %.40s 3000 3603000 longer",
                   heir(0, token));
    fake_await(renewal, 7);
    atomic_store(&fake_to_extend, FAKE_NOT_OURS);
    (void)snprintf(news, sizeof news, "! %.40s k", token);
    CHECK(fake_publish(news));
    fake_await_notice(PLOCK_LOST, lease);
    CHECK(plock_lease_lost(lease));
    end();
}

static void its_time_may_be_bounded(void) {
    plock_acquire_options patience = RENEWED;
    patience.max_hold = 2 * PLOCK_SECOND;
    begin();
    CHECK_STATUS(adopt(&patience), PLOCK_OK);
    fake_await("SUBSCRIBE", 1);
    pass(5 * PLOCK_SECOND, PLOCK_SECOND);
    fake_await_notice(PLOCK_LOST, lease);
    fake_await("EVALSHA extend", 2);
    end();
}

static void it_is_released_when_it_is_freed(void) {
    begin();
    CHECK_STATUS(adopt(&WATCHED), PLOCK_OK);
    end();
    char token[FAKE_COMMAND_ROOM];
    check_released("EVALSHA", heir(0, token), 1);
    CHECK_INT(fake_commands_like("EVALSHA undo"), 0);
}

/* The owner of an earlier acquire or adoption does not affect the next adoption. */
static void a_lease_that_was_acquired_before_can_adopt(void) {
    enum { FRESH, BROUGHT, ADOPTED, WAYS };
    for (int way = 0; way < WAYS; way++) {
        begin();
        if (way == BROUGHT)
            CHECK_STATUS(plock_lease_own(lease, "an owner with a long name", 25), PLOCK_OK);
        if (way == ADOPTED) CHECK_STATUS(start_adopting("another owner", &RENEWED), PLOCK_OK);
        CHECK_STATUS(way == ADOPTED ? fake_await_end(lease) : fake_hold(lease, &PLAIN), PLOCK_OK);
        CHECK_STATUS(fake_release(lease), PLOCK_OK);
        CHECK_STATUS(adopt(&RENEWED), PLOCK_OK);
        CHECK(plock_lease_valid(lease));
        fake_native_pass(TTL / 3);
        CHECK(fake_commands_like("EVALSHA extend 1 k ") >= 1);
        end();
    }
}

/* --- in a child --- */

static void adopt_in_child(void *context) {
    plock_lease *own = fake_lease(store);
    CHECK_STATUS(plock_lease_adopt(own, "me", 2, context), PLOCK_OK);
    CHECK_STATUS(fake_await_end(own), PLOCK_OK);
    CHECK(plock_lease_valid(own) && plock_lease_fence(own) == FAKE_HELD_FENCE);
    if (((const plock_acquire_options *)context)->renews) {
        pass(2 * TTL, TTL / 3);
        CHECK(plock_lease_valid(own));
        CHECK(fake_commands_like("EVALSHA extend 1 k ") >= 6);
    }
    CHECK_STATUS(fake_release(own), PLOCK_OK);
    plock_lease_free(own);
    plock_lease_free(lease); /* the parent's lease, which is not released in the child */
    fake_end(NULL, store);
    CHECK_INT(fake_commands_like("EVALSHA release"), 1);
}

static void a_child_can_take_over_what_its_parent_left(void) {
    plock_acquire_options patience = TEST_TSAN ? PLAIN : RENEWED;
    begin();
    CHECK_STATUS(plock_lease_own(lease, "me", 2), PLOCK_OK);
    CHECK_STATUS(fake_hold(lease, &WATCHED), PLOCK_OK);
    fake_await("SUBSCRIBE", 1);
    fake_leave(lease);
    test_in_child(adopt_in_child, &patience);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
    if (TEST_TSAN) test_skip("a worker thread in a child", "the sanitizer does not allow it");
}

static void step_in_child(void *context) {
    (void)context;
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_FORKED);
    CHECK(!plock_lease_valid(lease));
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_MISUSE);
    fake_end(lease, store);
    CHECK_INT(fake_commands_like("EVALSHA"), 1);
}

static void an_adoption_does_not_go_on_in_a_child(void) {
    begin();
    atomic_store(&fake_to_adopt, FAKE_SILENCE);
    CHECK_STATUS(start_adopting("me", &WATCHED), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    fake_await("SUBSCRIBE", 1);
    test_in_child(step_in_child, NULL);
    fake_answer("EVALSHA adopt", 0, FAKE_HELD);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK); /* the parent's operation is unaffected */
    CHECK(plock_lease_valid(lease));
    end();
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(any_owner_that_knows_the_value_takes_it_over);
    RUN(each_adoption_has_a_token_of_its_own);
    RUN(it_can_be_given_to_an_owner_that_is_named);
    RUN(no_other_owner_does);
    RUN(a_failure_leaves_nothing_under_the_new_token);
    RUN(a_failure_takes_nothing_from_an_owner_that_is_named);
    RUN(a_connection_that_ended_is_replaced_with_the_same_token);
    RUN(a_passing_failure_is_tried_again);
    RUN(it_may_have_to_hurry);
    RUN(nonsense_is_refused);
    RUN(a_cancelled_adoption_holds_and_leaves_nothing);
    RUN(an_adoption_cancelled_before_it_left_needs_no_undo);
    RUN(it_is_renewed_like_any_other);
    RUN(its_time_may_be_bounded);
    RUN(it_is_released_when_it_is_freed);
    RUN(a_lease_that_was_acquired_before_can_adopt);
    RUN(a_child_can_take_over_what_its_parent_left);
    RUN(an_adoption_does_not_go_on_in_a_child);
    return test_end("lease adopt");
}
