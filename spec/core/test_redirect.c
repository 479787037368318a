/* Calls on a cluster: each goes to the node of its key's slot, and follows the nodes' redirections.
 * The map of the slots cannot be loaded here, because none of the URL's nodes is reachable. */
#include "fake.h"
#include "test.h"

#include "base/memory.h"
#include "base/process.h"
#include "plock/query.h"
#include "redis/call.h"
#include "redis/routes.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static plock_store *store;
static plock_call call;
static plock_error error;
static plock_interest interest;
static const plock_value *value;
static plock_node *nodes[3];

static const plock_request RELEASE = {
    .script = PLOCK__RELEASE, .keys = 1, .arguments = 1, .texts = {{"k", 1}, {"me", 2}}};

static const plock_request EXTEND = {
    .script = PLOCK__EXTEND, .keys = 1, .arguments = 1, .texts = {{"k", 1}, {"me", 2}}};

#define SLOT_OF_K "7629"

/* The nodes have the ports 7000 to 7002. The first node has all slots. */
static void begin(void) {
    fake_clock_start();
    store = fake_store("redis+cluster://127.0.0.1:1?command_timeout=1");
    for (int i = 0; i < 3; i++) {
        plock_node_name name;
        CHECK(plock__name_node(&name, plock__text("127.0.0.1", 9), 7000 + i));
        nodes[i] = plock__routes_node(store, &name);
    }
    for (unsigned slot = 0; slot < PLOCK__SLOTS; slot++) plock__routes_move(store, slot, nodes[0]);
    atomic_store(&store->routes->mapped, true);
}

/* The thread that loads a map may outlive the store, so end() waits for it. */
static void end(void) {
    fake_clock_stop();
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    plock_store_close(store);
    fake_settle();
}

static void move_k(plock_node *to) {
    plock__routes_move(store, plock__slot(plock__text("k", 1)), to);
}

static void start_for(const plock_request *request) {
    plock__call_begin(&call, &store->node, request, plock_now() + PLOCK_SECOND);
    error = (plock_error){PLOCK_OK, ""};
}

static void start(void) { start_for(&RELEASE); }

static plock_status step(void) { return plock__call_step(&call, &value, &interest, &error); }

static void a_call_goes_to_the_node_of_its_slot(void) {
    begin();
    move_k(nodes[2]);
    fake_peers[0].answers[0] = FAKE_DONE;
    start();
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK(call.node == nodes[2]);
    CHECK_TEXT(fake_peers[0].commands[1], "EVALSHA release 1 k me");
    plock__call_finish(&call);
    end();
}

static void it_follows_to_the_node_that_has_the_slot_now(void) {
    begin();
    fake_peers[0].answers[0] = "-MOVED " SLOT_OF_K " 127.0.0.1:7001\r\n";
    fake_peers[1].answers[0] = fake_peers[1].answers[1] = FAKE_DONE;
    start();
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK_STATUS(error.status, PLOCK_OK);
    CHECK(call.node == nodes[1]);
    plock__call_finish(&call);
    /* the connection stays, because the node still serves other slots */
    CHECK(!fake_peers[0].destroyed);
    start(); /* goes directly to the new node */
    CHECK_STATUS(step(), PLOCK_OK);
    plock__call_finish(&call);
    CHECK_INT(fake_peers[0].command_count, 2);
    CHECK_INT(fake_peers[1].command_count, 3);
    end();
}

static void a_node_that_is_new_is_made(void) {
    begin();
    fake_peers[0].answers[0] = "-MOVED " SLOT_OF_K " fe80::1:7009\r\n";
    fake_peers[1].answers[0] = "-OOM x\r\n";
    start();
    CHECK_STATUS(step(), PLOCK_OOM);
    CHECK_TEXT(call.node->name.host, "fe80::1");
    CHECK_TEXT(call.node->name.port, "7009");
    CHECK_HAS(error.message, "redis+cluster://[fe80::1]:7009: the server is out of memory");
    CHECK_INT(store->routes->count, 4);
    end();
}

static void a_node_that_a_closed_store_meets_keeps_no_connection(void) {
    begin();
    plock_store_disconnect(store);
    fake_peers[0].answers[0] = "-MOVED " SLOT_OF_K " 127.0.0.1:7009\r\n";
    fake_peers[1].answers[0] = FAKE_DONE;
    start();
    CHECK_STATUS(step(), PLOCK_OK);
    const plock_node *node = call.node;
    plock__call_finish(&call);
    CHECK_INT(node->pool.open, 0);
    end();
}

