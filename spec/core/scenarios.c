#include "scenarios.h"

#include "fake_native.h"
#include "loopback.h"
#include "test.h"

#include "base/memory.h"
#include "redis/store.h"

#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const plock_ns WAIT = 10 * PLOCK_SECOND;

static plock_status acquire_and_release(plock_store *store, plock_lease *lease) {
    (void)store;
    const plock_status status = fake_acquire(lease, 0);
    return status ? status : fake_release(lease);
}

/* --- memory that is allocated before the first request --- */

static plock_status make_config(plock_store *store, plock_lease *lease) {
    static const char *const OPTIONS[][2] = {
        {"username", "ali"},     {"password", "sesame"},  {"database", "3"}, {"ca_file", "/ca"},
        {"ca_path", "/"},        {"cert", "/c"},          {"key", "/k"},     {"server_name", "n"},
        {"password", "another"}, {"encoding", "marshal"}, {"pool_size", "5"}};
    plock_config *config;
    plock_error error = {PLOCK_OK, ""};
    (void)store, (void)lease;
    plock_status status = plock_config_new(
        &config, "rediss://eve:secret@[::1]:7001/2?connect_timeout=1&server_name=m&verify=none",
        &error);
    for (unsigned i = 0; !status && i < sizeof OPTIONS / sizeof *OPTIONS; i++)
        status = plock_config_set(config, OPTIONS[i][0], OPTIONS[i][1], &error);
    CHECK_STATUS(error.status, status);
    CHECK_LACKS(error.message, "se"); /* the message shows neither "secret" nor "sesame" */
    if (config) {
        /* the config can be printed even after a failure */
        CHECK_HAS(plock_config_display(config), "rediss://[::1]:7001");
        plock_config_free(config);
    } else
        CHECK(status != PLOCK_OK);
    return status;
}

static plock_status open_store(plock_store *unused, plock_lease *lease) {
    plock_config *config;
    plock_store *store;
    plock_lease *made;
    plock_error error;
    (void)unused, (void)lease;
    plock_status status = plock_config_new(&config, "redis://h", &error);
    if (status) return status;
    /* plock_store_open owns the config from here on, even if it fails */
    status = plock_store_open(&store, config, &error);
    if (status) return status;
    status = plock_lease_new(&made, store, "key", 3);
    CHECK((made == NULL) == (status != PLOCK_OK));
    if (!status) {
        status = plock_lease_own(made, "me", 2);
        if (!status) status = plock_lease_own(made, "you", 3);
        plock_lease_free(made);
    }
    plock_store_close(store);
    return status;
}

/* --- calls with a server --- */

static void script_is_unknown(void) {
    fake_peers[0].answers[0] = FAKE_NOSCRIPT;
    fake_peers[0].answers[1] = FAKE_LOADED;
    fake_peers[0].answers[2] = FAKE_HELD;
}

static void replica_confirms(void) {
    fake_peers[0].answers[0] = FAKE_HELD;
    fake_peers[0].answers[1] = ":1\r\n";
    fake_peers[0].answers[2] = FAKE_DONE;
}

static atomic_bool released; /* whether the lock that the waiter wants is free */

static const char *refuse_until_released(const char *command, unsigned nth) {
    return atomic_load(&released) ? NULL : fake_refuses(command, nth);
}

static void lock_is_held_for_a_while(void) {
    atomic_store(&released, false);
    fake_redis.says = refuse_until_released;
    fake_redis.descriptors = true;
}

static unsigned newest_acquire(void) { return fake_commands_like("EVALSHA acquire") - 1; }

/* When the waiter queues, the lock is released. From then on, the test sends the waiter its turn
 * each time it queues, because it may queue again after a failure. */
static plock_status wait_in_line(plock_store *store, plock_lease *lease) {
    char command[FAKE_COMMAND_ROOM], message[FAKE_COMMAND_ROOM], value[FAKE_COMMAND_ROOM];
    plock_interest interest;
    unsigned told = 0, rounds = 0;
    (void)store;
    plock_status status =
        plock_lease_acquire(lease, &(plock_acquire_options){.ttl = 3 * PLOCK_SECOND, .wait = WAIT});
    if (status) return status;
    while (((status = plock_lease_step(lease, &interest)) == PLOCK_AGAIN ||
            status == PLOCK_TRY_FAILED) &&
           test_patient(&rounds)) {
        const unsigned newest = newest_acquire();
        fake_clock_pass(PLOCK_MILLISECOND);
        if (newest == told || !fake_queues(fake_command("EVALSHA acquire", newest, command)))
            continue;
        told = newest;
        atomic_store(&released, true);
        (void)snprintf(message, sizeof message, "= %.40s k", fake_word(command, 4, value));
        (void)fake_publish(message);
    }
    return status ? status : fake_release(lease);
}

