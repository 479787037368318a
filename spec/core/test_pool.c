/* The connections of a store: how many there are, which one is next, and which ones are closed. */
#include "fake.h"
#include "test.h"

#include "base/memory.h"
#include "net/pool.h"
#include "redis/store.h"
#include "runtime/waker.h"

#include <poll.h>
#include <stdio.h>

static plock_store *store;
static plock_interest interest;
static plock_error error;

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

static plock_status take(plock_connection **connection, plock_turn *turn) {
    interest = (plock_interest){.fd = -1, .deadline = PLOCK_NEVER};
    return plock__pool_take(&store->node.pool, connection, turn, &interest);
}

/* Takes a connection from the pool, or opens a new one. */
static plock_connection *get(void) {
    plock_connection *connection = NULL;
    plock_turn turn = {0};
    CHECK_STATUS(take(&connection, &turn), PLOCK_OK);
    if (connection) return connection;
    CHECK_STATUS(plock__node_connect(&store->node, &connection, &error), PLOCK_OK);
    CHECK_STATUS(plock__connection_open(connection, PLOCK_NEVER, &interest, &error), PLOCK_OK);
    return connection;
}

static void give(plock_connection *connection) {
    plock__pool_give(&store->node.pool, connection, true);
}

static void check_queues(plock_turn *turn) {
    plock_connection *connection;
    CHECK_STATUS(take(&connection, turn), PLOCK_AGAIN);
    CHECK(turn->waits);
    CHECK_INT(interest.fd, -1);
    CHECK(interest.waker == turn->waker);
}

static bool woken(const plock_turn *turn) { return plock__waker_woken(turn->waker); }

static void check_served(plock_turn *turn, const plock_connection *expected) {
    plock_connection *connection;
    CHECK(woken(turn));
    CHECK_STATUS(take(&connection, turn), PLOCK_OK);
    CHECK(connection == expected);
    CHECK(!turn->waits && !turn->waker);
}

static void it_grows_on_demand_and_not_beyond_its_bound(void) {
    begin(3);
    CHECK_INT(fake_connections(), 0);
    plock_connection *connections[3];
    for (unsigned i = 0; i < 3; i++) {
        connections[i] = get();
        CHECK_INT(fake_connections(), i + 1);
    }
    plock_turn turn = {0};
    check_queues(&turn);
    CHECK(!woken(&turn));
    plock__pool_leave(&store->node.pool, &turn);
    CHECK(!turn.waits && !turn.waker);
    for (unsigned i = 0; i < 3; i++) give(connections[i]);
    CHECK_INT(store->node.pool.open, 3);
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
    plock_turn turn = {0}, second = {0};
    CHECK_STATUS(take(&connection, &turn), PLOCK_OK);
    CHECK(connection == NULL && !turn.waits);
    check_queues(&second);
    plock__pool_give_room(&store->node.pool);
    check_served(&second, NULL);
    CHECK_INT(store->node.pool.open, 1);
    plock__pool_give_room(&store->node.pool);
    CHECK_INT(store->node.pool.open, 0);
    end();
}

static void what_is_not_in_order_is_closed_when_it_comes_back(void) {
    begin(4);
    plock_connection *unusable = get(), *awaiting = get(), *unsent = get(), *dead = get();
    const plock_text word = plock__text("PING", 4);
    plock__pool_give(&store->node.pool, unusable, false);
    CHECK_STATUS(plock__connection_send(awaiting, 1, &word, &error), PLOCK_OK);
    give(awaiting);
    fake_peers[2].write_room = fake_peers[2].written + 1;
    CHECK_STATUS(plock__connection_send(unsent, 1, &word, &error), PLOCK_OK);
    unsent->awaited = 0;
    give(unsent);
    plock__connection_abandon(dead);
    give(dead);
    for (int i = 0; i < 4; i++) CHECK(fake_peers[i].destroyed);
    CHECK_INT(store->node.pool.open, 0);
    CHECK(store->node.pool.all == NULL && store->node.pool.idle == NULL);
    end();
}

/* A second answer behind the first one would be taken for the answer to the next command. */
static void a_connection_with_unexpected_bytes_is_closed(void) {
    begin(1);
    plock_connection *connection = get();
    const plock_text word = plock__text("PING", 4);
    const plock_value *value;
    fake_peers[0].answers[0] = ":1\r\n:2\r\n";
    CHECK_STATUS(plock__connection_send(connection, 1, &word, &error), PLOCK_OK);
    CHECK_STATUS(plock__connection_receive(connection, &value, &interest, &error), PLOCK_OK);
    give(connection);
    CHECK(fake_peers[0].destroyed);
    end();
}

static void one_that_rested_is_looked_at_before_it_is_used(void) {
    begin(2);
    plock_connection *connection = get();
    give(connection);
    CHECK(get() == connection);
    CHECK_INT(fake_peers[0].looks, 0); /* the connection was idle only for a moment */
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
    CHECK_INT(store->node.pool.open, 1);
    give(other);
    end();
}

