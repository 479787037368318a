/* Nodes of a cluster that are no longer used. Their connections are closed, except for the last
 * connection of the store. */
#include "fake_native.h"
#include "test.h"

#include "base/process.h"
#include "redis/call.h"
#include "redis/routes.h"

static plock_store *store;
static plock_node *nodes[3];

static void begin(void) {
    fake_clock_start();
    store = fake_store("redis+cluster://127.0.0.1:1");
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    for (int i = 0; i < 3; i++) {
        plock_node_name name;
        CHECK(plock__name_node(&name, plock__text("127.0.0.1", 9), 7000 + i));
        nodes[i] = plock__routes_node(store, &name);
    }
    atomic_store(&store->routes->mapped, true);
}

static void end(void) {
    fake_clock_stop();
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    plock_store_close(store);
    fake_settle();
}

static void use(plock_node *node) {
    static const plock_request RELEASE = {
        .script = PLOCK__RELEASE, .keys = 1, .arguments = 1, .texts = {{"k", 1}, {"me", 2}}};
    plock_call call;
    plock_interest interest;
    plock_error error;
    const plock_value *value;
    plock__routes_move(store, plock__slot(plock__text("k", 1)), node);
    plock__begin_step();
    plock__call_begin(&call, &store->node, &RELEASE, plock_now() + PLOCK_SECOND);
    CHECK_STATUS(plock__call_step(&call, &value, &interest, &error), PLOCK_OK);
    plock__call_finish(&call);
    plock__end_step();
}

static bool attended(void) {
    plock__enter();
    const bool is = store->routes->trim;
    plock__leave();
    return is;
}

static unsigned open_at(const plock_node *node) {
    plock__enter();
    const unsigned open = node->pool.open;
    plock__leave();
    return open;
}

static void await_none_at(const plock_node *node) {
    for (unsigned rounds = 0; open_at(node) && test_patient(&rounds);)
        fake_native_pass(PLOCK_SECOND / 2);
    CHECK_INT(open_at(node), 0);
}

static void await_end_of_job(void) {
    for (unsigned rounds = 0; attended() && test_patient(&rounds);)
        fake_native_pass(PLOCK_SECOND / 2);
    CHECK(!attended());
}

static void only_the_last_connection_stays(void) {
    begin();
    use(nodes[0]);
    CHECK(!attended());
    use(nodes[1]);
    CHECK(attended());
    fake_clock_pass(1); /* so that nodes[2] is used later than the other nodes */
    use(nodes[2]);
    CHECK_INT(open_at(nodes[0]) + open_at(nodes[1]) + open_at(nodes[2]), 3);
    await_none_at(nodes[0]);
    await_none_at(nodes[1]);
    await_end_of_job();
    CHECK_INT(open_at(nodes[2]), 1);
    use(nodes[0]); /* the job begins again */
    CHECK(attended());
    await_none_at(nodes[2]);
    CHECK_INT(open_at(nodes[0]), 1);
    end();
}

static void a_connection_that_is_used_stays(void) {
    begin();
    use(nodes[0]);
    use(nodes[1]);
    use(nodes[2]);
    for (unsigned i = 0; i < 60; i++) {
        fake_native_pass(PLOCK_SECOND / 2);
        use(nodes[0]);
        use(nodes[1]);
    }
    await_none_at(nodes[2]);
    CHECK_INT(open_at(nodes[0]), 1);
    CHECK_INT(open_at(nodes[1]), 1);
    CHECK_INT(fake_connections(), 3);
    CHECK(attended());
    end();
}

static void a_store_that_is_closed_is_not_attended(void) {
    begin();
    use(nodes[0]);
    use(nodes[1]);
    plock_store_disconnect(store);
    await_end_of_job();
    CHECK_INT(open_at(nodes[0]) + open_at(nodes[1]), 0);
    end();
}

static void nor_does_the_job_keep_a_store(void) {
    begin();
    use(nodes[0]);
    use(nodes[1]);
    plock_store_close(store);
    fake_clock_stop();
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    fake_settle(); /* nothing of the job is left */
}

static void look_in_child(void *context) {
    (void)context;
    use(nodes[0]);
    use(nodes[1]);
    CHECK(attended());
    plock_store_disconnect(store);
    for (unsigned rounds = 0; attended() && test_patient(&rounds);) continue;
    CHECK(!attended()); /* the child's own worker thread has ended the job */
    end();
}

static void a_forked_child_has_a_job_of_its_own(void) {
    if (TEST_TSAN) test_skip("a worker thread in a child", "the sanitizer does not allow it");
    if (TEST_TSAN) return;
    begin();
    use(nodes[0]);
    use(nodes[1]);
    fake_clock_pass(1);
    test_in_child(look_in_child, NULL);
    end();
}

int main(void) {
    RUN(only_the_last_connection_stays);
    RUN(a_connection_that_is_used_stays);
    RUN(a_store_that_is_closed_is_not_attended);
    RUN(nor_does_the_job_keep_a_store);
    RUN(a_forked_child_has_a_job_of_its_own);
    return test_end("trim");
}
