/* Threads that wait for a connection of the same pool. */
#include "fake.h"
#include "test.h"

#include "base/process.h"
#include "redis/store.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static plock_store *store;

static void begin(const char *url) { store = fake_store(url); }

static void end(void) { fake_end(NULL, store); }

/* Waits in poll, as a real caller does, until it has a connection. Returns NULL after 10 s. */
static plock_connection *take_and_wait(atomic_int *waiting) {
    plock_connection *connection = NULL;
    plock_error error;
    plock_turn turn = {0};
    const plock_ns deadline = plock_now() + 10 * PLOCK_SECOND;
    for (;;) {
        plock_interest interest = {.fd = -1, .deadline = deadline};
        const plock_status status =
            plock__pool_take(&store->node.pool, &connection, &turn, &interest);
        if (status != PLOCK_AGAIN) {
            if (status || connection) return connection;
            if (plock__node_connect(&store->node, &connection, &error)) return NULL;
            return plock__connection_open(connection, deadline, &interest, &error) ? NULL
                                                                                   : connection;
        }
        atomic_fetch_add(waiting, 1);
        if (plock_now() >= deadline) {
            plock__pool_leave(&store->node.pool, &turn);
            return NULL;
        }
        const int fd = interest.waker ? plock_waker_descriptor(interest.waker) : interest.fd;
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        (void)poll(&polled, 1, plock_poll_timeout(deadline));
    }
}

typedef struct waiter {
    pthread_t thread;
    atomic_int *waiting;
    plock_connection *got;
} waiter;

static void *wait_in_thread(void *argument) {
    waiter *w = argument;
    w->got = take_and_wait(w->waiting);
    return NULL;
}

static void check_waiting(unsigned expected) {
    unsigned rounds = 0;
    for (bool there = false; !there && test_patient(&rounds);) {
        plock__enter();
        there = store->node.pool.waiting == expected;
        plock__leave();
    }
    plock__enter();
    CHECK_INT(store->node.pool.waiting, expected);
    plock__leave();
}

static void each_returned_connection_wakes_a_caller(void) {
    enum { HELD = 3 };
    begin("redis://h?pool_size=3");
    atomic_int waiting = 0;
    plock_connection *held[HELD];
    waiter waiters[HELD];
    for (int i = 0; i < HELD; i++) CHECK((held[i] = take_and_wait(&waiting)) != NULL);
    for (int i = 0; i < HELD; i++) {
        waiters[i] = (waiter){.waiting = &waiting};
        CHECK(pthread_create(&waiters[i].thread, NULL, wait_in_thread, &waiters[i]) == 0);
    }
    check_waiting(HELD);
    /* the second connection cannot be used again */
    for (int i = 0; i < HELD; i++) plock__pool_give(&store->node.pool, held[i], i != 1);
    for (int i = 0; i < HELD; i++) {
        CHECK(pthread_join(waiters[i].thread, NULL) == 0);
        CHECK(waiters[i].got != NULL);
        for (int other = 0; other < i; other++) CHECK(waiters[i].got != waiters[other].got);
    }
    check_waiting(0);
    for (int i = 0; i < HELD; i++) plock__pool_give(&store->node.pool, waiters[i].got, true);
    CHECK_INT(fake_connections(), HELD + 1);
    end();
}

enum { THREADS = 8, ROUNDS = 300, CONNECTIONS = 2 };
static atomic_int in_use, most;

static void *use_often(void *argument) {
    waiter *w = argument;
    for (int i = 0; i < ROUNDS; i++) {
        plock_connection *connection = take_and_wait(w->waiting);
        if (!CHECK(connection != NULL)) break;
        const int now = atomic_fetch_add(&in_use, 1) + 1;
        for (int seen = atomic_load(&most);
             now > seen && !atomic_compare_exchange_weak(&most, &seen, now);)
            continue;
        if (i % 16 == 0) (void)poll(NULL, 0, 0); /* so that other threads run in between */
        atomic_fetch_sub(&in_use, 1);
        plock__pool_give(&store->node.pool, connection, true);
    }
    return NULL;
}

static void many_threads_share_few_connections(void) {
    begin("redis://h?pool_size=2");
    atomic_int waiting = 0;
    waiter waiters[THREADS];
    for (int i = 0; i < THREADS; i++) {
        waiters[i] = (waiter){.waiting = &waiting};
        CHECK(pthread_create(&waiters[i].thread, NULL, use_often, &waiters[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(waiters[i].thread, NULL) == 0);
    CHECK(atomic_load(&most) <= CONNECTIONS);
    CHECK(fake_connections() <= CONNECTIONS);
    CHECK_INT(store->node.pool.waiting, 0);
    end();
}

/* At its deadline, a lease reports that no connection became free, and leaves the pool's queue. */
static void waiting_ends_at_the_deadline(void) {
    begin("redis://h?pool_size=1");
    fake_clock_start();
    atomic_int waiting = 0;
    plock_connection *held = take_and_wait(&waiting);
    plock_lease *lease;
    CHECK_STATUS(plock_lease_new(&lease, store, "k", 1), PLOCK_OK);
    const plock_ns before = plock_now();
    /* as if another caller had just received an answer */
    plock__node_reached(&store->node, before);
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_drive(lease, fake_wait, NULL), PLOCK_SATURATED);
    CHECK_INT(plock_now() - before, PLOCK_SECOND / 5);
    CHECK_TEXT(plock_lease_error(lease)->message,
               "redis://h:6379: every connection of the pool was busy");
    fake_clock_pass(PLOCK_SECOND); /* for this second, no caller has received an answer */
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_drive(lease, fake_wait, NULL), PLOCK_SATURATED);
    CHECK_TEXT(plock_lease_error(lease)->message,
               "redis://h:6379: every connection of the pool was busy, and the server has answered "
               "nothing that was asked in the last 0.5 s");
    CHECK_INT(store->node.pool.waiting, 0);
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    plock_interest interest;
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    CHECK_INT(store->node.pool.waiting, 1);
    plock_lease_free(lease);
    CHECK_INT(store->node.pool.waiting, 0);
    plock__pool_give(&store->node.pool, held, true);
    end();
}

int main(void) {
    RUN(each_returned_connection_wakes_a_caller);
    RUN(many_threads_share_few_connections);
    RUN(waiting_ends_at_the_deadline);
    return test_end("pool waiting");
}
