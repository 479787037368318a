/* The local store: waiters whose process is stopped, and the waiters behind them. */
#include "local_support.h"

#include "local/local_lease.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* A stopped process delays the other waiters by a second. After that second, they may not check the
 * key for another half a second. */
static const plock_ns LONG = 60 * PLOCK_SECOND, SOON = 2500 * PLOCK_MILLISECOND;

/* The memory that the processes of a test share. */
typedef struct scene {
    plock_local *store;
    plock_local_acquire_options terms;
    _Atomic int stage;
} scene;

enum { BEGINS, WAITS, STOPS, GOES_ON };

static scene *new_scene(void) {
    scene *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    memset(s, 0, sizeof *s);
    s->store = local_open();
    return s;
}

static void end_scene(scene *s) {
    CHECK_INT(local_holders(s->store, "k"), 0);
    CHECK_INT(local_waiters(s->store, "k"), 0);
    plock_local_close(s->store);
    (void)munmap(s, sizeof *s);
}

static void await_stage(const scene *s, int stage) {
    unsigned rounds = 0;
    while (atomic_load(&s->stage) < stage && test_patient(&rounds)) continue;
}

static plock_lease *stand_in_line(plock_local *store, const plock_local_acquire_options *terms) {
    plock_lease *lease = local_lease(store, "k");
    plock_interest interest;
    if (plock_local_lease_acquire(lease, terms)) _exit(1);
    if (plock_lease_step(lease, &interest) != PLOCK_AGAIN) _exit(1);
    return lease;
}

/* --- the stopped process: exits with 0 if it was served, with 3 if its patience ended --- */

static int outcome(plock_lease *lease) {
    const plock_status status = local_finish(lease);
    if (status == PLOCK_TIMED_OUT) return 3;
    if (status) fprintf(stderr, "%s\n", plock_lease_error(lease)->message);
    if (status || !plock_lease_valid(lease)) return 1;
    return local_release(lease) ? 2 : 0;
}

static void wait_and_be_stopped(void *context) {
    const scene *s = context;
    plock_lease *lease = stand_in_line(s->store, &s->terms);
    do (void)raise(SIGSTOP);
    while (atomic_load(&s->stage) < STOPS);
    const int ended = outcome(lease);
    plock_lease_free(lease);
    if (ended) _exit(ended);
}

static bool is_inside_the_section(const scene *s) {
    size_t count;
    plock_interest interest;
    plock_error error;
    return plock_local_examine(s->store, "k", 1, NULL, 0, &count, local_soon(), &interest,
                               &error) == PLOCK_AGAIN;
}

/* Starts a process that waits in the queue and is then stopped, outside the critical section. */
static pid_t stopped_waiter(scene *s) {
    int status;
    atomic_store(&s->stage, WAITS);
    const pid_t child = local_child(wait_and_be_stopped, s);
    for (;;) {
        CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
        if (!is_inside_the_section(s)) break;
        CHECK(kill(child, SIGCONT) == 0);
    }
    atomic_store(&s->stage, STOPS);
    return child;
}

