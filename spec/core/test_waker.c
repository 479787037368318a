/* Wakers: rung by one thread, heard by another, and quiet afterwards. */
#include "test.h"

#include "memory.h"
#include "waker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool audible(const plock_waker *waker, int timeout_ms) {
    struct pollfd polled = {.fd = plock_waker_descriptor(waker), .events = POLLIN};
    return poll(&polled, 1, timeout_ms) == 1;
}

/* The engine's read(2) comes here; a test can let something happen just before it. */
static _Atomic(plock_waker *) ring_before_read;

ssize_t read(int fd, void *buffer, size_t size);
ssize_t read(int fd, void *buffer, size_t size) {
    plock_waker *waker = atomic_exchange(&ring_before_read, NULL);
    if (waker) plock_waker_ring(waker);
    return (ssize_t)syscall(SYS_read, fd, buffer, size);
}

static void a_ring_is_heard_until_it_is_hushed(void) {
    plock_waker *waker = plock_waker_take();
    if (!CHECK(waker != NULL)) return;
    CHECK(!audible(waker, 0));
    plock_waker_ring(waker);
    CHECK(audible(waker, 0));
    CHECK(audible(waker, 0));
    CHECK(plock_waker_hush(waker));
    CHECK(!audible(waker, 0));
    plock_waker_give(waker);
}

static void ringing_twice_is_ringing_once(void) {
    plock_waker *waker = plock_waker_take();
    for (int i = 0; i < 1000; i++) plock_waker_ring(waker);
    CHECK(plock_waker_hush(waker));
    CHECK(!audible(waker, 0));
    CHECK(!plock_waker_hush(waker)); /* and does not block */
    plock_waker_ring(waker);
    CHECK(audible(waker, 0));
    plock_waker_give(waker);
}

/* Whoever hushes looks around afterwards, so this ring may be swallowed; but not the next one. */
static void a_ring_in_the_middle_of_a_hush_does_not_silence_the_next(void) {
    plock_waker *waker = plock_waker_take();
    plock_waker_ring(waker);
    atomic_store(&ring_before_read, waker);
    (void)plock_waker_hush(waker);
    CHECK(atomic_load(&ring_before_read) == NULL);
    plock_waker_ring(waker);
    CHECK(audible(waker, 0));
    plock_waker_give(waker);
}

static void one_that_was_given_back_is_used_again_and_silent(void) {
    plock_waker *first = plock_waker_take();
    const int descriptor = plock_waker_descriptor(first);
    plock_waker_ring(first);
    plock_waker_give(first);
    plock_waker *second = plock_waker_take();
    CHECK(second == first);
    CHECK_INT(plock_waker_descriptor(second), descriptor);
    CHECK(!audible(second, 0));
    CHECK(!plock_waker_hush(second));
    plock_waker *third = plock_waker_take();
    CHECK(third != second);
    CHECK(plock_waker_descriptor(third) != descriptor);
    plock_waker_give(third);
    plock_waker_give(second);
    plock_waker_give(NULL);
}

enum { ROUNDS = 3000 };

typedef struct conversation {
    plock_waker *ask, *reply;
    atomic_int asked, replied, lost;
} conversation;

/* Hears rings until it has seen the last question, and acknowledges each state it saw. */
static void *listen_and_reply(void *argument) {
    conversation *c = argument;
    for (int seen = 0; seen < ROUNDS;) {
        if (!audible(c->ask, 5000)) {
            atomic_fetch_add(&c->lost, 1);
            break;
        }
        (void)plock_waker_hush(c->ask);
        seen = atomic_load(&c->asked);
        atomic_store(&c->replied, seen);
        plock_waker_ring(c->reply);
    }
    return NULL;
}

static void no_ring_is_lost_between_threads(void) {
    conversation c = {.ask = plock_waker_take(), .reply = plock_waker_take()};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, listen_and_reply, &c) == 0);
    for (int i = 1; i <= ROUNDS && !atomic_load(&c.lost); i++) {
        atomic_store(&c.asked, i);
        plock_waker_ring(c.ask);
        if (i % 2) continue; /* every other ring may meet the hush of the one before */
        while (atomic_load(&c.replied) < i && !atomic_load(&c.lost))
            if (audible(c.reply, 5000)) (void)plock_waker_hush(c.reply);
            else atomic_fetch_add(&c.lost, 1);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_INT(atomic_load(&c.lost), 0);
    CHECK_INT(atomic_load(&c.replied), ROUNDS);
    plock_waker_give(c.ask);
    plock_waker_give(c.reply);
}

/* --- descriptors --- */

static void without_a_descriptor_there_is_no_waker_and_errno_says_why(void) {
    struct rlimit limit, none;
    plock__forget_wakers();
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = limit;
    none.rlim_cur = 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    errno = 0;
    plock_waker *waker = plock_waker_take();
    const int code = errno;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(waker == NULL);
    CHECK_INT(code, EMFILE);
    waker = plock_waker_take(); /* and then there is one */
    CHECK(waker != NULL);
    plock_waker_ring(waker);
    CHECK(audible(waker, 0));
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
    plock_waker **wakers = context; /* 0: in use, 1: unused at the fork */
    CHECK_INT(plock_waker_descriptor(wakers[0]), -1);
    plock_waker *own = plock_waker_take();
    if (!CHECK(own != NULL)) return;
    CHECK(!audible(own, 0));
    plock_waker_ring(own);
    CHECK(audible(own, 0));
    plock_waker_give(own);
    plock_waker_give(wakers[0]); /* one that the parent's code had in its hands */
    plock_waker *again = plock_waker_take();
    CHECK(again == wakers[0] && plock_waker_descriptor(again) >= 0);
}

static void a_forked_child_shares_none_with_its_parent(void) {
    plock_waker *wakers[2] = {plock_waker_take(), plock_waker_take()};
    plock_waker_give(wakers[1]);
    const int before = test_open_descriptors();
    test_in_child(use_in_child, wakers);
    CHECK_INT(test_open_descriptors(), before);
    CHECK(!audible(wakers[0], 0)); /* what the child rang is not heard here */
    plock_waker_ring(wakers[0]);
    CHECK(audible(wakers[0], 0));
    plock_waker_give(wakers[0]);
}

static void count_in_child(void *context) {
    CHECK_INT(test_open_descriptors(), *(int *)context);
}

static void a_forked_child_keeps_no_descriptor_open(void) {
    plock__forget_wakers();
    int before = test_open_descriptors();
    plock_waker *used = plock_waker_take(), *given = plock_waker_take();
    plock_waker_ring(used);
    plock_waker_give(given);
    CHECK(test_open_descriptors() > before);
    test_in_child(count_in_child, &before);
    plock_waker_give(used);
    plock__forget_wakers();
    CHECK_INT(test_open_descriptors(), before);
    CHECK_INT(plock__live_allocations(), 0);
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(a_ring_is_heard_until_it_is_hushed);
    RUN(ringing_twice_is_ringing_once);
    RUN(a_ring_in_the_middle_of_a_hush_does_not_silence_the_next);
    RUN(one_that_was_given_back_is_used_again_and_silent);
    RUN(no_ring_is_lost_between_threads);
    RUN(without_a_descriptor_there_is_no_waker_and_errno_says_why);
    RUN(without_memory_there_is_no_waker_and_errno_says_why);
    RUN(a_forked_child_shares_none_with_its_parent);
    RUN(a_forked_child_keeps_no_descriptor_open);
    return test_end("waker");
}
