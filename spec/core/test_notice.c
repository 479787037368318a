/* Notices: the events of leases, in order, for a listener. */
#include "test.h"

#include "base/memory.h"
#include "base/process.h"
#include "runtime/notice.h"
#include "runtime/waker.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

static void begin(void) {
    plock_notice_want(PLOCK_RENEWED, false);
    CHECK(!plock_notice_next());
}

/* Ends a test, and resets the notices as if there had never been a listener. */
static void end(void) {
    CHECK(!plock_notice_next());
    plock__enter();
    plock__notices_in_child();
    plock__leave();
    plock__forget_wakers();
    CHECK_INT(plock__live_allocations(), 0);
}

static void post(plock_notice_kind kind, uint64_t id) {
    plock__notice_post(kind, id, plock__text("", 0), 0, 0);
}

/* Takes the next notice, and returns its id. Returns 0 if there is none. */
static uint64_t next_id(void) {
    plock_notice *notice = plock_notice_next();
    const uint64_t id = notice ? notice->id : 0;
    plock_notice_free(notice);
    return id;
}

static bool readable(void) {
    struct pollfd polled = {.fd = plock_notice_descriptor(), .events = POLLIN};
    return poll(&polled, 1, 0) == 1;
}

/* --- the queue --- */

static void they_come_in_the_order_in_which_they_were_posted(void) {
    begin();
    post(PLOCK_LOST, 1);
    post(PLOCK_ABANDONED, 2);
    CHECK_INT(next_id(), 1);
    post(PLOCK_LOST, 3);
    CHECK_INT(next_id(), 2);
    CHECK_INT(next_id(), 3);
    CHECK_INT(next_id(), 0);
    post(PLOCK_LOST, 4); /* the queue was empty before this notice */
    post(PLOCK_LOST, 5);
    CHECK_INT(next_id(), 4);
    CHECK_INT(next_id(), 5);
    end();
}

static void each_says_what_happened_to_which_lease(void) {
    static const char KEY[] = "a key\0with any byte";
    char key[sizeof KEY];
    begin();
    plock_notice_want(PLOCK_RENEWED, true);
    memcpy(key, KEY, sizeof KEY);
    plock__notice_post(PLOCK_ABANDONED, 17, plock__text(key, sizeof key - 1), 1700000000000001, 0);
    plock__notice_post(PLOCK_RENEWED, UINT64_MAX, plock__text("", 0), 0, 70 * PLOCK_MILLISECOND);
    memset(key, 'x', sizeof key); /* the notice has its own copy of the key */
    plock_notice *abandoned = plock_notice_next(), *renewed = plock_notice_next();
    if (CHECK(abandoned != NULL)) {
        CHECK_INT(abandoned->kind, PLOCK_ABANDONED);
        CHECK_INT(abandoned->id, 17);
        CHECK_INT(abandoned->fence, 1700000000000001);
        CHECK_INT(abandoned->key_length, sizeof KEY - 1);
        CHECK(!memcmp(abandoned->key, KEY, sizeof KEY - 1));
        CHECK_INT(abandoned->took, 0);
    }
    if (CHECK(renewed != NULL)) {
        CHECK_INT(renewed->kind, PLOCK_RENEWED);
        CHECK(renewed->id == UINT64_MAX);
        CHECK_INT(renewed->took, 70 * PLOCK_MILLISECOND);
        CHECK_INT(renewed->key_length, 0);
    }
    plock_notice_free(abandoned);
    plock_notice_free(renewed);
    plock_notice_free(NULL);
    end();
}

/* No notice is dropped, however late a listener starts to read. The queue stays small, because each
 * lease has at most one notice. There may be many renewals, but they are posted only on request. */
static void they_wait_for_a_listener(void) {
    enum { MANY = 20000 };
    uint64_t id = 0;
    begin();
    for (unsigned i = 1; i <= MANY; i++) post(PLOCK_LOST, i);
    for (unsigned i = 1; i <= MANY && id == i - 1; i++) id = next_id();
    CHECK_INT(id, MANY);
    end();
}

static void renewals_are_posted_only_where_they_are_wanted(void) {
    begin();
    post(PLOCK_RENEWED, 1);
    CHECK_INT(next_id(), 0);
    plock_notice_want(PLOCK_RENEWED, true);
    post(PLOCK_RENEWED, 2);
    plock_notice_want(PLOCK_RENEWED, false);
    post(PLOCK_RENEWED, 3);
    post(PLOCK_LOST, 4); /* notices of the other kinds are always posted */
    post(PLOCK_ABANDONED, 5);
    CHECK_INT(next_id(), 2);
    CHECK_INT(next_id(), 4);
    CHECK_INT(next_id(), 5);
    end();
}

/* --- listening --- */

static void a_listener_is_woken(void) {
    begin();
    CHECK(readable()); /* readable at first, because there may be earlier notices */
    plock_notice_clear();
    CHECK(!readable());
    post(PLOCK_LOST, 1);
    CHECK(readable());
    CHECK(readable()); /* readable until the listener clears the waker */
    CHECK_INT(next_id(), 1);
    CHECK(readable());
    plock_notice_clear();
    CHECK(!readable());
    post(PLOCK_RENEWED, 2); /* not posted, because no listener has requested renewals */
    CHECK(!readable());
    plock_notice_wake();
    CHECK(readable());
    plock_notice_clear();
    CHECK_INT(next_id(), 0);
    end();
}

static void earlier_notices_wake_it_too(void) {
    begin();
    post(PLOCK_LOST, 1);
    plock_notice_wake(); /* has no effect without a listener */
    plock_notice_clear();
    CHECK(readable());
    CHECK_INT(next_id(), 1);
    end();
}