static int ended_as(pid_t child) {
    const int status = local_status_of(child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* --- exclusive locks and semaphores --- */

static const plock_local_acquire_options TERMS[] = {
    {.ttl = 3600 * PLOCK_SECOND, .wait = 60 * PLOCK_SECOND},
    {.ttl = 10 * PLOCK_SECOND, .wait = 60 * PLOCK_SECOND, .renews = true, .automatic = true},
    {.ttl = 10 * PLOCK_SECOND, .wait = 60 * PLOCK_SECOND, .renews = true, .watched = true},
    {.ttl = 3600 * PLOCK_SECOND, .wait = 60 * PLOCK_SECOND, .mode = 's', .limit = 1},
    {.ttl = 3600 * PLOCK_SECOND, .wait = 60 * PLOCK_SECOND, .at_least = PLOCK_MILLISECOND},
};
enum { TERMS_COUNT = sizeof TERMS / sizeof *TERMS };

static void a_stopped_waiter_holds_the_next_one_up_for_a_second_or_two(void) {
    for (int i = 0; i < TERMS_COUNT; i++) {
        scene *s = new_scene();
        s->terms = TERMS[i];
        plock_lease *first = local_lease(s->store, "k");
        CHECK_STATUS(local_acquire_as(first, &s->terms), PLOCK_OK);
        const pid_t stopped = stopped_waiter(s);
        plock_lease *next = stand_in_line(s->store, &s->terms);
        const plock_ns released = plock_now();
        CHECK_STATUS(local_release(first), PLOCK_OK);
        CHECK_STATUS(local_finish(next), PLOCK_OK);
        if (!CHECK(plock_now() - released < SOON)) fprintf(stderr, "terms %d\n", i);
        CHECK(plock_lease_valid(next));
        CHECK(kill(stopped, SIGCONT) == 0);
        /* the continued waiter has lost its turn, and asks again */
        CHECK(local_await_waiters(s->store, "k", 1));
        CHECK(plock_lease_valid(next));
        CHECK_INT(local_holders(s->store, "k"), 1);
        CHECK_STATUS(local_release(next), PLOCK_OK);
        CHECK_INT(ended_as(stopped), 0);
        plock_lease_free(first);
        plock_lease_free(next);
        (void)usleep(2000); /* until the lease that at_least kept for a millisecond has expired */
        end_scene(s);
    }
}

static void many_stopped_waiters_cost_no_more(void) {
    enum { MANY = 4 };
    scene *s = new_scene();
    s->terms = TERMS[0];
    pid_t stopped[MANY];
    plock_lease *first = local_lease(s->store, "k");
    CHECK_STATUS(local_acquire(first, LONG, 0), PLOCK_OK);
    for (int i = 0; i < MANY; i++) stopped[i] = stopped_waiter(s);
    plock_lease *next = stand_in_line(s->store, &s->terms);
    const plock_ns released = plock_now();
    CHECK_STATUS(local_release(first), PLOCK_OK);
    CHECK_STATUS(local_finish(next), PLOCK_OK);
    CHECK(plock_now() - released < SOON);
    CHECK_STATUS(local_release(next), PLOCK_OK);
    for (int i = 0; i < MANY; i++) CHECK(kill(stopped[i], SIGCONT) == 0);
    for (int i = 0; i < MANY; i++) CHECK_INT(ended_as(stopped[i]), 0);
    plock_lease_free(first);
    plock_lease_free(next);
    end_scene(s);
}

/* The stopped waiter misses its turn before its wait is over. When it continues, it asks again, and
 * times out. */
static void its_patience_ends_as_that_of_others(void) {
    scene *s = new_scene();
    s->terms =
        (plock_local_acquire_options){.ttl = 2 * PLOCK_SECOND, .wait = 1500 * PLOCK_MILLISECOND};
    plock_lease *first = local_lease(s->store, "k");
    CHECK_STATUS(local_acquire(first, LONG, 0), PLOCK_OK);
    const pid_t stopped = stopped_waiter(s);
    plock_lease *next = stand_in_line(s->store, &TERMS[0]);
    CHECK_STATUS(local_release(first), PLOCK_OK);
    CHECK_STATUS(local_finish(next), PLOCK_OK);
    CHECK(kill(stopped, SIGCONT) == 0);
    CHECK_INT(ended_as(stopped), 3);
    CHECK(plock_lease_valid(next));
    CHECK_STATUS(local_release(next), PLOCK_OK);
    plock_lease_free(first);
    plock_lease_free(next);
    end_scene(s);
}

/* --- a stopped waiter that cannot be let in --- */

static void a_reader_passes_a_stopped_writer_which_keeps_its_place(void) {
    scene *s = new_scene();
    const plock_local_acquire_options reads = {.ttl = LONG, .wait = LONG, .mode = 'r'};
    const plock_local_acquire_options tries = {.ttl = LONG, .mode = 'r'};
    s->terms = (plock_local_acquire_options){.ttl = LONG, .wait = LONG, .mode = 'w', .limit = 1};
    plock_lease *first = local_lease(s->store, "k"), *second = local_lease(s->store, "k");
    plock_lease *third = local_lease(s->store, "k");
    CHECK_STATUS(local_acquire_as(first, &reads), PLOCK_OK);
    const pid_t writer = stopped_waiter(s);
    const plock_ns asked = plock_now();
    CHECK_STATUS(local_acquire_as(second, &reads), PLOCK_OK);
    CHECK(plock_now() - asked < SOON);
    CHECK_INT(local_waiters(s->store, "k"), 1);
    CHECK_STATUS(local_acquire_as(third, &tries), PLOCK_OK);
    CHECK_STATUS(local_release(third), PLOCK_OK);
    CHECK(kill(writer, SIGCONT) == 0);
    unsigned rounds = 0;
    while (local_acquire_as(third, &tries) == PLOCK_OK && CHECK(test_patient(&rounds)))
        CHECK_STATUS(local_release(third), PLOCK_OK);
    CHECK_STATUS(local_release(first), PLOCK_OK);
    CHECK_STATUS(local_acquire_as(third, &tries), PLOCK_REFUSED);
    CHECK_STATUS(local_release(second), PLOCK_OK);
    CHECK_INT(ended_as(writer), 0);
    plock_lease_free(first);
    plock_lease_free(second);
    plock_lease_free(third);
    end_scene(s);
}

static plock_status acquire_both(plock_lease *const pair[2]) {
    const plock_local_acquire_options terms = {.ttl = LONG};
    size_t refused;
    plock_interest interest;
    plock_error error;
    return plock_local_acquire_all(pair, 2, &terms, &refused, &interest, &error);
}

/* The stopped waiters are served as soon as they continue, though no process wakes them. */
static void a_key_that_only_the_stopped_wait_for_is_free(void) {
    scene *s = new_scene();
    s->terms = TERMS[0];
    plock_lease *first = local_lease(s->store, "k"), *second = local_lease(s->store, "k");
    plock_lease *pair[] = {local_lease(s->store, "k"), local_lease(s->store, "l")};
    CHECK_STATUS(local_acquire(first, LONG, 0), PLOCK_OK);
    const pid_t stopped = stopped_waiter(s);
    plock_lease *next = stand_in_line(s->store, &TERMS[0]);
    CHECK_STATUS(local_release(first), PLOCK_OK);
    /* when `next` has the lock, the other processes know that the waiter is stopped */
    CHECK_STATUS(local_finish(next), PLOCK_OK);
    pid_t other = stopped_waiter(s);
    CHECK_STATUS(acquire_both(pair), PLOCK_REFUSED);
    unsigned rounds = 0;
    CHECK_STATUS(local_release(next), PLOCK_OK);
    while (local_acquire(second, LONG, 0) == PLOCK_REFUSED && CHECK(test_patient(&rounds)))
        continue;
    CHECK_STATUS(local_release(second), PLOCK_OK);
    CHECK_STATUS(acquire_both(pair), PLOCK_OK);
    CHECK_STATUS(local_release(pair[0]), PLOCK_OK);
    CHECK_STATUS(local_release(pair[1]), PLOCK_OK);
    CHECK(kill(stopped, SIGCONT) == 0);
    CHECK_INT(ended_as(stopped), 0);
    CHECK(kill(other, SIGCONT) == 0);
    CHECK_INT(ended_as(other), 0);
    plock_lease_free(first);
    plock_lease_free(second);
    plock_lease_free(next);
    for (int i = 0; i < 2; i++) plock_lease_free(pair[i]);
    end_scene(s);
}

/* --- a stopped waiter that continues while another process acquires several keys --- */

static plock__local_map *observed;

static void others_seen_at(plock_ns at) {
    for (uint32_t slot = 0; slot < PLOCK__LOCAL_PROCESSES; slot++)
        if (slot != observed->slot) atomic_store(&observed->processes[slot].seen_at, at);
}

static void continues(int unused) {
    (void)unused;
    others_seen_at(PLOCK_NEVER / 2);
}

/* The store has room for only one of the two keys, until a sweep removes the expired key. */
static plock_status acquire_both_in_a_full_store(scene *s, unsigned long *point) {
    plock_lease *held[PLOCK_LOCAL_KEYS_MIN - 2], *over = local_lease(s->store, "over");
    plock_lease *pair[] = {local_lease(s->store, "k"), local_lease(s->store, "l")};
    char name[16];
    for (int i = 0; i < PLOCK_LOCAL_KEYS_MIN - 2; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        held[i] = local_lease(s->store, name);
        CHECK_STATUS(local_acquire(held[i], LONG, 0), PLOCK_OK);
    }
    CHECK_STATUS(local_acquire(over, PLOCK_TTL_MIN, 0), PLOCK_OK);
    while (plock_lease_valid(over)) continue;
    (void)plock__local_signal_at(*point);
    const plock_status status = acquire_both(pair);
    *point = plock__local_signal_at(0);
    /* if the key was handed to a waiter, the waiter keeps it for a second */
    const int holders = local_holders(s->store, "k");
    CHECK(holders <= 1 && (status || holders == 1));
    CHECK(!status || status == PLOCK_REFUSED || status == PLOCK_STORE_FULL);
    if (!status) CHECK(plock_lease_valid(pair[0]));
    plock_lease_free(over);
    for (int i = 0; i < 2; i++) plock_lease_free(pair[i]);
    for (int i = 0; i < PLOCK_LOCAL_KEYS_MIN - 2; i++) plock_lease_free(held[i]);
    return status;
}

static void several_keys_are_taken_as_they_are_after_a_sweep(void) {
    unsigned long points = 1, refusals = 0;
    CHECK(signal(SIGUSR1, continues) != SIG_ERR);
    for (unsigned long point = 0; point <= points; point++) {
        (void)unlink(local_path());
        plock_local_close(local_open_keys(PLOCK_LOCAL_KEYS_MIN));
        scene *s = new_scene();
        s->terms = TERMS[0];
        observed = local_map_of(s->store);
        plock_lease *first = local_lease(s->store, "k");
        CHECK_STATUS(local_acquire(first, LONG, 0), PLOCK_OK);
        const pid_t stopped = stopped_waiter(s);
        others_seen_at(0);
        CHECK_STATUS(local_release(first), PLOCK_OK);
        unsigned long passed = point;
        refusals += acquire_both_in_a_full_store(s, &passed) == PLOCK_REFUSED;
        if (!point) points = passed;
        CHECK(kill(stopped, SIGKILL) == 0);
        (void)local_status_of(stopped);
        plock_lease_free(first);
        plock__local_release(observed);
        plock_local_close(s->store);
        (void)munmap(s, sizeof *s);
    }
    CHECK(points > 10 && refusals > 0);
    CHECK(signal(SIGUSR1, SIG_DFL) != SIG_ERR);
    (void)unlink(local_path());
}

/* --- a late thread in a process that runs --- */

static void wait_and_be_late(void *context) {
    scene *s = context;
    plock_lease *lease = stand_in_line(s->store, &s->terms);
    atomic_store(&s->stage, WAITS);
    await_stage(s, GOES_ON);
    const int ended = outcome(lease);
    plock_lease_free(lease);
    if (ended) _exit(ended);
}

static void a_late_thread_does_not_lose_its_turn(void) {
    for (int i = 0; i < TERMS_COUNT; i++) {
        scene *s = new_scene();
        s->terms = TERMS[i];
        plock_lease *first = local_lease(s->store, "k"), *next = local_lease(s->store, "k");
        plock_local_acquire_options impatient = TERMS[i];
        impatient.wait = 1500 * PLOCK_MILLISECOND;
        CHECK_STATUS(local_acquire_as(first, &s->terms), PLOCK_OK);
        const pid_t late = local_child(wait_and_be_late, s);
        await_stage(s, WAITS);
        CHECK_STATUS(local_release(first), PLOCK_OK);
        CHECK_STATUS(local_acquire_as(next, &impatient), PLOCK_TIMED_OUT);
        CHECK_INT(local_holders(s->store, "k"), 1);
        atomic_store(&s->stage, GOES_ON);
        CHECK_INT(ended_as(late), 0);
        plock_lease_free(first);
        plock_lease_free(next);
        (void)usleep(2000); /* until the lease that at_least kept for a millisecond has expired */
        end_scene(s);
    }
}

int main(void) {
    local_begin();
    RUN(a_stopped_waiter_holds_the_next_one_up_for_a_second_or_two);
    RUN(many_stopped_waiters_cost_no_more);
    RUN(its_patience_ends_as_that_of_others);
    RUN(a_reader_passes_a_stopped_writer_which_keeps_its_place);
    RUN(a_key_that_only_the_stopped_wait_for_is_free);
    RUN(several_keys_are_taken_as_they_are_after_a_sweep);
    RUN(a_late_thread_does_not_lose_its_turn);
    local_end();
    return test_end("local_stopped");
}
