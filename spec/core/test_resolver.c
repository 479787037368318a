/* Host names: found, not found, or found too late. A name never has more than one thread. */
#include "fake.h"
#include "test.h"

#include "base/memory.h"
#include "net/resolver.h"
#include "redis/store.h"
#include "runtime/waker.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* --- a name service that the test controls: it answers when the gate is open --- */

static int gate[2]; /* a pipe; each byte in it lets one thread of the name service continue */
static atomic_int asked, failure;
static char asked_in[16]; /* the name of the first thread that called the name service */

static int slow_service(const char *host, const char *port, const struct addrinfo *hints,
                        struct addrinfo **list) {
    char byte;
    const bool first = atomic_fetch_add(&asked, 1) == 0;
    (void)host;
#ifdef __linux__
    if (first) CHECK(pthread_getname_np(pthread_self(), asked_in, sizeof asked_in) == 0);
#else
    (void)first;
#endif
    if (read(gate[0], &byte, 1) != 1) return EAI_FAIL;
    const int failed = atomic_load(&failure);
    return failed ? failed : getaddrinfo("127.0.0.1", port, hints, list);
}

static void open_gate(int times) {
    for (int i = 0; i < times; i++) CHECK(write(gate[1], "x", 1) == 1);
}

static plock_resolver resolver;
static plock_addresses found;
static plock_interest interest;
static plock_error error;

static void begin(const char *host) {
    CHECK(pipe(gate) == 0);
    atomic_store(&asked, 0);
    atomic_store(&failure, 0);
    resolver = (plock_resolver){.host = host, .port = "6379"};
    plock__replace_name_service(slow_service);
}

static plock_status step(plock_lookup **lookup) {
    interest = (plock_interest){.fd = -1, .deadline = PLOCK_NEVER};
    return plock__resolve(&resolver, lookup, &found, &interest, &error);
}

static plock_status wait_for(plock_lookup **lookup) {
    plock_status status;
    while ((status = step(lookup)) == PLOCK_AGAIN) {
        struct pollfd polled = {.fd = interest.fd, .events = interest.events};
        CHECK_INT(poll(&polled, 1, 10000), 1);
    }
    return status;
}

static void end(void) {
    plock__resolver_clear(&resolver);
    fake_settle();
    plock__replace_name_service(NULL);
    CHECK(close(gate[0]) == 0 && close(gate[1]) == 0);
}

