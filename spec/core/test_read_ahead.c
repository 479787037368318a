/* A thread that waits for an answer sleeps in the read itself. The bytes that it reads are kept for
 * the next step. A signal, an error or the end of the connection is not lost. */
#include "loopback.h"
#include "socket_pair.h"
#include "test.h"

#include "runtime/busy_poll.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static socket_pair pair;
static char bytes[1024];
static size_t got;

static void say(const char *text) {
    const ssize_t length = (ssize_t)strlen(text);
    CHECK(write(pair.peer, text, (size_t)length) == length);
}

static plock_status read_some(size_t most) {
    return pair.transport->does->read(pair.transport, bytes, most, &got, &pair.interest,
                                      &pair.error);
}

static bool found(void *context) { return !context; }

/* While waits are rare, none of them polls. */
static void make_waits_frequent(void) {
    plock__answers answers = {0};
    for (unsigned wait = 0; wait < 16; wait++) (void)plock__busy_poll(&answers, found, NULL);
}

/* Begins a read that must wait. The interest's deadline is `patience` from now. */
static void expect(plock_ns patience) {
    make_waits_frequent();
    pair.interest = (plock_interest){.fd = -1, .deadline = plock_now() + patience};
    CHECK_STATUS(read_some(sizeof bytes), PLOCK_AGAIN);
}

static size_t pending(void) { return pair.transport->does->pending(pair.transport); }

/* Waits until there are bytes to read. A wait that ends too early is repeated. */
static void await_answer(void) {
    while (plock_await_answer(&pair.interest) == PLOCK_OK && !pending() &&
           plock_now() < pair.interest.deadline)
        continue;
}

static void what_it_read_is_there_for_the_next_step(void) {
    socket_pair_begin(&pair);
    expect(10 * PLOCK_SECOND);
    say(":1\r\n");
    await_answer();
    CHECK_INT(pending(), 4);
    CHECK_STATUS(read_some(3), PLOCK_OK);
    CHECK(got == 3 && !memcmp(bytes, ":1\r", 3));
    CHECK_INT(pending(), 1);
    say("+OK\r\n"); /* arrives behind the unread rest */
    CHECK(loopback_readable(plock__socket_descriptor(pair.transport)));
    CHECK_STATUS(read_some(sizeof bytes), PLOCK_OK);
    CHECK(got == 1 && bytes[0] == '\n');
    CHECK_STATUS(read_some(sizeof bytes), PLOCK_OK);
    CHECK(got == 5 && !memcmp(bytes, "+OK\r\n", 5));
    CHECK_STATUS(read_some(sizeof bytes), PLOCK_AGAIN);
    socket_pair_end(&pair);
}

static void a_long_answer_is_read_in_order(void) {
    char text[sizeof bytes];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i % 26);
    socket_pair_begin(&pair);
    expect(10 * PLOCK_SECOND);
    CHECK(write(pair.peer, text, sizeof text) == sizeof text);
    await_answer();
    CHECK(pending() > 0 && pending() < sizeof text);
    for (size_t read = 0; read < sizeof text; read += got) {
        CHECK_STATUS(read_some(sizeof text - read), PLOCK_OK);
        CHECK(!memcmp(bytes, text + read, got));
    }
    socket_pair_end(&pair);
}

/* Another wait must not overwrite the bytes that have been read. */
static void a_second_wait_keeps_what_the_first_one_read(void) {
    socket_pair_begin(&pair);
    expect(10 * PLOCK_SECOND);
    say("+A\r\n");
    await_answer();
    say("+B\r\n");
    CHECK_STATUS(plock_await_answer(&pair.interest), PLOCK_OK);
    CHECK_STATUS(read_some(sizeof bytes), PLOCK_OK);
    CHECK(got == 4 && !memcmp(bytes, "+A\r\n", 4));
    socket_pair_end(&pair);
}

/* A signal that arrives just before the read is handled only when the read ends. So the read must
 * be short. */
static void if_nothing_comes_it_ends_early_and_a_poll_follows(void) {
    socket_pair_begin(&pair);
    const plock_ns began = plock_now();
    expect(100 * PLOCK_SECOND);
    CHECK_STATUS(plock_await_answer(&pair.interest), PLOCK_OK);
    CHECK(plock_now() - began < 50 * PLOCK_SECOND);
    CHECK_STATUS(read_some(sizeof bytes), PLOCK_AGAIN);
    CHECK(!pair.interest.read_ahead);
    say("+OK\r\n");
    CHECK_STATUS(plock_await_answer(&pair.interest), PLOCK_OK);
    CHECK_STATUS(read_some(sizeof bytes), PLOCK_OK);
    CHECK_STATUS(read_some(sizeof bytes), PLOCK_AGAIN);
    CHECK(pair.interest.read_ahead); /* the next answer may be read ahead again */
    socket_pair_end(&pair);
}

static void a_near_deadline_ends_the_wait(void) {
    socket_pair_begin(&pair);
    expect(5 * PLOCK_MILLISECOND);
    CHECK_STATUS(plock_await_answer(&pair.interest), PLOCK_OK);
    CHECK(plock_now() >= pair.interest.deadline);
    CHECK_STATUS(read_some(sizeof bytes), PLOCK_AGAIN);
    say("x");
    pair.interest.deadline = plock_now() + 5 * PLOCK_MILLISECOND;
    (void)plock_await_answer(&pair.interest);
    CHECK(loopback_readable(plock__socket_descriptor(pair.transport)));
    CHECK_STATUS(read_some(sizeof bytes), PLOCK_OK);
    socket_pair_end(&pair);
}

