/* Releases for which no caller waits, of leases that were freed or whose release failed. The worker
 * thread repeats such a release until it succeeds, or until the lease expires on the server. The
 * last tests are about leases after a fork. */
#include "fake.h"
#include "test.h"

#include "base/process.h"
#include "redis/store.h"

#include <stdatomic.h>
#include <string.h>

static plock_store *store;
static plock_lease *lease;
static plock_interest interest;

static void begin(void) {
    fake_clock_start();
    store = fake_store("redis://h");
    lease = fake_lease(store);
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
}

static void end(void) { fake_end(lease, store); }

static void check_releases(unsigned expected) {
    for (unsigned rounds = 0;
         fake_commands_like("EVALSHA release") < expected && test_patient(&rounds);)
        continue;
    CHECK_INT(fake_commands_like("EVALSHA release"), expected);
}

static unsigned references(void) {
    plock__enter();
    const unsigned count = store->references;
    plock__leave();
    return count;
}

static const char *_Atomic failure_said; /* the answer to each release */

static const char *says_failure(const char *command, unsigned nth) {
    (void)nth;
    return strncmp(command, "EVALSHA release", 15) ? NULL : atomic_load(&failure_said);
}

/* --- freeing --- */

static void a_lease_that_is_held_is_released_when_it_is_freed(void) {
    begin();
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    plock_lease_free(lease);
    lease = NULL;
    check_releases(1);
    CHECK_INT(fake_connections(), 1); /* the release was sent on the idle connection */
    end();
}

static void one_that_was_released_is_not_released_again(void) {
    begin();
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 1);
}

static void one_whose_time_is_over_is_left_to_the_server(void) {
    begin();
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    fake_clock_pass(3 * PLOCK_SECOND);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
}

static void freeing_in_mid_release_carries_it_on(void) {
    begin();
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    fake_peers[0].obliging = false;
    CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    plock_lease_free(lease);
    lease = NULL;
    /* the first release got no answer, so it was sent again on another connection */
    check_releases(2);
    CHECK(fake_peers[0].destroyed);
    end();
}

static void giving_up_a_release_carries_it_on(void) {
    begin();
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    fake_peers[0].obliging = false;
    CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    plock_lease_cancel(lease);
    CHECK(!plock_lease_valid(lease));
    check_releases(2);
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK); /* the lease object itself can be used again */
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
}

static void a_lease_keeps_its_store_alive(void) {
    begin();
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    plock_store_close(store);
    store = NULL;
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    plock_lease_free(lease); /* the release in the background also keeps the store alive */
    lease = NULL;
    check_releases(2);
    end();
    CHECK(fake_peers[0].destroyed);
}

/* --- how long a release is retried --- */

static void a_release_that_fails_is_tried_again_for_a_while(void) {
    begin();
    fake_peers[0].answers[0] = FAKE_HELD;
    fake_peers[0].answers[1] = "-LOADING x\r\n";
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    plock_lease_free(lease);
    lease = NULL;
    check_releases(1);
    for (unsigned rounds = 0; fake_commands_like("EVALSHA release") < 2 && test_patient(&rounds);)
        fake_clock_pass(PLOCK_MILLISECOND);
    check_releases(2);
    end();
}

/* The worker thread gives up in the end, because the server's key expires by itself. */
static void a_server_that_stays_silent_is_left_alone_in_the_end(void) {
    begin();
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].obliging = false;
    const plock_ns before = plock_now();
    plock_lease_free(lease);
    lease = NULL;
    check_releases(1);
    for (unsigned rounds = 0; references() > 1 && test_patient(&rounds);)
        fake_clock_pass(PLOCK_MILLISECOND);
    CHECK_INT(references(), 1); /* the job has released its reference to the store */
    CHECK(plock_now() >= before + 3 * PLOCK_SECOND && plock_now() < before + 6 * PLOCK_SECOND);
    CHECK(fake_commands_like("EVALSHA release") >= 2 && fake_connections() <= 8);
    end();
}

static void what_a_closed_store_still_releases_leaves_no_connection_open(void) {
    begin();
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    plock_store_disconnect(store);
    CHECK(plock_store_disconnected(store));
    CHECK(fake_peers[0].destroyed);
    plock_lease_free(lease);
    lease = NULL;
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    CHECK_INT(fake_commands_like("EVALSHA release"), 1);
    CHECK_INT(fake_connections(), 2);
    CHECK(fake_peers[1].destroyed);
    CHECK(plock_store_disconnected(store));
    lease = fake_lease(store);
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK); /* the next use opens the store again */
    CHECK(!plock_store_disconnected(store));
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    CHECK(!fake_peers[2].destroyed);
    end();
}