static void check_found(const char *expected) {
    char host[NI_MAXHOST] = "", port[16] = "", text[NI_MAXHOST + 24];
    const plock_address *address = &found.list[0];
    if (!CHECK(found.count > 0)) return;
    (void)getnameinfo((const struct sockaddr *)&address->storage, address->length, host,
                      sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    (void)snprintf(text, sizeof text, "%s %s", host, port);
    CHECK_TEXT(text, expected);
}

/* --- answers --- */

static void an_address_needs_no_name_service(void) {
    static const struct {
        const char *host, *address;
    } LITERALS[] = {{"127.0.0.1", "127.0.0.1 6379"},
                    {"10.255.0.1", "10.255.0.1 6379"},
                    {"::1", "::1 6379"},
                    {"2001:db8::7", "2001:db8::7 6379"}};
    for (unsigned i = 0; i < sizeof LITERALS / sizeof *LITERALS; i++) {
        plock_lookup *lookup = NULL;
        begin(LITERALS[i].host);
        CHECK_STATUS(step(&lookup), PLOCK_OK);
        CHECK(lookup == NULL);
        CHECK_INT(found.count, 1);
        check_found(LITERALS[i].address);
        CHECK_INT(atomic_load(&asked), 0);
        end();
    }
}

static void a_name_is_looked_up_by_another_thread(void) {
    plock_lookup *lookup = NULL;
    begin("store.example");
    CHECK_STATUS(step(&lookup), PLOCK_AGAIN);
    CHECK(lookup != NULL && interest.fd >= 0);
    CHECK_INT(interest.events, POLLIN);
    CHECK_STATUS(step(&lookup), PLOCK_AGAIN); /* a step before the answer changes nothing */
    open_gate(1);
    CHECK_STATUS(wait_for(&lookup), PLOCK_OK);
    CHECK(lookup == NULL);
    check_found("127.0.0.1 6379");
    CHECK_INT(atomic_load(&asked), 1);
    /* the answer was not kept, because the address may change */
    CHECK(step(&lookup) == PLOCK_AGAIN);
    open_gate(1);
    CHECK_STATUS(wait_for(&lookup), PLOCK_OK);
    CHECK_INT(atomic_load(&asked), 2);
    end();
}

#ifdef __linux__
static void the_thread_has_a_name(void) {
    plock_lookup *lookup = NULL;
    begin("store.example");
    open_gate(1);
    CHECK_STATUS(wait_for(&lookup), PLOCK_OK);
    CHECK_TEXT(asked_in, "plock-resolver");
    end();
}
#endif

static void a_name_that_is_not_found_is_named(void) {
    static const int FAILURES[] = {EAI_NONAME, EAI_AGAIN, EAI_FAIL, EAI_MEMORY};
    for (unsigned i = 0; i < sizeof FAILURES / sizeof *FAILURES; i++) {
        plock_lookup *lookup = NULL;
        begin("nowhere.example");
        atomic_store(&failure, FAILURES[i]);
        open_gate(1);
        CHECK_STATUS(wait_for(&lookup), PLOCK_RESOLVE);
        CHECK(lookup == NULL);
        CHECK_HAS(error.message, "the host name nowhere.example could not be resolved: ");
        CHECK_HAS(error.message, gai_strerror(FAILURES[i]));
        end();
    }
}

/* --- at most one thread for a name --- */

static void a_later_request_joins(void) {
    plock_lookup *first = NULL, *second = NULL;
    begin("store.example");
    CHECK_STATUS(step(&first), PLOCK_AGAIN);
    CHECK_STATUS(step(&second), PLOCK_AGAIN);
    CHECK(first == second);
    open_gate(1);
    CHECK_STATUS(wait_for(&first), PLOCK_OK);
    found.count = 0;
    CHECK_STATUS(wait_for(&second), PLOCK_OK);
    check_found("127.0.0.1 6379");
    CHECK_INT(atomic_load(&asked), 1);
    end();
}

/* While the name service hangs, each attempt requests the same name again, through a resolver of
 * its own. All attempts must join the lookup that is already running. */
static void another_resolver_of_the_same_name_joins_too(void) {
    plock_lookup *lookup = NULL;
    char copy[] = "store.example";
    begin("store.example");
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(step(&lookup), PLOCK_AGAIN);
        plock__abandon_lookup(&lookup);
        plock__resolver_clear(&resolver);
        resolver = (plock_resolver){.host = copy, .port = "6379"};
    }
    CHECK_STATUS(step(&lookup), PLOCK_AGAIN);
    open_gate(1);
    CHECK_STATUS(wait_for(&lookup), PLOCK_OK);
    check_found("127.0.0.1 6379");
    CHECK_INT(atomic_load(&asked), 1);
    end();
}

static void another_name_or_port_does_not_join(void) {
    static const plock_resolver OTHERS[] = {{.host = "other.example", .port = "6379"},
                                            {.host = "store.example", .port = "6380"}};
    plock_lookup *first = NULL, *others[2] = {NULL, NULL};
    begin("store.example");
    CHECK_STATUS(step(&first), PLOCK_AGAIN);
    for (int i = 0; i < 2; i++) {
        resolver = OTHERS[i];
        CHECK_STATUS(step(&others[i]), PLOCK_AGAIN);
    }
    open_gate(3);
    CHECK_STATUS(wait_for(&first), PLOCK_OK);
    check_found("127.0.0.1 6379");
    for (int i = 0; i < 2; i++) CHECK_STATUS(wait_for(&others[i]), PLOCK_OK);
    check_found("127.0.0.1 6380");
    CHECK_INT(atomic_load(&asked), 3);
    end();
}

