/* The local store: the worker thread's work for held leases, and processes that are stopped at a
 * bad moment. */
#include "local_support.h"

#include "local/local_lease.h"
#include "local/local_map.h"
#include "runtime/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const plock_ns LONG = 60 * PLOCK_SECOND, SHORT = 120 * PLOCK_MILLISECOND;

/* Waits for the next notice of this kind about this lease. Returns false after 5 s without one. */
static bool noticed(plock_notice_kind kind, uint64_t id) {
    const plock_ns deadline = plock_now() + 5 * PLOCK_SECOND;
    for (;;) {
        for (plock_notice *notice; (notice = plock_notice_next());) {
            const bool found = notice->kind == kind && notice->id == id;
            plock_notice_free(notice);
            if (found) return true;
        }
        struct pollfd polled = {.fd = plock_notice_descriptor(), .events = POLLIN};
        if (plock_now() >= deadline || poll(&polled, 1, 100) < 0) return false;
        plock_notice_clear();
    }
}

static bool any_notice(void) {
    plock_notice *notice = plock_notice_next();
    plock_notice_free(notice);
    return notice;
}

static void a_lease_is_renewed_until_it_is_released(void) {
    plock_local *store = local_open();
    plock_lease *lease = local_lease(store, "k");
    plock_notice_want(PLOCK_RENEWED, true);
    CHECK_STATUS(
        local_acquire_as(lease, &(plock_local_acquire_options){.ttl = SHORT, .renews = true}),
        PLOCK_OK);
    const plock_ns end = plock_lease_valid_until(lease);
    unsigned rounds = 0;
    while (plock_now() < end + 2 * SHORT && test_patient(&rounds)) continue;
    CHECK(plock_lease_valid(lease));
    CHECK(noticed(PLOCK_RENEWED, plock_lease_id(lease)));
    CHECK_STATUS(local_release(lease), PLOCK_OK);
    CHECK_INT(local_holders(store, "k"), 0);
    plock_lease_free(lease);
    plock_notice_want(PLOCK_RENEWED, false);
    while (any_notice()) continue;
    plock_local_close(store);
}

struct holder {
    bool renews;
    int ready[2], go[2];
};

static void hold_until_told(void *context) {
    const struct holder *holder = context;
    char byte;
    plock_lease *lease = local_lease(local_open(), "k");
    if (local_acquire_as(lease,
                         &(plock_local_acquire_options){.ttl = SHORT, .renews = holder->renews}))
        _exit(1);
    if (write(holder->ready[1], "", 1) != 1 || read(holder->go[0], &byte, 1) != 1) _exit(2);
    _exit(plock_lease_valid(lease) && local_release(lease) == PLOCK_OK ? 0 : 3);
}

/* As with flock(1), a stopped process still holds a renewed lease. A lease with a fixed TTL expires
 * while its process is stopped. */
static void time_alone_ends_only_what_is_not_renewed(void) {
    for (int renews = 0; renews < 2; renews++) {
        struct holder holder = {.renews = renews};
        char byte;
        plock_local *store = local_open();
        plock_lease *lease = local_lease(store, "k");
        CHECK(pipe(holder.ready) == 0 && pipe(holder.go) == 0);
        const pid_t pid = local_child(hold_until_told, &holder);
        CHECK(read(holder.ready[0], &byte, 1) == 1);
        CHECK(kill(pid, SIGSTOP) == 0);
        CHECK_STATUS(local_acquire(lease, LONG, 4 * SHORT), renews ? PLOCK_TIMED_OUT : PLOCK_OK);
        CHECK_INT(local_holders(store, "k"), 1);
        CHECK(kill(pid, SIGCONT) == 0 && write(holder.go[1], "", 1) == 1);
        CHECK_INT(WEXITSTATUS(local_status_of(pid)), renews ? 0 : 3);
        plock_lease_free(lease);
        plock_local_close(store);
        for (int end = 0; end < 2; end++) {
            (void)close(holder.ready[end]);
            (void)close(holder.go[end]);
        }
    }
}

