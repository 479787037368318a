/* Wakers: one thread wakes a waker. Another thread notices the wake, and clears the waker. */
#include "test.h"

#include "base/memory.h"
#include "base/process.h"
#include "plock/interest.h"
#include "runtime/waker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool audible(plock_waker *waker, int timeout_ms) {
    struct pollfd polled = {.fd = plock_waker_descriptor(waker), .events = POLLIN};
    return poll(&polled, 1, timeout_ms) == 1;
}

/* Replaces the engine's read(2), so that a test can wake just before it. */
static _Atomic(plock_waker *) wake_before_read;

ssize_t read(int fd, void *buffer, size_t size);
ssize_t read(int fd, void *buffer, size_t size) {
    plock_waker *waker = atomic_exchange(&wake_before_read, NULL);
    if (waker) plock_waker_wake(waker);
    return (ssize_t)syscall(SYS_read, fd, buffer, size);
}

static void a_wake_is_heard_until_it_is_cleared(void) {
    plock_waker *waker = plock_waker_take();
    if (!CHECK(waker != NULL)) return;
    CHECK(!audible(waker, 0));
    plock_waker_wake(waker);
    CHECK(audible(waker, 0));
    CHECK(audible(waker, 0));
    CHECK(plock_waker_clear(waker));
    CHECK(!audible(waker, 0));
    plock_waker_give(waker);
}

static void waking_twice_is_waking_once(void) {
    plock_waker *waker = plock_waker_take();
    for (int i = 0; i < 1000; i++) plock_waker_wake(waker);
    CHECK(plock_waker_clear(waker));
    CHECK(!audible(waker, 0));
    CHECK(!plock_waker_clear(waker)); /* clearing again does not block */
    plock_waker_wake(waker);
    CHECK(audible(waker, 0));
    plock_waker_give(waker);
}

/* The thread that clears the waker looks for work afterwards. So a wake during the clear may be
 * lost, but the next wake may not. */
static void a_wake_in_the_middle_of_a_clear_does_not_silence_the_next(void) {
    plock_waker *waker = plock__waker_take_open();
    plock_waker_wake(waker);
    atomic_store(&wake_before_read, waker);
    (void)plock_waker_clear(waker);
    CHECK(atomic_load(&wake_before_read) == NULL);
    plock_waker_wake(waker);
    CHECK(audible(waker, 0));
    plock_waker_give(waker);
}

static void one_that_was_given_back_is_used_again_and_silent(void) {
    plock_waker *first = plock_waker_take();
    const int descriptor = plock_waker_descriptor(first);
    plock_waker_wake(first);
    plock_waker_give(first);
    plock_waker *second = plock_waker_take();
    CHECK(second == first);
    CHECK_INT(plock_waker_descriptor(second), descriptor);
    CHECK(!audible(second, 0));
    CHECK(!plock_waker_clear(second));
    plock_waker *third = plock_waker_take();
    CHECK(third != second);
    CHECK(plock_waker_descriptor(third) != descriptor);
    plock_waker_give(third);
    plock_waker_give(second);
    plock_waker_give(NULL);
}

enum { ROUNDS = 3000 };

typedef struct admin_session {
    plock_waker *ask, *reply;
    atomic_int asked, replied, lost;
} admin_session;

/* After each wake, copies the number in `asked` to `replied`, and wakes the other thread. Ends when
 * the number is ROUNDS. */
static void *listen_and_reply(void *argument) {
    admin_session *c = argument;
    for (int seen = 0; seen < ROUNDS;) {
        if (!audible(c->ask, 5000)) {
            atomic_fetch_add(&c->lost, 1);
            break;
        }
        (void)plock_waker_clear(c->ask);
        seen = atomic_load(&c->asked);
        atomic_store(&c->replied, seen);
        plock_waker_wake(c->reply);
    }
    return NULL;
}

static void no_wake_is_lost_between_threads(void) {
    admin_session c = {.ask = plock_waker_take(), .reply = plock_waker_take()};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, listen_and_reply, &c) == 0);
    for (int i = 1; i <= ROUNDS && !atomic_load(&c.lost); i++) {
        atomic_store(&c.asked, i);
        plock_waker_wake(c.ask);
        /* after an odd number, no reply is awaited, so the next wake may coincide with the clear */
        if (i % 2) continue;
        while (atomic_load(&c.replied) < i && !atomic_load(&c.lost))
            if (audible(c.reply, 5000))
                (void)plock_waker_clear(c.reply);
            else
                atomic_fetch_add(&c.lost, 1);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_INT(atomic_load(&c.lost), 0);
    CHECK_INT(atomic_load(&c.replied), ROUNDS);
    plock_waker_give(c.ask);
    plock_waker_give(c.reply);
}

