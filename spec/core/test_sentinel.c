/* Finding a primary through servers that agree, lie, are silent, or are no sentinels. */
#include "fake.h"
#include "loopback.h"
#include "test.h"

#include "base/memory.h"
#include "net/sentinel.h"
#include "runtime/waker.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO(mode) "*4\r\n$5\r\nproto\r\n:2\r\n$4\r\nmode\r\n" mode "\r\n"
#define SENTINEL    HELLO("$8\r\nsentinel")
#define AT(port)    "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n" port "\r\n"
#define BY_NAME     "*2\r\n$9\r\nlocalhost\r\n$4\r\n6379\r\n"
#define UNKNOWN     "*-1\r\n"
#define SETNAME     "+OK\r\n"

/* A sentinel that accepts one connection. It answers the greeting, and then the question. */
typedef struct sentinel {
    const char *greeting; /* NULL: the sentinel never answers */
    const char *answer;
    pthread_barrier_t *before_answer; /* NULL: the sentinel answers at once */
    int milliseconds;                 /* how long it waits before it answers */
    int listener;
    pthread_t thread;
} sentinel;

enum { MOST = 3 };
static sentinel sentinels[MOST];
static plock_config *config;
static plock_addresses known, found;
static plock_error error, so_far;
static int descriptors;

static void *serve(void *argument) {
    const sentinel *s = argument;
    char bytes[1024];
    const int peer = accept(s->listener, NULL, NULL);
    if (peer < 0) return NULL;
    if (s->greeting && read(peer, bytes, sizeof bytes) > 0) {
        CHECK(write(peer, s->greeting, strlen(s->greeting)) > 0);
        if (read(peer, bytes, sizeof bytes) > 0 && s->answer) {
            if (s->before_answer) (void)pthread_barrier_wait(s->before_answer);
            (void)poll(NULL, 0, s->milliseconds);
            CHECK(write(peer, s->answer, strlen(s->answer)) > 0);
        }
    }
    while (read(peer, bytes, sizeof bytes) > 0) continue;
    (void)close(peer);
    return NULL;
}

/* A sentinel with the greeting "" does not exist. */
static void begin(const char *options) {
    char url[256] = "redis+sentinel://";
    descriptors = test_open_descriptors();
    for (int i = 0; i < MOST; i++) {
        sentinel *s = &sentinels[i];
        char place[32], port[LOOPBACK_PORT_ROOM];
        s->listener = loopback_listen("127.0.0.1", 4, port);
        (void)snprintf(place, sizeof place, "%s127.0.0.1:%s", i ? "," : "", port);
        (void)strcat(url, place);
        if (s->greeting && !*s->greeting) {
            (void)close(s->listener);
            s->listener = -1;
        } else {
            CHECK(pthread_create(&s->thread, NULL, serve, s) == 0);
        }
    }
    (void)strcat(url, "/main?connect_timeout=5");
    (void)strcat(url, options);
    CHECK_STATUS(plock_config_new(&config, url, &error), PLOCK_OK);
    CHECK_STATUS(plock__config_check(config, &error), PLOCK_OK);
}

static void end_servers(void) {
    for (int i = 0; i < MOST; i++) {
        if (sentinels[i].listener < 0) continue;
        (void)shutdown(sentinels[i].listener, SHUT_RDWR);
        CHECK(pthread_join(sentinels[i].thread, NULL) == 0);
        (void)close(sentinels[i].listener);
    }
    plock_config_free(config);
}

static void end(void) {
    end_servers();
    fake_settle();
    CHECK_DESCRIPTORS(descriptors);
}

static plock_status find(const char *options, sentinel one, sentinel two, sentinel three) {
    sentinels[0] = one;
    sentinels[1] = two;
    sentinels[2] = three;
    found = (plock_addresses){0};
    so_far = (plock_error){.status = PLOCK_OK};
    begin(options);
    const plock_status status = plock__find_primary(config, &known, &found, &so_far, &error);
    return status;
}

static const sentinel KNOWS = {.greeting = SENTINEL SETNAME, .answer = AT("6379")},
                      LIES = {.greeting = SENTINEL SETNAME, .answer = AT("6666")},
                      IGNORANT = {.greeting = SENTINEL SETNAME, .answer = UNKNOWN},
                      SILENT = {.greeting = NULL}, AWAY = {.greeting = ""},
                      REDIS = {.greeting = HELLO("$10\r\nstandalone") SETNAME,
                               .answer = "-ERR\r\n"},
                      NAMES = {.greeting = SENTINEL SETNAME, .answer = BY_NAME};

