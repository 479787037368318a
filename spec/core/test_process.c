/* The process: its identity, what a fork changes, and native threads, which take no signals. */
#include "test.h"

#include "base/process.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- identity --- */

static void a_process_is_known_by_host_pid_and_thread(void) {
    size_t length;
    char host[128] = "", expected[192];
    const char *identity = plock__identity(&length);
    CHECK_INT(length, strlen(identity));
    CHECK(length < 128);
    CHECK(gethostname(host, sizeof host - 1) == 0);
    const int shown = snprintf(expected, sizeof expected, "%.64s %ld ", host, (long)getpid());
    CHECK(!strncmp(identity, expected, (size_t)shown));
    const char *thread = identity + shown;
    CHECK(*thread && strspn(thread, "0123456789") == strlen(thread));
    CHECK(plock__identity(&length) == identity); /* the identity is made only once */
}

static void *copy_identity(void *argument) {
    size_t length;
    (void)snprintf(argument, 128, "%s", plock__identity(&length));
    return NULL;
}

static void each_thread_has_a_number_of_its_own(void) {
    char other[128], own[128];
    pthread_t thread;
    (void)copy_identity(own);
    CHECK(pthread_create(&thread, NULL, copy_identity, other) == 0 &&
          pthread_join(thread, NULL) == 0);
    CHECK(strcmp(own, other) != 0);
    /* the words before the thread's number, host and pid, are the same */
    CHECK_INT(strrchr(own, ' ') - own, strrchr(other, ' ') - other);
    CHECK(!strncmp(own, other, (size_t)(strrchr(own, ' ') - own)));
}

/* --- fork --- */

static int forgotten_a, forgotten_b;

static void forget_a(void) { forgotten_a = forgotten_b + 1; }
static void forget_b(void) { forgotten_b = forgotten_a + 1; }

static void look_in_child(void *context) {
    char own[128];
    const unsigned *generation = context;
    CHECK_INT(plock__generation(), *generation + 1);
    CHECK_INT(forgotten_a, 1);
    CHECK_INT(forgotten_b, 2); /* each handler ran once, in the order of registration */
    (void)copy_identity(own);
    char expected[64];
    (void)snprintf(expected, sizeof expected, " %ld ", (long)getpid());
    CHECK_HAS(own, expected);
    plock__enter(); /* the lock is free in the child */
    plock__leave();
}

static void a_child_is_another_generation_and_forgets(void) {
    unsigned generation = plock__generation();
    plock__on_fork(forget_a);
    plock__on_fork(forget_b);
    test_in_child(look_in_child, &generation);
    CHECK_INT(plock__generation(), generation);
    CHECK_INT(forgotten_a, 0);
    CHECK_INT(forgotten_b, 0);
}

static void fork_again(void *context) {
    unsigned generation = plock__generation();
    forgotten_a = forgotten_b = 0;
    CHECK_INT(generation, *(unsigned *)context + 1);
    test_in_child(look_in_child, &generation);
}

static void a_grandchild_is_another_one_again(void) {
    unsigned generation = plock__generation();
    test_in_child(fork_again, &generation);
}

static atomic_bool stop;
static int guarded[2]; /* equal, except while a thread holds the lock */

static void *hold_often(void *argument) {
    (void)argument;
    while (!atomic_load(&stop)) {
        plock__enter();
        guarded[0]++;
        guarded[1]++;
        plock__leave();
        (void)sched_yield(); /* so that a fork can also happen under valgrind */
    }
    return NULL;
}

static void take_in_child(void *context) {
    (void)context;
    plock__enter();
    CHECK_INT(guarded[0], guarded[1]);
    plock__leave();
}

/* Another thread may hold the lock when a fork begins. In the child, the lock is free, and the data
 * that it protects is consistent. */
static void a_fork_waits_for_the_thread_that_holds_the_lock(void) {
    enum { FORKS = 40 };
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, hold_often, NULL) == 0);
    for (int i = 0; i < FORKS; i++) test_in_child(take_in_child, NULL);
    atomic_store(&stop, true);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* --- worker threads --- */

static void *read_mask(void *argument) {
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, argument) == 0);
    return NULL;
}

/* If an engine thread received a signal, the host program's handler would run on a thread where the
 * program does not expect it. */
static void a_native_thread_takes_no_signals(void) {
    static const int SIGNALS[] = {SIGINT,  SIGTERM, SIGHUP,  SIGALRM,  SIGCHLD,
                                  SIGUSR1, SIGUSR2, SIGPIPE, SIGVTALRM};
    sigset_t mask;
    pthread_t thread;
    CHECK_INT(plock__start_thread(&thread, read_mask, &mask), 0);
    CHECK(pthread_join(thread, NULL) == 0);
    for (unsigned i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++)
        CHECK_INT(sigismember(&mask, SIGNALS[i]), 1);
}

static void starting_one_leaves_the_callers_signals_as_they_were(void) {
    sigset_t blocked, before, after;
    pthread_t thread;
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGUSR2);
    CHECK(pthread_sigmask(SIG_SETMASK, &blocked, &before) == 0);
    sigset_t of_thread;
    CHECK_INT(plock__start_thread(&thread, read_mask, &of_thread), 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, &before, &after) == 0);
    CHECK_INT(sigismember(&after, SIGUSR2), 1);
    CHECK_INT(sigismember(&after, SIGUSR1), 0);
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(a_process_is_known_by_host_pid_and_thread);
    RUN(each_thread_has_a_number_of_its_own);
    RUN(a_child_is_another_generation_and_forgets);
    RUN(a_grandchild_is_another_one_again);
    RUN(a_fork_waits_for_the_thread_that_holds_the_lock);
    RUN(a_native_thread_takes_no_signals);
    RUN(starting_one_leaves_the_callers_signals_as_they_were);
    return test_end("process");
}
