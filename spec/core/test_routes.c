/* Reloading the map of a cluster. When the map is in doubt, the store loads a new one. A map that
 * was requested before the doubt does not count as new. */
#include "fake.h"
#include "loopback.h"
#include "test.h"

#include "base/process.h"
#include "plock/query.h"
#include "redis/routes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GREETING "*4\r\n$5\r\nproto\r\n:2\r\n$4\r\nmode\r\n$7\r\ncluster\r\n+OK\r\n"

static int listener;
static pthread_t thread;
static pthread_barrier_t before_answer;
static atomic_bool waits; /* whether the node waits before it answers */
static atomic_int answers;
static plock_store *store;

/* Each answer names a different node as the owner of all slots: first port 7000, then 7001, … */
static void answer(int peer) {
    char bytes[1024], map[256];
    const ssize_t got = read(peer, bytes, sizeof bytes);
    if (got <= 0 || write(peer, GREETING, sizeof GREETING - 1) <= 0) return;
    if (read(peer, bytes, sizeof bytes) <= 0) return;
    const int port = 7000 + atomic_fetch_add(&answers, 1);
    if (atomic_load(&waits))
        for (int i = 0; i < 2; i++) (void)pthread_barrier_wait(&before_answer);
    const int length = snprintf(map, sizeof map,
                                "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:%d\r\n"
                                "$2\r\nid\r\n",
                                port);
    CHECK(write(peer, map, (size_t)length) == length);
    while (read(peer, bytes, sizeof bytes) > 0) continue;
}

static void *serve(void *argument) {
    int peer;
    (void)argument;
    while ((peer = accept(listener, NULL, NULL)) >= 0) {
        answer(peer);
        (void)close(peer);
    }
    return NULL;
}

static void begin(bool waits_to_answer) {
    char port[LOOPBACK_PORT_ROOM], url[64];
    plock_config *config;
    plock_error error;
    listener = loopback_listen("127.0.0.1", 4, port);
    atomic_store(&answers, 0);
    atomic_store(&waits, waits_to_answer);
    CHECK(pthread_barrier_init(&before_answer, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, serve, NULL) == 0);
    (void)snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%s?connect_timeout=5", port);
    CHECK_STATUS(plock_config_new(&config, url, &error), PLOCK_OK);
    CHECK_STATUS(plock_store_open(&store, config, &error), PLOCK_OK);
}

static void end(void) {
    if (store) plock_store_close(store);
    fake_settle();
    (void)shutdown(listener, SHUT_RDWR);
    CHECK(pthread_join(thread, NULL) == 0);
    (void)close(listener);
    CHECK(pthread_barrier_destroy(&before_answer) == 0);
}

static void doubt(void) {
    plock__begin_step();
    plock__routes_doubt(store);
    plock__end_step();
}

static bool key_goes_to(const char *key, const char *port) {
    const plock_node *node = plock__store_node(store, plock__text(key, strlen(key)));
    return !strcmp(node->name.port, port);
}

static bool key_goes_to_soon(const char *key, const char *port) {
    unsigned rounds = 0;
    while (!key_goes_to(key, port) && test_patient(&rounds)) continue;
    return key_goes_to(key, port);
}

static bool goes_to(const char *port) { return key_goes_to("k", port); }

static bool goes_to_soon(const char *port) { return key_goes_to_soon("k", port); }

/* Waits until no load is running. A new map is in use a moment before its load has ended. */
static bool no_load_runs_soon(void) {
    bool runs;
    unsigned rounds = 0;
    do {
        plock__enter();
        runs = store->routes->running;
        plock__leave();
    } while (runs && test_patient(&rounds));
    return !runs;
}

static void a_doubt_just_after_a_load_leads_to_another(void) {
    begin(false);
    doubt();
    CHECK(goes_to_soon("7000"));
    doubt();
    CHECK(goes_to_soon("7001"));
    CHECK_INT(atomic_load(&answers), 2);
    end();
}

/* The node may have read its map before the second doubt. So its answer does not count, and another
 * load follows. */