static void a_host_that_is_not_named_is_the_one_that_was_asked(void) {
    begin();
    fake_peers[0].answers[0] = "-MOVED " SLOT_OF_K " :7001\r\n";
    fake_peers[1].answers[0] = FAKE_DONE;
    start();
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK(call.node == nodes[1]);
    plock__call_finish(&call);
    end();
}

static void only_this_request_follows_an_ask(void) {
    begin();
    fake_peers[0].answers[0] = "-ASK " SLOT_OF_K " 127.0.0.1:7001\r\n";
    fake_peers[0].answers[1] = FAKE_DONE;
    fake_peers[1].answers[0] = "+OK\r\n";
    fake_peers[1].answers[1] = FAKE_DONE;
    start();
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK_TEXT(fake_peers[1].commands[1], "ASKING");
    CHECK_TEXT(fake_peers[1].commands[2], "EVALSHA release 1 k me");
    CHECK(value->type == PLOCK__INTEGER && value->integer == 1);
    plock__call_finish(&call);
    start();
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK(call.node == nodes[0]);
    plock__call_finish(&call);
    end();
}

/* ASKING applies only to the next command. */
static void it_says_asking_again_after_loading_the_script(void) {
    begin();
    fake_peers[0].answers[0] = "-ASK " SLOT_OF_K " 127.0.0.1:7001\r\n";
    static const char *const ANSWERS[] = {"+OK\r\n", FAKE_NOSCRIPT, FAKE_LOADED, "+OK\r\n",
                                          FAKE_DONE};
    memcpy(fake_peers[1].answers, ANSWERS, sizeof ANSWERS);
    start();
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK_TEXT(fake_peers[1].commands[3], "SCRIPT LOAD release");
    CHECK_TEXT(fake_peers[1].commands[4], "ASKING");
    CHECK_TEXT(fake_peers[1].commands[5], "EVALSHA release 1 k me");
    plock__call_finish(&call);
    end();
}

static void the_undo_goes_where_the_request_went(void) {
    begin();
    fake_peers[0].answers[0] = "-ASK " SLOT_OF_K " 127.0.0.1:7001\r\n";
    start();
    CHECK_STATUS(step(), PLOCK_AGAIN);
    CHECK(plock__call_left(&call));
    plock__call_cancel(&call, &RELEASE);
    CHECK_TEXT(fake_peers[1].commands[3], "ASKING");
    CHECK_TEXT(fake_peers[1].commands[4], "EVAL release 1 k me");
    CHECK(fake_peers[1].destroyed && !fake_peers[0].destroyed);
    end();
}

static void a_request_that_was_sent_elsewhere_has_not_been_carried_out(void) {
    begin();
    fake_peers[0].answers[0] = "-MOVED " SLOT_OF_K " 127.0.0.1:7001\r\n";
    fake_peers[1].connect_failure = PLOCK_CONNECT;
    start();
    CHECK_STATUS(step(), PLOCK_CONNECT);
    CHECK(!plock__call_left(&call));
    CHECK_HAS(error.message, "127.0.0.1:7001");
    end();
}

/* --- a node that the store has left --- */

/* The node was silent while another node took over its slots. */
static void what_it_grants_counts_as_lost(void) {
    begin();
    start_for(&EXTEND);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    move_k(nodes[1]);
    fake_say(&fake_peers[0], FAKE_DONE, strlen(FAKE_DONE));
    CHECK_STATUS(step(), PLOCK_DISCONNECTED);
    CHECK_HAS(error.message, "another server serves the key now");
    CHECK(plock__call_left(&call) && fake_peers[0].destroyed);
    end();
}

static void what_it_releases_is_released(void) {
    begin();
    start();
    CHECK_STATUS(step(), PLOCK_AGAIN);
    move_k(nodes[1]);
    fake_say(&fake_peers[0], FAKE_DONE, strlen(FAKE_DONE));
    CHECK_STATUS(step(), PLOCK_OK);
    plock__call_finish(&call);
    end();
}

static void it_is_not_asked_if_that_was_while_connecting(void) {
    begin();
    fake_peers[0].connect_again = 1;
    start_for(&EXTEND);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    move_k(nodes[1]);
    CHECK_STATUS(step(), PLOCK_DISCONNECTED);
    CHECK(!plock__call_left(&call));
    end();
}

static void it_may_grant_what_is_just_moving(void) {
    begin();
    fake_peers[0].answers[0] = "-ASK " SLOT_OF_K " 127.0.0.1:7001\r\n";
    fake_peers[1].answers[0] = "+OK\r\n";
    fake_peers[1].answers[1] = FAKE_DONE;
    start_for(&EXTEND);
    CHECK_STATUS(step(), PLOCK_OK);
    plock__call_finish(&call);
    end();
}