static void draining_releases_what_was_freed(void) {
    enum { LEASES = 20 };
    plock_lease *leases[LEASES];
    begin();
    for (int i = 0; i < LEASES; i++) {
        CHECK_STATUS(plock_lease_new(&leases[i], store, "k", 1), PLOCK_OK);
        CHECK_STATUS(fake_acquire(leases[i], 0), PLOCK_OK);
    }
    for (int i = 0; i < LEASES; i++) plock_lease_free(leases[i]);
    fake_clock_stop();
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    unsigned releases = 0;
    /* each connection's commands, except the greeting */
    for (unsigned p = 0; p < fake_connections(); p++) releases += fake_peers[p].command_count - 1;
    CHECK_INT(releases, 2 * LEASES);
    end();
}

/* --- failed releases: the program has seen the failure, or has not seen it --- */

static void a_release_that_failed_goes_on(void) {
    static const char *const FAILURES[] = {"-LOADING x\r\n", "-BUSY x\r\n", FAKE_SILENCE};
    for (unsigned i = 0; i < sizeof FAILURES / sizeof *FAILURES; i++) {
        begin();
        fake_peers[0].answers[0] = FAKE_HELD;
        CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
        fake_redis.says = says_failure;
        atomic_store(&failure_said, FAILURES[i]);
        CHECK(plock_status_kind(fake_release(lease)) == PLOCK_KIND_UNAVAILABLE);
        atomic_store(&failure_said, NULL);
        const unsigned before = fake_commands_like("EVALSHA release");
        for (unsigned rounds = 0;
             fake_commands_like("EVALSHA release") == before && test_patient(&rounds);)
            fake_clock_pass(PLOCK_MILLISECOND);
        CHECK(fake_commands_like("EVALSHA release") > before);
        /* no notice, because the program has seen the failure */
        CHECK(plock_notice_next() == NULL);
        end();
    }
}

/* A late release could end a lease that the named owner has acquired meanwhile, with the same
 * token. */
static void a_release_by_name_that_failed_does_not(void) {
    begin();
    for (unsigned i = 0; i < FAKE_ANSWERS; i++) fake_peers[0].answers[i] = "-LOADING x\r\n";
    CHECK_STATUS(plock_lease_own(lease, "me", 2), PLOCK_OK);
    CHECK_STATUS(plock_lease_release_owned(lease), PLOCK_OK);
    CHECK_STATUS(fake_finish(lease), PLOCK_LOADING);
    CHECK_INT(references(), 2);
    end();
}

static plock_connection *take_the_only_one(void) {
    plock_connection *connection;
    plock_turn turn = {0};
    CHECK_STATUS(plock__pool_take(&store->node.pool, &connection, &turn, &interest), PLOCK_OK);
    return connection;
}

static void begin_with_one_connection(void) {
    fake_clock_start();
    store = fake_store("redis://h?pool_size=1");
    lease = fake_lease(store);
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
}

static void a_release_that_found_no_connection_goes_on_and_has_not_failed(void) {
    begin_with_one_connection();
    plock_connection *busy = take_the_only_one();
    const plock_ns before = plock_now();
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    /* the release spent all its time waiting for a connection */
    CHECK_INT(plock_now() - before, PLOCK_SECOND / 2);
    CHECK(!plock_lease_valid(lease));
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
    plock__pool_give(&store->node.pool, busy, true);
    check_releases(1);
    CHECK(plock_notice_next() == NULL);
    end();
}

static void and_is_told_of_if_nothing_comes_of_it(void) {
    begin_with_one_connection();
    plock_connection *busy = take_the_only_one();
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    plock_notice *notice = NULL;
    for (unsigned rounds = 0; !(notice = plock_notice_next()) && test_patient(&rounds);)
        fake_clock_pass(10 * PLOCK_MILLISECOND);
    if (CHECK(notice != NULL)) {
        CHECK_INT(notice->kind, PLOCK_UNRELEASED);
        CHECK_INT(notice->fence, FAKE_HELD_FENCE);
        CHECK(notice->key_length == 1 && *notice->key == 'k');
    }
    plock_notice_free(notice);
    plock__pool_give(&store->node.pool, busy, true);
    end();
}

/* --- fork --- */