static plock_status give_up_in_line(plock_store *store, plock_lease *lease) {
    plock_interest interest;
    unsigned rounds = 0;
    (void)store;
    plock_status status =
        plock_lease_acquire(lease, &(plock_acquire_options){.ttl = 3 * PLOCK_SECOND, .wait = WAIT});
    while (!status && (status = plock_lease_step(lease, &interest)) == PLOCK_AGAIN &&
           newest_acquire() < 1 && test_patient(&rounds))
        status = PLOCK_OK;
    plock_lease_cancel(lease);
    fake_clock_pass(PLOCK_SECOND);
    (void)fake_publish("= stranger k");
    return status == PLOCK_AGAIN ? PLOCK_OK : status;
}

static plock_status acquire_with_patience(plock_store *store, plock_lease *lease) {
    (void)store;
    const plock_status status = fake_acquire(lease, WAIT);
    return status ? status : fake_release(lease);
}

static void first_connection_closes(void) { fake_peers[0].answers[0] = FAKE_CLOSES; }

static void first_connection_is_silent(void) { fake_peers[0].obliging = false; }

static plock_status acquire_with_owner(plock_store *store, plock_lease *lease) {
    const plock_status status = plock_lease_own(lease, "me", 2);
    return status ? status : acquire_and_release(store, lease);
}

static plock_status extend(plock_store *store, plock_lease *lease) {
    (void)store;
    plock_status status = fake_acquire(lease, 0);
    if (!status) status = plock_lease_extend(lease, PLOCK_SECOND);
    if (!status) status = fake_finish(lease);
    return status ? status : fake_release(lease);
}

static const char *oblige_groups(const char *command, unsigned nth) {
    (void)nth;
    if (!strncmp(command, "EVALSHA acquire_all", 19)) return "*2\r\n" FAKE_HELD FAKE_HELD;
    return strncmp(command, "EVALSHA release_all", 19) ? NULL : "*2\r\n:1\r\n:1\r\n";
}

static void groups_are_obliged(void) { fake_redis.says = oblige_groups; }

/* Acquires the given lease and a second one as a group. */
static plock_status acquire_a_group(plock_store *store, plock_lease *lease) {
    plock_lease *both[2] = {lease, NULL};
    plock_group *group = NULL;
    plock_status status = plock_lease_new(&both[1], store, "other", 5);
    if (!status) status = plock_group_new(&group, both, 2);
    if (!status)
        status = plock_group_acquire(group, &(plock_acquire_options){.ttl = 3 * PLOCK_SECOND});
    if (!status) {
        const plock_operation operation = plock_group_operation(group);
        status = plock_carry_on(&operation, fake_wait, NULL);
        if (!status) status = plock_group_release(group, 0);
        if (!status) status = plock_carry_on(&operation, fake_wait, NULL);
    }
    plock_group_free(group);
    plock_lease_free(both[1]);
    return status;
}

/* A release in the background needs a worker thread. If none can start, the lease expires. */
static plock_status free_what_is_held(plock_store *store, plock_lease *lease) {
    plock_lease *other;
    (void)lease;
    plock_status status = plock_lease_new(&other, store, "other", 5);
    if (status) return status;
    status = fake_acquire(other, 0);
    plock_lease_free(other);
    return status;
}

static plock_status wait_for_a_connection(plock_store *store, plock_lease *lease) {
    plock_interest interest;
    plock_lease *other;
    plock_status status = plock_lease_new(&other, store, "other", 5);
    if (status) return status;
    fake_peers[0].connect_again = 1;
    status = plock_lease_acquire(other, &(plock_acquire_options){.ttl = PLOCK_SECOND});
    CHECK_STATUS(status, PLOCK_OK);
    status = plock_lease_step(other, &interest);
    /* `other` has the only connection. `lease` waits for the connection, and is woken when `other`
     * gives it back. */
    if (status == PLOCK_AGAIN) {
        CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                     PLOCK_OK);
        status = plock_lease_step(lease, &interest);
        plock_lease_cancel(other);
        if (status == PLOCK_AGAIN) status = fake_finish(lease);
        if (!status) status = fake_release(lease);
    }
    plock_lease_free(other);
    return status;
}

/* --- a name, an address, a socket --- */

static int everything_is_here(const char *host, const char *port, const struct addrinfo *hints,
                              struct addrinfo **list) {
    (void)host;
    return getaddrinfo("127.0.0.1", port, hints, list);
}

static plock_status look_up_and_connect(plock_store *unused, plock_lease *lease) {
    char url[64], port[LOOPBACK_PORT_ROOM];
    plock_config *config;
    plock_store *store;
    plock_lease *own;
    plock_error error;
    (void)unused, (void)lease;
    loopback_free_port(port);
    (void)snprintf(url, sizeof url, "redis://store.example:%s?attempt_timeout=5&connect_timeout=5",
                   port);
    plock__replace_name_service(everything_is_here);
    fake_clock_stop(); /* the lookup's thread takes real time */
    plock_status status = plock_config_new(&config, url, &error);
    if (!status) status = plock_store_open(&store, config, &error);
    if (status) return status;
    status = plock_lease_new(&own, store, "k", 1);
    if (!status) {
        status = plock_lease_acquire(own, &(plock_acquire_options){.ttl = PLOCK_SECOND});
        if (!status) status = plock_drive(own, plock_wait_poll, NULL);
        plock_lease_free(own);
    }
    plock_store_close(store);
    return status;
}