static void an_interest_in_another_descriptor_is_not_read(void) {
    int ends[2];
    socket_pair_begin(&pair);
    CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    expect(10 * PLOCK_SECOND);
    pair.interest.fd = ends[0];
    CHECK_STATUS(plock_await_answer(&pair.interest), PLOCK_OK);
    CHECK_INT(pending(), 0);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    socket_pair_end(&pair);
}

static void the_end_of_the_connection_is_told(void) {
    socket_pair_begin(&pair);
    expect(10 * PLOCK_SECOND);
    CHECK(close(pair.peer) == 0);
    pair.peer = -1;
    CHECK_STATUS(plock_await_answer(&pair.interest), PLOCK_OK);
    CHECK_STATUS(read_some(sizeof bytes), PLOCK_DISCONNECTED);
    CHECK_TEXT(pair.error.message, "the server closed the connection");
    CHECK(!pair.transport->does->alive(pair.transport));
    socket_pair_end(&pair);
}

/* The system reports a socket's error only once. So the wait that receives the error must keep
 * it. */
static void so_is_an_error_with_its_reason(void) {
    socket_pair_begin(&pair);
    expect(10 * PLOCK_SECOND);
    loopback_reset(pair.peer);
    pair.peer = -1;
    CHECK_STATUS(plock_await_answer(&pair.interest), PLOCK_OK);
    CHECK_STATUS(plock_await_answer(&pair.interest), PLOCK_OK);
    CHECK(!pair.transport->does->alive(pair.transport));
    CHECK_STATUS(read_some(sizeof bytes), PLOCK_DISCONNECTED);
    CHECK_HAS(pair.error.message, "reset by peer");
    socket_pair_end(&pair);
}

static void a_connection_with_unread_bytes_is_not_taken_for_an_idle_one(void) {
    socket_pair_begin(&pair);
    expect(10 * PLOCK_SECOND);
    say("-ERR\r\n");
    await_answer();
    CHECK(!pair.transport->does->alive(pair.transport));
    socket_pair_end(&pair);
}

static void a_full_socket_is_not_read(void) {
    static char much[65536];
    plock_status status;
    socket_pair_begin(&pair);
    expect(10 * PLOCK_SECOND);
    do
        status = pair.transport->does->write(pair.transport, much, sizeof much, &got,
                                             &pair.interest, &pair.error);
    while (!status);
    CHECK_STATUS(status, PLOCK_AGAIN);
    CHECK(!pair.interest.read_ahead);
    socket_pair_end(&pair);
}

static pthread_t waiting;
static atomic_bool over;

static void ignore(int number) { (void)number; }

/* Signals again and again, as Ruby does, because the first signal may arrive before the thread
 * sleeps. */
static void *interrupt(void *unused) {
    (void)unused;
    while (!atomic_load(&over)) {
        (void)pthread_kill(waiting, SIGUSR1);
        (void)usleep(1000);
    }
    return NULL;
}

static void a_signal_interrupts_it(void) {
    pthread_t thread;
    socket_pair_begin(&pair);
    struct sigaction action = {.sa_handler = ignore};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    waiting = pthread_self();
    atomic_store(&over, false);
    expect(100 * PLOCK_SECOND);
    CHECK(pthread_create(&thread, NULL, interrupt, NULL) == 0);
    plock_status status;
    while ((status = plock_await_answer(&pair.interest)) == PLOCK_OK) continue;
    CHECK_STATUS(status, PLOCK_INTERRUPTED);
    atomic_store(&over, true);
    CHECK(pthread_join(thread, NULL) == 0);
    say("+OK\r\n");
    await_answer();
    CHECK_STATUS(read_some(sizeof bytes), PLOCK_OK);
    CHECK_INT(got, 5);
    socket_pair_end(&pair);
}

static atomic_uint times; /* how many times the clock was read */

static plock_ns counting_clock(void) {
    struct timespec time;
    atomic_fetch_add(&times, 1);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return (plock_ns)time.tv_sec * PLOCK_SECOND + (plock_ns)time.tv_nsec;
}

/* Returns whether the wait looks at the socket before it sleeps. A wait that looks reads the clock
 * before and after each look. A wait that does not look reads the clock only before it sleeps. */
static bool looks_before_it_sleeps(void) {
    socket_pair_begin(&pair);
    plock_clock_replace(counting_clock);
    expect(10 * PLOCK_SECOND);
    atomic_store(&times, 0);
    CHECK_STATUS(plock_await_answer(&pair.interest), PLOCK_OK);
    const bool looks = atomic_load(&times) > 2;
    plock_clock_replace(NULL);
    socket_pair_end(&pair);
    return looks;
}

static void with_running_threads(long count) {
    plock__pretend_running_threads(count);
    CHECK(usleep(60000) == 0); /* after 50 ms, the running threads are counted again */
    CHECK(looks_before_it_sleeps() == (count > 0));
    RUN(what_it_read_is_there_for_the_next_step);
    RUN(a_long_answer_is_read_in_order);
    RUN(a_second_wait_keeps_what_the_first_one_read);
    RUN(if_nothing_comes_it_ends_early_and_a_poll_follows);
    RUN(a_near_deadline_ends_the_wait);
    RUN(an_interest_in_another_descriptor_is_not_read);
    RUN(the_end_of_the_connection_is_told);
    RUN(so_is_an_error_with_its_reason);
    RUN(a_connection_with_unread_bytes_is_not_taken_for_an_idle_one);
    RUN(a_full_socket_is_not_read);
    RUN(a_signal_interrupts_it);
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    with_running_threads(0); /* with no running thread, no wait polls before it sleeps */
    with_running_threads(1);
    return test_end("read ahead");
}
