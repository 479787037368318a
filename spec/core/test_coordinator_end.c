/* Waits that end because the process ends, the store is closed, or the process forks. */
#include "fake_native.h"
#include "test.h"

#include "base/process.h"
#include "redis/coordinator.h"
#include "redis/store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static plock_store *store;
static plock_lease *lease, *other;
static plock_interest interest;

static atomic_uint silent_at, granted_from;

static atomic_bool leave_is_silent;

static const char *says(const char *command, unsigned nth) {
    if (leave_is_silent && !strncmp(command, "EVALSHA leave", 13)) return FAKE_SILENCE;
    if (!strncmp(command, "EVALSHA acquire", 15) && nth == silent_at) return FAKE_SILENCE;
    return nth >= granted_from ? NULL : fake_refuses(command, nth);
}

static void begin(void) {
    silent_at = granted_from = 1000;
    leave_is_silent = false;
    fake_clock_start();
    store = fake_native_store(says);
    lease = fake_lease(store);
    other = fake_lease(store);
}

static void end(void) {
    plock_lease_free(other);
    fake_end(lease, store);
}

/* The states in which a lease may wait. */
enum {
    CHANNEL_OPENS,
    OWN_THREAD_ASKS,
    RESTS,
    NATIVE_THREAD_ASKS,
    CHANNEL_AWAY,
    STATES,
    LEAVES = STATES,
    GONE_WHILE_ASKED,
    ALL_STATES
};

static void wait_in(int state) {
    if (state == CHANNEL_OPENS) fake_redis.subscriptions[0] = FAKE_SILENCE;
    fake_await_turn(lease, 100 * PLOCK_SECOND);
    if (state == CHANNEL_OPENS) {
        fake_await("SUBSCRIBE", 1);
        return;
    }
    fake_await("EVALSHA acquire", 2);
    if (state == OWN_THREAD_ASKS) {
        silent_at = 2;
        fake_await_turn(other, 100 * PLOCK_SECOND);
    }
    if (state == LEAVES) {
        leave_is_silent = true;
        plock_lease_cancel(lease);
        fake_await("EVALSHA leave", 1);
    }
    if (state == NATIVE_THREAD_ASKS || state == GONE_WHILE_ASKED) {
        silent_at = 2;
        fake_call("=", 1);
        fake_await("EVALSHA acquire", 3);
        if (state == GONE_WHILE_ASKED) plock_lease_cancel(lease);
    }
    if (state == CHANNEL_AWAY) {
        for (unsigned i = 1; i < FAKE_ANSWERS; i++) fake_redis.subscriptions[i] = FAKE_SILENCE;
        fake_cut_channel();
        for (unsigned rounds = 0; fake_commands_like("SUBSCRIBE") < 2 && test_patient(&rounds);)
            fake_native_pass(PLOCK_MILLISECOND);
    }
}

/* Waits until the channel is closed. It must close while the clock stands still. */
static void await_end_of_channel(void) {
    for (unsigned rounds = 0; fake_channel_is_open() && rounds < 2000 && test_patient(&rounds);)
        continue;
    CHECK(!fake_channel_is_open());
}

/* --- the end of the process --- */

/* A process may continue after a drain. If a waiter also continues, it returns to the queue with
 * its ticket. */
static void draining_fails_waiters_and_they_can_go_on(void) {
    for (int state = 0; state < STATES; state++) {
        begin();
        wait_in(state);
        plock_lease *waits = state == OWN_THREAD_ASKS ? other : lease;
        plock_drain(plock_now());
        CHECK(!atomic_load(&store->node.coordinator));
        CHECK(!fake_channel_is_open());
        if (state == OWN_THREAD_ASKS) {
            for (unsigned p = 0; p < fake_connections(); p++)
                if (!fake_peers[p].destroyed &&
                    !strncmp(fake_peers[p].commands[fake_peers[p].command_count - 1],
                             "EVALSHA acquire", 15))
                    fake_say(&fake_peers[p], FAKE_QUEUED, strlen(FAKE_QUEUED));
        }
        CHECK_STATUS(fake_await_end(waits), PLOCK_TRY_FAILED);
        CHECK_STATUS(plock_lease_error(waits)->status, PLOCK_DISCONNECTED);
        for (unsigned i = 0; i < FAKE_ANSWERS; i++) fake_redis.subscriptions[i] = NULL;
        const unsigned asked = fake_commands_like("EVALSHA acquire");
        granted_from = asked;
        char word[FAKE_COMMAND_ROOM];
        fake_native_pass(PLOCK_SECOND / 2); /* a failure is followed by a pause */
        CHECK_STATUS(fake_await_end(waits), PLOCK_OK);
        CHECK_TEXT(fake_ticket(asked, word), state == CHANNEL_OPENS ? "" : FAKE_TICKET);
        CHECK_STATUS(fake_release(waits), PLOCK_OK);
        end();
    }
}

static void draining_an_idle_coordinator_takes_no_time(void) {
    begin();
    wait_in(RESTS);
    plock_lease_cancel(lease);
    fake_await("EVALSHA leave", 1);
    const plock_ns before = plock_now();
    fake_clock_stop();
    const plock_ns real = plock_now();
    plock_drain(real + 60 * PLOCK_SECOND);
    CHECK(plock_now() < real + 30 * PLOCK_SECOND);
    CHECK(before < real);
    CHECK(!atomic_load(&store->node.coordinator));
    end();
}

/* A drain still sends the leave requests that are pending in the background. */
static void draining_lets_waiters_leave_that_gave_up(void) {
    begin();
    wait_in(RESTS);
    plock_lease_cancel(lease);
    fake_clock_stop();
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    CHECK_INT(fake_commands_like("EVALSHA leave"), 1);
    end();
}

