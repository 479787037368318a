/* Sleeping on a word that processes share: events that wake the sleeper, and systems without a
 * futex. */
#include "local_support.h"

#include "runtime/parking_slot.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const plock_ns LONG = 60 * PLOCK_SECOND, BRIEF = 20 * PLOCK_MILLISECOND;

typedef struct bed {
    _Atomic uint64_t word;
    _Atomic uint8_t asleep;
} bed;

enum { STILL = 7, CHANGED };

static bed *new_bed(void) {
    bed *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(b != MAP_FAILED);
    atomic_store(&b->word, STILL);
    return b;
}

static bool is_mapped(const void *b) { return b; }

static plock__parking_slot parking_slot_in(bed *b, plock_waker *waker) {
    return (plock__parking_slot){.word = &b->word,
                                 .value = STILL,
                                 .asleep = &b->asleep,
                                 .waker = waker,
                                 .is_there = is_mapped,
                                 .of = b};
}

static plock_status sleep_there(const plock__parking_slot *parking_slot, plock_waker *interrupt,
                                plock_ns span) {
    const plock_ns deadline = plock_now() + span;
    const plock_interest interest = {
        .fd = -1, .waker = parking_slot->waker, .deadline = deadline, .parking_slot = parking_slot};
    return plock_await(&interest, interrupt);
}

static bool await_sleep(bed *b) {
    unsigned rounds = 0;
    while (!atomic_load(&b->asleep))
        if (!test_patient(&rounds)) return CHECK(atomic_load(&b->asleep));
    return true;
}

static void change_it(void *context) {
    bed *b = context;
    if (!await_sleep(b)) _exit(1);
    (void)usleep(2000);
    atomic_store(&b->word, CHANGED);
    plock__parking_slot_wake(&b->word);
}

static void another_process_wakes_it(void) {
    bed *b = new_bed();
    plock_waker *waker = plock_waker_take();
    const plock__parking_slot parking_slot = parking_slot_in(b, waker);
    const pid_t other = local_child(change_it, b);
    const plock_ns began = plock_now();
    while (atomic_load(&b->word) == STILL && plock_now() - began < 10 * PLOCK_SECOND)
        CHECK_STATUS(sleep_there(&parking_slot, NULL, LONG), PLOCK_OK);
    CHECK(plock_now() - began < 10 * PLOCK_SECOND);
    CHECK_INT(local_status_of(other), 0);
    /* returns at once, because the word has changed */
    CHECK_STATUS(sleep_there(&parking_slot, NULL, LONG), PLOCK_OK);
    CHECK_INT(b->asleep, 0);
    plock_waker_give(waker);
}

static void its_deadline_ends_it(void) {
    bed *b = new_bed();
    plock_waker *waker = plock_waker_take();
    const plock__parking_slot parking_slot = parking_slot_in(b, waker);
    const plock_ns began = plock_now();
    CHECK_STATUS(sleep_there(&parking_slot, NULL, BRIEF), PLOCK_OK);
    CHECK(plock_now() - began >= BRIEF && plock_now() - began < 10 * PLOCK_SECOND);
    CHECK_STATUS(sleep_there(&parking_slot, NULL, -BRIEF), PLOCK_OK);
    plock_waker_give(waker);
}

typedef struct waking {
    bed *b;
    plock_waker *waker;
} waking;

static void *wake(void *context) {
    const waking *r = context;
    if (await_sleep(r->b)) plock_waker_wake(r->waker);
    return NULL;
}

static void a_waker_and_an_interrupt_wake_it_and_differ(void) {
    for (int interrupts = 0; interrupts < 2; interrupts++) {
        bed *b = new_bed();
        plock_waker *wakers[] = {plock_waker_take(), plock_waker_take()};
        const plock__parking_slot parking_slot = parking_slot_in(b, wakers[0]);
        pthread_t thread;
        waking r = {b, wakers[interrupts]};
        CHECK(pthread_create(&thread, NULL, wake, &r) == 0);
        const plock_ns began = plock_now();
        CHECK_STATUS(sleep_there(&parking_slot, wakers[1], LONG),
                     interrupts ? PLOCK_INTERRUPTED : PLOCK_OK);
        CHECK(plock_now() - began < 10 * PLOCK_SECOND);
        CHECK(pthread_join(thread, NULL) == 0);
        /* the wake lasts until the waker is cleared */
        CHECK_STATUS(sleep_there(&parking_slot, wakers[1], LONG),
                     interrupts ? PLOCK_INTERRUPTED : PLOCK_OK);
        CHECK(plock_waker_clear(r.waker));
        for (int i = 0; i < 2; i++) plock_waker_give(wakers[i]);
    }
}

static void wait_in_line(void *context) {
    plock_lease *lease = local_lease(context, "k");
    if (local_acquire(lease, LONG, LONG)) _exit(1);
    plock_lease_free(lease);
}

static void without_a_slot_it_is_woken(void) {
    plock_local *store = local_open();
    (void)plock__parking_slot_forbid(true);
    /* in the second round, only the releasing process may use a parking slot */
    for (int both = 0; both < 2; both++) {
        plock_lease *lease = local_lease(store, "k");
        CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
        const pid_t waiter = local_child(wait_in_line, store);
        CHECK(local_await_waiters(store, "k", 1));
        (void)usleep(2000);
        (void)plock__parking_slot_forbid(!both);
        const plock_ns released = plock_now();
        CHECK_STATUS(local_release(lease), PLOCK_OK);
        CHECK_INT(local_status_of(waiter), 0);
        CHECK(plock_now() - released < 10 * PLOCK_SECOND);
        plock_lease_free(lease);
        (void)plock__parking_slot_forbid(true);
    }
    (void)plock__parking_slot_forbid(false);
    plock_local_close(store);
}

int main(void) {
    local_begin();
    if (plock__parking_slot_forbid(false)) {
        RUN(another_process_wakes_it);
        RUN(its_deadline_ends_it);
        RUN(a_waker_and_an_interrupt_wake_it_and_differ);
    } else {
        test_skip("sleeping at a word", "this system has no futex_waitv");
    }
    RUN(without_a_slot_it_is_woken);
    plock_drain(plock_now() + PLOCK_SECOND);
    local_end();
    return test_end("parking slot");
}
