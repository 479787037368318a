/* Trailing releases: the request is sent at the end of a block, and no caller waits for the answer.
 */
#include "fake.h"
#include "test.h"

#include "base/memory.h"
#include "base/process.h"
#include "redis/store.h"
#include "redis/trailing.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static plock_store *store;
static plock_lease *lease;

static void begin(void) {
    fake_clock_start();
    store = fake_store("redis://h");
    lease = fake_lease(store);
    plock__node_knows(&store->node, PLOCK__RELEASE, true);
}

static void end(void) { fake_end(lease, store); }

/* Acquires the lease, and begins a trailing release that will get this answer. */
static void release_trailing(const char *answer) {
    fake_peers[0].answers[0] = FAKE_HELD;
    fake_peers[0].answers[1] = answer;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK_STATUS(plock_lease_release_trailing(lease, 0), PLOCK_OK);
    CHECK(!plock_lease_held(lease) && !plock_lease_valid(lease) && !plock_lease_lost(lease));
}

static void await(const char *command, unsigned count) {
    for (unsigned rounds = 0; fake_commands_like(command) < count && test_patient(&rounds);)
        continue;
    CHECK_INT(fake_commands_like(command), count);
}

/* Takes all notices. Returns whether one of them is of this kind. */
static bool is_told(plock_notice_kind kind) {
    bool found = false;
    for (plock_notice *notice; (notice = plock_notice_next()); plock_notice_free(notice))
        found = found || (notice->kind == kind && notice->fence == FAKE_HELD_FENCE &&
                          notice->key_length == 1 && *notice->key == 'k');
    return found;
}

/* --- the answer is read before the next request's answer --- */

static void the_next_request_leaves_behind_it_on_the_same_connection(void) {
    begin();
    release_trailing(FAKE_DONE);
    CHECK_HAS(fake_peers[0].commands[2], "EVALSHA release 1 k ");
    fake_peers[0].answers[2] = FAKE_REFUSED;
    /* reads the answer to the acquire, and not the answer to the release */
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_REFUSED);
    fake_peers[0].answers[3] = FAKE_HELD;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    fake_peers[0].answers[4] = FAKE_DONE;
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
    CHECK_INT(fake_connections(), 1);
    CHECK_INT(fake_commands_like("EVALSHA release"), 2);
    CHECK(!is_told(PLOCK_LOST_BEFORE) && !is_told(PLOCK_UNRELEASED));
}

static void many_follow_each_other(void) {
    enum { TIMES = 7 };
    begin();
    for (unsigned i = 0; i < TIMES; i++) {
        fake_peers[0].answers[2 * i] = FAKE_HELD;
        fake_peers[0].answers[2 * i + 1] = FAKE_DONE;
        CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
        CHECK_STATUS(plock_lease_release_trailing(lease, 0), PLOCK_OK);
    }
    end();
    CHECK_INT(fake_connections(), 1);
    CHECK_INT(fake_commands_like("EVALSHA release"), TIMES);
}

static void a_lost_lease_is_reported(void) {
    begin();
    release_trailing(FAKE_NOT_OURS);
    fake_peers[0].answers[2] = FAKE_REFUSED;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_REFUSED);
    CHECK(is_told(PLOCK_LOST_BEFORE));
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 1);
}

static void a_script_that_the_server_has_forgotten_is_sent_again(void) {
    begin();
    release_trailing(FAKE_NOSCRIPT);
    fake_peers[0].answers[2] = FAKE_REFUSED;
    fake_peers[1].obliging = true;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_REFUSED);
    fake_peers[0].obliging = true;
    await("EVALSHA release", 2);
    end();
    CHECK(!is_told(PLOCK_LOST_BEFORE) && !is_told(PLOCK_UNRELEASED));
}

/* --- no request follows --- */

static void the_worker_thread_reads_the_answer(void) {
    begin();
    release_trailing(FAKE_NOT_OURS);
    unsigned rounds = 0;
    bool told = false;
    while (!(told = is_told(PLOCK_LOST_BEFORE)) && test_patient(&rounds))
        fake_clock_pass(20 * PLOCK_MILLISECOND);
    CHECK(told);
    end();
    CHECK_INT(fake_connections(), 1);
}