static void a_careful_caller_checks_a_connection_that_was_just_returned(void) {
    begin(2);
    give(get());
    fake_peers[0].looks_dead = true;
    plock_turn careful = {.careful = true};
    plock_connection *connection;
    CHECK_STATUS(take(&connection, &careful), PLOCK_OK);
    CHECK(!connection); /* the caller may open a new connection instead */
    CHECK(fake_peers[0].destroyed);
    plock__pool_give_room(&store->node.pool);
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
    plock__pool_distrust(&store->node.pool);
    CHECK(fake_peers[0].destroyed);
    CHECK(!fake_peers[1].destroyed);
    give(used);
    CHECK(fake_peers[1].destroyed);
    plock_connection *fresh = get();
    give(fresh);
    CHECK(!fake_peers[2].destroyed); /* opened after the pool began to distrust connections */
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

/* --- waiting; test_pool_waiting.c has the same with threads --- */

static void a_queued_caller_gets_the_connection_that_comes_back(void) {
    begin(1);
    plock_connection *connection = get();
    plock_turn turn = {0};
    check_queues(&turn);
    give(connection);
    check_served(&turn, connection);
    give(connection);
    CHECK(store->node.pool.idle == connection);
    end();
}

static void or_the_room_of_one_that_is_closed(void) {
    begin(1);
    plock_connection *connection = get();
    plock_turn turn = {0};
    check_queues(&turn);
    plock__pool_give(&store->node.pool, connection, false);
    check_served(&turn, NULL);
    CHECK_INT(store->node.pool.open, 1); /* now the waiting caller may open a connection */
    plock__pool_give_room(&store->node.pool);
    CHECK_INT(store->node.pool.open, 0);
    end();
}

static void they_are_served_in_the_order_in_which_they_came(void) {
    enum { TURNS = 4 };
    begin(1);
    plock_connection *connection = get(), *other;
    plock_turn turns[TURNS] = {0};
    for (int i = 0; i < TURNS; i++) check_queues(&turns[i]);
    for (int i = 0; i < TURNS; i++) {
        give(connection);
        for (int later = i + 1; later < TURNS; later++) {
            CHECK(!woken(&turns[later]));
            CHECK_STATUS(take(&other, &turns[later]), PLOCK_AGAIN);
        }
        check_served(&turns[i], connection);
    }
    CHECK_INT(store->node.pool.waiting, 0);
    give(connection);
    end();
}

static void no_later_caller_overtakes(void) {
    begin(1);
    plock_connection *connection = get();
    plock_turn first = {0}, late = {0};
    check_queues(&first);
    give(connection);
    /* the pool keeps the connection for the first caller, which has not fetched it yet */
    check_queues(&late);
    check_served(&first, connection);
    plock__pool_give(&store->node.pool, connection, false);
    check_served(&late, NULL);
    plock__pool_give_room(&store->node.pool);
    end();
}

static void the_urgent_go_before_the_others(void) {
    begin(1);
    plock_connection *connection = get();
    plock_turn a = {0}, b = {0}, urgent = {.urgent = true}, second = {.urgent = true};
    plock_turn *const order[] = {&urgent, &second, &a, &b};
    check_queues(&a);
    check_queues(&urgent);
    check_queues(&b);
    check_queues(&second);
    for (unsigned i = 0; i < sizeof order / sizeof *order; i++) {
        give(connection);
        check_served(order[i], connection);
    }
    give(connection);
    end();
}

static void a_caller_that_gives_up_keeps_the_order_of_the_others(void) {
    for (int served = 0; served < 2; served++)
        for (int closed = 0; closed < 2; closed++) {
            begin(1);
            plock_connection *connection = get();
            plock_turn first = {0}, second = {0}, third = {0};
            check_queues(&first);
            check_queues(&second);
            check_queues(&third);
            if (served) plock__pool_give(&store->node.pool, connection, !closed);
            plock__pool_leave(&store->node.pool, served ? &first : &second);
            if (!served) plock__pool_give(&store->node.pool, connection, !closed);
            /* the connection, or the right to open one, passes to the next caller */
            check_served(served ? &second : &first, closed ? NULL : connection);
            if (closed)
                plock__pool_give_room(&store->node.pool);
            else
                give(connection);
            check_served(&third, closed ? NULL : connection);
            if (closed)
                plock__pool_give_room(&store->node.pool);
            else
                give(connection);
            CHECK_INT(store->node.pool.waiting, 0);
            CHECK_INT(store->node.pool.open, closed ? 0 : 1);
            end();
        }
}

static void without_memory_for_a_waker_the_place_is_kept_and_looked_at_often(void) {
    begin(1);
    plock_connection *connection = get(), *got;
    plock_turn turn = {0}, late = {0};
    plock__forget_wakers();
    (void)plock__fail_allocation(1);
    CHECK_STATUS(take(&got, &turn), PLOCK_AGAIN);
    (void)plock__fail_allocation(0);
    CHECK(turn.waits && !turn.waker);
    CHECK_INT(interest.fd, -1);
    CHECK(interest.deadline > plock_now() &&
          interest.deadline <= plock_now() + 10 * PLOCK_MILLISECOND);
    check_queues(&late);
    give(connection);
    CHECK_STATUS(take(&got, &turn), PLOCK_OK);
    CHECK(got == connection);
    give(connection);
    check_served(&late, connection);
    give(connection);
    end();
}

static void check_status(unsigned used, unsigned idle, unsigned waiting, uint64_t waits) {
    const plock_pool_status status = plock_store_pool_status(store);
    CHECK_INT(status.size, 2);
    CHECK_INT(status.used, used);
    CHECK_INT(status.idle, idle);
    CHECK_INT(status.waiting, waiting);
    CHECK_INT(status.waits, waits);
}

static void nothing_of_the_parent_counts(void *context) {
    (void)context;
    check_status(0, 0, 0, 0);
    plock_connection *own = get();
    check_status(1, 0, 0, 0);
    give(own);
    check_status(0, 1, 0, 0);
}

static void its_status_tells_what_is_used_and_waited_for(void) {
    begin(2);
    check_status(0, 0, 0, 0);
    plock_connection *first = get(), *second = get();
    check_status(2, 0, 0, 0);
    plock_turn turns[2] = {0};
    check_queues(&turns[0]);
    check_queues(&turns[1]);
    check_status(2, 0, 2, 2);
    plock__pool_leave(&store->node.pool, &turns[1]);
    check_status(2, 0, 1, 2);
    give(first);
    check_served(&turns[0], first);
    check_status(2, 0, 0, 2);
    give(first);
    test_in_child(nothing_of_the_parent_counts, NULL);
    check_status(1, 1, 0, 2);
    give(second);
    check_status(0, 2, 0, 2);
    end();
}

static void in_child(void *context) {
    plock_turn *turns = context;
    plock_connection *own = get(); /* no caller is queued in the child */
    CHECK(store->node.pool.waiting == 0 && store->node.pool.open == 1);
    plock__pool_leave(&store->node.pool, &turns[0]);
    plock__pool_leave(&store->node.pool, &turns[1]);
    /* the parent's pool had handed this connection to a queued caller, so the child closes it */
    CHECK(fake_peers[0].destroyed);
    CHECK_INT(store->node.pool.open, 1);
    give(own);
    end();
}

static void a_child_has_no_place_in_its_parents_queue(void) {
    begin(1);
    plock_connection *connection = get();
    plock_turn turns[2] = {0};
    check_queues(&turns[0]);
    check_queues(&turns[1]);
    give(connection);
    test_in_child(in_child, turns);
    check_served(&turns[0], connection);
    give(connection);
    check_served(&turns[1], connection);
    give(connection);
    end();
}

static void nothing_is_left_behind(void) {
    plock__forget_wakers();
    const long before = plock__live_allocations();
    const int descriptors = test_open_descriptors();
    a_caller_that_gives_up_keeps_the_order_of_the_others();
    distrust_closes_the_idle_now_and_the_others_later();
    plock__forget_wakers();
    CHECK_INT(plock__live_allocations(), before);
    CHECK_DESCRIPTORS(descriptors);
}

int main(void) {
    RUN(it_grows_on_demand_and_not_beyond_its_bound);
    RUN(the_one_used_last_is_used_next);
    RUN(room_that_was_granted_can_be_given_back);
    RUN(what_is_not_in_order_is_closed_when_it_comes_back);
    RUN(a_connection_with_unexpected_bytes_is_closed);
    RUN(one_that_rested_is_looked_at_before_it_is_used);
    RUN(a_careful_caller_checks_a_connection_that_was_just_returned);
    RUN(all_that_rested_may_have_been_closed);
    RUN(distrust_closes_the_idle_now_and_the_others_later);
    RUN(a_store_that_was_disconnected_connects_again);
    RUN(a_queued_caller_gets_the_connection_that_comes_back);
    RUN(or_the_room_of_one_that_is_closed);
    RUN(they_are_served_in_the_order_in_which_they_came);
    RUN(no_later_caller_overtakes);
    RUN(the_urgent_go_before_the_others);
    RUN(a_caller_that_gives_up_keeps_the_order_of_the_others);
    RUN(without_memory_for_a_waker_the_place_is_kept_and_looked_at_often);
    RUN(a_child_has_no_place_in_its_parents_queue);
    RUN(its_status_tells_what_is_used_and_waited_for);
    RUN(nothing_is_left_behind);
    return test_end("pool");
}