static void a_closed_store_is_freed_without_waiters(void) {
    begin();
    wait_in(RESTS);
    plock_store_close(store);
    plock_lease_free(lease);
    plock_lease_free(other);
    fake_await("EVALSHA leave", 1);
    await_end_of_channel();
    fake_clock_stop();
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    fake_settle(); /* nothing is left of the store */
}

static void so_is_the_channel_of_a_disconnected_store(void) {
    begin();
    wait_in(RESTS);
    plock_store_disconnect(store);
    fake_nudge();
    CHECK(fake_channel_is_open()); /* a waiter still uses the channel */
    plock_lease_cancel(lease);
    fake_await("EVALSHA leave", 1);
    await_end_of_channel();
    CHECK_INT(store->node.pool.open, 0);
    fake_await_turn(lease, 100 * PLOCK_SECOND); /* the next use opens the store again */
    fake_await("SUBSCRIBE", 2);
    plock_lease_cancel(lease);
    fake_await("EVALSHA leave", 2);
    CHECK(fake_channel_is_open());
    plock_store_disconnect(store); /* no waiter uses the channel any more */
    await_end_of_channel();
    end();
}

/* --- fork --- */

static void look_in_child(void *context) {
    const int state = *(const int *)context;
    const unsigned commands = fake_commands_like("");
    plock_lease *waits = state == OWN_THREAD_ASKS ? other : lease;
    CHECK(!atomic_load(&store->node.coordinator));
    CHECK_STATUS(plock_lease_step(waits, &interest), PLOCK_FORKED);
    /* the child has sent nothing on the parent's connections */
    CHECK_INT(fake_commands_like(""), commands);
    granted_from = fake_redis.acquires;
    silent_at = 1000;
    plock_lease *own = fake_lease(store); /* the store works in the child at once */
    CHECK_STATUS(fake_acquire(own, 0), PLOCK_OK);
    CHECK_STATUS(fake_release(own), PLOCK_OK);
    plock_lease_free(own);
    end();
    CHECK_INT(fake_commands_like("EVALSHA leave"), 0);
}

static void a_child_has_no_waiters_of_its_parent(void) {
    for (int state = 0; state < STATES; state++) {
        begin();
        wait_in(state);
        test_in_child(look_in_child, &state);
        const bool cut = state == CHANNEL_OPENS || state == CHANNEL_AWAY;
        if (!cut) CHECK(fake_publish("~9000 x k")); /* the parent's channel still works */
        CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
        end();
    }
}

static void wait_in_child(void *context) {
    char first[FAKE_COMMAND_ROOM], second[FAKE_COMMAND_ROOM];
    (void)context;
    const unsigned acquires = fake_redis.acquires;
    fake_await_turn(other, 100 * PLOCK_SECOND);
    fake_await("SUBSCRIBE", 2);
    CHECK(strcmp(fake_command("SUBSCRIBE", 0, first), fake_command("SUBSCRIBE", 1, second)) != 0);
    fake_await("EVALSHA acquire", acquires + 2);
    granted_from = acquires + 2;
    fake_call("=", acquires + 1);
    CHECK_STATUS(fake_await_end(other), PLOCK_OK);
    CHECK_STATUS(fake_release(other), PLOCK_OK);
    end();
}

static void a_child_waits_on_a_channel_of_its_own(void) {
    begin();
    wait_in(RESTS);
    test_in_child(wait_in_child, NULL);
    granted_from = 2;
    fake_call("=", 1);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
}

static void free_in_child(void *context) {
    (void)context;
    const unsigned leaves = fake_commands_like("EVALSHA leave");
    end();
    CHECK_INT(fake_commands_like("EVALSHA leave"), leaves);
}

static void a_child_that_does_nothing_leaks_nothing(void) {
    for (int state = 0; state < ALL_STATES; state++) {
        begin();
        wait_in(state);
        test_in_child(free_in_child, NULL);
        leave_is_silent = false;
        end();
    }
}

/* The coordinator of a store with sentinels may exist only to follow failovers. Such a coordinator
 * is idle, so it does not keep the worker thread from parking (worker.h). */
static void one_that_never_listened_is_idle_while_nothing_needs_it(void) {
    begin();
    plock_coordinator *coordinator, *start;
    plock_error error;
    CHECK_STATUS(plock__coordinator_find(&store->node, &coordinator, &start, &error), PLOCK_OK);
    CHECK_INT(coordinator->channel.state, PLOCK__CHANNEL_CLOSED);
    CHECK(coordinator->job.idle(&coordinator->job));
    plock__leave();
    plock__coordinator_start(start);
    fake_await_turn(lease, 100 * PLOCK_SECOND);
    plock__enter();
    CHECK(!coordinator->job.idle(&coordinator->job));
    plock__leave();
    plock_lease_cancel(lease);
    end();
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(draining_fails_waiters_and_they_can_go_on);
    RUN(draining_an_idle_coordinator_takes_no_time);
    RUN(one_that_never_listened_is_idle_while_nothing_needs_it);
    RUN(draining_lets_waiters_leave_that_gave_up);
    RUN(a_closed_store_is_freed_without_waiters);
    RUN(so_is_the_channel_of_a_disconnected_store);
    RUN(a_child_has_no_waiters_of_its_parent);
    RUN(a_child_that_does_nothing_leaks_nothing);
    if (TEST_TSAN)
        test_skip("a worker thread in a child", "the sanitizer does not allow it");
    else
        RUN(a_child_waits_on_a_channel_of_its_own);
    return test_end("coordinator end");
}
