/* The worker thread: jobs without a waiting caller continue, and end in time. */
#include "fake.h"
#include "test.h"

#include "base/memory.h"
#include "base/process.h"
#include "runtime/agenda.h"
#include "runtime/waker.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* A job that ends when its descriptor is readable, however many steps that takes. Without a
 * descriptor, it ends after steps_left steps. */
typedef struct counted_job {
    plock_job job; /* first, so that a pointer to the job also points to this struct */
    int steps_left, fd;
} counted_job;

static bool readable(int fd) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, 0) == 1;
}

static atomic_int stepped, destroyed;
static atomic_bool in_step;
static pthread_t stepped_by;
static char stepped_in[16]; /* the name of the thread that made the last step */

static plock_status step(plock_job *job, plock_interest *interest) {
    counted_job *counted = (counted_job *)(void *)job;
    stepped_by = pthread_self();
#ifdef __linux__
    CHECK(pthread_getname_np(stepped_by, stepped_in, sizeof stepped_in) == 0);
#endif
    atomic_fetch_add(&stepped, 1);
    if (counted->fd >= 0 ? readable(counted->fd) : --counted->steps_left == 0) return PLOCK_OK;
    interest->fd = counted->fd;
    interest->events = POLLIN;
    if (counted->fd < 0) interest->deadline = plock_now();
    return PLOCK_AGAIN;
}

static void destroy(plock_job *job) {
    atomic_fetch_add(&destroyed, 1);
    free(job);
}

static plock_job *make_job(int steps, int fd) {
    counted_job *counted = calloc(1, sizeof *counted);
    if (!counted) abort();
    *counted =
        (counted_job){.job = {.step = step, .destroy = destroy}, .steps_left = steps, .fd = fd};
    return &counted->job;
}

static plock_job *steps(int count) { return make_job(count, -1); }

static plock_job *waits_for(int fd) { return make_job(0, fd); }

static void begin(void) {
    atomic_store(&stepped, 0);
    atomic_store(&destroyed, 0);
}

static void end(void) {
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    plock__forget_wakers();
    CHECK_INT(plock__live_allocations(), 0);
}

static void check_destroyed(int expected) {
    for (unsigned rounds = 0; atomic_load(&destroyed) < expected && test_patient(&rounds);)
        continue;
    CHECK_INT(atomic_load(&destroyed), expected);
}

/* --- work --- */

static void a_job_is_stepped_by_another_thread_until_it_is_done(void) {
    begin();
    plock__worker_submit(steps(5));
    check_destroyed(1);
    CHECK_INT(atomic_load(&stepped), 5);
    CHECK(!pthread_equal(stepped_by, pthread_self()));
    end();
}

#ifdef __linux__
static void the_thread_has_a_name(void) {
    begin();
    plock__worker_submit(steps(1));
    check_destroyed(1);
    CHECK_TEXT(stepped_in, "plock-worker");
    end();
}
#endif

