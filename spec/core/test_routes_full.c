/* A store on a cluster that knows as many nodes as it has room for. */
#include "fake.h"
#include "test.h"

#include "redis/call.h"
#include "redis/routes.h"

static plock_store *store;

static const plock_request RELEASE = {
    .script = PLOCK__RELEASE, .keys = 1, .arguments = 1, .texts = {{"k", 1}, {"me", 2}}};

static const char *send_away(const char *command, unsigned nth) {
    (void)command, (void)nth;
    return "-MOVED 7629 127.0.0.1:6999\r\n";
}

static plock_node *node_at(long port) {
    plock_node_name name;
    CHECK(plock__name_node(&name, plock__text("127.0.0.1", 9), port));
    return plock__routes_node(store, &name);
}

static void begin(void) {
    fake_clock_start();
    store = fake_store("redis+cluster://127.0.0.1:1?command_timeout=1");
    for (long i = 0; i < PLOCK__NODES_MAX; i++) CHECK(node_at(10000 + i));
    plock__routes_move(store, plock__slot(plock__text("k", 1)), node_at(10000));
    atomic_store(&store->routes->mapped, true);
    fake_redis.says = send_away;
}

static void end(void) {
    fake_clock_stop();
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    plock_store_close(store);
    fake_settle();
}

static void it_finds_those_that_it_knows(void) {
    begin();
    CHECK(plock__routes_full(store));
    CHECK(node_at(10000 + PLOCK__NODES_MAX - 1));
    CHECK(!node_at(6999));
    end();
}

static void the_error_of_a_key_at_another_one_says_so(void) {
    plock_call call;
    plock_interest interest;
    plock_error error = {PLOCK_OK, ""};
    plock_status status;
    const plock_value *value;
    begin();
    plock__call_begin(&call, &store->node, &RELEASE, plock_now() + PLOCK_SECOND);
    while ((status = plock__call_step(&call, &value, &interest, &error)) == PLOCK_AGAIN)
        fake_clock_pass(interest.deadline - plock_now());
    CHECK_STATUS(status, PLOCK_CLUSTERDOWN);
    CHECK_HAS(error.message, "no room: it has met 4096. Open another store");
    CHECK_INT(fake_connections(), 1);
    plock__call_cancel(&call, NULL);
    end();
}

int main(void) {
    RUN(it_finds_those_that_it_knows);
    RUN(the_error_of_a_key_at_another_one_says_so);
    return test_end("routes full");
}