static void a_doubt_during_a_load_leads_to_another(void) {
    begin(true);
    doubt();
    (void)pthread_barrier_wait(&before_answer); /* the node has received the request */
    for (int i = 0; i < 5; i++) doubt();
    atomic_store(&waits, false);
    (void)pthread_barrier_wait(&before_answer);
    CHECK(goes_to_soon("7001"));
    CHECK_INT(atomic_load(&answers), 2);
    end();
}

static void a_doubt_before_a_load_has_begun_is_covered_by_it(void) {
    begin(false);
    doubt();
    CHECK(goes_to_soon("7000"));
    /* the load begins a moment after the first doubt, so it covers all five */
    for (int i = 0; i < 5; i++) doubt();
    CHECK(goes_to_soon("7001"));
    CHECK_INT(atomic_load(&answers), 2);
    end();
}

static plock_node *move(const char *key, const char *port) {
    plock_node_name name = {.host = "127.0.0.1"};
    (void)snprintf(name.port, sizeof name.port, "%s", port);
    plock__begin_step();
    plock_node *node = plock__routes_node(store, &name);
    plock__routes_move(store, plock__slot(plock__text(key, strlen(key))), node);
    plock__end_step();
    return node;
}

/* The node that sends its map may not know of the move yet. So its map does not change a route that
 * has just moved. */
static void a_map_leaves_a_route_that_moved_lately(void) {
    begin(false);
    doubt();
    CHECK(goes_to_soon("7000"));
    (void)move("k", "6999");
    doubt();
    CHECK(key_goes_to_soon("another", "7001"));
    CHECK(goes_to("6999"));
    plock__enter();
    store->routes->moved_at[plock__slot(plock__text("k", 1))] -= 2 * PLOCK_SECOND;
    plock__leave();
    doubt();
    CHECK(goes_to_soon("7002"));
    end();
}

static void a_map_counts_if_the_node_of_a_move_is_distrusted(void) {
    begin(false);
    doubt();
    CHECK(goes_to_soon("7000"));
    plock_node *node = move("k", "6999");
    (void)move("another", "6998");
    plock__begin_step();
    plock__routes_distrust(node);
    plock__end_step();
    CHECK(goes_to_soon("7001"));
    CHECK(key_goes_to("another", "6998"));
    end();
}

/* A node that has lost its slots still answers a scan. So the scan needs a fresh map. */
static void a_scan_begins_by_a_fresh_map(void) {
    plock_query *query;
    plock_interest interest;
    begin(false);
    doubt();
    CHECK(goes_to_soon("7000"));
    CHECK(no_load_runs_soon()); /* otherwise the scan would join a load that is still running */
    plock__enter();
    store->routes->loaded_at -= PLOCK_SECOND;
    plock__leave();
    atomic_store(&waits, true);
    CHECK_STATUS(plock_query_new(&query, store, "plock:v1:*", 10, false), PLOCK_OK);
    plock_query_scan(query, 0);
    CHECK_STATUS(plock_query_step(query, &interest), PLOCK_AGAIN);
    (void)pthread_barrier_wait(&before_answer); /* a node has received the request for the map */
    CHECK_STATUS(plock_query_step(query, &interest), PLOCK_AGAIN);
    CHECK_TEXT(plock_query_error(query)->message, ""); /* the scan has not been sent to 7000 */
    atomic_store(&waits, false);
    (void)pthread_barrier_wait(&before_answer);
    CHECK_STATUS(plock_wait_poll(NULL, &interest), PLOCK_OK);
    CHECK(goes_to("7001"));
    plock_query_free(query);
    end();
}

static void a_store_may_be_closed_before_a_load_has_begun(void) {
    begin(false);
    doubt();
    CHECK(goes_to_soon("7000"));
    doubt();
    plock_store_close(store);
    store = NULL;
    end();
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(a_doubt_just_after_a_load_leads_to_another);
    RUN(a_doubt_during_a_load_leads_to_another);
    RUN(a_doubt_before_a_load_has_begun_is_covered_by_it);
    RUN(a_map_leaves_a_route_that_moved_lately);
    RUN(a_map_counts_if_the_node_of_a_move_is_distrusted);
    RUN(a_scan_begins_by_a_fresh_map);
    RUN(a_store_may_be_closed_before_a_load_has_begun);
    return test_end("routes");
}