static void check_found(const char *port) {
    const struct sockaddr_in *place = (const struct sockaddr_in *)(const void *)&found.list[0];
    CHECK_INT(found.count, 1);
    CHECK_TEXT(found.host, "127.0.0.1");
    CHECK_TEXT(found.port, port);
    char number[8];
    (void)snprintf(number, sizeof number, "%u", ntohs(place->sin_port));
    CHECK_TEXT(number, port);
}

static void the_address_that_they_name_is_found(void) {
    CHECK_STATUS(find("", KNOWS, KNOWS, KNOWS), PLOCK_OK);
    check_found("6379");
    end();
}

/* The liar answers first. The other sentinels answer only after that. */
static void most_of_them_decide(void) {
    pthread_barrier_t together;
    CHECK(pthread_barrier_init(&together, NULL, 2) == 0);
    sentinel late = KNOWS;
    late.before_answer = &together;
    CHECK_STATUS(find("", LIES, late, late), PLOCK_OK);
    check_found("6379");
    end();
    (void)pthread_barrier_destroy(&together);
}

/* --- when a primary is known --- */

static void know(const char *port) {
    known = (plock_addresses){.host = "127.0.0.1"};
    (void)snprintf(known.port, sizeof known.port, "%s", port);
    CHECK(plock__read_literal(known.host, known.port, &known));
}

static void know_none(void) { known = (plock_addresses){0}; }

/* The liar answers at once. The others answer only after the search's first, short wait for
 * them. */
static void a_slow_majority_keeps_the_known_primary(void) {
    sentinel late = KNOWS;
    late.milliseconds = 300;
    know("6379");
    CHECK_STATUS(find("", LIES, late, late), PLOCK_OK);
    check_found("6379");
    end();
    know_none();
}

/* Only one sentinel answers, and it names a primary that is not the known one. The search waits for
 * the others for half of its time. The rest of the time is enough to resolve a name and to
 * connect. */
static void another_primary_that_few_name_is_found_in_half_of_the_time(void) {
    know("6379");
    plock_ns before = plock_now();
    CHECK_STATUS(find("&connect_timeout=2", SILENT, LIES, SILENT), PLOCK_OK);
    CHECK(plock_now() - before >= PLOCK_SECOND && plock_now() - before < 2 * PLOCK_SECOND);
    check_found("6666");
    end();
    know("6666");
    CHECK_STATUS(find("&connect_timeout=2", SILENT, NAMES, SILENT), PLOCK_OK);
    CHECK_TEXT(found.host, "localhost");
    CHECK(found.count > 0);
    end();
    know_none();
}

static void a_name_of_the_known_primary_is_not_another_one(void) {
    know("6379");
    const plock_ns before = plock_now();
    CHECK_STATUS(find("", SILENT, NAMES, KNOWS), PLOCK_OK);
    CHECK(plock_now() - before < 2 * PLOCK_SECOND); /* connect_timeout is 5 s */
    CHECK_TEXT(found.host, "localhost");
    end();
    know_none();
}

/* If no two sentinels agree, the first one in the URL decides. Here two of them name the same
 * server, one by its name and one by its address. */
static void several_names_of_one_server_count_together(void) {
    CHECK_STATUS(find("", LIES, NAMES, KNOWS), PLOCK_OK);
    CHECK_TEXT(found.host, "localhost");
    CHECK_TEXT(found.port, "6379");
    end();
}

/* --- servers that sentinels name --- */

static sentinel servers[2];
static char answers[2][64];