static void it_tries_again_while_the_cluster_does_not_serve_the_key(void) {
    begin();
    fake_peers[0].answers[0] = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
    fake_peers[0].answers[1] = "-CLUSTERDOWN Hash slot not served\r\n";
    fake_peers[0].answers[2] = FAKE_DONE;
    start();
    for (int pauses = 0; pauses < 2; pauses++) {
        CHECK_STATUS(step(), PLOCK_AGAIN);
        CHECK(interest.fd == -1 && interest.deadline > plock_now());
        CHECK(!plock__call_left(&call));
        fake_clock_pass(interest.deadline - plock_now());
    }
    CHECK_STATUS(step(), PLOCK_OK);
    plock__call_finish(&call);
    CHECK_INT(fake_connections(), 1);
    end();
}

static const char *say_down(const char *command, unsigned nth) {
    (void)command, (void)nth;
    return "-CLUSTERDOWN The cluster is down\r\n";
}

static void it_gives_up_in_its_time(void) {
    begin();
    fake_redis.says = say_down;
    const plock_ns began = plock_now();
    start();
    plock_status status;
    while ((status = step()) == PLOCK_AGAIN) fake_clock_pass(interest.deadline - plock_now());
    CHECK_STATUS(status, PLOCK_CLUSTERDOWN);
    CHECK(plock_now() - began <= PLOCK_SECOND);
    CHECK_HAS(error.message, "redis+cluster://127.0.0.1:7000: the cluster does not serve the key");
    plock__call_cancel(&call, NULL);
    end();
}

/* Each of the two nodes sends the call to the other node. */
static void nodes_that_disagree_do_not_keep_it_forever(void) {
    begin();
    for (int i = 0; i < FAKE_ANSWERS; i++) {
        fake_peers[0].answers[i] = "-MOVED " SLOT_OF_K " 127.0.0.1:7001\r\n";
        fake_peers[1].answers[i] = "-MOVED " SLOT_OF_K " 127.0.0.1:7000\r\n";
    }
    start();
    CHECK_STATUS(step(), PLOCK_AGAIN);
    CHECK(fake_peers[0].command_count + fake_peers[1].command_count < 12);
    fake_clock_pass(PLOCK_SECOND);
    CHECK_STATUS(step(), PLOCK_CLUSTERDOWN);
    CHECK_HAS(error.message, "moving");
    end();
}

static void an_answer_that_leads_nowhere_is_tried_again(void) {
    static const char *const ANSWERS[] = {
        "-MOVED\r\n",      "-MOVED 1\r\n",        "-MOVED 99999 h:1\r\n", "-MOVED x h:1\r\n",
        "-MOVED 1 h\r\n",  "-MOVED 1 h:0\r\n",    "-MOVED 1 h:x\r\n",     "-MOVED 1 h:99999\r\n",
        "-ASK -1 h:1\r\n", "-MOVED 1 a b:1x\r\n", "-MOVED 1 h:+1\r\n",
    };
    for (unsigned i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        begin();
        fake_peers[0].answers[0] = ANSWERS[i];
        fake_peers[0].answers[1] = FAKE_DONE;
        start();
        CHECK_STATUS(step(), PLOCK_AGAIN);
        CHECK_INT(store->routes->count, 3);
        fake_clock_pass(interest.deadline - plock_now());
        CHECK_STATUS(step(), PLOCK_OK);
        plock__call_finish(&call);
        end();
    }
}

static void keys_that_would_be_apart_are_refused_unsent(void) {
    static const plock_request BRACES = {
        .script = PLOCK__RELEASE, .keys = 1, .arguments = 1, .texts = {{"{k}b", 4}, {"me", 2}}};
    static const plock_text TEXTS[] = {{"k", 1}, {"l", 1}, {"", 0}, {"", 0}, {"me", 2}, {"me", 2}};
    static const plock_request TWO = {
        .script = PLOCK__RELEASE_ALL, .keys = 2, .arguments = 4, .list = TEXTS};
    begin();
    start_for(&BRACES);
    CHECK_STATUS(step(), PLOCK_CROSSSLOT);
    CHECK_HAS(error.message, "begins with a brace");
    start_for(&TWO);
    CHECK_STATUS(step(), PLOCK_CROSSSLOT);
    CHECK(!plock__call_left(&call));
    CHECK_INT(fake_connections(), 0);
    end();
}