enum { THREADS = 6, ROUNDS = 40 };
static pthread_barrier_t barrier;

static void *ask_at_once(void *argument) {
    plock_lookup *lookup = NULL;
    plock_addresses addresses;
    plock_error words;
    plock_interest wanted = {.fd = -1, .deadline = PLOCK_NEVER};
    (void)argument;
    (void)pthread_barrier_wait(&barrier);
    plock_status status = plock__resolve(&resolver, &lookup, &addresses, &wanted, &words);
    CHECK_STATUS(status, PLOCK_AGAIN);
    (void)pthread_barrier_wait(&barrier); /* all threads have asked, and none has an answer */
    while (status == PLOCK_AGAIN) {
        struct pollfd polled = {.fd = wanted.fd, .events = wanted.events};
        CHECK_INT(poll(&polled, 1, 10000), 1);
        status = plock__resolve(&resolver, &lookup, &addresses, &wanted, &words);
    }
    CHECK_STATUS(status, PLOCK_OK);
    return NULL;
}

static void many_that_ask_at_once_start_one_thread(void) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        begin("store.example");
        CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, ask_at_once, NULL) == 0);
        (void)pthread_barrier_wait(&barrier);
        (void)pthread_barrier_wait(&barrier);
        /* enough for one lookup in each thread, so that a second lookup would be counted and would
         * not block */
        open_gate(THREADS);
        for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK_INT(atomic_load(&asked), 1);
        CHECK(pthread_barrier_destroy(&barrier) == 0);
        end();
    }
}

/* --- answers that come too late --- */

static void a_caller_that_stops_waiting_leaves_the_thread_alone(void) {
    plock_lookup *lookup = NULL;
    begin("store.example");
    CHECK_STATUS(step(&lookup), PLOCK_AGAIN);
    plock__abandon_lookup(&lookup);
    CHECK(lookup == NULL);
    plock__abandon_lookup(&lookup);
    CHECK_STATUS(step(&lookup), PLOCK_AGAIN); /* the next caller joins the running lookup */
    open_gate(1);
    CHECK_STATUS(wait_for(&lookup), PLOCK_OK);
    CHECK_INT(atomic_load(&asked), 1);
    end();
}

static void a_lookup_may_outlive_its_store(void) {
    plock_lookup *lookup = NULL;
    begin("store.example");
    CHECK_STATUS(step(&lookup), PLOCK_AGAIN);
    plock__abandon_lookup(&lookup);
    plock__resolver_clear(&resolver);
    memset(&resolver, 0xa5, sizeof resolver); /* as if the memory had another owner now */
    plock_resolver after;
    memcpy(&after, &resolver, sizeof after);
    open_gate(1);
    fake_settle();
    CHECK(!memcmp(&after, &resolver, sizeof after));
    resolver = (plock_resolver){0};
    end();
}

/* The caller's acquire fails at its deadline. The thread that looks up the name goes on alone. */
static void a_slow_name_does_not_make_a_call_late(void) {
    plock_config *config;
    plock_store *store;
    begin("unused.example");
    fake_clock_start();
    CHECK_STATUS(plock_config_new(&config, "redis://store.example?connect_timeout=0.1", &error),
                 PLOCK_OK);
    CHECK_STATUS(plock_store_open(&store, config, &error), PLOCK_OK);
    plock_lease *lease = fake_lease(store);
    for (int i = 0; i < 3; i++) {
        const plock_ns before = plock_now();
        CHECK_STATUS(fake_acquire(lease, 0), PLOCK_RESOLVE);
        CHECK_INT(plock_now() - before, 100 * PLOCK_MILLISECOND);
        CHECK_HAS(plock_lease_error(lease)->message,
                  "the host name store.example could not be resolved in time");
    }
    for (unsigned rounds = 0; atomic_load(&asked) < 1 && test_patient(&rounds);) continue;
    CHECK_INT(atomic_load(&asked), 1); /* one thread for three calls */
    plock_lease_free(lease);
    plock_store_close(store);
    fake_clock_stop();
    open_gate(1);
    end();
}