static void many_jobs_go_on_side_by_side(void) {
    enum { JOBS = 300 }; /* more than the worker thread steps at a time */
    int ends[2];
    begin();
    CHECK(pipe(ends) == 0);
    for (int i = 0; i < JOBS; i++) plock__worker_submit(waits_for(ends[0]));
    for (unsigned rounds = 0; atomic_load(&stepped) < 2 && test_patient(&rounds);) continue;
    /* all jobs wait for the pipe, and none for another job */
    CHECK_INT(atomic_load(&destroyed), 0);
    CHECK(write(ends[1], "x", 1) == 1);
    check_destroyed(JOBS);
    CHECK(atomic_load(&stepped) >= JOBS);
    end();
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* A lease is watched as long as it is held. So there may be any number of jobs that only wait. */
static void waiters_keep_no_other_from_its_turn(void) {
    enum { JOBS = 300 };
    int ends[2], own[2];
    begin();
    CHECK(pipe(ends) == 0 && pipe(own) == 0);
    for (int i = 0; i < JOBS; i++) plock__worker_submit(waits_for(ends[0]));
    plock__worker_submit(steps(5)); /* this job waits only for deadlines */
    check_destroyed(1);
    plock__worker_submit(waits_for(own[0])); /* this job waits for its own descriptor */
    plock__worker_submit(steps(2));
    check_destroyed(2); /* by now, the worker thread has also stepped the job of own[0] */
    CHECK(write(own[1], "x", 1) == 1);
    check_destroyed(3);
    CHECK(write(ends[1], "x", 1) == 1);
    check_destroyed(JOBS + 3);
    end();
    for (int i = 0; i < 2; i++) CHECK(close(ends[i]) == 0 && close(own[i]) == 0);
}

/* --- the cost of many jobs --- */

enum { MANY = 2000, BITS = 11 };

static atomic_int rested;

static plock_status rest(plock_job *job, plock_interest *interest) {
    (void)job;
    atomic_fetch_add(&rested, 1);
    interest->deadline = plock_now() + 3600 * PLOCK_SECOND;
    return PLOCK_AGAIN;
}

static plock_job *resting[MANY];

static void submit_resting(void) {
    atomic_store(&rested, 0);
    for (int i = 0; i < MANY; i++) {
        resting[i] = make_job(0, -1);
        resting[i]->step = rest;
        plock__worker_submit(resting[i]);
    }
    for (unsigned rounds = 0; atomic_load(&rested) < MANY && test_patient(&rounds);) continue;
}

/* A lease is watched as long as it is held. The cost of other jobs must not grow with the number of
 * resting jobs. The work is counted, not timed. */
static void jobs_that_rest_cost_nothing(void) {
    enum { TIMES = 100 };
    begin();
    submit_resting();
    (void)plock__jobs_visited();
    (void)plock__heap_compared();
    for (int i = 1; i <= TIMES; i++) {
        plock__worker_submit(steps(3));
        check_destroyed(i);
    }
    CHECK(plock__jobs_visited() <= 3 * TIMES);
    CHECK(plock__heap_compared() <= 2ul * 3 * TIMES * BITS);
    CHECK_INT(atomic_load(&rested), MANY);
    plock_drain(plock_now());
    CHECK_INT(atomic_load(&destroyed), TIMES + MANY);
    end();
}

/* The worker thread finds a job that is scheduled, or whose descriptor is ready, without visiting
 * the resting jobs. */
static void one_of_them_is_found_without_the_others(void) {
    int ends[2];
    begin();
    CHECK(pipe(ends) == 0);
    submit_resting();
    plock__worker_submit(waits_for(ends[0]));
    for (unsigned rounds = 0; atomic_load(&stepped) < 1 && test_patient(&rounds);) continue;
    (void)plock__jobs_visited();
    plock__enter();
    plock__worker_schedule(resting[MANY / 2]);
    plock__worker_schedule(resting[MANY / 2]);
    plock__leave();
    for (unsigned rounds = 0; atomic_load(&rested) <= MANY && test_patient(&rounds);) continue;
    CHECK(write(ends[1], "x", 1) == 1);
    check_destroyed(1);
    CHECK_INT(atomic_load(&rested), MANY + 1);
    CHECK(plock__jobs_visited() <= 4);
    plock_drain(plock_now());
    CHECK_INT(atomic_load(&destroyed), 1 + MANY);
    end();
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static int order[3];
static atomic_int ended_in_order;

static plock_status note_order(plock_job *job, plock_interest *interest) {
    counted_job *counted = (counted_job *)(void *)job;
    atomic_fetch_add(&stepped, 1);
    if (job->ready) {
        order[atomic_fetch_add(&ended_in_order, 1)] = counted->steps_left;
        return PLOCK_OK;
    }
    *interest = (plock_interest){.fd = counted->fd, .events = POLLIN, .deadline = PLOCK_NEVER};
    return PLOCK_AGAIN;
}

/* Of the jobs with ready descriptors, the job that has waited longest comes first, even after other
 * jobs have ended. */
static void ready_ones_come_in_the_order_in_which_they_began_to_wait(void) {
    int first[2], all[2];
    begin();
    atomic_store(&ended_in_order, 0);
    CHECK(pipe(first) == 0 && pipe(all) == 0);
    plock__worker_submit(waits_for(first[0]));
    for (int i = 0; i < 3; i++) {
        plock_job *job = make_job(i, all[0]);
        job->step = note_order;
        plock__worker_submit(job);
    }
    for (unsigned rounds = 0; atomic_load(&stepped) < 4 && test_patient(&rounds);) continue;
    CHECK(write(first[1], "x", 1) == 1);
    check_destroyed(1);
    CHECK(write(all[1], "x", 1) == 1);
    check_destroyed(4);
    for (int i = 0; i < 3; i++) CHECK_INT(order[i], i);
    end();
    for (int i = 0; i < 2; i++) CHECK(close(first[i]) == 0 && close(all[i]) == 0);
}

static plock_status rest_again(plock_job *job, plock_interest *interest) {
    plock__enter();
    /* schedules the job during its own step, as another thread may do */
    plock__worker_schedule(job);
    plock__leave();
    return step(job, interest);
}

static void a_job_that_is_wanted_during_its_step_is_stepped_again(void) {
    begin();
    plock_job *job = steps(5);
    job->step = rest_again;
    plock__worker_submit(job);
    check_destroyed(1);
    CHECK_INT(atomic_load(&stepped), 5);
    end();
}

static void a_new_job_is_begun_while_others_wait(void) {
    int ends[2];
    begin();
    CHECK(pipe(ends) == 0);
    plock__worker_submit(waits_for(ends[0]));
    for (unsigned rounds = 0; atomic_load(&stepped) < 1 && test_patient(&rounds);) continue;
    plock__worker_submit(steps(1));
    check_destroyed(1);
    plock_drain(plock_now());
    check_destroyed(2);
    end();
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* The thread ends with its last job. The next job starts another thread. */
static void it_comes_back_after_it_has_ended(void) {
    begin();
    for (int i = 1; i <= 20; i++) {
        plock__worker_submit(steps(2));
        check_destroyed(i);
    }
    end();
}

static void no_thread_means_that_the_job_is_dropped_at_once(void) {
    begin();
    plock__forget_wakers();
    (void)plock__fail_allocation(1); /* there is no memory for the waker */
    plock__worker_submit(steps(5));
    (void)plock__fail_allocation(0);
    CHECK_INT(atomic_load(&destroyed), 1);
    CHECK_INT(atomic_load(&stepped), 0);
    plock__worker_submit(steps(5)); /* the next job is done */
    check_destroyed(2);
    CHECK_INT(atomic_load(&stepped), 5);
    end();
}

/* --- the end of the process --- */

static void draining_waits_for_what_is_under_way(void) {
    begin();
    for (int i = 0; i < 10; i++) plock__worker_submit(steps(50));
    plock_drain(plock_now() + 10 * PLOCK_SECOND);
    CHECK_INT(atomic_load(&destroyed), 10);
    CHECK_INT(atomic_load(&stepped), 500);
    end();
}

/* plock_settle ends nothing: the thread continues, and so does a job that did not end in time. */
static void awaiting_ends_nothing(void) {
    int ends[2];
    begin();
    CHECK(pipe(ends) == 0);
    plock__worker_submit(steps(50));
    plock_settle(plock_now() + 5 * PLOCK_SECOND);
    CHECK_INT(atomic_load(&destroyed), 1);
    plock__worker_submit(waits_for(ends[0]));
    plock_settle(plock_now() + 10 * PLOCK_MILLISECOND);
    CHECK_INT(atomic_load(&destroyed), 1);
    CHECK(write(ends[1], "x", 1) == 1);
    check_destroyed(2);
    end();
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void draining_ends_at_its_deadline_and_drops_the_rest(void) {
    /* enough even for a loaded machine */
    static const plock_ns GRACE = 5 * PLOCK_SECOND;
    int ends[2];
    begin();
    CHECK(pipe(ends) == 0);
    plock__worker_submit(waits_for(ends[0]));
    const plock_ns deadline = plock_now() + 30 * PLOCK_MILLISECOND;
    plock_drain(deadline);
    CHECK(plock_now() >= deadline && plock_now() < deadline + GRACE);
    CHECK_INT(atomic_load(&destroyed), 1);
    end();
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* After the drain, no engine thread is left to do the work, and the process may end. So every job
 * must have been dropped. */
static void draining_drops_even_what_has_not_been_begun(void) {
    enum { TIMES = 50 };
    int ends[2];
    begin();
    CHECK(pipe(ends) == 0);
    for (int i = 1; i <= TIMES; i++) {
        plock__worker_submit(waits_for(ends[0]));
        plock_drain(plock_now());
        if (!CHECK(atomic_load(&destroyed) == i)) break;
    }
    CHECK(write(ends[1], "x", 1) == 1);
    end();
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void leave_another(plock_job *job) {
    destroy(job);
    plock__worker_submit(steps(5));
}

/* A dropped job may submit another job. That job is dropped as well, because no thread is left to
 * do it. */
static void draining_drops_what_the_dropped_ones_leave(void) {
    int ends[2];
    begin();
    CHECK(pipe(ends) == 0);
    plock_job *job = waits_for(ends[0]);
    job->destroy = leave_another;
    plock__worker_submit(job);
    for (unsigned rounds = 0; atomic_load(&stepped) < 1 && test_patient(&rounds);) continue;
    plock_drain(plock_now());
    CHECK_INT(atomic_load(&destroyed), 2);
    CHECK_INT(atomic_load(&stepped), 1);
    end();
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void draining_nothing_takes_no_time(void) {
    begin();
    const plock_ns before = plock_now();
    plock_drain(before + 60 * PLOCK_SECOND);
    plock_drain(before + 60 * PLOCK_SECOND);
    CHECK(plock_now() < before + 30 * PLOCK_SECOND);
    CHECK_INT(atomic_load(&destroyed), 0);
    end();
}

static void after_draining_it_works_again(void) {
    begin();
    plock__worker_submit(steps(2));
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    plock__worker_submit(steps(2));
    check_destroyed(2);
    CHECK_INT(atomic_load(&stepped), 4);
    end();
}

enum { SUBMITTERS = 3, JOBS_EACH = 200 };

static void *submit_many(void *argument) {
    (void)argument;
    for (int i = 0; i < JOBS_EACH; i++) plock__worker_submit(steps(1));
    return NULL;
}

/* At the end of a process, other threads may still release leases. If there is enough time, none of
 * these releases is dropped. */
static void draining_while_others_submit_loses_nothing(void) {
    pthread_t threads[SUBMITTERS];
    begin();
    for (int i = 0; i < SUBMITTERS; i++)
        CHECK(pthread_create(&threads[i], NULL, submit_many, NULL) == 0);
    for (int i = 0; i < 100; i++) plock_drain(plock_now() + 5 * PLOCK_SECOND);
    for (int i = 0; i < SUBMITTERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    CHECK_INT(atomic_load(&destroyed), SUBMITTERS * JOBS_EACH);
    CHECK_INT(atomic_load(&stepped), SUBMITTERS * JOBS_EACH);
    end();
}

/* --- fork --- */

static void look_in_child(void *context) {
    (void)context;
    const int before = atomic_load(&stepped);
    plock__worker_submit(steps(3));
    /* the parent's job was dropped without a step, and the child's own job is done */
    check_destroyed(2);
    CHECK_INT(atomic_load(&stepped), before + 3);
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    plock__forget_wakers();
    CHECK_INT(plock__live_allocations(), 0);
}

static void the_parents_jobs_are_not_the_childs(void) {
    int ends[2];
    begin();
    CHECK(pipe(ends) == 0);
    plock__worker_submit(waits_for(ends[0]));
    for (unsigned rounds = 0; atomic_load(&stepped) < 1 && test_patient(&rounds);) continue;
    test_in_child(look_in_child, NULL);
    CHECK_INT(atomic_load(&destroyed), 0);
    CHECK(write(ends[1], "x", 1) == 1);
    check_destroyed(1); /* the parent's job continues */
    end();
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void drain_in_child(void *context) {
    (void)context;
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    CHECK_INT(atomic_load(&destroyed), 1);
}

static void a_child_can_drain_what_it_inherited(void) {
    int ends[2];
    begin();
    CHECK(pipe(ends) == 0);
    plock__worker_submit(waits_for(ends[0]));
    for (unsigned rounds = 0; atomic_load(&stepped) < 1 && test_patient(&rounds);) continue;
    test_in_child(drain_in_child, NULL);
    plock_drain(plock_now());
    end();
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static plock_status long_step(plock_job *job, plock_interest *interest) {
    (void)job;
    atomic_store(&in_step, true);
    for (volatile int i = 0; i < 20000; i++) continue;
    atomic_store(&in_step, false);
    interest->deadline = plock_now();
    return PLOCK_AGAIN;
}

static void check_whole(void *context) {
    (void)context;
    CHECK(!atomic_load(&in_step));
}

/* In the middle of a step, a connection may be freed but still listed. A child must not inherit
 * this state. */
static void a_fork_never_comes_in_the_middle_of_a_step(void) {
    enum { FORKS = 60 };
    begin();
    plock_job *job = steps(0);
    job->step = long_step;
    plock__worker_submit(job);
    for (int i = 0; i < FORKS; i++) test_in_child(check_whole, NULL);
    plock_drain(plock_now());
    CHECK_INT(atomic_load(&destroyed), 1);
    end();
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(a_job_is_stepped_by_another_thread_until_it_is_done);
#ifdef __linux__
    RUN(the_thread_has_a_name);
#endif
    RUN(many_jobs_go_on_side_by_side);
    RUN(waiters_keep_no_other_from_its_turn);
    RUN(jobs_that_rest_cost_nothing);
    RUN(one_of_them_is_found_without_the_others);
    RUN(a_job_that_is_wanted_during_its_step_is_stepped_again);
    RUN(ready_ones_come_in_the_order_in_which_they_began_to_wait);
    RUN(a_new_job_is_begun_while_others_wait);
    RUN(it_comes_back_after_it_has_ended);
    RUN(no_thread_means_that_the_job_is_dropped_at_once);
    RUN(draining_waits_for_what_is_under_way);
    RUN(awaiting_ends_nothing);
    RUN(draining_ends_at_its_deadline_and_drops_the_rest);
    RUN(draining_drops_even_what_has_not_been_begun);
    RUN(draining_drops_what_the_dropped_ones_leave);
    RUN(draining_nothing_takes_no_time);
    RUN(after_draining_it_works_again);
    RUN(draining_while_others_submit_loses_nothing);
    if (TEST_TSAN)
        test_skip("a worker thread in a child", "the sanitizer does not allow it");
    else
        RUN(the_parents_jobs_are_not_the_childs);
    RUN(a_child_can_drain_what_it_inherited);
    RUN(a_fork_never_comes_in_the_middle_of_a_step);
    return test_end("worker");
}