/* While a slot moves, some of its keys are on one node, and the rest on another node. */
static void several_keys_that_are_split_are_asked_for_one_by_one(void) {
    static const plock_text TEXTS[] = {{"{k}1", 4}, {"{k}2", 4}, {"", 0},
                                       {"", 0},     {"me", 2},   {"me", 2}};
    plock_request two = {.script = PLOCK__NOTE, .keys = 2, .arguments = 4, .list = TEXTS};
    begin();
    fake_peers[0].answers[0] = "-TRYAGAIN x\r\n";
    start_for(&two);
    CHECK_STATUS(step(), PLOCK_CROSSSLOT);
    end();
}

static void without_a_map_it_waits_for_one_and_tells_why_there_is_none(void) {
    begin();
    atomic_store(&store->routes->mapped, false);
    for (unsigned slot = 0; slot < PLOCK__SLOTS; slot++)
        atomic_store(&store->routes->slots[slot], NULL);
    start();
    plock_status status;
    while ((status = step()) == PLOCK_AGAIN) (void)plock_await(&interest, NULL);
    CHECK_STATUS(status, PLOCK_CONNECT);
    CHECK_HAS(error.message, "redis+cluster://127.0.0.1:1: the node 127.0.0.1:");
    plock__call_cancel(&call, NULL);
    end();
}

/* Without a descriptor, no event could end the wait, so it would last until its deadline. */
static void without_a_descriptor_it_does_not_wait_for_a_map(void) {
    struct rlimit limit, none;
    begin();
    atomic_store(&store->routes->mapped, false);
    atomic_store(&store->routes->slots[plock__slot(plock__text("k", 1))], NULL);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = limit;
    none.rlim_cur = 3;
    start();
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    const plock_status status = step();
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK_STATUS(status, PLOCK_DESCRIPTORS);
    CHECK(!store->routes->running);
    plock__call_cancel(&call, NULL);
    end();
}

/* Another server may have the node's address now, so the map may be out of date. */
static void a_node_that_refuses_us_makes_the_map_doubtful(void) {
    for (int greets = 0; greets < 2; greets++) {
        begin();
        if (greets) {
            fake_peers[0].silent_greeting = true;
            fake_peers[0].answers[0] = "-NOAUTH Authentication required.\r\n";
        } else {
            fake_peers[0].connect_failure = PLOCK_TLS_VERIFY;
        }
        start();
        CHECK_STATUS(step(), greets ? PLOCK_NOAUTH : PLOCK_TLS_VERIFY);
        CHECK(store->routes->loaded_at != 0);
        end();
    }
}

/* A scan visits the nodes in order. Another node may now have the first node's place in that order.
 * The first node's cursor means nothing to that node, so the scan must begin there without a
 * cursor. */
static void a_scan_goes_on_at_the_beginning_of_another_primary(void) {
    static const int64_t SOMEWHERE = 7;
    char second[24];
    plock_query *query;
    begin();
    move_k(nodes[1]);
    CHECK_STATUS(plock_query_new(&query, store, "plock:v1:*", 10, false), PLOCK_OK);
    fake_peers[0].connect_failure = PLOCK_CONNECT;
    fake_peers[1].answers[0] = "*2\r\n$1\r\n0\r\n$1\r\nz\r\n";
    fake_peers[1].answers[1] = "*2\r\n$1\r\n0\r\n$1\r\na\r\n";
    plock_query_scan(query, SOMEWHERE); /* the scan is at the first node */
    CHECK_STATUS(plock_query_step(query, &interest), PLOCK_AGAIN);
    for (unsigned slot = 0; slot < PLOCK__SLOTS; slot++) plock__routes_move(store, slot, nodes[1]);
    fake_clock_pass(interest.deadline - plock_now());
    CHECK_STATUS(plock_query_step(query, &interest), PLOCK_OK);
    CHECK_INT(plock_query_parts(query), 1);
    size_t length = 0;
    const char *text = plock_query_text(query, 0, &length);
    (void)snprintf(second, sizeof second, "%lld", (long long)INT64_C(1) << 48);
    CHECK(text && length == strlen(second) && !memcmp(text, second, length));
    plock_query_scan(query, INT64_C(1) << 48);
    CHECK_STATUS(plock_query_step(query, &interest), PLOCK_OK);
    CHECK_INT(plock_query_parts(query), 2);
    plock_query_free(query);
    end();
}

