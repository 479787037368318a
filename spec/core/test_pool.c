/* The connections of a store: how many, which one next, and which ones no more. */
#include "fake.h"
#include "test.h"

#include "memory.h"
#include "pool.h"
#include "store.h"
#include "waker.h"

#include <poll.h>
#include <stdio.h>

static plock_store *store;
static plock_want want;
static plock_error error;
static int bell; /* what those who wait for a connection poll */

static void begin(unsigned limit) {
    char url[64];
    (void)snprintf(url, sizeof url, "redis://h?pool_size=%u", limit);
    fake_clock_start();
    store = fake_store(url);
}

static void end(void) {
    plock_store_close(store);
    fake_clock_stop();
}

static plock_status take(plock_connection **connection, bool *waits) {
    want = (plock_want){.fd = -1, .deadline = PLOCK_NEVER};
    return plock__pool_take(&store->pool, connection, waits, &want, &error);
}

/* A connection that is ready, from the pool or new. */
static plock_connection *get(void) {
    plock_connection *connection = NULL;
    bool waits = false;
    CHECK_STATUS(take(&connection, &waits), PLOCK_OK);
    if (connection) return connection;
    CHECK_STATUS(plock__store_connect(store, &connection, &error), PLOCK_OK);
    CHECK_STATUS(plock__connection_open(connection, PLOCK_NEVER, &want, &error), PLOCK_OK);
    return connection;
}

static void give(plock_connection *connection) {
    plock__pool_give(&store->pool, connection, true);
}

static void check_full(bool *waits) {
    plock_connection *connection;
    CHECK_STATUS(take(&connection, waits), PLOCK_AGAIN);
    CHECK(*waits);
    CHECK(want.fd >= 0);
    CHECK_INT(want.events, POLLIN);
    bell = want.fd;
}

static bool rung(void) {
    struct pollfd polled = {.fd = bell, .events = POLLIN};
    return poll(&polled, 1, 0) == 1;
}

static void it_grows_on_demand_and_not_beyond_its_bound(void) {
    begin(3);
    CHECK_INT(fake_connections(), 0);
    plock_connection *connections[3];
    for (unsigned i = 0; i < 3; i++) {
        connections[i] = get();
        CHECK_INT(fake_connections(), i + 1);
    }
    bool waits = false;
    check_full(&waits);
    CHECK(!rung());
    plock__pool_leave(&store->pool, &waits);
    CHECK(!waits);
    for (unsigned i = 0; i < 3; i++) give(connections[i]);
    CHECK_INT(store->pool.open, 3);
    end();
}

static void the_one_used_last_is_used_next(void) {
    begin(3);
    plock_connection *a = get(), *b = get(), *c = get();
    give(a);
    give(b);
    give(c);
    CHECK(get() == c);
    CHECK(get() == b);
    give(c);
    CHECK(get() == c);
    CHECK(get() == a);
    CHECK_INT(fake_connections(), 3);
    give(a);
    give(b);
    give(c);
    end();
}

static void room_that_was_granted_can_be_given_back(void) {
    begin(1);
    plock_connection *connection;
    bool waits = false, second = false;
    CHECK_STATUS(take(&connection, &waits), PLOCK_OK);
    CHECK(connection == NULL && !waits);
    check_full(&second);
    plock__pool_give_room(&store->pool);
    CHECK(rung());
    CHECK_STATUS(take(&connection, &second), PLOCK_OK);
    CHECK(connection == NULL && !second);
    plock__pool_give_room(&store->pool);
    CHECK_INT(store->pool.open, 0);
    end();
}

static void what_is_not_in_order_is_closed_when_it_comes_back(void) {
    begin(4);
    plock_connection *unusable = get(), *awaiting = get(), *unsent = get(), *dead = get();
    const plock_text word = plock__text("PING", 4);
    plock__pool_give(&store->pool, unusable, false);
    CHECK_STATUS(plock__connection_send(awaiting, 1, &word, &error), PLOCK_OK);
    give(awaiting);
    fake_peers[2].write_room = fake_peers[2].written + 1;
    CHECK_STATUS(plock__connection_send(unsent, 1, &word, &error), PLOCK_OK);
    unsent->awaited = 0;
    give(unsent);
    plock__connection_abandon(dead);
    give(dead);
    for (int i = 0; i < 4; i++) CHECK(fake_peers[i].destroyed);
    CHECK_INT(store->pool.open, 0);
    CHECK(store->pool.all == NULL && store->pool.idle == NULL);
    end();
}

/* A second answer that came along with the first would be taken for the answer to the next command. */
static void a_connection_with_bytes_that_nobody_asked_for_is_closed(void) {
    begin(1);
    plock_connection *connection = get();
    const plock_text word = plock__text("PING", 4);
    const plock_value *value;
    fake_peers[0].answers[0] = ":1\r\n:2\r\n";
    CHECK_STATUS(plock__connection_send(connection, 1, &word, &error), PLOCK_OK);
    CHECK_STATUS(plock__connection_receive(connection, &value, &want, &error), PLOCK_OK);
    give(connection);
    CHECK(fake_peers[0].destroyed);
    end();
}