/* --- descriptors --- */

static void forbid_descriptors(struct rlimit *limit) {
    CHECK(getrlimit(RLIMIT_NOFILE, limit) == 0);
    struct rlimit none = *limit;
    none.rlim_cur = 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
}

static void without_a_descriptor_errno_says_why(void) {
    struct rlimit limit;
    plock__forget_wakers();
    forbid_descriptors(&limit);
    plock_waker *waker = plock_waker_take();
    errno = 0;
    const int descriptor = plock_waker_descriptor(waker);
    const int code = errno;
    errno = 0;
    plock_waker *open = plock__waker_take_open();
    const int code_of_open = errno;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK_INT(descriptor, -1);
    CHECK_INT(code, EMFILE);
    CHECK(open == NULL);
    CHECK_INT(code_of_open, EMFILE);
    plock_waker_wake(waker); /* the wake is noticed as soon as the waker has a descriptor */
    CHECK(audible(waker, 0));
    plock_waker_give(waker);
}

/* Each waker in use may have a descriptor. Unused wakers keep only a few. */
static void descriptors_are_given_back(void) {
    enum { WAKERS = 100, KEPT_AT_MOST = 16 };
    plock_waker *wakers[WAKERS];
    plock__forget_wakers();
    const int before = test_open_descriptors();
    for (int i = 0; i < WAKERS; i++) {
        wakers[i] = plock_waker_take();
        if (wakers[i]) CHECK(plock_waker_descriptor(wakers[i]) >= 0);
    }
    const int each = (test_open_descriptors() - before) / WAKERS;
    CHECK(each >= 1);
    for (int i = 0; i < WAKERS; i++) plock_waker_give(wakers[i]);
    CHECK(test_open_descriptors() - before <= KEPT_AT_MOST * each);
}

/* --- sleeping without a descriptor --- */

static const plock_ns LONG = 60 * PLOCK_SECOND;

enum { SLEEPERS = 50 };

typedef struct sleeper {
    plock_waker *waker, *interrupt;
    plock_status status;
    atomic_bool asleep;
} sleeper;

static void *sleep_in_line(void *argument) {
    sleeper *s = argument;
    const plock_interest interest = {.fd = -1, .waker = s->waker, .deadline = plock_now() + LONG};
    atomic_store(&s->asleep, true);
    do s->status = plock_await(&interest, s->interrupt);
    while (!s->status && !plock__waker_woken(s->waker)); /* a spurious wake is allowed */
    return NULL;
}