const scenario SCENARIOS[] = {
    {"configuring", "redis://h", NULL, make_config, PLOCK_OK, PLOCK_OK},
    {"opening a store", "redis://h", NULL, open_store, PLOCK_OK, PLOCK_OK},
    {"acquire and release", "redis://h", NULL, acquire_and_release, PLOCK_OK, PLOCK_OK},
    {"with AUTH and SELECT", "redis://ali:sesame@h/3", NULL, acquire_and_release, PLOCK_OK,
     PLOCK_OK},
    {"with SCRIPT LOAD", "redis://h", script_is_unknown, acquire_and_release, PLOCK_OK, PLOCK_OK},
    {"with a replica", "redis://h?replicas=1", replica_confirms, acquire_and_release, PLOCK_OK,
     PLOCK_OK},
    {"waiting in line", "redis://h", lock_is_held_for_a_while, wait_in_line, PLOCK_OK, PLOCK_OK},
    {"giving up in line", "redis://h", lock_is_held_for_a_while, give_up_in_line, PLOCK_OK,
     PLOCK_TRY_FAILED},
    {"trying again", "redis://h", first_connection_closes, acquire_with_patience, PLOCK_OK,
     PLOCK_OK},
    {"undoing", "redis://h", first_connection_is_silent, acquire_and_release, PLOCK_SILENT,
     PLOCK_OK},
    {"with an owner", "redis://h", NULL, acquire_with_owner, PLOCK_OK, PLOCK_OK},
    {"undoing with an owner", "redis://h", first_connection_is_silent, acquire_with_owner,
     PLOCK_SILENT, PLOCK_OK},
    {"extending", "redis://h", NULL, extend, PLOCK_OK, PLOCK_OK},
    {"releasing in the background", "redis://h", NULL, free_what_is_held, PLOCK_OK, PLOCK_OK},
    {"a group", "redis://h", groups_are_obliged, acquire_a_group, PLOCK_OK, PLOCK_OK},
    {"waiting for a connection", "redis://h?pool_size=1", NULL, wait_for_a_connection, PLOCK_OK,
     PLOCK_SATURATED},
    {"looking up a name", "redis://h", NULL, look_up_and_connect, PLOCK_CONNECT, PLOCK_RESOLVE},
};
const unsigned SCENARIO_COUNT = sizeof SCENARIOS / sizeof *SCENARIOS;

/* Lets background work end: on the real clock, all deadlines of the fake clock have passed. */
static void end_background(void) {
    fake_clock_stop();
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
}

/* Acquires the lease after the failure. A lease with an owner that the caller supplied may not
 * wait, so it makes one attempt. */
static plock_status acquire_again(plock_lease *lease) {
    const plock_status status = fake_acquire(lease, WAIT);
    return status == PLOCK_MISUSE ? fake_acquire(lease, 0) : status;
}

/* Runs the scenario with the n-th allocation failing. Returns false if there were fewer
 * allocations. */
static bool starve_once(const scenario *s, scenario_arm *arm, unsigned long n) {
    enum { TEXT = 128 };
    char what[TEXT];
    fake_clock_start();
    plock_store *store = fake_store(s->url);
    plock_lease *lease = fake_lease(store);
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    if (s->prepare) s->prepare();
    (void)arm(n);
    const plock_status status = s->run(store, lease);
    const bool failed = arm(0) >= n;
    (void)snprintf(what, sizeof what, "%s, allocation %lu: ends with %s", s->name, n,
                   plock_status_name(status));
    test_check(status == s->result || (failed && (status == PLOCK_NO_MEMORY ||
                                                  (s->otherwise && status == s->otherwise))),
               what, __FILE__, __LINE__);
    end_background();
    fake_clock_start();
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    fake_redis.says = NULL;
    /* If the worker thread read the real clock during end_background(), a renewed lease has
     * expired, and its loss has been reported. Such a lease must be released before it is acquired
     * again. */
    if (plock_lease_held(lease) && plock_lease_lost(lease)) (void)fake_release(lease);
    if (!plock_lease_valid(lease)) CHECK_STATUS(acquire_again(lease), PLOCK_OK);
    CHECK(plock_lease_valid(lease));
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    plock_lease_free(lease);
    end_background();
    plock_store_close(store);
    fake_drop_notices();
    fake_settle();
    plock__replace_name_service(NULL);
    return failed;
}

unsigned long scenario_starve(const scenario *s, scenario_arm *arm) {
    enum { ALLOCATIONS_MAX = 500 };
    unsigned long n = 1;
    const int descriptors = test_open_descriptors();
    while (starve_once(s, arm, n) && CHECK(n < ALLOCATIONS_MAX)) n++;
    CHECK_DESCRIPTORS(descriptors);
    return n - 1;
}
