/* Threads that wait for one lock. The fake server keeps the lock and its queue as the scripts do.
 * There is one holder at a time, and every thread gets the lock. Threads that give up leave nothing
 * behind. */
#include "fake_native.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 6, ROUNDS = 12, VALUE = 40, QUEUE_MAX = 4 * THREADS };

/* --- the server; its functions run with the fake's mutex held --- */

static struct {
    char holder[VALUE], reserved[VALUE];
    char queue[QUEUE_MAX][VALUE];
    unsigned queued;
} lock;

static bool same(const char *value, const char *other) { return !strcmp(value, other); }

static void take_out(const char *value) {
    for (unsigned i = 0; i < lock.queued; i++)
        if (same(lock.queue[i], value)) {
            memmove(lock.queue[i], lock.queue[i + 1], (lock.queued - i - 1) * VALUE);
            lock.queued--;
            return;
        }
}

static void put_in(const char *value) {
    for (unsigned i = 0; i < lock.queued; i++)
        if (same(lock.queue[i], value)) return;
    if (lock.queued < QUEUE_MAX - 1)
        (void)snprintf(lock.queue[lock.queued++], VALUE, "%.39s", value);
}

/* Gives the turn to the first waiter whose process receives the message. */
static void pass(void) {
    *lock.holder = *lock.reserved = 0;
    for (bool heard = false; lock.queued > 0 && !heard;) {
        char message[2 * VALUE];
        (void)snprintf(lock.reserved, VALUE, "%s", lock.queue[0]);
        take_out(lock.reserved);
        (void)snprintf(message, sizeof message, "= %s k", lock.reserved);
        heard = fake_publish_within(message);
        if (!heard) *lock.reserved = 0;
    }
}

static const char *serve(const char *command, unsigned nth) {
    char value[FAKE_COMMAND_ROOM];
    (void)nth;
    if (!strncmp(command, "EVALSHA acquire", 15)) {
        (void)fake_word(command, 4, value);
        const bool free = !*lock.holder && !*lock.reserved;
        if (free || same(lock.reserved, value)) {
            take_out(value);
            *lock.reserved = 0;
            (void)snprintf(lock.holder, VALUE, "%.39s", value);
            return FAKE_HELD;
        }
        if (!fake_queues(command)) return FAKE_REFUSED;
        put_in(value);
        return FAKE_QUEUED;
    }
    (void)fake_word(command, 4, value);
    if (!strncmp(command, "EVALSHA release", 15)) {
        if (!same(lock.holder, value)) return FAKE_NOT_OURS;
        pass();
        return FAKE_DONE;
    }
    if (strncmp(command, "EVALSHA leave", 13)) return NULL;
    char doubt[FAKE_COMMAND_ROOM];
    take_out(value);
    if (!same(lock.reserved, value) &&
        !(same(fake_word(command, 5, doubt), "1") && same(lock.holder, value)))
        return FAKE_NOT_OURS;
    pass();
    return FAKE_DONE;
}

/* --- the threads --- */

static plock_store *store;
static atomic_int inside, entered, gave_up;

static plock_status acquire(plock_lease *lease, plock_ns wait) {
    plock_status status = plock_lease_acquire(
        lease, &(plock_acquire_options){.ttl = 60 * PLOCK_SECOND, .wait = wait});
    if (status) return status;
    while ((status = plock_drive(lease, plock_wait_poll, NULL)) == PLOCK_TRY_FAILED) continue;
    return status;
}

static void *come_and_go(void *argument) {
    const bool impatient = *(const bool *)argument;
    plock_lease *lease = fake_lease(store);
    for (int i = 0; i < ROUNDS; i++) {
        const plock_status status =
            acquire(lease, impatient && i % 3 ? PLOCK_MILLISECOND : 30 * PLOCK_SECOND);
        if (status == PLOCK_TIMED_OUT && impatient) {
            atomic_fetch_add(&gave_up, 1);
            continue;
        }
        if (!CHECK_STATUS(status, PLOCK_OK)) continue;
        CHECK_INT(atomic_fetch_add(&inside, 1), 0);
        atomic_fetch_add(&entered, 1);
        atomic_fetch_sub(&inside, 1);
        CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_OK);
        CHECK_STATUS(plock_drive(lease, plock_wait_poll, NULL), PLOCK_OK);
    }
    plock_lease_free(lease);
    return NULL;
}

static void run_threads(bool impatient, unsigned cuts) {
    pthread_t threads[THREADS];
    memset(&lock, 0, sizeof lock);
    atomic_store(&entered, 0);
    atomic_store(&gave_up, 0);
    store = fake_native_store(serve);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, come_and_go, &impatient) == 0);
    for (unsigned i = 0; i < cuts; i++) {
        for (unsigned rounds = 0; !fake_channel_is_open() &&
                                  atomic_load(&entered) < THREADS * ROUNDS &&
                                  test_patient(&rounds);)
            continue;
        fake_cut_channel();
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_INT(atomic_load(&entered) + atomic_load(&gave_up), THREADS * ROUNDS);
    fake_end(NULL, store);
    CHECK_TEXT(lock.holder, "");
    CHECK_INT(lock.queued, 0);
}

static void each_has_the_lock_in_turn(void) {
    run_threads(false, 0);
    CHECK_TEXT(lock.reserved, "");
}

/* A turn may reach a waiter that has just given up. The waiter's leave request then passes the turn
 * on. */
static void waiters_that_give_up_lose_no_turn(void) {
    run_threads(true, 0);
    CHECK_TEXT(lock.reserved, "");
}

/* A waiter that a message did not reach asks again when the channel is back. */
static void a_broken_channel_loses_no_turn(void) {
    enum { CUTS = 8 };
    run_threads(false, CUTS);
    CHECK_TEXT(lock.reserved, "");
}

int main(void) {
    RUN(each_has_the_lock_in_turn);
    RUN(waiters_that_give_up_lose_no_turn);
    RUN(a_broken_channel_loses_no_turn);
    return test_end("waiting threads");
}