/* --- lack of memory and descriptors --- */

static void without_memory_nothing_is_started(void) {
    for (unsigned long n = 1;; n++) {
        plock_lookup *lookup = NULL;
        begin("store.example");
        (void)plock__fail_allocation(n);
        const plock_status status = step(&lookup);
        (void)plock__fail_allocation(0);
        if (status == PLOCK_AGAIN) {
            CHECK_INT(n, 5); /* four allocations: the lookup, its two texts, and the waker */
            open_gate(1);
            CHECK_STATUS(wait_for(&lookup), PLOCK_OK);
            end();
            break;
        }
        /* a waker that cannot be made counts as a failure of the system */
        CHECK_STATUS(status, n == 4 ? PLOCK_RESOLVE : PLOCK_NO_MEMORY);
        CHECK(lookup == NULL);
        CHECK_INT(atomic_load(&asked), 0);
        end();
    }
}

static void without_a_descriptor_it_is_told(void) {
    struct rlimit limit, none;
    plock_lookup *lookup = NULL;
    begin("store.example");
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = limit;
    none.rlim_cur = 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    const plock_status status = step(&lookup);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK_STATUS(status, PLOCK_DESCRIPTORS);
    CHECK(lookup == NULL);
    CHECK_INT(atomic_load(&asked), 0);
    end();
}

/* --- fork --- */

static void ask_in_child(void *context) {
    plock_lookup *lookup = NULL;
    (void)context;
    CHECK(pipe(gate) == 0); /* a new gate, because the parent's thread reads from the old one */
    const int before = atomic_load(&asked);
    /* the child does not have the parent's thread, so the name is looked up again */
    CHECK_STATUS(step(&lookup), PLOCK_AGAIN);
    open_gate(1);
    CHECK_STATUS(wait_for(&lookup), PLOCK_OK);
    CHECK_INT(atomic_load(&asked), before + 1);
}

static void a_child_does_not_wait_for_its_parents_thread(void) {
    plock_lookup *lookup = NULL;
    begin("store.example");
    CHECK_STATUS(step(&lookup), PLOCK_AGAIN);
    for (unsigned rounds = 0; atomic_load(&asked) < 1 && test_patient(&rounds);) continue;
    test_in_child(ask_in_child, NULL);
    open_gate(1);
    CHECK_STATUS(wait_for(&lookup), PLOCK_OK);
    CHECK_INT(atomic_load(&asked), 1);
    end();
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(an_address_needs_no_name_service);
    RUN(a_name_is_looked_up_by_another_thread);
#ifdef __linux__
    RUN(the_thread_has_a_name);
#endif
    RUN(a_name_that_is_not_found_is_named);
    RUN(a_later_request_joins);
    RUN(another_resolver_of_the_same_name_joins_too);
    RUN(another_name_or_port_does_not_join);
    RUN(many_that_ask_at_once_start_one_thread);
    RUN(a_caller_that_stops_waiting_leaves_the_thread_alone);
    RUN(a_lookup_may_outlive_its_store);
    RUN(a_slow_name_does_not_make_a_call_late);
    RUN(without_memory_nothing_is_started);
    RUN(without_a_descriptor_it_is_told);
    if (TEST_TSAN)
        test_skip("a lookup in a child", "the sanitizer does not allow it");
    else
        RUN(a_child_does_not_wait_for_its_parents_thread);
    return test_end("resolver");
}