/* After plock_lease_leave, a renewed lease is no longer renewed, and expires after its TTL. */
static void what_is_renewed_ends_with_its_process_or_by_its_ttl_where_it_was_handed_over(void) {
    plock_local *store = local_open();
    plock_lease *left = local_lease(store, "left"), *lease = local_lease(store, "left");
    CHECK_STATUS(
        local_acquire_as(left, &(plock_local_acquire_options){.ttl = SHORT, .renews = true}),
        PLOCK_OK);
    CHECK_STATUS(plock_lease_leave(left), PLOCK_OK);
    CHECK_STATUS(local_finish(left), PLOCK_OK);
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_REFUSED);
    CHECK_STATUS(local_acquire(lease, LONG, 20 * SHORT), PLOCK_OK);
    CHECK(plock_lease_waited(lease) <= 2 * SHORT);
    plock_lease_free(left);
    plock_lease_free(lease);
    plock_local_close(store);
}

static void a_bound_ends_the_renewal_and_the_loss_is_told(void) {
    plock_local *store = local_open();
    plock_lease *lease = local_lease(store, "k");
    CHECK_STATUS(local_acquire_as(lease, &(plock_local_acquire_options){.ttl = SHORT,
                                                                        .renews = true,
                                                                        .max_hold = 2 * SHORT}),
                 PLOCK_OK);
    const plock_ns began = plock_lease_acquired_at(lease);
    CHECK(noticed(PLOCK_LOST, plock_lease_id(lease)));
    CHECK(plock_lease_lost(lease) && plock_now() >= began + 2 * SHORT);
    plock_lease_free(lease);
    CHECK(!any_notice());
    plock_local_close(store);
}

static void a_loss_is_reported_only_if_requested(void) {
    plock_local *store = local_open();
    plock_lease *watched = local_lease(store, "k"), *plain = local_lease(store, "l");
    CHECK_STATUS(
        local_acquire_as(watched, &(plock_local_acquire_options){.ttl = LONG, .watched = true}),
        PLOCK_OK);
    CHECK_STATUS(local_acquire(plain, LONG, 0), PLOCK_OK);
    CHECK_STATUS(local_break(store, "l"), PLOCK_OK);
    CHECK_STATUS(local_break(store, "k"), PLOCK_OK);
    CHECK(noticed(PLOCK_LOST, plock_lease_id(watched)));
    CHECK(plock_lease_lost(watched) && plock_lease_lost(plain));
    CHECK(!any_notice());
    plock_lease_free(watched);
    plock_lease_free(plain);
    plock_local_close(store);
}

static void a_forgotten_lease_is_released_and_told(void) {
    plock_local *store = local_open();
    plock_lease *lease = local_lease(store, "k");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    const uint64_t id = plock_lease_id(lease);
    plock_lease_abandon(lease);
    CHECK(noticed(PLOCK_ABANDONED, id));
    CHECK_INT(local_holders(store, "k"), 0);
    plock_local_close(store);
}

static void a_forgotten_lease_that_has_ended_is_told_if_that_is_wanted(void) {
    plock_local *store = local_open();
    for (int wanted = 0; wanted < 2; wanted++) {
        plock_notice_want(PLOCK_EXPIRED, wanted);
        plock_lease *lease = local_lease(store, "k");
        CHECK_STATUS(local_acquire(lease, SHORT, 0), PLOCK_OK);
        const uint64_t id = plock_lease_id(lease);
        unsigned rounds = 0;
        while (plock_lease_valid(lease) && test_patient(&rounds)) continue;
        plock_lease_abandon(lease);
        CHECK(wanted ? noticed(PLOCK_EXPIRED, id) : !any_notice());
    }
    plock_notice_want(PLOCK_EXPIRED, false);
    plock_local_close(store);
}

