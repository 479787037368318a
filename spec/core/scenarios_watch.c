/* Programs that use watched leases and queries, for the tests in which memory runs out. */
#include "scenarios.h"

#include "fake_native.h"
#include "test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const plock_ns TTL = 3 * PLOCK_SECOND;
static const plock_acquire_options RENEWED = {.ttl = 3 * PLOCK_SECOND, .renews = true};
static const plock_acquire_options WATCHED = {.ttl = 3 * PLOCK_SECOND, .watched = true};

/* --- the server --- */

/* held: another owner holds the lock; broken: the lease has been broken */
static atomic_bool held, broken;

static bool is(const char *command, const char *beginning) {
    return !strncmp(command, beginning, strlen(beginning));
}

static const char *says(const char *command, unsigned nth) {
    if (is(command, "EVALSHA acquire"))
        return atomic_load(&held) ? fake_refuses(command, nth) : NULL;
    const bool asks = is(command, "EVALSHA extend") || is(command, "EVALSHA check");
    return asks && atomic_load(&broken) ? FAKE_NOT_OURS : NULL;
}

static void lock_is_free(void) {
    atomic_store(&held, false);
    atomic_store(&broken, false);
    fake_redis.says = says;
    fake_redis.descriptors = true;
    plock_notice_want(PLOCK_RENEWED, true);
}

static void lock_is_held(void) {
    lock_is_free();
    atomic_store(&held, true);
}

/* --- what happens in the background --- */

/* Checks that a held lease is still renewed, whichever allocation failed. */
static void check_renewed(plock_lease *lease) {
    const plock_ns until = plock_lease_valid_until(lease) + TTL;
    for (unsigned rounds = 0; plock_lease_valid_until(lease) < until && plock_lease_valid(lease) &&
                              test_patient(&rounds);)
        fake_native_pass(100 * PLOCK_MILLISECOND);
    CHECK(plock_lease_valid(lease) && !plock_lease_lost(lease));
}

/* Breaks the lease, and checks that plock notices this soon, long before the lease expires. */
static void check_found_lost(plock_lease *lease) {
    char message[2 * FAKE_COMMAND_ROOM], value[FAKE_COMMAND_ROOM];
    const plock_ns began = plock_now();
    (void)snprintf(message, sizeof message, "! %s k",
                   fake_value(fake_commands_like("EVALSHA acquire") - 1, value));
    atomic_store(&broken, true);
    for (unsigned rounds = 0; !plock_lease_lost(lease) && test_patient(&rounds);) {
        /* published again and again, because the channel may have to open again */
        (void)fake_publish(message);
        fake_native_pass(20 * PLOCK_MILLISECOND);
    }
    CHECK(plock_lease_lost(lease));
    CHECK(plock_now() < began + TTL / 2);
}

/* --- scenarios --- */

static plock_status hold(plock_lease *lease, const plock_acquire_options *patience) {
    const plock_status status = plock_lease_acquire(lease, patience);
    return status ? status : fake_await_end(lease);
}

static plock_status renew(plock_store *store, plock_lease *lease) {
    (void)store;
    plock_status status = hold(lease, &RENEWED);
    if (status) return status;
    check_renewed(lease);
    status = plock_lease_extend(lease, 2 * TTL);
    if (!status) status = fake_await_end(lease);
    if (!status) status = fake_release(lease);
    fake_drop_notices();
    return status;
}

static plock_status lose(plock_store *store, plock_lease *lease) {
    (void)store;
    plock_status status = hold(lease, &WATCHED);
    if (status) return status;
    check_found_lost(lease);
    status = fake_release(lease);
    fake_drop_notices();
    return status;
}

static plock_status adopt(plock_store *store, plock_lease *unused) {
    plock_lease *lease;
    (void)unused;
    plock_status status = plock_lease_new(&lease, store, "k", 1);
    if (status) return status;
    status = plock_lease_adopt(lease, "me", 2, &RENEWED);
    if (!status) status = fake_await_end(lease);
    if (!status) check_renewed(lease);
    /* a notice reports that the lease is still held, if there is memory for the notice */
    plock_lease_abandon(lease);
    fake_drop_notices();
    return status;
}

/* Each time the waiter has queued, the server publishes the waiter's turn. */
static plock_status wait_and_renew(plock_store *store, plock_lease *lease) {
    char command[FAKE_COMMAND_ROOM];
    plock_interest interest;
    unsigned called = 0, rounds = 0;
    plock_acquire_options patience = RENEWED;
    (void)store;
    patience.wait = 100 * PLOCK_SECOND;
    plock_status status = plock_lease_acquire(lease, &patience);
    if (status) return status;
    while (((status = plock_lease_step(lease, &interest)) == PLOCK_AGAIN ||
            status == PLOCK_TRY_FAILED) &&
           test_patient(&rounds)) {
        const unsigned newest = fake_commands_like("EVALSHA acquire") - 1;
        fake_clock_pass(PLOCK_MILLISECOND);
        if (newest == called || !fake_queues(fake_command("EVALSHA acquire", newest, command)))
            continue;
        called = newest;
        atomic_store(&held, false);
        fake_call("=", newest);
    }
    if (status) return status;
    check_renewed(lease);
    status = fake_release(lease);
    fake_drop_notices();
    return status;
}

static void knows_no_script(void) {
    fake_peers[0].answers[0] = FAKE_NOSCRIPT;
    fake_peers[0].answers[1] = FAKE_LOADED;
}

static plock_status ask(plock_store *store, plock_lease *lease) {
    plock_query *query;
    plock_interest interest;
    (void)lease;
    plock_status status = plock_query_new(&query, store, "k", 1, false);
    if (status) return status;
    for (int i = 0; i < 3 && !status; i++) {
        if (i == 0)
            plock_query_status(query, 0);
        else if (i == 1)
            plock_query_scan(query, 0);
        else
            plock_query_break_only(query, "", 0);
        while ((status = plock_query_step(query, &interest)) == PLOCK_AGAIN)
            (void)fake_wait(NULL, &interest);
        CHECK_INT(plock_query_parts(query), !status);
        CHECK_STATUS(plock_query_error(query)->status, status);
    }
    plock_query_free(query);
    return status;
}

const scenario WATCH_SCENARIOS[] = {
    {"renewing", "redis://h", lock_is_free, renew, PLOCK_OK, PLOCK_DESCRIPTORS},
    {"losing", "redis://h", lock_is_free, lose, PLOCK_OK, PLOCK_DESCRIPTORS},
    {"adopting", "redis://h", lock_is_free, adopt, PLOCK_OK, PLOCK_DESCRIPTORS},
    {"waiting for what is renewed", "redis://h", lock_is_held, wait_and_renew, PLOCK_OK,
     PLOCK_DESCRIPTORS},
    {"asking", "redis://h", knows_no_script, ask, PLOCK_OK, PLOCK_OK},
};
const unsigned WATCH_SCENARIO_COUNT = sizeof WATCH_SCENARIOS / sizeof *WATCH_SCENARIOS;