static void a_server_that_does_not_answer_is_asked_on_another_connection(void) {
    begin();
    release_trailing(FAKE_SILENCE);
    for (unsigned p = 1; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    unsigned rounds = 0;
    while (fake_commands_like("EVALSHA release") < 2 && test_patient(&rounds))
        fake_clock_pass(20 * PLOCK_MILLISECOND);
    CHECK_INT(fake_commands_like("EVALSHA release"), 2);
    CHECK(fake_peers[0].destroyed);
    end();
    CHECK(!is_told(PLOCK_LOST_BEFORE) && !is_told(PLOCK_UNRELEASED));
}

static void a_connection_that_ends_is_replaced(void) {
    begin();
    release_trailing(FAKE_CLOSES);
    for (unsigned p = 1; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    /* the acquire is sent behind the release, and again on a new connection */
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    await("EVALSHA release", 2);
    end();
    CHECK(!is_told(PLOCK_LOST_BEFORE) && !is_told(PLOCK_UNRELEASED));
}

/* A process calls plock_drain when it ends. */
static void a_drain_waits_for_the_answer(void) {
    begin();
    release_trailing(FAKE_NOT_OURS);
    fake_clock_stop();
    plock_drain(plock_now() + PLOCK_SECOND);
    CHECK(is_told(PLOCK_LOST_BEFORE));
    end();
}

static void closing_a_store_leaves_the_others_their_answers(void) {
    plock_error error;
    plock_config *config;
    plock_store *closed;
    begin();
    release_trailing(FAKE_SILENCE);
    CHECK_STATUS(plock_config_new(&config, "redis://other", &error), PLOCK_OK);
    CHECK_STATUS(plock_store_open(&closed, config, &error), PLOCK_OK);
    /* as plock_store_disconnect does, but without waiting */
    plock__trailing_settle(closed, plock_now());
    CHECK(!fake_peers[0].destroyed);
    fake_say(&fake_peers[0], FAKE_NOT_OURS, strlen(FAKE_NOT_OURS));
    fake_clock_stop();
    plock_drain(plock_now() + PLOCK_SECOND);
    CHECK(is_told(PLOCK_LOST_BEFORE));
    plock_store_close(closed);
    end();
}

/* --- beside other requests --- */

static void a_connection_in_use_is_waited_for_by_requests_about_the_key(void) {
    plock_interest interest;
    plock_lease *other, *third;
    begin();
    CHECK_STATUS(plock_lease_new(&other, store, "other", 5), PLOCK_OK);
    CHECK_STATUS(plock_lease_new(&third, store, "third", 5), PLOCK_OK);
    release_trailing(FAKE_SILENCE);
    const plock_acquire_options options = {.ttl = 3 * PLOCK_SECOND};
    /* this request takes the connection with the trail */
    CHECK_STATUS(plock_lease_acquire(other, &options), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(other, &interest), PLOCK_AGAIN);
    CHECK_STATUS(plock_lease_acquire(lease, &options), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    CHECK_INT(fake_connections(), 1);
    fake_peers[1].obliging = true;
    CHECK_STATUS(plock_lease_acquire(third, &options), PLOCK_OK);
    /* a request for another key takes another connection */
    CHECK_STATUS(fake_finish(third), PLOCK_OK);
    CHECK_INT(fake_connections(), 2);
    fake_say(&fake_peers[0], FAKE_DONE FAKE_HELD, strlen(FAKE_DONE FAKE_HELD));
    CHECK_STATUS(fake_finish(other), PLOCK_OK);
    fake_peers[0].obliging = true;
    CHECK_STATUS(fake_finish(lease), PLOCK_OK);
    plock_lease_free(other);
    plock_lease_free(third);
    end();
}

/* The thread that uses the connection may be unable to run, or may itself wait for this caller. So
 * this caller waits for the connection for only 20 ms. */
static void but_not_for_long(void) {
    plock_interest interest;
    plock_lease *other;
    begin();
    CHECK_STATUS(plock_lease_new(&other, store, "other", 5), PLOCK_OK);
    release_trailing(FAKE_SILENCE);
    const plock_acquire_options options = {.ttl = 3 * PLOCK_SECOND};
    CHECK_STATUS(plock_lease_acquire(other, &options), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(other, &interest), PLOCK_AGAIN);
    fake_peers[1].obliging = true;
    const plock_ns began = plock_now();
    CHECK_STATUS(fake_acquire(lease, PLOCK_SECOND), PLOCK_OK);
    CHECK_INT(plock_now() - began, 20 * PLOCK_MILLISECOND);
    CHECK_INT(fake_connections(), 2);
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    plock_lease_free(other);
    end();
}

/* Two readers release the same lock on two connections. */
static void several_trails_of_a_key_are_waited_for(void) {
    plock_interest interest;
    plock_lease *readers[2], *writer, *other;
    const plock_acquire_options options = {.ttl = 3 * PLOCK_SECOND};
    begin();
    plock__node_knows(&store->node, PLOCK__SHARED_RELEASE, true);
    CHECK_STATUS(plock_lease_new(&other, store, "other", 5), PLOCK_OK);
    for (unsigned p = 0; p < 2; p++) {
        CHECK_STATUS(plock_lease_new(&readers[p], store, "rw", 2), PLOCK_OK);
        CHECK_STATUS(plock_lease_share(readers[p], "r"), PLOCK_OK);
        CHECK_STATUS(plock_lease_acquire(readers[p], &options), PLOCK_OK);
        CHECK_STATUS(plock_lease_step(readers[p], &interest), PLOCK_AGAIN);
    }
    CHECK_INT(fake_connections(), 2);
    for (unsigned p = 0; p < 2; p++) fake_say(&fake_peers[p], FAKE_HELD, strlen(FAKE_HELD));
    for (unsigned p = 0; p < 2; p++) CHECK_STATUS(fake_finish(readers[p]), PLOCK_OK);
    for (unsigned p = 0; p < 2; p++)
        CHECK_STATUS(plock_lease_release_trailing(readers[p], 0), PLOCK_OK);
    CHECK_INT(fake_commands_like("EVALSHA shared_release"), 2);
    /* one release on each connection */
    CHECK(fake_peers[0].command_count == fake_peers[1].command_count);
    CHECK_STATUS(plock_lease_new(&writer, store, "rw", 2), PLOCK_OK);
    CHECK_STATUS(plock_lease_share(writer, "w"), PLOCK_OK);
    CHECK_STATUS(plock_lease_acquire(writer, &options), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(writer, &interest), PLOCK_AGAIN);
    /* the writer has not sent its request yet */
    CHECK_INT(fake_commands_like("EVALSHA shared_acquire"), 2);
    for (unsigned p = 0; p < 2; p++) fake_say(&fake_peers[p], FAKE_DONE, strlen(FAKE_DONE));
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    CHECK_STATUS(fake_finish(writer), PLOCK_OK);
    plock_lease_free(readers[0]);
    plock_lease_free(readers[1]);
    plock_lease_free(writer);
    plock_lease_free(other);
    end();
}

static void a_lease_that_has_expired_is_left_to_the_caller(void) {
    begin();
    fake_peers[0].answers[0] = FAKE_HELD;
    fake_peers[0].answers[1] = FAKE_NOT_OURS;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    fake_clock_pass(3 * PLOCK_SECOND);
    CHECK_STATUS(plock_lease_release_trailing(lease, 0), PLOCK_AGAIN);
    CHECK_STATUS(fake_release(lease), PLOCK_NOT_OWNER);
    end();
}

static void without_an_idle_connection_the_caller_releases(void) {
    plock_interest interest;
    plock_lease *other;
    begin();
    CHECK_STATUS(plock_lease_new(&other, store, "other", 5), PLOCK_OK);
    fake_peers[0].answers[0] = FAKE_HELD;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK_STATUS(plock_lease_acquire(other, &(plock_acquire_options){.ttl = 3 * PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(other, &interest), PLOCK_AGAIN);
    CHECK_STATUS(plock_lease_release_trailing(lease, 0), PLOCK_AGAIN);
    CHECK(plock_lease_held(lease));
    fake_peers[1].obliging = true;
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    plock_lease_free(other);
    for (unsigned p = 2; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    end();
}

static void a_socket_that_takes_only_a_part_leaves_it_to_the_caller(void) {
    begin();
    fake_peers[0].answers[0] = FAKE_HELD;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    fake_peers[0].write_room = fake_peers[0].written + 1;
    fake_peers[1].obliging = true;
    CHECK_STATUS(plock_lease_release_trailing(lease, 0), PLOCK_AGAIN);
    CHECK(fake_peers[0].destroyed);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
}

static void a_script_that_the_server_may_not_know_is_left_to_the_caller(void) {
    begin();
    plock__node_knows(&store->node, PLOCK__RELEASE, false);
    fake_peers[0].obliging = true;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK_STATUS(plock_lease_release_trailing(lease, 0), PLOCK_AGAIN);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    /* by now the server has executed the script, so it knows the script */
    CHECK_STATUS(plock_lease_release_trailing(lease, 0), PLOCK_OK);
    end();
}

static void only_a_held_lease_is_released(void) {
    begin();
    CHECK_STATUS(plock_lease_release_trailing(lease, 0), PLOCK_MISUSE);
    end();
}

static void without_memory_the_caller_releases(void) {
    for (unsigned nth = 1; nth < 4; nth++) {
        begin();
        fake_peers[0].obliging = true;
        CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
        (void)plock__fail_allocation(nth);
        const plock_status status = plock_lease_release_trailing(lease, 0);
        (void)plock__fail_allocation(0);
        CHECK(status == PLOCK_OK || status == PLOCK_AGAIN);
        CHECK(nth > 2 || status == PLOCK_AGAIN);
        if (status) CHECK_STATUS(fake_release(lease), PLOCK_OK);
        end();
        CHECK_INT(fake_commands_like("EVALSHA release"), 1);
    }
}

static void a_forked_child_leaves_it_to_the_parent(void) {
    begin();
    release_trailing(FAKE_SILENCE);
    const pid_t pid = fork();
    if (pid == 0) {
        fake_peers[1].obliging = true;
        const plock_status status = fake_acquire(lease, 0);
        _exit(status || fake_commands_like("EVALSHA release") != 1);
    }
    int result;
    CHECK(waitpid(pid, &result, 0) == pid);
    CHECK_INT(result, 0);
    fake_say(&fake_peers[0], FAKE_DONE, strlen(FAKE_DONE));
    end();
}

int main(void) {
    RUN(the_next_request_leaves_behind_it_on_the_same_connection);
    RUN(many_follow_each_other);
    RUN(a_lost_lease_is_reported);
    RUN(a_script_that_the_server_has_forgotten_is_sent_again);
    RUN(the_worker_thread_reads_the_answer);
    RUN(a_server_that_does_not_answer_is_asked_on_another_connection);
    RUN(a_connection_that_ends_is_replaced);
    RUN(a_drain_waits_for_the_answer);
    RUN(closing_a_store_leaves_the_others_their_answers);
    RUN(a_connection_in_use_is_waited_for_by_requests_about_the_key);
    RUN(but_not_for_long);
    RUN(several_trails_of_a_key_are_waited_for);
    RUN(a_lease_that_has_expired_is_left_to_the_caller);
    RUN(without_an_idle_connection_the_caller_releases);
    RUN(a_socket_that_takes_only_a_part_leaves_it_to_the_caller);
    RUN(a_script_that_the_server_may_not_know_is_left_to_the_caller);
    RUN(only_a_held_lease_is_released);
    RUN(without_memory_the_caller_releases);
    RUN(a_forked_child_leaves_it_to_the_parent);
    return test_end("trailing");
}