static void one_that_rested_is_looked_at_before_it_is_used(void) {
    begin(2);
    plock_connection *connection = get();
    give(connection);
    CHECK(get() == connection);
    CHECK_INT(fake_peers[0].looks, 0); /* it had hardly been put down */
    give(connection);
    fake_clock_pass(PLOCK_SECOND);
    CHECK(get() == connection);
    CHECK_INT(fake_peers[0].looks, 1);
    give(connection);
    fake_clock_pass(PLOCK_SECOND);
    fake_peers[0].looks_dead = true;
    plock_connection *other = get();
    CHECK(fake_peers[0].destroyed);
    CHECK_INT(fake_connections(), 2);
    CHECK_INT(store->pool.open, 1);
    give(other);
    end();
}

static void all_that_rested_may_have_been_closed(void) {
    begin(5);
    plock_connection *connections[5];
    for (int i = 0; i < 5; i++) connections[i] = get();
    for (int i = 0; i < 5; i++) {
        give(connections[i]);
        fake_peers[i].looks_dead = true;
    }
    fake_clock_pass(PLOCK_SECOND);
    give(get());
    for (int i = 0; i < 5; i++) CHECK(fake_peers[i].destroyed);
    CHECK_INT(fake_connections(), 6);
    end();
}

static void distrust_closes_the_idle_now_and_the_others_later(void) {
    begin(3);
    plock_connection *idle = get(), *used = get();
    give(idle);
    plock__pool_distrust(&store->pool);
    CHECK(fake_peers[0].destroyed);
    CHECK(!fake_peers[1].destroyed);
    give(used);
    CHECK(fake_peers[1].destroyed);
    plock_connection *fresh = get();
    give(fresh);
    CHECK(!fake_peers[2].destroyed); /* made after the distrust */
    CHECK(get() == fresh);
    give(fresh);
    end();
}

static void a_store_that_was_disconnected_connects_again(void) {
    begin(1);
    give(get());
    plock_store_disconnect(store);
    CHECK(fake_peers[0].destroyed);
    give(get());
    CHECK_INT(fake_connections(), 2);
    end();
    CHECK(fake_peers[1].destroyed);
}

/* --- waiting; what threads see of it is in test_pool_waiting.c --- */

static void who_waits_is_rung_when_one_comes_back(void) {
    begin(1);
    plock_connection *connection = get(), *got;
    bool waits = false;
    check_full(&waits);
    give(connection);
    CHECK(rung());
    CHECK_STATUS(take(&got, &waits), PLOCK_OK);
    CHECK(got == connection && !waits);
    give(got);
    end();
}

static void who_waits_is_rung_when_one_is_closed(void) {
    begin(1);
    plock_connection *connection = get(), *got;
    bool waits = false;
    check_full(&waits);
    plock__pool_give(&store->pool, connection, false);
    CHECK(rung());
    CHECK_STATUS(take(&got, &waits), PLOCK_OK);
    CHECK(got == NULL); /* room for a new one */
    plock__pool_give_room(&store->pool);
    end();
}

/* One ring may stand for two connections, and whoever hears it must not keep it to himself. */
static void the_ring_is_passed_on_while_there_is_something_to_have(void) {
    begin(2);
    plock_connection *a = get(), *b = get(), *got;
    bool first = false, second = false;
    check_full(&first);
    check_full(&second);
    give(a);
    give(b);
    CHECK_STATUS(take(&got, &first), PLOCK_OK);
    CHECK(rung());
    give(got);
    CHECK_STATUS(take(&got, &second), PLOCK_OK);
    give(got);
    end();
}

static void who_gives_up_passes_the_ring_on(void) {
    begin(1);
    plock_connection *connection = get(), *got;
    bool first = false, second = false;
    check_full(&first);
    check_full(&second);
    give(connection);
    plock__pool_leave(&store->pool, &first);
    CHECK(rung());
    CHECK_STATUS(take(&got, &second), PLOCK_OK);
    CHECK(got == connection);
    give(got);
    end();
}

static void nothing_is_left_behind(void) {
    plock__forget_wakers();
    const long before = plock__live_allocations();
    const int descriptors = test_open_descriptors();
    who_gives_up_passes_the_ring_on();
    distrust_closes_the_idle_now_and_the_others_later();
    plock__forget_wakers();
    CHECK_INT(plock__live_allocations(), before);
    CHECK_INT(test_open_descriptors(), descriptors);
}

int main(void) {
    RUN(it_grows_on_demand_and_not_beyond_its_bound);
    RUN(the_one_used_last_is_used_next);
    RUN(room_that_was_granted_can_be_given_back);
    RUN(what_is_not_in_order_is_closed_when_it_comes_back);
    RUN(a_connection_with_bytes_that_nobody_asked_for_is_closed);
    RUN(one_that_rested_is_looked_at_before_it_is_used);
    RUN(all_that_rested_may_have_been_closed);
    RUN(distrust_closes_the_idle_now_and_the_others_later);
    RUN(a_store_that_was_disconnected_connects_again);
    RUN(who_waits_is_rung_when_one_comes_back);
    RUN(who_waits_is_rung_when_one_is_closed);
    RUN(the_ring_is_passed_on_while_there_is_something_to_have);
    RUN(who_gives_up_passes_the_ring_on);
    RUN(nothing_is_left_behind);
    return test_end("pool");
}