static void a_waiter_that_is_renewed_is_so_from_when_it_is_let_in(void) {
    plock_local *store = local_open();
    plock_lease *first = local_lease(store, "k"), *second = local_lease(store, "k");
    CHECK_STATUS(local_acquire(first, LONG, 0), PLOCK_OK);
    CHECK_STATUS(
        plock_local_lease_acquire(
            second, &(plock_local_acquire_options){.ttl = 3 * SHORT, .wait = LONG, .renews = true}),
        PLOCK_OK);
    plock_interest interest;
    CHECK_STATUS(plock_lease_step(second, &interest), PLOCK_AGAIN);
    CHECK_STATUS(local_release(first), PLOCK_OK);
    unsigned rounds = 0;
    /* during this wait, the test does not step the second lease, so only the worker thread can
     * renew it */
    const plock_ns later = plock_now() + 9 * SHORT;
    while (plock_now() < later && test_patient(&rounds)) continue;
    CHECK_STATUS(plock_lease_step(second, &interest), PLOCK_OK);
    CHECK(plock_lease_valid(second));
    plock_lease_free(first);
    plock_lease_free(second);
    plock_local_close(store);
}

/* --- between processes --- */

typedef struct scene {
    plock_local *store;
    _Atomic int stage;
    unsigned long point;
} scene;

static scene *new_scene(void) {
    scene *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    memset(s, 0, sizeof *s);
    return s;
}

static bool await_stage(scene *s, int stage) {
    unsigned rounds = 0;
    while (atomic_load(&s->stage) < stage)
        if (!test_patient(&rounds)) return CHECK_INT(s->stage, stage);
    return true;
}

static void hold_until_lost(void *context) {
    scene *s = context;
    plock_lease *lease = local_lease(s->store, "k");
    if (local_acquire_as(lease, &(plock_local_acquire_options){.ttl = LONG, .watched = true}))
        _exit(1);
    atomic_store(&s->stage, 1);
    if (!noticed(PLOCK_LOST, plock_lease_id(lease))) _exit(2);
    plock_lease_free(lease);
}

static void break_it(void *context) {
    scene *s = context;
    plock_lease *own = local_lease(s->store, "attached");
    if (local_acquire(own, LONG, 0)) _exit(1);
    (void)plock__local_stop_at(s->point);
    if (local_break(s->store, "k")) _exit(2);
    s->point = plock__local_stop_at(0);
}

/* A process that breaks a lease may be stopped at any step, and continue a moment later. The holder
 * is notified in each case. */
static void it_is_reported_at_whatever_step_a_break_is_stopped(void) {
    unsigned long points = 0;
    for (unsigned long point = 0; point <= points; point += TEST_TSAN ? 5 : 1) {
        scene *s = new_scene();
        s->store = local_open();
        const pid_t holder = local_child(hold_until_lost, s);
        CHECK(await_stage(s, 1));
        s->point = point;
        const pid_t breaker = local_child(break_it, s);
        int status = 0;
        if (point) {
            CHECK(waitpid(breaker, &status, WUNTRACED) == breaker);
            (void)usleep(3000); /* the holder may check its lease now, before the break is done */
            if (WIFSTOPPED(status)) CHECK(kill(breaker, SIGCONT) == 0);
        }
        if (!point || WIFSTOPPED(status)) status = local_status_of(breaker);
        CHECK_INT(status, 0);
        if (!point) points = s->point;
        CHECK_INT(local_status_of(holder), 0);
        plock_local_close(s->store);
    }
    CHECK(points > 5);
}

static void wait_in_line(void *context) {
    scene *s = context;
    plock_lease *lease = local_lease(s->store, "k");
    if (local_acquire(lease, LONG, LONG)) _exit(1);
    plock_lease_free(lease);
}

static void release_it(void *context) {
    scene *s = context;
    plock_lease *lease = local_lease(s->store, "k");
    if (local_acquire(lease, LONG, 0)) _exit(1);
    atomic_store(&s->stage, 1);
    while (atomic_load(&s->stage) < 2) (void)usleep(500);
    (void)plock__local_stop_at(s->point);
    if (local_release(lease)) _exit(2);
    s->point = plock__local_stop_at(0);
    plock_lease_free(lease);
}

