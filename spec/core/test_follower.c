/* Followers: a thread that waits for the worker thread's work does that work itself. It hands the
 * work back when its wait ends. */
#include "test.h"

#include "base/memory.h"
#include "base/process.h"
#include "plock/interest.h"
#include "runtime/waker.h"
#include "runtime/worker.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* A job that never ends. If `is_idle` is true, the job may go without a step for `idle_span`. Each
 * byte in the job's pipe is one piece of work. */
typedef struct endless_job {
    plock_job job; /* first, so that a pointer to the job also points to this struct */
    int ends[2];
} endless_job;

static atomic_bool is_idle;
static _Atomic plock_ns idle_span = PLOCK_SECOND;
static atomic_int done, destroyed;
static _Atomic pthread_t done_by;
static plock_waker *woken_by_job; /* the job wakes this waker after each byte; NULL: none */

static plock_status step(plock_job *job, plock_interest *interest) {
    endless_job *endless = (endless_job *)(void *)job;
    struct pollfd polled = {.fd = endless->ends[0], .events = POLLIN};
    char byte;
    while (poll(&polled, 1, 0) == 1 && read(endless->ends[0], &byte, 1) == 1) {
        atomic_store(&done_by, pthread_self());
        atomic_fetch_add(&done, 1);
        if (woken_by_job) plock__worker_wake(woken_by_job);
    }
    *interest = (plock_interest){.fd = endless->ends[0], .events = POLLIN, .deadline = PLOCK_NEVER};
    return PLOCK_AGAIN;
}

static void destroy(plock_job *job) {
    endless_job *endless = (endless_job *)(void *)job;
    (void)close(endless->ends[0]);
    (void)close(endless->ends[1]);
    free(endless);
    atomic_fetch_add(&destroyed, 1);
}

static plock_ns idle(const plock_job *job) {
    (void)job;
    return atomic_load(&is_idle) ? atomic_load(&idle_span) : 0;
}

static endless_job *endless;
static plock_waker *waker, *interrupt;

static void begin(bool idle_now) {
    atomic_store(&is_idle, idle_now);
    atomic_store(&done, 0);
    atomic_store(&destroyed, 0);
    waker = plock_waker_take();
    interrupt = plock_waker_take();
    woken_by_job = waker;
    endless = calloc(1, sizeof *endless);
    if (!waker || !interrupt || !endless || pipe(endless->ends)) abort();
    endless->job = (plock_job){.step = step, .destroy = destroy, .lingers = true, .idle = idle};
    plock__worker_submit(&endless->job);
}

static void end(void) {
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    CHECK_INT(atomic_load(&destroyed), 1);
    plock_waker_give(waker);
    plock_waker_give(interrupt);
    plock__forget_wakers();
    CHECK_INT(plock__live_allocations(), 0);
}

static plock_interest for_the_waker(plock_ns span) {
    return (plock_interest){
        .fd = -1, .waker = waker, .deadline = plock_now() + span, .helps = true};
}

static void something_to_do(void) { CHECK(write(endless->ends[1], "x", 1) == 1); }

static void check_done(int expected) {
    for (unsigned rounds = 0; atomic_load(&done) < expected && test_patient(&rounds);) continue;
    CHECK_INT(atomic_load(&done), expected);
}

/* Waits until this thread does the worker thread's work as a follower. The worker thread allows
 * this as soon as it has nothing else to do. */
static bool drive_once(plock_status *status) {
    for (unsigned rounds = 0; test_patient(&rounds);) {
        const int before = atomic_load(&done);
        something_to_do();
        const plock_interest interest = for_the_waker(PLOCK_SECOND);
        *status = plock_await(&interest, interrupt);
        check_done(before + 1);
        (void)plock_waker_clear(waker);
        if (pthread_equal(atomic_load(&done_by), pthread_self())) return true;
    }
    return false;
}

static void a_waiting_thread_does_the_work_that_it_waits_for(void) {
    plock_status status;
    begin(true);
    CHECK(drive_once(&status));
    CHECK_STATUS(status, PLOCK_OK);
    end();
}

static void other_work_stays_with_the_worker_thread(void) {
    begin(false);
    for (int i = 1; i <= 20; i++) {
        something_to_do();
        const plock_interest interest = for_the_waker(PLOCK_SECOND);
        CHECK_STATUS(plock_await(&interest, interrupt), PLOCK_OK);
        check_done(i);
        (void)plock_waker_clear(waker);
        CHECK(!pthread_equal(atomic_load(&done_by), pthread_self()));
    }
    end();
}

static void after_a_follower_the_worker_thread_goes_on(void) {
    plock_status status;
    begin(true);
    if (CHECK(drive_once(&status))) {
        atomic_store(&is_idle, false);
        /* the job is not idle when the follower returns, so the follower wakes the worker thread */
        CHECK(drive_once(&status));
        const int before = atomic_load(&done);
        something_to_do();
        check_done(before + 1);
        CHECK(!pthread_equal(atomic_load(&done_by), pthread_self()));
    }
    end();
}

static void a_thread_that_waits_in_another_way_is_served(void) {
    plock_status status;
    begin(true);
    CHECK(drive_once(&status));
    const int before = atomic_load(&done);
    something_to_do();
    /* the job is not idle now, as if a thread were waiting for it outside plock_await */
    atomic_store(&is_idle, false);
    plock_have_led();
    check_done(before + 1);
    CHECK(!pthread_equal(atomic_load(&done_by), pthread_self()));
    end();
}