static void look_at_inherited(void *context) {
    (void)context;
    const unsigned commands = fake_peers[0].command_count;
    CHECK(plock_lease_inherited(lease));
    CHECK(!plock_lease_valid(lease));
    CHECK(plock_lease_fence(lease) == FAKE_HELD_FENCE); /* the fields can still be read */
    CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_MISUSE);
    CHECK_STATUS(plock_lease_extend(lease, PLOCK_SECOND), PLOCK_MISUSE);
    CHECK(fake_peers[0].abandoned);
    plock_lease *own = fake_lease(store); /* the store works in the child, on a new connection */
    CHECK_STATUS(fake_acquire(own, 0), PLOCK_OK);
    CHECK_STATUS(fake_release(own), PLOCK_OK);
    CHECK_INT(fake_connections(), 2);
    plock_lease_free(own);
    end(); /* also frees the parent's lease */
    /* the child has sent nothing on the parent's connection */
    CHECK_INT(fake_peers[0].command_count, commands);
    CHECK_INT(fake_peers[1].command_count, 3);
}

static void a_child_holds_nothing_and_releases_nothing_of_its_parents(void) {
    begin();
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    test_in_child(look_at_inherited, NULL);
    CHECK(plock_lease_valid(lease));
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    CHECK_INT(fake_connections(), 1);
    end();
}

static void step_inherited(void *context) {
    (void)context;
    const unsigned commands = fake_peers[0].command_count;
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_FORKED);
    CHECK_STATUS(plock_lease_error(lease)->status, PLOCK_FORKED);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_MISUSE); /* the operation has ended */
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK(!plock_lease_inherited(lease) && plock_lease_valid(lease));
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    CHECK_INT(fake_peers[0].command_count, commands);
    end();
}

static void free_inherited(void *context) {
    (void)context;
    const unsigned commands = fake_peers[0].command_count;
    end();
    CHECK_INT(fake_peers[0].command_count, commands);
    CHECK_INT(fake_connections(), 1);
}

static void an_operation_does_not_go_on_in_the_child(void) {
    enum { ACQUIRE, RELEASE, OPERATIONS };
    for (int operation = 0; operation < OPERATIONS; operation++) {
        begin();
        fake_peers[0].obliging = false;
        if (operation == RELEASE) {
            fake_peers[0].answers[0] = FAKE_HELD;
            CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
            CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_OK);
        } else {
            CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                         PLOCK_OK);
        }
        CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
        test_in_child(step_inherited, NULL);
        test_in_child(free_inherited, NULL);
        fake_say(&fake_peers[0], operation == RELEASE ? FAKE_DONE : FAKE_HELD,
                 strlen(operation == RELEASE ? FAKE_DONE : FAKE_HELD));
        /* the parent's operation is unaffected */
        CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_OK);
        fake_peers[0].obliging = true;
        end();
    }
}

static void acquire_in_child(void *context) {
    plock_lease *own = fake_lease(store);
    /* in the child, the parent's connection does not count towards pool_size */
    CHECK_STATUS(fake_acquire(own, 0), PLOCK_OK);
    CHECK_STATUS(fake_release(own), PLOCK_OK);
    plock_lease_free(own);
    plock_lease_free(context); /* the parent's lease, which waits for a connection */
    end();
}

static void a_full_pool_is_empty_in_the_child(void) {
    fake_clock_start();
    store = fake_store("redis://h?pool_size=1");
    lease = fake_lease(store);
    for (unsigned p = 1; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    plock_lease *waiting = fake_lease(store);
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    CHECK_STATUS(plock_lease_acquire(waiting, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(waiting, &interest), PLOCK_AGAIN);
    CHECK_INT(store->node.pool.waiting, 1);
    test_in_child(acquire_in_child, waiting);
    plock_lease_free(waiting);
    end();
}

int main(void) {
    RUN(a_lease_that_is_held_is_released_when_it_is_freed);
    RUN(one_that_was_released_is_not_released_again);
    RUN(one_whose_time_is_over_is_left_to_the_server);
    RUN(freeing_in_mid_release_carries_it_on);
    RUN(giving_up_a_release_carries_it_on);
    RUN(a_lease_keeps_its_store_alive);
    RUN(a_release_that_fails_is_tried_again_for_a_while);
    RUN(a_server_that_stays_silent_is_left_alone_in_the_end);
    RUN(what_a_closed_store_still_releases_leaves_no_connection_open);
    RUN(draining_releases_what_was_freed);
    RUN(a_release_that_failed_goes_on);
    RUN(a_release_by_name_that_failed_does_not);
    RUN(a_release_that_found_no_connection_goes_on_and_has_not_failed);
    RUN(and_is_told_of_if_nothing_comes_of_it);
    RUN(a_child_holds_nothing_and_releases_nothing_of_its_parents);
    RUN(an_operation_does_not_go_on_in_the_child);
    RUN(a_full_pool_is_empty_in_the_child);
    return test_end("lease background");
}
