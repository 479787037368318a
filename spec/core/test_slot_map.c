/* Asking a cluster's nodes for the map: nodes that answer, are silent, do not exist, or belong to
 * no cluster. */
#include "fake.h"
#include "loopback.h"
#include "test.h"

#include "base/memory.h"
#include "net/slot_map.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO(mode) "*4\r\n$5\r\nproto\r\n:2\r\n$4\r\nmode\r\n" mode "\r\n+OK\r\n"
#define CLUSTER     HELLO("$7\r\ncluster")
#define ID          "$2\r\nid\r\n"
#define HOST        "$9\r\n127.0.0.1\r\n"
#define MAP                                                                                        \
    "*2\r\n*4\r\n:0\r\n:8191\r\n*3\r\n" HOST ":7000\r\n" ID "*3\r\n" HOST ":7003\r\n" ID           \
    "*3\r\n:8192\r\n:16383\r\n*4\r\n" HOST ":7001\r\n" ID "*2\r\n$8\r\nhostname\r\n$1\r\nh\r\n"

/* A node that accepts one connection. It answers the greeting, and then the question. */
typedef struct node {
    const char *greeting; /* NULL: the node never answers; "": the node does not exist */
    const char *answer;
    int listener;
    pthread_t thread;
} node;

enum { MOST = 3 };
static node servers[MOST];
static plock_node_name names[MOST];
static plock_config *config;
static plock_slot_map *map;
static plock_error error, so_far;
static int descriptors;

static void *serve(void *argument) {
    const node *s = argument;
    char bytes[1024];
    const int peer = accept(s->listener, NULL, NULL);
    if (peer < 0) return NULL;
    if (s->greeting && read(peer, bytes, sizeof bytes) > 0) {
        CHECK(write(peer, s->greeting, strlen(s->greeting)) > 0);
        if (read(peer, bytes, sizeof bytes) > 0 && s->answer)
            CHECK(write(peer, s->answer, strlen(s->answer)) > 0);
    }
    while (read(peer, bytes, sizeof bytes) > 0) continue;
    (void)close(peer);
    return NULL;
}

static void begin(const char *url) {
    descriptors = test_open_descriptors();
    for (int i = 0; i < MOST; i++) {
        char port[LOOPBACK_PORT_ROOM];
        servers[i].listener = loopback_listen("127.0.0.1", 4, port);
        CHECK(plock__name_node(&names[i], plock__text("127.0.0.1", 9), strtol(port, NULL, 10)));
        if (servers[i].greeting && !*servers[i].greeting) {
            (void)close(servers[i].listener);
            servers[i].listener = -1;
        } else {
            CHECK(pthread_create(&servers[i].thread, NULL, serve, &servers[i]) == 0);
        }
    }
    CHECK_STATUS(plock_config_new(&config, url, &error), PLOCK_OK);
    map = plock__allocate(sizeof *map);
    error = so_far = (plock_error){PLOCK_OK, ""};
}

static void end(void) {
    for (int i = 0; i < MOST; i++) {
        if (servers[i].listener < 0) continue;
        (void)shutdown(servers[i].listener, SHUT_RDWR);
        CHECK(pthread_join(servers[i].thread, NULL) == 0);
        (void)close(servers[i].listener);
    }
    plock__free(map);
    plock_config_free(config);
    fake_settle();
    CHECK_DESCRIPTORS(descriptors);
}

static plock_status ask(const char *timeout, node one, node two, node three) {
    char url[64];
    servers[0] = one;
    servers[1] = two;
    servers[2] = three;
    (void)snprintf(url, sizeof url, "redis+cluster://h?connect_timeout=%s", timeout);
    begin(url);
    return plock__ask_for_slots(config, names, MOST, map, &so_far, &error);
}

static const node KNOWS = {.greeting = CLUSTER, .answer = MAP}, SILENT = {.greeting = NULL},
                  AWAY = {.greeting = ""}, EMPTY = {.greeting = CLUSTER, .answer = "*0\r\n"},
                  HANGS = {.greeting = CLUSTER},
                  REDIS = {.greeting = HELLO("$10\r\nstandalone"),
                           .answer = "-ERR This instance has cluster support disabled\r\n"};

static void check_map(void) {
    CHECK_INT(map->count, 2);
    CHECK_TEXT(map->nodes[0].host, "127.0.0.1");
    CHECK_TEXT(map->nodes[0].port, "7000");
    CHECK_TEXT(map->nodes[1].port, "7001");
    CHECK_INT(map->owners[0], 1);
    CHECK_INT(map->owners[8191], 1);
    CHECK_INT(map->owners[8192], 2);
    CHECK_INT(map->owners[16383], 2);
}

static void any_node_tells_the_map(void) {
    static const node *const GROUPS[][MOST] = {
        {&KNOWS, &KNOWS, &KNOWS}, {&AWAY, &KNOWS, &AWAY},    {&AWAY, &AWAY, &KNOWS},
        {&SILENT, &KNOWS, &AWAY}, {&SILENT, &HANGS, &KNOWS}, {&EMPTY, &REDIS, &KNOWS},
    };
    for (unsigned i = 0; i < sizeof GROUPS / sizeof *GROUPS; i++) {
        const plock_ns began = plock_now();
        CHECK_STATUS(ask("20", *GROUPS[i][0], *GROUPS[i][1], *GROUPS[i][2]), PLOCK_OK);
        CHECK(plock_now() - began < 10 * PLOCK_SECOND); /* the silent nodes are not waited for */
        check_map();
        end();
    }
}