/* Starts a server, and makes the answer with which a sentinel names that server. */
static void begin_server(int number, const char *greeting) {
    sentinel *s = &servers[number];
    char port[LOOPBACK_PORT_ROOM];
    *s = (sentinel){.greeting = greeting, .listener = loopback_listen("127.0.0.1", 4, port)};
    (void)snprintf(answers[number], sizeof answers[number],
                   "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(port), port);
    CHECK(pthread_create(&s->thread, NULL, serve, s) == 0);
}

static const char *end_server(int number) {
    (void)shutdown(servers[number].listener, SHUT_RDWR);
    CHECK(pthread_join(servers[number].thread, NULL) == 0);
    (void)close(servers[number].listener);
    return strrchr(answers[number], '$') + 4;
}

#define STANDALONE HELLO("$10\r\nstandalone") SETNAME
#define PRIMARY    STANDALONE "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
#define REPLICA    STANDALONE "*5\r\n$5\r\nslave\r\n$1\r\nh\r\n:1\r\n$4\r\nsync\r\n:0\r\n"

/* One sentinel names the first server, and another sentinel names the second server. `first` and
 * `second` are the greetings of the two servers. Returns the number of the server that was
 * found. */
static int found_beside(sentinel third, const char *first, const char *second) {
    const int before = test_open_descriptors();
    begin_server(0, first);
    begin_server(1, second);
    const sentinel one = {.greeting = SENTINEL SETNAME, .answer = answers[0]},
                   two = {.greeting = SENTINEL SETNAME, .answer = answers[1]};
    CHECK_STATUS(find("", one, two, third), PLOCK_OK);
    end_servers();
    char port[8];
    (void)snprintf(port, sizeof port, "%s\r\n", found.port);
    const bool is_first = !strcmp(end_server(0), port), is_second = !strcmp(end_server(1), port);
    CHECK(is_first != is_second);
    fake_settle();
    CHECK_DESCRIPTORS(before);
    return is_first ? 0 : 1;
}

static int found_of(const char *first, const char *second) {
    return found_beside(AWAY, first, second);
}

static void if_they_are_tied_the_first_that_is_a_primary_is_found(void) {
    CHECK_INT(found_of(PRIMARY, REPLICA), 0);
    CHECK_INT(found_of(REPLICA, PRIMARY), 1);
    CHECK_INT(found_of(PRIMARY, PRIMARY), 0);
    CHECK_INT(found_of(NULL, PRIMARY), 1); /* the first server does not answer */
    CHECK_INT(found_of("-ERR x\r\n", PRIMARY), 1);
    CHECK_INT(found_of(REPLICA, REPLICA), 0); /* a connection to it will fail, and say why */
    know("6379");
    /* found after a wait for the third sentinel */
    CHECK_INT(found_beside(SILENT, REPLICA, PRIMARY), 1);
    know_none();
}

static void one_is_enough_if_the_others_are_away_or_silent(void) {
    CHECK_STATUS(find("", AWAY, SILENT, KNOWS), PLOCK_OK);
    check_found("6379");
    end();
    CHECK_STATUS(find("", AWAY, AWAY, KNOWS), PLOCK_OK);
    check_found("6379");
    end();
    CHECK_STATUS(find("", IGNORANT, REDIS, KNOWS), PLOCK_OK);
    check_found("6379");
    end();
}

static void a_name_that_none_of_them_knows_is_a_mistake(void) {
    CHECK_STATUS(find("", IGNORANT, AWAY, IGNORANT), PLOCK_BAD_CONFIG);
    CHECK_HAS(error.message, "no primary named main");
    end();
}

static void what_is_no_sentinel_is_named(void) {
    CHECK_STATUS(find("", AWAY, REDIS, AWAY), PLOCK_BAD_CONFIG);
    CHECK_HAS(error.message, "the sentinel 127.0.0.1:");
    CHECK_HAS(error.message, "a Redis server and no sentinel");
    end();
}

/* The other sentinels may name the primary at the next attempt. */
static void a_mistake_of_one_is_not_final_while_others_are_silent(void) {
    CHECK_STATUS(find("&connect_timeout=0.5", REDIS, SILENT, AWAY), PLOCK_SILENT);
    CHECK_HAS(error.message, "a Redis server and no sentinel");
    end();
}

static void a_mistake_of_half_of_them_is_final(void) {
    CHECK_STATUS(find("&connect_timeout=0.5", SILENT, REDIS, REDIS), PLOCK_BAD_CONFIG);
    CHECK_HAS(error.message, "a Redis server and no sentinel");
    end();
}

/* so_far has the error for callers whose time ends before the search does. */
static void what_is_known_so_far_is_told(void) {
    CHECK_STATUS(find("&connect_timeout=0.5", SILENT, IGNORANT, IGNORANT), PLOCK_BAD_CONFIG);
    CHECK_STATUS(so_far.status, PLOCK_BAD_CONFIG);
    CHECK_HAS(so_far.message, "no primary named main");
    end();
    CHECK_STATUS(find("&connect_timeout=0.5", SILENT, REDIS, AWAY), PLOCK_SILENT);
    CHECK_STATUS(so_far.status, PLOCK_SILENT);
    CHECK_HAS(so_far.message, "a Redis server and no sentinel");
    end();
    CHECK_STATUS(find("", KNOWS, KNOWS, KNOWS), PLOCK_OK);
    end();
}

static void a_refused_password_is_told(void) {
    const sentinel refuses = {.greeting = "-WRONGPASS no\r\n" SENTINEL SETNAME};
    CHECK_STATUS(find("&sentinel_password=x", AWAY, refuses, AWAY), PLOCK_WRONGPASS);
    end();
    const sentinel demands = {.greeting = "-NOAUTH Authentication required.\r\n-NOAUTH\r\n"};
    CHECK_STATUS(find("", AWAY, demands, AWAY), PLOCK_NOAUTH);
    end();
}

static void none_that_answers_is_told_in_time(void) {
    CHECK_STATUS(find("", AWAY, AWAY, AWAY), PLOCK_CONNECT);
    CHECK_HAS(error.message, "the sentinel 127.0.0.1:");
    end();
    /* a long timeout, so that even a busy machine needs less than three times the timeout */
    const plock_ns before = plock_now();
    CHECK_STATUS(find("&connect_timeout=2", SILENT, SILENT, SILENT), PLOCK_SILENT);
    CHECK(plock_now() - before < 3 * 2 * PLOCK_SECOND);
    CHECK_HAS(error.message, "none of the sentinels that were asked answered in time");
    end();
}

static void an_answer_in_another_form_is_refused(void) {
    static const char *const ANSWERS[] = {"+OK\r\n",
                                          ":1\r\n",
                                          "*0\r\n",
                                          "*2\r\n:1\r\n:2\r\n",
                                          "*2\r\n$1\r\nh\r\n$6\r\n123456\r\n",
                                          "*1\r\n$1\r\nh\r\n"};
    for (unsigned i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        const sentinel odd = {.greeting = SENTINEL SETNAME, .answer = ANSWERS[i]};
        CHECK_STATUS(find("", AWAY, odd, AWAY), PLOCK_PROTOCOL);
        end();
    }
}

/* The resolver searches on its own thread, and remembers the result. */
static plock_status resolve_with(plock_resolver *resolver) {
    plock_lookup *lookup = NULL;
    plock_interest interest;
    plock_status status;
    found = (plock_addresses){0};
    do {
        interest = (plock_interest){.fd = -1, .deadline = plock_now() + PLOCK_SECOND};
        status = plock__resolve(resolver, &lookup, &found, &interest, &error);
    } while (status == PLOCK_AGAIN && plock_wait_poll(NULL, &interest) == PLOCK_OK);
    return status;
}

static void a_resolver_finds_it_too(void) {
    sentinels[0] = sentinels[1] = sentinels[2] = KNOWS;
    begin("");
    plock_resolver resolver = {.find = plock__find_primary, .config = config};
    CHECK_STATUS(resolve_with(&resolver), PLOCK_OK);
    check_found("6379");
    CHECK_TEXT(resolver.found.port, "6379");
    plock__resolver_clear(&resolver);
    end();
}

static void count_move(void *moves) { ++*(int *)moves; }

static void another_name_of_the_same_server_is_no_move(void) {
    static const char *const ANSWERS[] = {AT("6379"), BY_NAME, AT("6379"), AT("6380")};
    int moves = 0;
    plock_resolver resolver = {.find = plock__find_primary, .moved = count_move, .of = &moves};
    for (int i = 0; i < 4; i++) {
        sentinels[0] = sentinels[1] = sentinels[2] = KNOWS;
        for (int j = 0; j < MOST; j++) sentinels[j].answer = ANSWERS[i];
        begin("");
        resolver.config = config;
        CHECK_STATUS(resolve_with(&resolver), PLOCK_OK);
        CHECK_INT(moves, i == 3);
        end();
    }
    plock__resolver_clear(&resolver);
}

/* --- a name service that answers when the gate is open --- */

static int gate[2];
static atomic_int asked;

static int hang(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **list) {
    char byte;
    (void)host;
    atomic_fetch_add(&asked, 1);
    return read(gate[0], &byte, 1) == 1 ? getaddrinfo("127.0.0.1", port, hints, list) : EAI_FAIL;
}

static void hang_from_now_on(void) {
    CHECK(pipe(gate) == 0);
    atomic_store(&asked, 0);
    plock__replace_name_service(hang);
}

static void answer_again(void) {
    CHECK(close(gate[1]) == 0);
    fake_settle();
    plock__replace_name_service(NULL);
    CHECK(close(gate[0]) == 0);
}

static void names_that_hang_cost_a_thread_each(void) {
    hang_from_now_on();
    CHECK_STATUS(plock_config_new(&config,
                                  "redis+sentinel://a.example,b.example/main?"
                                  "connect_timeout=0.02",
                                  &error),
                 PLOCK_OK);
    CHECK_STATUS(plock__config_check(config, &error), PLOCK_OK);
    for (int i = 0; i < 4; i++) {
        const plock_status status = plock__find_primary(config, &known, &found, &so_far, &error);
        /* depends on which deadline is noticed first */
        CHECK(status == PLOCK_RESOLVE || status == PLOCK_SILENT);
    }
    for (unsigned rounds = 0; atomic_load(&asked) < 2 && test_patient(&rounds);) continue;
    CHECK_INT(atomic_load(&asked), 2);
    plock_config_free(config);
    answer_again();
}

static void the_name_of_a_primary_that_hangs_is_told_in_time(void) {
    static const char NAMED[] = "*2\r\n$9\r\np.example\r\n$4\r\n6379\r\n";
    const sentinel names = {.greeting = SENTINEL SETNAME, .answer = NAMED};
    hang_from_now_on();
    for (int i = 0; i < 2; i++) {
        const plock_ns before = plock_now();
        CHECK_STATUS(find("&connect_timeout=1", names, names, names), PLOCK_RESOLVE);
        CHECK(plock_now() - before < 5 * PLOCK_SECOND);
        CHECK_HAS(error.message, "the host name p.example could not be resolved in time");
        end_servers();
    }
    CHECK_INT(atomic_load(&asked), 1);
    answer_again();
}

/* Each allocation fails once. The other sentinels may still answer, so the search may succeed. */
static void each_allocation_may_fail(void) {
    bool failed = true;
    unsigned long n = 1;
    for (; failed; n++) {
        sentinels[0] = sentinels[1] = sentinels[2] = KNOWS;
        begin("");
        (void)plock__fail_allocation(n);
        found = (plock_addresses){0};
        const plock_status status = plock__find_primary(config, &known, &found, &so_far, &error);
        failed = plock__fail_allocation(0) >= n;
        CHECK(status == PLOCK_OK || status == PLOCK_NO_MEMORY);
        if (status == PLOCK_OK) check_found("6379");
        end();
        plock__forget_wakers();
        CHECK_INT(plock__live_allocations(), 0);
    }
    CHECK(n > 3 * MOST);
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(the_address_that_they_name_is_found);
    RUN(most_of_them_decide);
    RUN(a_slow_majority_keeps_the_known_primary);
    RUN(another_primary_that_few_name_is_found_in_half_of_the_time);
    RUN(a_name_of_the_known_primary_is_not_another_one);
    RUN(several_names_of_one_server_count_together);
    RUN(if_they_are_tied_the_first_that_is_a_primary_is_found);
    RUN(one_is_enough_if_the_others_are_away_or_silent);
    RUN(a_name_that_none_of_them_knows_is_a_mistake);
    RUN(what_is_no_sentinel_is_named);
    RUN(a_mistake_of_one_is_not_final_while_others_are_silent);
    RUN(a_mistake_of_half_of_them_is_final);
    RUN(what_is_known_so_far_is_told);
    RUN(a_refused_password_is_told);
    RUN(none_that_answers_is_told_in_time);
    RUN(an_answer_in_another_form_is_refused);
    RUN(a_resolver_finds_it_too);
    RUN(another_name_of_the_same_server_is_no_move);
    RUN(names_that_hang_cost_a_thread_each);
    RUN(the_name_of_a_primary_that_hangs_is_told_in_time);
    RUN(each_allocation_may_fail);
    return test_end("sentinel");
}