static void a_slot_that_no_node_serves_is_waited_for(void) {
    begin();
    atomic_store(&store->routes->slots[plock__slot(plock__text("k", 1))], NULL);
    fake_peers[0].answers[0] = FAKE_DONE;
    start();
    CHECK_STATUS(step(), PLOCK_AGAIN);
    CHECK_INT(call.state, PLOCK__PAUSING);
    move_k(nodes[1]);
    fake_clock_pass(interest.deadline - plock_now());
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK(call.node == nodes[1]);
    plock__call_finish(&call);
    end();
}

static void a_cancelled_wait_for_the_map_leaves_nothing_behind(void) {
    begin();
    atomic_store(&store->routes->mapped, false);
    atomic_store(&store->routes->slots[plock__slot(plock__text("k", 1))], NULL);
    start();
    (void)step();
    plock__call_cancel(&call, &RELEASE);
    CHECK_INT(call.state, PLOCK__CALL_NONE);
    end();
}

static plock_status run_to_its_end(void) {
    plock_status status;
    while ((status = step()) == PLOCK_AGAIN && call.state == PLOCK__PAUSING)
        fake_clock_pass(interest.deadline - plock_now());
    return status;
}

/* Adds `more` to the store's count of references. A negative number takes references away. */
static void count_references(int more) {
    plock__enter();
    store->references += (unsigned)more;
    plock__leave();
}

/* The last reference is gone, but the thread that loads the map does not know that yet. */
static void a_load_that_ends_does_not_bring_its_store_back(void) {
    for (int i = 0; i < 20; i++) {
        begin();
        atomic_store(&store->routes->mapped, false);
        atomic_store(&store->routes->slots[plock__slot(plock__text("k", 1))], NULL);
        start();
        plock_status status = step();
        count_references(-1);
        while (status == PLOCK_AGAIN) {
            (void)plock_await(&interest, NULL);
            status = step();
        }
        CHECK_STATUS(status, PLOCK_CONNECT);
        CHECK_INT(store->references, 0);
        count_references(1);
        plock__call_cancel(&call, NULL);
        end();
    }
}

static void each_allocation_may_fail(void) {
    for (unsigned long n = 1;; n++) {
        begin();
        fake_peers[0].answers[0] = "-MOVED " SLOT_OF_K " 127.0.0.1:7009\r\n";
        /* the first node is asked again if there is not enough memory for the new node */
        fake_peers[0].answers[1] = FAKE_DONE;
        fake_peers[1].answers[0] = FAKE_DONE;
        (void)plock__fail_allocation(n);
        start();
        const plock_status status = run_to_its_end();
        const unsigned long made = plock__fail_allocation(0);
        CHECK(status == PLOCK_OK || status == PLOCK_NO_MEMORY);
        if (!status)
            plock__call_finish(&call);
        else
            plock__call_cancel(&call, NULL);
        end();
        if (made < n) return;
    }
}

int main(void) {
    RUN(a_call_goes_to_the_node_of_its_slot);
    RUN(it_follows_to_the_node_that_has_the_slot_now);
    RUN(a_node_that_is_new_is_made);
    RUN(a_node_that_a_closed_store_meets_keeps_no_connection);
    RUN(a_host_that_is_not_named_is_the_one_that_was_asked);
    RUN(only_this_request_follows_an_ask);
    RUN(it_says_asking_again_after_loading_the_script);
    RUN(the_undo_goes_where_the_request_went);
    RUN(a_request_that_was_sent_elsewhere_has_not_been_carried_out);
    RUN(what_it_grants_counts_as_lost);
    RUN(what_it_releases_is_released);
    RUN(it_is_not_asked_if_that_was_while_connecting);
    RUN(it_may_grant_what_is_just_moving);
    RUN(it_tries_again_while_the_cluster_does_not_serve_the_key);
    RUN(it_gives_up_in_its_time);
    RUN(nodes_that_disagree_do_not_keep_it_forever);
    RUN(an_answer_that_leads_nowhere_is_tried_again);
    RUN(keys_that_would_be_apart_are_refused_unsent);
    RUN(several_keys_that_are_split_are_asked_for_one_by_one);
    RUN(without_a_map_it_waits_for_one_and_tells_why_there_is_none);
    RUN(without_a_descriptor_it_does_not_wait_for_a_map);
    RUN(a_node_that_refuses_us_makes_the_map_doubtful);
    RUN(a_scan_goes_on_at_the_beginning_of_another_primary);
    RUN(a_slot_that_no_node_serves_is_waited_for);
    RUN(a_cancelled_wait_for_the_map_leaves_nothing_behind);
    RUN(a_load_that_ends_does_not_bring_its_store_back);
    RUN(each_allocation_may_fail);
    return test_end("redirect");
}