static void threads_that_wait_need_no_descriptor(void) {
    sleeper sleepers[SLEEPERS] = {0};
    pthread_t threads[SLEEPERS];
    struct rlimit limit;
    plock__forget_wakers();
    forbid_descriptors(&limit);
    for (int i = 0; i < SLEEPERS; i++) {
        sleepers[i].waker = plock_waker_take();
        sleepers[i].interrupt = i % 3 ? plock_waker_take() : NULL;
        CHECK(pthread_create(&threads[i], NULL, sleep_in_line, &sleepers[i]) == 0);
    }
    for (int i = 0; i < SLEEPERS; i++) {
        unsigned rounds = 0;
        while (!atomic_load(&sleepers[i].asleep) && test_patient(&rounds)) continue;
        plock_waker_wake(i % 3 == 1 ? sleepers[i].interrupt : sleepers[i].waker);
    }
    for (int i = 0; i < SLEEPERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK_STATUS(sleepers[i].status, i % 3 == 1 ? PLOCK_INTERRUPTED : PLOCK_OK);
        plock_waker_give(sleepers[i].waker);
        plock_waker_give(sleepers[i].interrupt);
    }
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* A thread that waits for a descriptor needs another descriptor for its interrupt, but only while
 * it waits. */
static void an_interrupt_is_heard_beside_a_descriptor_and_without_one_left(void) {
    for (int left = 0; left < 2; left++) {
        struct rlimit limit;
        int ends[2];
        plock__forget_wakers();
        CHECK(pipe(ends) == 0);
        plock_waker *interrupt = plock_waker_take();
        const int before = test_open_descriptors();
        const plock_ns late = plock_now() + LONG;
        const plock_interest at_a_pipe = {.fd = ends[0], .events = POLLIN, .deadline = late};
        if (!left) forbid_descriptors(&limit);
        plock_waker_wake(interrupt);
        CHECK_STATUS(plock_await(&at_a_pipe, interrupt), PLOCK_INTERRUPTED);
        CHECK(plock_waker_clear(interrupt));
        CHECK(write(ends[1], "x", 1) == 1);
        CHECK_STATUS(plock_await(&at_a_pipe, interrupt), PLOCK_OK);
        if (!left) CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        plock_waker_give(interrupt);
        plock__forget_wakers();
        CHECK_DESCRIPTORS(before);
        (void)close(ends[0]);
        (void)close(ends[1]);
    }
}

static void a_sleeping_thread_wakes_at_its_deadline(void) {
    static const plock_ns BRIEF = 20 * PLOCK_MILLISECOND;
    plock_waker *waker = plock_waker_take(), *interrupt = plock_waker_take();
    plock_waker *pairs[][2] = {{waker, NULL}, {NULL, interrupt}, {waker, interrupt}};
    for (int i = 0; i < 3; i++) {
        const plock_ns began = plock_now();
        while (plock_now() < began + BRIEF && plock_now() - began < 10 * PLOCK_SECOND)
            CHECK_STATUS(plock__waker_sleep(pairs[i][0], pairs[i][1], began + BRIEF), PLOCK_OK);
        CHECK_STATUS(plock__waker_sleep(pairs[i][0], pairs[i][1], plock_now() - BRIEF), PLOCK_OK);
        CHECK(plock_now() - began < 10 * PLOCK_SECOND);
    }
    plock_waker_give(waker);
    plock_waker_give(interrupt);
}

typedef struct hand_off {
    plock_waker *wakers[2], *interrupts[2];
    atomic_int turn, lost;
} hand_off;

static void play(hand_off *h, int own) {
    for (int i = own; i < ROUNDS; i += 2) {
        while (atomic_load(&h->turn) < i) {
            const plock_ns until = plock_now() + 10 * PLOCK_SECOND;
            (void)plock_waker_clear(h->wakers[own]);
            if (atomic_load(&h->turn) >= i) break;
            const plock_status slept =
                plock__waker_sleep(h->wakers[own], h->interrupts[own], until);
            if (slept || plock_now() >= until) {
                atomic_fetch_add(&h->lost, 1);
                atomic_store(&h->turn, ROUNDS);
            }
        }
        if (atomic_load(&h->turn) < ROUNDS) atomic_store(&h->turn, i + 1);
        plock_waker_wake(h->wakers[!own]);
    }
}

static void *play_second(void *argument) {
    play(argument, 1);
    return NULL;
}

static void no_wake_is_lost_between_a_look_and_the_sleep(void) {
    hand_off h = {.wakers = {plock_waker_take(), plock_waker_take()},
                  .interrupts = {plock_waker_take(), NULL}};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, play_second, &h) == 0);
    play(&h, 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_INT(atomic_load(&h.lost), 0);
    for (int i = 0; i < 2; i++) {
        plock_waker_give(h.wakers[i]);
        plock_waker_give(h.interrupts[i]);
    }
}

/* When a waker's descriptor is closed, its number may be reused at once. A late wake must not write
 * to that number. */
typedef struct late_ringer {
    _Atomic(plock_waker *) waker;
    atomic_bool over;
} late_ringer;

static void *wake_again_and_again(void *argument) {
    late_ringer *l = argument;
    while (!atomic_load(&l->over)) plock_waker_wake(atomic_load(&l->waker));
    return NULL;
}

static void a_late_wake_writes_to_no_closed_descriptor(void) {
    plock_waker *waker = plock_waker_take(), *fillers[32] = {0};
    late_ringer l;
    atomic_init(&l.waker, waker);
    atomic_init(&l.over, false);
    for (int i = 0; i < 32; i++) fillers[i] = plock__waker_take_open();
    /* After this, enough unused descriptors are kept, so the next one is closed. */
    for (int i = 0; i < 32; i++) plock_waker_give(fillers[i]);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wake_again_and_again, &l) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        int ends[2];
        if (plock_waker_descriptor(waker) < 0) continue;
        plock__waker_detach(waker);
        if (!CHECK(pipe(ends) == 0)) break;
        struct pollfd polled = {.fd = ends[0], .events = POLLIN};
        (void)plock_waker_clear(waker);
        CHECK_INT(poll(&polled, 1, 0), 0);
        (void)close(ends[0]);
        (void)close(ends[1]);
    }
    atomic_store(&l.over, true);
    CHECK(pthread_join(thread, NULL) == 0);
    plock_waker_give(waker);
}

static void without_memory_there_is_no_waker_and_errno_says_why(void) {
    plock__forget_wakers();
    (void)plock__fail_allocation(1);
    errno = 0;
    CHECK(plock_waker_take() == NULL);
    CHECK_INT(errno, ENOMEM);
    (void)plock__fail_allocation(0);
}

