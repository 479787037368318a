/* Threads that acquire, extend, release, leave and free watched leases at the same time, while the
 * channel breaks and sends false messages. No loss is reported that did not happen, and nothing is
 * left behind. */
#include "fake_watch.h"
#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Each run has few leases. A release may cost a connection on which a renewal is in flight, and the
 * number of peers is limited. So there are many runs. */
enum { THREADS = 4, ROUNDS = 5, LEASES = THREADS * ROUNDS, RUNS = 8 };

static plock_store *store;
static atomic_uint working, answered;

/* The answer to every third renewal or check; NULL for the usual answer. */
static const char *_Atomic now_and_then;
static atomic_uint asked;

/* Publishes that this acquire's lease was broken. */
static void call_broken(const char *acquire) {
    char message[2 * FAKE_COMMAND_ROOM], value[FAKE_COMMAND_ROOM];
    (void)snprintf(message, sizeof message, "! %s k", fake_word(acquire, 4, value));
    (void)fake_publish_within(message);
}

/* Refuses some of the acquires that do not ask for a place in the queue. For some others, publishes
 * a break that did not happen. */
static const char *says(const char *command, unsigned nth) {
    enum { EVERY = 3, REFUSED = 4 };
    const bool acquires = !strncmp(command, "EVALSHA acquire", 15);
    if (acquires && nth % REFUSED == 0 && !fake_queues(command)) return FAKE_REFUSED;
    if (acquires && nth % 2) call_broken(command);
    if (strncmp(command, "EVALSHA extend", 14) && strncmp(command, "EVALSHA check", 13))
        return NULL;
    return atomic_fetch_add(&asked, 1) % EVERY ? NULL : atomic_load(&now_and_then);
}

static void begin(const char *sometimes) {
    fake_clock_stop(); /* these tests use the real clock */
    atomic_store(&working, THREADS);
    atomic_store(&answered, 0);
    atomic_store(&asked, 0);
    atomic_store(&now_and_then, sometimes);
    plock_notice_want(PLOCK_RENEWED, false);
    /* long timeouts, so that a slow machine causes no loss */
    store = fake_store("redis://h?attempt_timeout=30&command_timeout=30&connect_timeout=30");
    fake_redis.says = says;
    fake_redis.descriptors = true;
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
}

static plock_status finish(plock_lease *lease) {
    plock_status status;
    while ((status = plock_drive(lease, plock_wait_poll, NULL)) == PLOCK_TRY_FAILED) continue;
    return status;
}

/* The TTL is longer than any test. So only messages on the channel make the worker thread check a
 * lease. */
static plock_ns ttl_of(unsigned round) { return (100 + round % 2) * PLOCK_SECOND; }

static void extend(plock_lease *lease, unsigned round) {
    CHECK_STATUS(plock_lease_extend(lease, 2 * ttl_of(round)), PLOCK_OK);
    const plock_status status = finish(lease);
    CHECK(status == PLOCK_OK || (status == PLOCK_NOT_OWNER && atomic_load(&now_and_then)));
}

/* Checks that the lease's state is one that a program may see. */
static void look_at(plock_lease *lease) {
    const plock_ns until = plock_lease_valid_until(lease);
    CHECK(until > 0);
    if (!plock_lease_valid(lease)) CHECK(plock_lease_lost(lease));
}

static plock_lease *let_go(plock_lease *lease, unsigned round) {
    enum { RELEASE, LEAVE, FREE, FORGET_NEARLY, WAYS };
    switch (round % WAYS) {
    case LEAVE: fake_leave(lease); return lease;
    case FREE: plock_lease_free(lease); return fake_lease(store);
    case FORGET_NEARLY: /* begins an extension, and cancels it */
        if (plock_lease_extend(lease, ttl_of(round)) == PLOCK_OK) plock_lease_cancel(lease);
        break;
    default: break;
    }
    if (plock_lease_release(lease, PLOCK_KEEP_AT_LEAST)) return lease; /* the lease was lost */
    (void)finish(lease);
    return lease;
}

static void *come_and_go(void *argument) {
    const unsigned number = *(const unsigned *)argument;
    plock_lease *lease = fake_lease(store);
    for (unsigned i = 0; i < ROUNDS; i++) {
        const plock_acquire_options patience = {.ttl = ttl_of(i + number),
                                                .wait = i % 3 ? 30 * PLOCK_SECOND : 0,
                                                .renews = i % 4 != 3,
                                                .watched = true};
        CHECK_STATUS(plock_lease_acquire(lease, &patience), PLOCK_OK);
        const plock_status status = finish(lease);
        atomic_fetch_add(&answered, 1);
        if (status == PLOCK_REFUSED && !patience.wait) continue;
        if (!CHECK_STATUS(status, PLOCK_OK)) break;
        look_at(lease);
        if (i % 2) extend(lease, i);
        look_at(lease);
        lease = let_go(lease, i + number);
    }
    plock_lease_free(lease);
    atomic_fetch_sub(&working, 1);
    return NULL;
}

/* Publishes breaks, and cuts the channel up to cuts_max times, until all threads are done. */
static void disturb(unsigned cuts_max) {
    char message[2 * FAKE_COMMAND_ROOM], value[FAKE_COMMAND_ROOM];
    unsigned cuts = 0;
    for (unsigned i = 0, rounds = 0; atomic_load(&working) > 0 && test_patient(&rounds); i++) {
        (void)snprintf(message, sizeof message, "! %s k", fake_value(i % LEASES, value));
        if (*value) (void)fake_publish(message);
        if (i % 2 && cuts < cuts_max && fake_channel_is_open()) fake_cut_channel(), cuts++;
    }
}

static unsigned losses(void) {
    unsigned count = 0;
    for (plock_notice *notice; (notice = plock_notice_next()) != NULL; count++) {
        CHECK_INT(notice->kind, PLOCK_LOST);
        plock_notice_free(notice);
    }
    return count;
}

static void run_once(const char *sometimes, unsigned lost_max, unsigned cuts) {
    pthread_t threads[THREADS];
    unsigned numbers[THREADS];
    begin(sometimes);
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, come_and_go, &numbers[i]) == 0);
    }
    disturb(cuts);
    for (unsigned i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_INT(atomic_load(&answered), LEASES);
    /* a lost lease may be released before its loss is reported */
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    const unsigned lost = losses();
    CHECK(lost <= lost_max);
    fake_end(NULL, store);
    CHECK_INT(losses(), 0);
}

static void run_threads(const char *sometimes, unsigned lost_max, unsigned cuts) {
    for (int i = 0; i < RUNS; i++) run_once(sometimes, lost_max, cuts);
}

static void they_do_not_get_in_each_others_way(void) { run_threads(NULL, 0, 0); }

static void nor_does_a_channel_that_breaks(void) { run_threads(NULL, 0, 3); }

static void nor_do_failures_that_pass(void) { run_threads("-LOADING x\r\n", 0, 2); }

static void a_loss_concerns_one_lease_only(void) { run_threads(FAKE_NOT_OURS, LEASES, 2); }

int main(void) {
    RUN(they_do_not_get_in_each_others_way);
    RUN(nor_does_a_channel_that_breaks);
    RUN(nor_do_failures_that_pass);
    RUN(a_loss_concerns_one_lease_only);
    return test_end("watch threads");
}