static void a_waiter_is_served_at_whatever_step_the_holder_is_stopped(void) {
    unsigned long points = 0;
    for (unsigned long point = 0; point <= points; point += TEST_TSAN ? 5 : 1) {
        scene *s = new_scene();
        s->store = local_open();
        s->point = point;
        const pid_t holder = local_child(release_it, s);
        CHECK(await_stage(s, 1));
        const pid_t waiter = local_child(wait_in_line, s);
        CHECK(local_await_waiters(s->store, "k", 1));
        atomic_store(&s->stage, 2);
        int status = 0;
        if (point) {
            CHECK(waitpid(holder, &status, WUNTRACED) == holder);
            (void)usleep(3000);
            if (WIFSTOPPED(status)) CHECK(kill(holder, SIGCONT) == 0);
        }
        if (!point || WIFSTOPPED(status)) status = local_status_of(holder);
        CHECK_INT(status, 0);
        if (!point) points = s->point;
        CHECK_INT(local_status_of(waiter), 0);
        plock_local_close(s->store);
    }
    CHECK(points > 5);
}

/* A process that is stopped inside the critical section blocks all other processes. Their calls
 * wait for a limited time, and then report the stopped process. */
static void a_process_stopped_inside_delays_no_other_for_long(void) {
    scene *s = new_scene();
    s->store = local_open();
    const pid_t holder = local_child(hold_until_lost, s);
    CHECK(await_stage(s, 1));
    s->point = 2;
    const pid_t breaker = local_child(break_it, s);
    int status = 0;
    CHECK(waitpid(breaker, &status, WUNTRACED) == breaker && WIFSTOPPED(status));
    plock_lease *lease = local_lease(s->store, "another");
    const plock_ns asked = plock_now();
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_SILENT);
    CHECK(plock_now() - asked < 5 * PLOCK_SECOND);
    CHECK_HAS(plock_lease_error(lease)->message, "continue or end it");
    /* nor does it block a call that must open the file again */
    plock_interest interest;
    plock_local_disconnect(s->store);
    CHECK_STATUS(plock_local_lease_acquire(lease, &(plock_local_acquire_options){.ttl = LONG}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    CHECK_STATUS(local_finish(lease), PLOCK_SILENT);
    CHECK(kill(breaker, SIGCONT) == 0);
    CHECK_INT(local_status_of(breaker), 0);
    CHECK_INT(local_status_of(holder), 0);
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    plock_lease_free(lease);
    plock_local_close(s->store);
}

static void break_it_when_told(void *context) {
    scene *s = context;
    if (!await_stage(s, 2)) _exit(3);
    break_it(s);
}

/* Starts a process that will stop inside the critical section, when stage 2 is reached. */
static pid_t will_stop_inside(scene *s) {
    s->point = 2;
    return local_child(break_it_when_told, s);
}

static void stops_inside(scene *s, pid_t pid) {
    int status = 0;
    atomic_store(&s->stage, 2);
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
}

static pid_t stop_inside(scene *s) {
    const pid_t pid = will_stop_inside(s);
    stops_inside(s, pid);
    return pid;
}

static void go_on(scene *s, pid_t stopped, pid_t holder) {
    CHECK(kill(stopped, SIGCONT) == 0);
    CHECK_INT(local_status_of(stopped), 0);
    CHECK_INT(local_status_of(holder), 0);
    atomic_store(&s->stage, 0);
}

/* The waiter knows that another owner holds the key. So it reports that its patience is over, and
 * not that the store is unusable. */
static void a_refused_waiter_times_out_though_the_section_is_taken(void) {
    scene *s = new_scene();
    s->store = local_open();
    plock_lease *first = local_lease(s->store, "l"), *second = local_lease(s->store, "l");
    plock_interest interest;
    const pid_t holder = local_child(hold_until_lost, s);
    CHECK(await_stage(s, 1));
    const pid_t stopped = will_stop_inside(s);
    CHECK_STATUS(local_acquire(first, LONG, 0), PLOCK_OK);
    CHECK_STATUS(plock_local_lease_acquire(
                     second, &(plock_local_acquire_options){.ttl = LONG, .wait = 2 * PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(second, &interest), PLOCK_AGAIN);
    stops_inside(s, stopped);
    plock_lease_hurry(second, plock_now());
    const plock_ns asked = plock_now();
    CHECK_STATUS(local_finish(second), PLOCK_TIMED_OUT);
    CHECK(plock_now() - asked < PLOCK_SECOND);
    go_on(s, stopped, holder);
    CHECK_STATUS(local_release(first), PLOCK_OK);
    /* the second lease has left no claim */
    CHECK_STATUS(local_acquire(first, LONG, LONG), PLOCK_OK);
    plock_lease_free(first);
    plock_lease_free(second);
    plock_local_close(s->store);
}

static void is_released_in_vain(plock_lease *lease) {
    CHECK_STATUS(plock_lease_release(lease, LONG), PLOCK_OK);
    CHECK_STATUS(local_finish(lease), PLOCK_SILENT);
}

static void is_released_and_cancelled(plock_lease *lease) {
    plock_interest interest;
    CHECK_STATUS(plock_lease_release(lease, LONG), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    plock_lease_cancel(lease);
}

static void is_let_go_of(plock_lease *lease) { plock_lease_let_go(lease, LONG); }

/* If a release cannot be done at once, the worker thread completes it. The key stays taken for as
 * long as the caller asked. */
static void a_key_that_could_not_be_released_at_once_is_kept_for_as_long_as_it_must(void) {
    static void (*const WAYS[])(plock_lease * lease) = {is_released_in_vain,
                                                        is_released_and_cancelled, is_let_go_of};
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        scene *s = new_scene();
        s->store = local_open();
        plock_lease *lease = local_lease(s->store, "l");
        const pid_t holder = local_child(hold_until_lost, s);
        CHECK(await_stage(s, 1));
        const pid_t stopped = will_stop_inside(s);
        CHECK_STATUS(local_acquire(lease, 2 * LONG, 0), PLOCK_OK);
        stops_inside(s, stopped);
        WAYS[i](lease);
        go_on(s, stopped, holder);
        const plock_local_acquire_options once = {.ttl = LONG};
        unsigned rounds = 0;
        while (plock_local_lease_acquire(lease, &once) == PLOCK_MISUSE && test_patient(&rounds))
            continue;
        CHECK_STATUS(local_finish(lease), PLOCK_REFUSED);
        CHECK_STATUS(local_break(s->store, "l"), PLOCK_OK);
        plock_lease_free(lease);
        plock_local_close(s->store);
    }
}

/* --- a claim that ends while the worker thread has not yet ended it --- */

static void hold_the_other_and_break(void *context) {
    scene *s = context;
    plock_lease *lease = local_lease(s->store, "other");
    if (local_acquire(lease, LONG, 0)) _exit(1);
    atomic_store(&s->stage, 1);
    if (!await_stage(s, 2) || local_break(s->store, "l")) _exit(2);
    atomic_store(&s->stage, 3);
    if (!await_stage(s, 4)) _exit(3);
    plock_lease_free(lease);
}

/* Keeps the worker thread from its other jobs. */
typedef struct blockade {
    plock_job job;
    int ends[2];
    _Atomic bool entered;
} blockade;

static plock_status be_blocked(plock_job *job, plock_interest *interest) {
    blockade *b = (blockade *)(void *)job;
    char byte;
    (void)interest;
    atomic_store(&b->entered, true);
    CHECK(read(b->ends[0], &byte, 1) == 1);
    return PLOCK_OK;
}

static void unused(plock_job *job) { (void)job; }

static void block_the_worker(blockade *b) {
    unsigned rounds = 0;
    *b = (blockade){.job = {.step = be_blocked, .destroy = unused}};
    CHECK(pipe(b->ends) == 0);
    plock__worker_submit(&b->job);
    while (!atomic_load(&b->entered) && test_patient(&rounds)) continue;
    CHECK(atomic_load(&b->entered));
}

static void unblock_the_worker(blockade *b) { CHECK(write(b->ends[1], "", 1) == 1); }

/* When the worker thread comes to end the claim, the claim's record may already belong to a waiter
 * of this process. */
static void the_worker_ends_no_claim_that_has_a_new_owner(void) {
    scene *s = new_scene(), *t = new_scene();
    s->store = t->store = local_open();
    plock_lease *lease = local_lease(s->store, "l"), *waiter = local_lease(s->store, "other");
    const pid_t holder = local_child(hold_until_lost, s);
    CHECK(await_stage(s, 1));
    const pid_t other = local_child(hold_the_other_and_break, t);
    CHECK(await_stage(t, 1));
    const pid_t stopped = will_stop_inside(s);
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    const uint32_t claim = plock__local_lease(lease)->claim;
    stops_inside(s, stopped);
    blockade worker;
    block_the_worker(&worker);
    plock_lease_let_go(lease, 0);
    go_on(s, stopped, holder);
    atomic_store(&t->stage, 2);
    CHECK(await_stage(t, 3));
    const plock_local_acquire_options waits = {.ttl = LONG, .wait = LONG}, once = {.ttl = LONG};
    plock_interest interest;
    CHECK_STATUS(plock_local_lease_acquire(waiter, &waits), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(waiter, &interest), PLOCK_AGAIN);
    const plock_local_lease *waits_there = plock__local_lease(waiter);
    CHECK_INT(waits_there->claim, claim);
    CHECK(waits_there->map->lease_of[claim] == waits_there);
    unblock_the_worker(&worker);
    unsigned rounds = 0;
    while (plock_local_lease_acquire(lease, &once) == PLOCK_MISUSE && test_patient(&rounds))
        continue;
    CHECK_STATUS(local_finish(lease), PLOCK_OK);
    CHECK(waits_there->map->lease_of[claim] == waits_there);
    atomic_store(&t->stage, 4);
    CHECK_STATUS(local_finish(waiter), PLOCK_OK);
    CHECK_INT(local_status_of(other), 0);
    plock_lease_free(lease);
    plock_lease_free(waiter);
    plock_local_close(s->store);
    (void)close(worker.ends[0]), (void)close(worker.ends[1]);
}

static void is_left_in_vain(plock_lease *lease) {
    CHECK_STATUS(plock_lease_leave(lease), PLOCK_OK);
    CHECK_STATUS(local_finish(lease), PLOCK_SILENT);
}

static void is_left_and_cancelled(plock_lease *lease) {
    plock_interest interest;
    CHECK_STATUS(plock_lease_leave(lease), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    plock_lease_cancel(lease);
}

/* If plock_lease_leave fails or is cancelled, the lease still belongs to this process. So its loss
 * is reported. */
static void a_lease_that_could_not_be_left_is_still_watched(void) {
    static void (*const WAYS[])(plock_lease * lease) = {is_left_in_vain, is_left_and_cancelled};
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        scene *s = new_scene();
        s->store = local_open();
        plock_lease *lease = local_lease(s->store, "l");
        const plock_local_acquire_options terms = {.ttl = LONG, .renews = true, .watched = true};
        const pid_t holder = local_child(hold_until_lost, s);
        CHECK(await_stage(s, 1));
        const pid_t stopped = will_stop_inside(s);
        CHECK_STATUS(local_acquire_as(lease, &terms), PLOCK_OK);
        stops_inside(s, stopped);
        WAYS[i](lease);
        go_on(s, stopped, holder);
        CHECK(plock_lease_valid(lease));
        CHECK_STATUS(local_break(s->store, "l"), PLOCK_OK);
        CHECK(noticed(PLOCK_LOST, plock_lease_id(lease)));
        plock_lease_free(lease);
        plock_local_close(s->store);
    }
}

/* If a release cannot be done at once, the worker thread completes it. Then the lease can be used
 * again. */
static void a_lease_that_could_not_be_released_at_once_can_be_taken_again(void) {
    scene *s = new_scene();
    s->store = local_open();
    plock_lease *lease = local_lease(s->store, "l");
    const plock_local_acquire_options watched = {.ttl = LONG, .watched = true};
    const pid_t holder = local_child(hold_until_lost, s);
    CHECK(await_stage(s, 1));
    const pid_t stopped = will_stop_inside(s);
    CHECK_STATUS(local_acquire_as(lease, &watched), PLOCK_OK);
    stops_inside(s, stopped);
    CHECK_STATUS(local_release(lease), PLOCK_SILENT);
    go_on(s, stopped, holder);
    unsigned rounds = 0;
    while (plock_local_lease_acquire(lease, &watched) == PLOCK_MISUSE && test_patient(&rounds))
        continue;
    CHECK_STATUS(local_finish(lease), PLOCK_OK);
    CHECK_STATUS(local_break(s->store, "l"), PLOCK_OK);
    CHECK(noticed(PLOCK_LOST, plock_lease_id(lease)));
    plock_lease_free(lease);
    plock_local_close(s->store);
}

/* An abandoned query does not shorten the time that the next query may take. */
static void each_question_has_a_patience_of_its_own(void) {
    scene *s = new_scene();
    s->store = local_open();
    plock_interest interest;
    plock_error error;
    size_t count;
    for (int round = 0; round < 2; round++) {
        const pid_t holder = local_child(hold_until_lost, s);
        CHECK(await_stage(s, 1));
        const pid_t stopped = stop_inside(s);
        CHECK_STATUS(
            plock_local_examine(s->store, "k", 1, NULL, 0, &count, local_soon(), &interest, &error),
            PLOCK_AGAIN);
        CHECK(kill(stopped, SIGCONT) == 0);
        CHECK_INT(local_status_of(stopped), 0);
        CHECK_INT(local_status_of(holder), 0);
        atomic_store(&s->stage, 0);
        if (!round) (void)usleep(1100000); /* longer than a query may take */
    }
    plock_local_close(s->store);
}

/* --- threads --- */

static void *open_and_close(void *unused) {
    for (int round = 0; round < 150; round++) {
        plock_local *store = local_open();
        plock_local_close(store);
    }
    return unused;
}

static void threads_may_open_and_close_it_at_once(void) {
    /* only two threads, because under TSan more would wait too long for the folder's lock */
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, open_and_close, NULL) == 0);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    plock_local *store = local_open();
    CHECK_INT(local_holders(store, "k"), 0);
    plock_local_close(store);
}

/* Two threads release two keys at the same moment. One other process waits for both keys. Neither
 * thread has opened that process's waker before. */
typedef struct wakers {
    plock_local *store;
    const char *key;
    pthread_barrier_t *together;
} wakers;

static void *let_in(void *context) {
    const wakers *b = context;
    plock_lease *lease = local_lease(b->store, b->key);
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    (void)pthread_barrier_wait(b->together);
    CHECK_STATUS(local_release(lease), PLOCK_OK);
    plock_lease_free(lease);
    return NULL;
}

static void wait_for_two(void *context) {
    const wakers *both = context;
    plock_lease *leases[2];
    plock_status waits[2];
    plock_interest interest;
    for (int i = 0; i < 2; i++) {
        unsigned rounds = 0;
        while (local_holders(both[i].store, both[i].key) < 1)
            if (!test_patient(&rounds)) _exit(4);
        leases[i] = local_lease(both[i].store, both[i].key);
        if (plock_local_lease_acquire(leases[i],
                                      &(plock_local_acquire_options){.ttl = LONG, .wait = LONG}))
            _exit(1);
        /* As soon as the process waits for both keys, it may be granted one, even before this step
         * returns. */
        waits[i] = plock_lease_step(leases[i], &interest);
        if (waits[i] != PLOCK_AGAIN && (i == 0 || waits[i])) _exit(2);
    }
    for (int i = 0; i < 2; i++) {
        if (waits[i] && local_finish(leases[i])) _exit(3);
        plock_lease_free(leases[i]);
    }
}

static int descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Waits until no more descriptors than expected are open. The worker thread may close the file, or
 * a file in /proc, later than the test does. */
static bool closes_down_to(int expected) {
    unsigned rounds = 0;
    while (descriptors() > expected)
        if (!test_patient(&rounds)) return false;
    return true;
}

static void threads_may_wake_a_waker_at_once(void) {
    const int before = descriptors();
    for (int round = 0; round < (TEST_TSAN ? 3 : 40); round++) {
        pthread_barrier_t together;
        pthread_t threads[2];
        CHECK(pthread_barrier_init(&together, NULL, 3) == 0);
        plock_local *store = local_open();
        wakers both[] = {{store, "one", &together}, {store, "two", &together}};
        const pid_t waiter = local_child(wait_for_two, both);
        for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, let_in, &both[i]) == 0);
        for (int i = 0; i < 2; i++) CHECK(local_await_waiters(store, both[i].key, 1));
        (void)pthread_barrier_wait(&together);
        for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK_INT(local_status_of(waiter), 0);
        plock_local_close(store);
        (void)pthread_barrier_destroy(&together);
        CHECK(closes_down_to(before));
    }
}