/* --- fork --- */

static void use_in_child(void *context) {
    plock_waker **wakers = context; /* wakers[0] was in use at the fork, and wakers[1] was not */
    CHECK(!audible(wakers[0], 0));  /* in the child, it has a different descriptor */
    plock_waker *own = plock_waker_take();
    if (!CHECK(own != NULL)) return;
    CHECK(!audible(own, 0));
    plock_waker_wake(own);
    CHECK(audible(own, 0));
    plock_waker_give(own);
    plock_waker_give(wakers[0]); /* a waker that the parent was using at the fork */
    plock_waker *again = plock_waker_take();
    CHECK(again == wakers[0] && plock_waker_descriptor(again) >= 0);
}

static void a_forked_child_shares_none_with_its_parent(void) {
    plock_waker *wakers[2] = {plock__waker_take_open(), plock__waker_take_open()};
    plock_waker_give(wakers[1]);
    const int before = test_open_descriptors();
    test_in_child(use_in_child, wakers);
    CHECK_DESCRIPTORS(before);
    CHECK(!audible(wakers[0], 0)); /* the child's wake has no effect in the parent */
    plock_waker_wake(wakers[0]);
    CHECK(audible(wakers[0], 0));
    plock_waker_give(wakers[0]);
}

static void count_in_child(void *context) { CHECK_DESCRIPTORS(*(int *)context); }

static void a_forked_child_keeps_no_descriptor_open(void) {
    plock__forget_wakers();
    int before = test_open_descriptors();
    plock_waker *used = plock__waker_take_open(), *given = plock__waker_take_open();
    plock_waker_wake(used);
    plock_waker_give(given);
    CHECK(test_open_descriptors() > before);
    test_in_child(count_in_child, &before);
    plock_waker_give(used);
    plock__forget_wakers();
    CHECK_DESCRIPTORS(before);
    CHECK_INT(plock__live_allocations(), 0);
}

/* A signal handler wakes a waker. If wakers used a mutex in place of a futex, the handler could
 * interrupt the thread that has just locked the mutex, and would wait for it forever. */
enum { SIGNALS = TEST_TSAN ? 2000 : 50000 };
static plock_waker *expecting;
static atomic_bool signalled_enough;

static void wake_expecting(int signal) {
    (void)signal;
    plock_waker_wake(expecting);
}

static void *send_signals(void *thread) {
    while (!atomic_load(&signalled_enough)) (void)pthread_kill(*(pthread_t *)thread, SIGUSR1);
    return NULL;
}

static void a_signal_handler_may_wake_in_the_thread_that_sleeps(void) {
    const struct sigaction action = {.sa_handler = wake_expecting};
    struct sigaction before;
    pthread_t self = pthread_self(), other;
    CHECK(sigaction(SIGUSR1, &action, &before) == 0);
    expecting = plock_waker_take();
    plock_waker_expect_signals(expecting);
    atomic_store(&signalled_enough, false);
    CHECK(pthread_create(&other, NULL, send_signals, &self) == 0);
    for (int i = 0; i < SIGNALS; i++) {
        while (!plock__waker_woken(expecting))
            (void)plock__waker_sleep(NULL, expecting, plock_now() + PLOCK_SECOND);
        (void)plock_waker_clear(expecting);
    }
    atomic_store(&signalled_enough, true);
    CHECK(pthread_join(other, NULL) == 0);
    plock_waker_give(expecting);
    CHECK(sigaction(SIGUSR1, &before, NULL) == 0);
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(a_wake_is_heard_until_it_is_cleared);
    RUN(waking_twice_is_waking_once);
    RUN(a_wake_in_the_middle_of_a_clear_does_not_silence_the_next);
    RUN(one_that_was_given_back_is_used_again_and_silent);
    RUN(no_wake_is_lost_between_threads);
    RUN(without_a_descriptor_errno_says_why);
    RUN(descriptors_are_given_back);
    RUN(threads_that_wait_need_no_descriptor);
    RUN(an_interrupt_is_heard_beside_a_descriptor_and_without_one_left);
    RUN(a_sleeping_thread_wakes_at_its_deadline);
    RUN(no_wake_is_lost_between_a_look_and_the_sleep);
    RUN(a_signal_handler_may_wake_in_the_thread_that_sleeps);
    RUN(a_late_wake_writes_to_no_closed_descriptor);
    RUN(without_memory_there_is_no_waker_and_errno_says_why);
    RUN(a_forked_child_shares_none_with_its_parent);
    RUN(a_forked_child_keeps_no_descriptor_open);
    return test_end("waker");
}