static void there_is_one_descriptor(void) {
    begin();
    CHECK(!plock_notice_awaited());
    const int first = plock_notice_descriptor();
    CHECK(first >= 0);
    CHECK(plock_notice_awaited());
    CHECK_INT(plock_notice_descriptor(), first);
    CHECK_INT(plock__live_allocations(), 1); /* no second descriptor was made */
    end();
}

/* --- many threads --- */

enum { THREADS = 4, EACH = 2000 };
static atomic_uint posting, ready;
static uint64_t taken[THREADS];

/* Makes all threads begin at the same time. */
static void wait_for_all(void) {
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < THREADS + 1) (void)sched_yield();
}

static void *post_many(void *context) {
    const uint64_t poster = *(const uint64_t *)context;
    wait_for_all();
    for (uint64_t i = 1; i <= EACH; i++) post(PLOCK_LOST, poster * EACH + i);
    atomic_fetch_sub(&posting, 1);
    plock_notice_wake();
    return NULL;
}

/* Reads notices as a listener does: it clears the waker, takes all notices, and waits. */
static unsigned listen_to_all(void) {
    unsigned count = 0;
    for (unsigned rounds = 0; rounds < 100 * THREADS * EACH; rounds++) {
        struct pollfd polled = {.fd = plock_notice_descriptor(), .events = POLLIN};
        const bool last = atomic_load(&posting) == 0;
        if (!last) CHECK(poll(&polled, 1, 10000) == 1);
        plock_notice_clear();
        for (uint64_t id; (id = next_id()) != 0; count++) {
            const uint64_t poster = (id - 1) / EACH;
            /* each thread's notices arrive in order */
            CHECK_INT(id, poster * EACH + ++taken[poster]);
        }
        if (last) break;
    }
    return count;
}

static void threads_that_post_at_once_lose_nothing(void) {
    pthread_t threads[THREADS];
    uint64_t numbers[THREADS];
    begin();
    memset(taken, 0, sizeof taken);
    atomic_store(&posting, THREADS);
    atomic_store(&ready, 0);
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, post_many, &numbers[i]) == 0);
    }
    wait_for_all();
    CHECK_INT(listen_to_all(), THREADS * EACH);
    for (unsigned i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    end();
}

static void *get_descriptor(void *context) {
    *(int *)context = plock_notice_descriptor();
    return NULL;
}

static void threads_that_begin_to_listen_at_once_get_the_same(void) {
    pthread_t threads[THREADS];
    int descriptors[THREADS];
    begin();
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, get_descriptor, &descriptors[i]) == 0);
    for (unsigned i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (unsigned i = 0; i < THREADS; i++) CHECK_INT(descriptors[i], plock_notice_descriptor());
    end();
}

/* --- lack of memory --- */

static void without_memory_one_is_lost_and_the_next_is_not(void) {
    begin();
    (void)plock__fail_allocation(2);
    post(PLOCK_LOST, 1);
    post(PLOCK_LOST, 2);
    post(PLOCK_LOST, 3);
    CHECK_INT(plock__fail_allocation(0), 3);
    CHECK_INT(next_id(), 1);
    CHECK_INT(next_id(), 3);
    (void)plock__fail_allocation(1);
    CHECK_INT(plock_notice_descriptor(), -1);
    (void)plock__fail_allocation(0);
    plock_notice_clear(); /* harmless without a descriptor */
    plock_notice_wake();
    CHECK(plock_notice_descriptor() >= 0);
    end();
}

/* --- fork --- */

static void listen_in_child(void *context) {
    const int parents = *(const int *)context;
    const long inherited = plock__live_allocations();
    CHECK_INT(next_id(), 0); /* the parent's notices are not in the child */
    CHECK(!plock_notice_awaited());
    plock_notice_clear();
    plock_notice_wake();
    post(PLOCK_LOST, 7);
    post(PLOCK_LOST, 8);
    CHECK_INT(next_id(), 7);
    CHECK(readable());
    CHECK_INT(next_id(), 8);
    plock_notice_clear();
    CHECK(!readable());
    post(PLOCK_LOST, 9);
    CHECK(readable());
    CHECK_INT(next_id(), 9);
    CHECK(plock__live_allocations() <= inherited + 1); /* at most one more waker */
    if (parents < 0) return;
    struct pollfd polled = {.fd = parents, .events = POLLIN};
    /* in the child, the parent's descriptor is closed, or its number is in use again */
    CHECK(parents == plock_notice_descriptor() || poll(&polled, 1, 0) == 1);
    CHECK(parents == plock_notice_descriptor() || (polled.revents & POLLNVAL));
}

static void a_child_has_notices_of_its_own(void) {
    for (int listens = 0; listens < 2; listens++) {
        begin();
        int descriptor = listens ? plock_notice_descriptor() : -1;
        if (listens) plock_notice_clear();
        post(PLOCK_LOST, 1);
        test_in_child(listen_in_child, &descriptor);
        CHECK(readable());
        CHECK_INT(next_id(), 1);
        plock_notice_clear();
        CHECK(!readable()); /* the child's notices are not in the parent */
        end();
    }
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(they_come_in_the_order_in_which_they_were_posted);
    RUN(each_says_what_happened_to_which_lease);
    RUN(they_wait_for_a_listener);
    RUN(renewals_are_posted_only_where_they_are_wanted);
    RUN(a_listener_is_woken);
    RUN(earlier_notices_wake_it_too);
    RUN(there_is_one_descriptor);
    RUN(threads_that_post_at_once_lose_nothing);
    RUN(threads_that_begin_to_listen_at_once_get_the_same);
    RUN(without_memory_one_is_lost_and_the_next_is_not);
    RUN(a_child_has_notices_of_its_own);
    return test_end("notice");
}