enum { THREADS = 6, ROUNDS = 300 };

static struct {
    plock_local *store;
    int inside, sections;
} shared;

static void *contend(void *unused) {
    for (int round = 0; round < ROUNDS; round++) {
        plock_lease *lease = local_lease(shared.store, "k");
        CHECK_STATUS(local_acquire(lease, LONG, LONG), PLOCK_OK);
        CHECK_INT(++shared.inside, 1); /* protected by nothing but the lease */
        shared.sections++;
        shared.inside--;
        CHECK_STATUS(local_release(lease), PLOCK_OK);
        plock_lease_free(lease);
    }
    return unused;
}

static void threads_of_a_process_exclude_one_another(void) {
    pthread_t threads[THREADS];
    shared.store = local_open();
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, contend, NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_INT(shared.sections, THREADS * ROUNDS);
    plock_local_close(shared.store);
}

int main(void) {
    local_begin();
    RUN(a_lease_is_renewed_until_it_is_released);
    RUN(time_alone_ends_only_what_is_not_renewed);
    RUN(what_is_renewed_ends_with_its_process_or_by_its_ttl_where_it_was_handed_over);
    RUN(a_bound_ends_the_renewal_and_the_loss_is_told);
    RUN(a_loss_is_reported_only_if_requested);
    RUN(a_forgotten_lease_is_released_and_told);
    RUN(a_forgotten_lease_that_has_ended_is_told_if_that_is_wanted);
    RUN(a_waiter_that_is_renewed_is_so_from_when_it_is_let_in);
    RUN(threads_of_a_process_exclude_one_another);
    RUN(it_is_reported_at_whatever_step_a_break_is_stopped);
    RUN(a_waiter_is_served_at_whatever_step_the_holder_is_stopped);
    RUN(a_process_stopped_inside_delays_no_other_for_long);
    RUN(a_refused_waiter_times_out_though_the_section_is_taken);
    RUN(the_worker_ends_no_claim_that_has_a_new_owner);
    RUN(a_key_that_could_not_be_released_at_once_is_kept_for_as_long_as_it_must);
    RUN(a_lease_that_could_not_be_left_is_still_watched);
    RUN(a_lease_that_could_not_be_released_at_once_can_be_taken_again);
    RUN(each_question_has_a_patience_of_its_own);
    RUN(threads_may_open_and_close_it_at_once);
    RUN(threads_may_wake_a_waker_at_once);
    local_end();
    return test_end("local_watch");
}