static void without_a_follower_the_worker_thread_listens(void) {
    plock_status status;
    begin(true);
    CHECK(drive_once(&status));
    /* once while the worker thread waits for a follower, and once after it has stopped waiting */
    for (int i = 0; i < 2; i++) {
        const int before = atomic_load(&done);
        something_to_do();
        check_done(before + 1);
    }
    CHECK(drive_once(&status)); /* later the worker thread admits a follower again */
    end();
}

/* One quick attempt of three is enough, because the machine may be busy during the others. */
static void the_worker_thread_looks_as_often_as_a_job_needs(void) {
    plock_status status;
    plock_ns took = PLOCK_SECOND;
    atomic_store(&idle_span, 20 * PLOCK_MILLISECOND);
    begin(true);
    for (int i = 0; i < 3 && took >= PLOCK_SECOND / 2; i++) {
        CHECK(drive_once(&status));
        const int before = atomic_load(&done);
        const plock_ns since = plock_now();
        something_to_do();
        check_done(before + 1);
        took = plock_now() - since;
    }
    CHECK(took < PLOCK_SECOND / 2);
    atomic_store(&idle_span, PLOCK_SECOND);
    end();
}

static void a_follower_can_be_interrupted(void) {
    plock_status status;
    begin(true);
    CHECK(drive_once(&status));
    plock_waker_wake(interrupt);
    const plock_interest interest = for_the_waker(60 * PLOCK_SECOND);
    CHECK_STATUS(plock_await(&interest, interrupt), PLOCK_INTERRUPTED);
    (void)plock_waker_clear(interrupt);
    end();
}

static void a_follower_waits_no_longer_than_its_time(void) {
    plock_status status;
    begin(true);
    CHECK(drive_once(&status));
    const plock_ns before = plock_now();
    const plock_interest interest = for_the_waker(30 * PLOCK_MILLISECOND);
    CHECK_STATUS(plock_await(&interest, NULL), PLOCK_OK);
    CHECK(plock_now() >= before + 30 * PLOCK_MILLISECOND &&
          plock_now() < before + 10 * PLOCK_SECOND);
    end();
}

static plock_status step_once(plock_job *job, plock_interest *interest) {
    (void)job, (void)interest;
    atomic_store(&done_by, pthread_self());
    plock__worker_wake(waker);
    return PLOCK_OK;
}

static void free_job(plock_job *job) { free(job); }

static void *submit_soon(void *argument) {
    plock__worker_submit(argument);
    return NULL;
}

static void a_follower_takes_what_others_submit(void) {
    plock_status status;
    pthread_t thread;
    begin(true);
    CHECK(drive_once(&status));
    plock_job *job = calloc(1, sizeof *job);
    if (!job) abort();
    job->step = step_once;
    job->destroy = free_job;
    CHECK(pthread_create(&thread, NULL, submit_soon, job) == 0);
    const plock_interest interest = for_the_waker(60 * PLOCK_SECOND);
    CHECK_STATUS(plock_await(&interest, interrupt), PLOCK_OK);
    CHECK(pthread_join(thread, NULL) == 0);
    end();
}

static void *drain(void *argument) {
    plock_drain(plock_now());
    return argument;
}

static void a_follower_makes_way_for_the_end(void) {
    plock_status status;
    pthread_t thread;
    begin(true);
    CHECK(drive_once(&status));
    CHECK(pthread_create(&thread, NULL, drain, NULL) == 0);
    const plock_interest interest = for_the_waker(PLOCK_SECOND);
    CHECK_STATUS(plock_await(&interest, interrupt), PLOCK_OK);
    CHECK(pthread_join(thread, NULL) == 0);
    end();
}

static void drive_in_child(void *context) {
    (void)context;
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    CHECK_INT(atomic_load(&destroyed), 1);
}

static void *wait_as_follower(void *argument) {
    const plock_interest interest = for_the_waker(60 * PLOCK_SECOND);
    CHECK_STATUS(plock_await(&interest, interrupt), PLOCK_INTERRUPTED);
    return argument;
}

static void a_child_has_no_follower(void) {
    plock_status status;
    pthread_t thread;
    begin(true);
    CHECK(drive_once(&status));
    CHECK(pthread_create(&thread, NULL, wait_as_follower, NULL) == 0);
    for (int i = 0; i < 20; i++) test_in_child(drive_in_child, NULL);
    plock_waker_wake(interrupt);
    CHECK(pthread_join(thread, NULL) == 0);
    (void)plock_waker_clear(interrupt);
    end();
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(a_waiting_thread_does_the_work_that_it_waits_for);
    RUN(other_work_stays_with_the_worker_thread);
    RUN(after_a_follower_the_worker_thread_goes_on);
    RUN(a_thread_that_waits_in_another_way_is_served);
    RUN(without_a_follower_the_worker_thread_listens);
    RUN(the_worker_thread_looks_as_often_as_a_job_needs);
    RUN(a_follower_can_be_interrupted);
    RUN(a_follower_waits_no_longer_than_its_time);
    RUN(a_follower_takes_what_others_submit);
    RUN(a_follower_makes_way_for_the_end);
    RUN(a_child_has_no_follower);
    return test_end("follower");
}
