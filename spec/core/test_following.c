/* Several threads of one process want the same lock at the same time. One asks the server, and the
 * others queue behind it. */
#include "fake_native.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

enum { LEASES = 3 };

static plock_store *store;
static plock_lease *leases[LEASES];

static const char *first_is_silent(const char *command, unsigned nth) {
    if (!strncmp(command, "EVALSHA acquire", 15) && nth == 0) return FAKE_SILENCE;
    return fake_refuses(command, nth);
}

/* The first waiter has asked, and has no answer yet. The other waiters have come, and the channel
 * is being opened for them. */
static void begin(void) {
    fake_clock_start();
    store = fake_native_store(first_is_silent);
    fake_redis.subscriptions[0] = FAKE_SILENCE;
    for (unsigned i = 0; i < LEASES; i++) leases[i] = fake_lease(store);
    for (unsigned i = 0; i < LEASES; i++) fake_await_turn(leases[i], 100 * PLOCK_SECOND);
    fake_await("SUBSCRIBE", 1);
    fake_await("EVALSHA acquire", 1);
}

static void end(void) {
    for (unsigned i = 1; i < LEASES; i++) plock_lease_free(leases[i]);
    fake_end(leases[0], store);
}

static void answer_first(const char *answer) { fake_say(&fake_peers[0], answer, strlen(answer)); }

/* Checks that the acquires from number `from` on are `count` requests for places in the queue. They
 * must come from the waiters `first`, `first + 1` and so on, in this order. */
static void check_queued(unsigned from, unsigned first, unsigned count) {
    char word[FAKE_COMMAND_ROOM], owner[64];
    fake_await("EVALSHA acquire", from + count);
    for (unsigned i = 0; i < count; i++) {
        size_t length;
        const char *bytes = plock_lease_owner(leases[first + i], &length);
        (void)snprintf(owner, sizeof owner, "%.*s", (int)length, bytes);
        CHECK_TEXT(fake_value(from + i, word), owner);
        CHECK_TEXT(fake_ticket(from + i, word), "0");
    }
}

static void the_asking_thread_is_before_later_ones(void) {
    begin();
    answer_first(FAKE_REFUSED);
    fake_carry_on(leases[0]);
    fake_confirm();
    check_queued(1, 0, LEASES);
    end();
}

static void they_go_on_when_the_first_holds_it(void) {
    begin();
    answer_first(FAKE_HELD);
    CHECK_STATUS(fake_await_end(leases[0]), PLOCK_OK);
    fake_confirm();
    check_queued(1, 1, LEASES - 1);
    CHECK_STATUS(fake_release(leases[0]), PLOCK_OK);
    end();
}

static void they_go_on_when_the_first_fails(void) {
    begin();
    answer_first("-LOADING x\r\n");
    CHECK_STATUS(fake_await_end(leases[0]), PLOCK_TRY_FAILED);
    fake_confirm();
    check_queued(1, 1, LEASES - 1);
    end();
}

static void they_go_on_when_the_first_gives_up(void) {
    begin();
    plock_lease_cancel(leases[0]);
    fake_confirm();
    check_queued(1, 1, LEASES - 1);
    end();
}

static void they_go_on_even_if_the_first_gets_no_answer(void) {
    begin();
    fake_confirm();
    check_queued(1, 1, LEASES - 1);
    end();
}

static void without_patience_or_with_another_key_a_thread_asks_itself(void) {
    plock_lease *impatient, *other;
    char command[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    begin();
    impatient = fake_lease(store);
    CHECK_STATUS(fake_acquire(impatient, 0), PLOCK_REFUSED);
    CHECK_STATUS(plock_lease_new(&other, store, "another", 7), PLOCK_OK);
    fake_await_turn(other, PLOCK_SECOND);
    fake_await("EVALSHA acquire", 3);
    for (unsigned i = 1; i < 3; i++) CHECK_TEXT(fake_ticket(i, word), "");
    CHECK_HAS(fake_command("EVALSHA acquire", 2, command), "acquire 1 another ");
    plock_lease_free(other);
    plock_lease_free(impatient);
    end();
}

static void threads_that_come_in_turn_do_not_follow(void) {
    fake_clock_start();
    store = fake_native_store(NULL);
    for (unsigned i = 0; i < LEASES; i++) {
        leases[i] = fake_lease(store);
        CHECK_STATUS(fake_acquire(leases[i], PLOCK_SECOND), PLOCK_OK);
        CHECK_STATUS(fake_release(leases[i]), PLOCK_OK);
    }
    CHECK_INT(fake_commands_like("SUBSCRIBE"), 0);
    CHECK_INT(fake_commands_like("EVALSHA acquire"), LEASES);
    end();
}

static void follow_in_child(void *context) {
    (void)context;
    plock_lease *own = fake_lease(store);
    fake_redis.says = NULL;
    /* the child's lease must not wait for the parent's request */
    CHECK_STATUS(fake_acquire(own, PLOCK_SECOND), PLOCK_OK);
    CHECK_STATUS(fake_release(own), PLOCK_OK);
    plock_lease_free(own);
    end();
    CHECK_INT(fake_commands_like("SUBSCRIBE"), 1);
}

static void a_child_does_not_follow_its_parent(void) {
    begin();
    test_in_child(follow_in_child, NULL);
    end();
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(the_asking_thread_is_before_later_ones);
    RUN(they_go_on_when_the_first_holds_it);
    RUN(they_go_on_when_the_first_fails);
    RUN(they_go_on_when_the_first_gives_up);
    RUN(they_go_on_even_if_the_first_gets_no_answer);
    RUN(without_patience_or_with_another_key_a_thread_asks_itself);
    RUN(threads_that_come_in_turn_do_not_follow);
    RUN(a_child_does_not_follow_its_parent);
    return test_end("following");
}
