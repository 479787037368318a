/* plock_drive, the only loop that waits, and plock_wait_poll, which waits in poll(2) for programs
 * without an event loop. */
#include "fake.h"
#include "test.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static plock_store *store;
static plock_lease *lease;

static void begin(void) {
    fake_clock_start();
    store = fake_store("redis://h");
    lease = fake_lease(store);
}

static void end(void) { fake_end(lease, store); }

typedef struct script {
    unsigned calls, interrupt_at; /* interrupt_at: the number of the call that is interrupted, from
                                     1; 0: none */
    plock_interest last;
} script;

static plock_status scripted(void *context, const plock_interest *interest) {
    script *s = context;
    s->last = *interest;
    if (++s->calls == s->interrupt_at) return PLOCK_INTERRUPTED;
    fake_clock_pass(PLOCK_MILLISECOND);
    return PLOCK_OK;
}

static void it_waits_until_the_operation_is_done(void) {
    script s = {0};
    begin();
    fake_peers[0].obliging = true;
    fake_peers[0].connect_again = 5;
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_drive(lease, scripted, &s), PLOCK_OK);
    CHECK_INT(s.calls, 5);
    CHECK_INT(s.last.events, POLLOUT);
    CHECK(plock_lease_valid(lease));
    end();
}

static void what_is_done_at_once_is_not_waited_for(void) {
    script s = {0};
    begin();
    fake_peers[0].obliging = true;
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_drive(lease, scripted, &s), PLOCK_OK);
    CHECK_INT(s.calls, 0);
    end();
}

static void without_an_operation_there_is_nothing_to_drive(void) {
    script s = {0};
    begin();
    CHECK_STATUS(plock_drive(lease, scripted, &s), PLOCK_MISUSE);
    CHECK_INT(s.calls, 0);
    end();
}

/* After an interruption, the caller can continue the operation. */
static void an_interrupted_operation_can_be_carried_on(void) {
    begin();
    fake_peers[0].obliging = true;
    fake_peers[0].connect_again = 6;
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    for (int i = 0; i < 2; i++) {
        script s = {.interrupt_at = 2};
        CHECK_STATUS(plock_drive(lease, scripted, &s), PLOCK_INTERRUPTED);
        CHECK_INT(s.calls, 2);
    }
    script s = {0};
    CHECK_STATUS(plock_drive(lease, scripted, &s), PLOCK_OK);
    CHECK_INT(fake_commands_like("EVALSHA acquire"), 1); /* the request was sent only once */
    CHECK_INT(fake_connections(), 1);
    end();
}

static void an_interrupted_operation_can_be_given_up(void) {
    script s = {.interrupt_at = 1};
    begin();
    for (unsigned p = 1; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    /* the request has been sent */
    CHECK_STATUS(plock_drive(lease, scripted, &s), PLOCK_INTERRUPTED);
    plock_lease_cancel(lease);
    CHECK(!plock_lease_valid(lease));
    CHECK_STATUS(plock_drive(lease, scripted, &s), PLOCK_MISUSE);
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK); /* the lease can be used again */
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
}

static void a_failed_attempt_comes_back_to_the_caller_in_between(void) {
    script s = {0};
    begin();
    fake_peers[0].connect_failure = PLOCK_CONNECT;
    for (unsigned p = 1; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    CHECK_STATUS(plock_lease_acquire(
                     lease, &(plock_acquire_options){.ttl = PLOCK_SECOND, .wait = PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_drive(lease, scripted, &s), PLOCK_TRY_FAILED);
    CHECK_INT(s.calls, 0);
    CHECK_STATUS(plock_drive(lease, scripted, &s), PLOCK_OK);
    CHECK(s.calls > 0);
    CHECK_INT(s.last.fd, -1); /* the last wait was a pause, without a descriptor */
    end();
}

/* --- plock_wait_poll, with the real clock --- */

static void poll_ends_when_the_descriptor_is_ready(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK_STATUS(
        plock_wait_poll(
            NULL, &(plock_interest){.fd = ends[0], .events = POLLIN, .deadline = PLOCK_NEVER}),
        PLOCK_OK);
    CHECK_STATUS(
        plock_wait_poll(
            NULL, &(plock_interest){.fd = ends[1], .events = POLLOUT, .deadline = PLOCK_NEVER}),
        PLOCK_OK);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void poll_ends_at_the_deadline(void) {
    static const plock_ns SPAN = 20 * PLOCK_MILLISECOND;
    int ends[2];
    CHECK(pipe(ends) == 0);
    /* once without a descriptor, and once with a descriptor that stays silent */
    const int descriptors[] = {-1, ends[0]};
    for (int i = 0; i < 2; i++) {
        const plock_ns deadline = plock_now() + SPAN;
        CHECK_STATUS(plock_wait_poll(NULL, &(plock_interest){.fd = descriptors[i],
                                                             .events = POLLIN,
                                                             .deadline = deadline}),
                     PLOCK_OK);
        CHECK(plock_now() >= deadline);
    }
    const plock_ns before = plock_now();
    CHECK_STATUS(
        plock_wait_poll(
            NULL, &(plock_interest){.fd = ends[0], .events = POLLIN, .deadline = before - SPAN}),
        PLOCK_OK);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static atomic_int signals;

static void count_signal(int number) {
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static void *signal_until_heard(void *argument) {
    const pthread_t *waiting = argument;
    for (unsigned rounds = 0; !atomic_load(&signals) && test_patient(&rounds);)
        (void)pthread_kill(*waiting, SIGUSR1);
    return NULL;
}

/* The wait returns, so that the host program's handlers can run at once. */
static void poll_ends_for_a_signal(void) {
    int ends[2];
    pthread_t self = pthread_self(), thread;
    struct sigaction action = {.sa_handler = count_signal}, before;
    (void)sigemptyset(&action.sa_mask);
    CHECK(pipe(ends) == 0);
    CHECK(sigaction(SIGUSR1, &action, &before) == 0);
    CHECK(pthread_create(&thread, NULL, signal_until_heard, &self) == 0);
    while (!atomic_load(&signals))
        CHECK_STATUS(
            plock_wait_poll(
                NULL, &(plock_interest){.fd = ends[0], .events = POLLIN, .deadline = PLOCK_NEVER}),
            PLOCK_OK);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(sigaction(SIGUSR1, &before, NULL) == 0);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

int main(void) {
    RUN(it_waits_until_the_operation_is_done);
    RUN(what_is_done_at_once_is_not_waited_for);
    RUN(without_an_operation_there_is_nothing_to_drive);
    RUN(an_interrupted_operation_can_be_carried_on);
    RUN(an_interrupted_operation_can_be_given_up);
    RUN(a_failed_attempt_comes_back_to_the_caller_in_between);
    RUN(poll_ends_when_the_descriptor_is_ready);
    RUN(poll_ends_at_the_deadline);
    RUN(poll_ends_for_a_signal);
    return test_end("drive");
}