static void none_is_waited_for_longer_than_for_one(void) {
    /* a long timeout, so that even a busy machine needs less than three times the timeout */
    const plock_ns began = plock_now();
    CHECK_STATUS(ask("2", SILENT, HANGS, SILENT), PLOCK_SILENT);
    CHECK_HAS(error.message, "in time");
    CHECK(plock_now() - began < MOST * 2 * PLOCK_SECOND);
    end();
}

static void the_failure_of_one_is_told(void) {
    CHECK_STATUS(ask("5", AWAY, AWAY, AWAY), PLOCK_CONNECT);
    CHECK_HAS(error.message, "the node 127.0.0.1:");
    end();
    CHECK_STATUS(ask("5", EMPTY, EMPTY, EMPTY), PLOCK_CLUSTERDOWN);
    CHECK_HAS(error.message, "no slot");
    end();
    CHECK_STATUS(ask("5", REDIS, REDIS, AWAY), PLOCK_BAD_CONFIG);
    CHECK_HAS(error.message, "stands alone");
    end();
}

/* A later attempt may find the other nodes. */
static void a_mistake_of_one_is_not_final_while_others_are_silent(void) {
    CHECK_STATUS(ask("2", REDIS, SILENT, SILENT), PLOCK_SILENT);
    CHECK_HAS(error.message, "stands alone");
    end();
}

static void a_mistake_of_half_of_them_is_final(void) {
    CHECK_STATUS(ask("2", SILENT, REDIS, REDIS), PLOCK_BAD_CONFIG);
    CHECK_STATUS(so_far.status, PLOCK_BAD_CONFIG);
    CHECK_HAS(so_far.message, "stands alone");
    end();
}

static void a_node_without_a_host_is_where_it_was_asked(void) {
    static const char *const HOSTS[] = {"$-1\r\n", "$0\r\n\r\n", "$1\r\n?\r\n"};
    for (unsigned i = 0; i < sizeof HOSTS / sizeof *HOSTS; i++) {
        char answer[128];
        (void)snprintf(answer, sizeof answer, "*1\r\n*3\r\n:5\r\n:5\r\n*2\r\n%s:7000\r\n",
                       HOSTS[i]);
        const node unnamed = {.greeting = CLUSTER, .answer = answer};
        CHECK_STATUS(ask("20", unnamed, AWAY, AWAY), PLOCK_OK);
        CHECK_TEXT(map->nodes[0].host, "127.0.0.1");
        CHECK_TEXT(map->nodes[0].port, "7000");
        CHECK(map->owners[5] == 1 && map->owners[4] == 0);
        end();
    }
}

static void what_is_no_map_is_refused(void) {
    static const char *const ANSWERS[] = {
        "+OK\r\n",
        ":1\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*0\r\n",
        "*1\r\n*2\r\n:0\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n:2\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*0\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n" HOST,
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n" HOST ":7000\r\n",
        "*1\r\n*3\r\n:-1\r\n:1\r\n*2\r\n" HOST ":7000\r\n",
        "*1\r\n*3\r\n:2\r\n:1\r\n*2\r\n" HOST ":7000\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n" HOST ":0\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n" HOST ":65536\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n:1\r\n:7000\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$3\r\na b\r\n:7000\r\n",
        "*1\r\n*3\r\n$1\r\n0\r\n:1\r\n*2\r\n" HOST ":7000\r\n",
    };
    for (unsigned i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        const node strange = {.greeting = CLUSTER, .answer = ANSWERS[i]};
        if (!CHECK_STATUS(ask("20", strange, AWAY, AWAY), PLOCK_PROTOCOL))
            CHECK_TEXT(ANSWERS[i], "refused");
        CHECK_HAS(error.message, "no cluster gives");
        end();
    }
}

static void an_unfit_name_is_none(void) {
    plock_node_name name;
    char longest[PLOCK__HOST_MAX + 1];
    memset(longest, 'h', sizeof longest);
    CHECK(!plock__name_node(&name, plock__text(longest, PLOCK__HOST_MAX), 1));
    CHECK(plock__name_node(&name, plock__text(longest, PLOCK__HOST_MAX - 1), 65535));
    CHECK_TEXT(name.port, "65535");
    CHECK(!plock__name_node(&name, plock__text("", 0), 1));
    CHECK(!plock__name_node(&name, plock__text("h", 1), 65536));
    CHECK(!plock__name_node(&name, plock__text("h\0h", 3), 1));
}

static void each_allocation_may_fail(void) {
    for (unsigned long n = 1;; n++) {
        servers[0] = servers[1] = servers[2] = KNOWS;
        begin("redis+cluster://h?connect_timeout=20");
        (void)plock__fail_allocation(n);
        const plock_status status = plock__ask_for_slots(config, names, MOST, map, &so_far, &error);
        const bool over = plock__fail_allocation(0) < n;
        CHECK(status == PLOCK_OK || status == PLOCK_NO_MEMORY);
        if (status == PLOCK_OK) check_map();
        end();
        if (over) return;
    }
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(any_node_tells_the_map);
    RUN(none_is_waited_for_longer_than_for_one);
    RUN(the_failure_of_one_is_told);
    RUN(a_mistake_of_one_is_not_final_while_others_are_silent);
    RUN(a_mistake_of_half_of_them_is_final);
    RUN(a_node_without_a_host_is_where_it_was_asked);
    RUN(what_is_no_map_is_refused);
    RUN(an_unfit_name_is_none);
    RUN(each_allocation_may_fail);
    return test_end("slot map");
}
