/* A local store loses its file while a call waits, or while a call is inside the critical section.
 * The call goes on in the present file. */
#include "lost_file.h"

#include "local_support.h"

#include "local/local_lease.h"
#include "local/local_make.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if TEST_TSAN
/* Anonymous memory replaces the pages of a lost file while other threads may use them. TSan would
 * report a race, so it is told to ignore plock__local_lose. The tests in this file show that a
 * process in the critical section notices the loss. */
const char *__tsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__tsan_default_suppressions(void) { return "race:plock__local_lose"; }
#endif

static const plock_ns LONG = 3600 * PLOCK_SECOND;

/* --- waiters --- */

static void a_waiter_waits_in_the_present_file(void) {
    for (int watched = 0; watched < 2; watched++)
        for (int i = 0; i < FATES_COUNT; i++) {
            lost_clear();
            plock_local *store = open_there();
            plock_lease *first = local_lease(store, "k"), *second = local_lease(store, "k");
            plock_interest interest;
            CHECK_STATUS(local_acquire(first, LONG, 0), PLOCK_OK);
            CHECK_STATUS(
                plock_local_lease_acquire(
                    second,
                    &(plock_local_acquire_options){.ttl = LONG, .wait = LONG, .watched = watched}),
                PLOCK_OK);
            CHECK_STATUS(plock_lease_step(second, &interest), PLOCK_AGAIN);
            (void)usleep(LOOKED_AT);
            FATES[i].comes();
            (void)usleep(LOOKED_AT);
            CHECK_STATUS(local_release(first), PLOCK_NOT_OWNER);
            plock_lease_free(first);
            const plock_status served = local_finish(second);
            struct stat found;
            if (!CHECK_STATUS(served, PLOCK_OK)) fprintf(stderr, "fate %d\n", i);
            CHECK(plock_lease_valid(second) && stat(lost.path, &found) == 0);
            CHECK_STATUS(local_release(second), PLOCK_OK);
            plock_lease_free(second);
            plock_local_close(store);
        }
    lost_clear();
}

static void hold_on(void *told) {
    plock_lease *lease = local_lease(open_there(), "k");
    if (local_acquire(lease, LONG, 0)) _exit(1);
    if (write(*(const int *)told, "", 1) != 1) _exit(1);
    for (;;) (void)pause();
}

/* A lease that waits in the queue behind a holder in another process. */
struct behind {
    int told[2];
    pid_t holder;
    plock_local *store;
    plock_lease *lease;
};

static void wait_behind_a_holder(struct behind *behind, bool watched) {
    char byte;
    plock_interest interest;
    const plock_local_acquire_options options = {.ttl = LONG, .wait = LONG, .watched = watched};
    lost_clear();
    CHECK(pipe(behind->told) == 0);
    behind->holder = local_child(hold_on, &behind->told[1]);
    CHECK(read(behind->told[0], &byte, 1) == 1);
    behind->store = open_there();
    behind->lease = local_lease(behind->store, "k");
    CHECK_STATUS(plock_local_lease_acquire(behind->lease, &options), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(behind->lease, &interest), PLOCK_AGAIN);
}

static void end_waiting(struct behind *behind) {
    CHECK(kill(behind->holder, SIGKILL) == 0);
    (void)local_status_of(behind->holder);
    for (int end = 0; end < 2; end++) (void)close(behind->told[end]);
    plock_lease_free(behind->lease);
    plock_local_close(behind->store);
}

/* Here the holder has not released the lost lease. */
static void and_does_so_within_a_second_after_damage(void) {
    static void (*const HARMS[])(void) = {is_truncated, its_title_is_written_over,
                                          another_one_is_written_over_it};
    for (size_t i = 0; i < sizeof HARMS / sizeof *HARMS; i++) {
        struct behind behind;
        wait_behind_a_holder(&behind, false);
        /* After this pause, a request checks the file before it reads from it. Otherwise, the
         * request could read a truncated page, which raises SIGBUS. */
        (void)usleep(LOOKED_AT);
        HARMS[i]();
        const plock_ns harmed_at = plock_now();
        if (!CHECK_STATUS(local_finish(behind.lease), PLOCK_OK))
            fprintf(stderr, "harm %zu: %s\n", i, plock_lease_error(behind.lease)->message);
        CHECK(plock_now() - harmed_at < 1500 * PLOCK_MILLISECOND);
        end_waiting(&behind);
    }
    lost_clear();
}

/* --- a truncation that is not noticed yet --- */

static void ask_just_after(void *unused) {
    (void)unused;
    plock_lease *lease = local_lease(open_there(), "k");
    if (local_acquire(lease, LONG, 0) || !plock_lease_valid(lease)) _exit(1);
    is_truncated();
    if (plock_lease_valid(lease)) _exit(2);
}

static void a_lease_that_is_asked_about_just_after_a_truncation_is_lost(void) {
    lost_clear();
    CHECK_INT(local_status_of(local_child(ask_just_after, NULL)), 0);
    lost_clear();
}

static void *truncate_and_wake(void *interrupt) {
    (void)usleep(LOOKED_AT); /* until the waiter sleeps */
    is_truncated();
    plock_waker_wake(interrupt);
    return NULL;
}

static void be_interrupted_just_after(void *unused) {
    (void)unused;
    pthread_t thread;
    plock_interest interest;
    plock_waker *interrupt = plock_waker_take();
    plock_local *store = open_there();
    plock_lease *first = local_lease(store, "k"), *second = local_lease(store, "k");
    const plock_local_acquire_options terms = {.ttl = LONG, .wait = LONG};
    if (local_acquire(first, LONG, 0) || plock_local_lease_acquire(second, &terms)) _exit(1);
    if (plock_lease_step(second, &interest) != PLOCK_AGAIN) _exit(2);
    if (pthread_create(&thread, NULL, truncate_and_wake, interrupt)) _exit(3);
    /* plock_await returns PLOCK_OK if another event has woken the waiter */
    while (plock_await(&interest, interrupt) == PLOCK_OK)
        if (plock_lease_step(second, &interest) != PLOCK_AGAIN) _exit(4);
    (void)pthread_join(thread, NULL);
    (void)plock_waker_clear(interrupt);
    if (plock_lease_step(second, &interest) != PLOCK_AGAIN) _exit(5);
    if (local_release(first) != PLOCK_NOT_OWNER) _exit(6);
    if (local_finish(second) || !plock_lease_valid(second)) _exit(7);
}

static void a_waiter_that_is_interrupted_just_after_a_truncation_goes_on(void) {
    lost_clear();
    CHECK_INT(local_status_of(local_child(be_interrupted_just_after, NULL)), 0);
    lost_clear();
}

static void put_back_in_a_moment(void *unused) {
    (void)unused;
    (void)usleep(300000);
    if (rename(lost.aside, lost.folder)) _exit(1);
}

/* While the folder is away, no file can be made at the path. The waiter tolerates this for a
 * second, as it tolerates a server that is away for a moment. */
static void a_folder_further_up_that_is_away_is_waited_for_a_second(void) {
    for (int back = 0; back < 2; back++) {
        plock_local *store = open_deep();
        plock_lease *first = local_lease(store, "k"), *second = local_lease(store, "k"),
                    *third = local_lease(store, "l");
        plock_interest interest;
        CHECK_STATUS(local_acquire(first, LONG, 0), PLOCK_OK);
        CHECK_STATUS(plock_local_lease_acquire(
                         second, &(plock_local_acquire_options){.ttl = LONG, .wait = LONG}),
                     PLOCK_OK);
        CHECK_STATUS(plock_lease_step(second, &interest), PLOCK_AGAIN);
        const plock_ns moved_at = plock_now();
        its_folder_is_renamed();
        (void)usleep(300000);
        CHECK_STATUS(local_release(first), PLOCK_NOT_OWNER);
        const pid_t pid = back ? local_child(put_back_in_a_moment, NULL) : 0;
        const plock_status served = local_finish(second);
        if (back) {
            CHECK_STATUS(served, PLOCK_OK);
            CHECK(plock_lease_valid(second));
            CHECK_INT(local_status_of(pid), 0);
        } else {
            CHECK_STATUS(served, PLOCK_DISCONNECTED);
            CHECK_HAS(plock_lease_error(second)->message, "No such file or directory");
            CHECK(plock_now() - moved_at > PLOCK_SECOND &&
                  plock_now() - moved_at < 3 * PLOCK_SECOND);
            CHECK_STATUS(local_acquire(third, LONG, 0), PLOCK_DISCONNECTED); /* refused at once */
        }
        plock_lease_free(first);
        plock_lease_free(second);
        plock_lease_free(third);
        plock_local_close(store);
    }
    lost_clear();
}

/* --- processes in the critical section --- */

static void move_away_and_back(int unused) {
    const struct timespec until_noticed = {.tv_sec = 1};
    (void)unused;
    if (rename(lost.path, lost.aside) || nanosleep(&until_noticed, NULL) ||
        rename(lost.aside, lost.path))
        _exit(4);
}

struct visitor {
    unsigned long point;
    int done[2];
};

/* At step `point` of the extension, the file is moved away. A second later, when the worker thread
 * has noticed the loss, the file is put back. */
static void extend_meanwhile(void *context) {
    const struct visitor *v = context;
    plock_lease *lease = local_lease(open_there(), "k");
    if (local_acquire_as(lease, &(plock_local_acquire_options){.ttl = LONG, .watched = true}))
        _exit(1);
    if (signal(SIGUSR1, move_away_and_back) == SIG_ERR) _exit(2);
    (void)plock__local_signal_at(v->point);
    const bool is_lost = local_extend(lease, LONG) == PLOCK_NOT_OWNER && plock_lease_lost(lease);
    if (write(v->done[1], is_lost ? "y" : "n", 1) != 1) _exit(3);
    for (;;) (void)pause(); /* the process stays alive, and keeps its lease */
}

static void a_file_that_comes_back_can_be_used_though_a_process_was_inside(void) {
    for (unsigned long point = 1; point <= 2; point++) {
        lost_clear();
        struct visitor v = {.point = point};
        char is_lost = 0;
        CHECK(pipe(v.done) == 0);
        const pid_t pid = local_child(extend_meanwhile, &v);
        CHECK(read(v.done[0], &is_lost, 1) == 1 && is_lost == 'y');
        plock_local *store = open_there();
        plock_lease *lease = local_lease(store, "l");
        CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
        CHECK(kill(pid, SIGKILL) == 0);
        (void)local_status_of(pid);
        plock_lease_free(lease);
        plock_local_close(store);
        for (int end = 0; end < 2; end++) (void)close(v.done[end]);
    }
    lost_clear();
}

/* --- losses that are noticed at the critical section --- */

/* Delays the next check of the path, and makes a check of the size due. So a change is noticed only
 * when a process enters the critical section. */
static void is_seen_at_the_section(plock_local *store) {
    plock__local_map *map = store->map;
    atomic_store(&map->checked_at, plock_after(plock_now(), LONG));
    atomic_store(&map->whole_at, 0);
}

/* The ways to lose a file that a process notices when it enters the critical section. */
static const struct fate SEEN_INSIDE[] = {
    {is_removed, true, "was removed, renamed or replaced"},
    {a_copy_takes_its_place, true, "was removed, renamed or replaced"},
    {is_truncated, true, "truncated or written over"},
    {its_title_is_written_over, true, "truncated or written over"},
    {another_one_is_written_over_it, true, "truncated or written over"},
    {is_marked_as_damaged, true, "is damaged"},
};
enum { SEEN_INSIDE_COUNT = sizeof SEEN_INSIDE / sizeof *SEEN_INSIDE };

/* The first action of a process that has no lease in the file, and what it returned. */
struct retry {
    plock_ns deadline; /* of a query */
    plock_local *store;
    plock_lease *leases[2];
    size_t refused, count, length;
    uint32_t cursor;
    plock_local_acquire_options terms;
    plock_local_person person;
    plock_error error;
    char key[PLOCK_LOCAL_KEY_MAX];
};

static plock_status by_lease(struct retry *e, plock_status begun) {
    if (begun) return begun;
    const plock_status status = local_finish(e->leases[0]);
    e->error = *plock_lease_error(e->leases[0]);
    return status;
}

static plock_status acquires(struct retry *e) {
    return by_lease(e, plock_local_lease_acquire(e->leases[0], &e->terms));
}

static plock_status adopts(struct retry *e) {
    return by_lease(e, plock_local_lease_adopt(e->leases[0], "him", 3, &e->terms));
}

static plock_status releases_for_another(struct retry *e) {
    return by_lease(e, plock_local_lease_release_owned(e->leases[0], "him", 3));
}

static plock_status repeated(struct retry *e,
                             plock_status (*step)(struct retry *e, plock_interest *interest)) {
    plock_interest interest;
    plock_status status;
    e->deadline = local_soon();
    do status = step(e, &interest);
    while (status == PLOCK_AGAIN && plock_wait_poll(NULL, &interest) == PLOCK_OK);
    return status;
}

static plock_status both(struct retry *e, plock_interest *interest) {
    return plock_local_acquire_all(e->leases, 2, &e->terms, &e->refused, interest, &e->error);
}

static plock_status people(struct retry *e, plock_interest *interest) {
    return plock_local_examine(e->store, "k", 1, &e->person, 1, &e->count, e->deadline, interest,
                               &e->error);
}

static plock_status keys(struct retry *e, plock_interest *interest) {
    return plock_local_next_key(e->store, &e->cursor, e->key, &e->length, e->deadline, interest,
                                &e->error);
}

static plock_status end_of_all(struct retry *e, plock_interest *interest) {
    return plock_local_break(e->store, "k", 1, NULL, 0, e->deadline, interest, &e->error);
}

static plock_status acquires_both(struct retry *e) { return repeated(e, both); }

static plock_status examines(struct retry *e) { return repeated(e, people); }

static plock_status lists(struct retry *e) { return repeated(e, keys); }

static plock_status breaks(struct retry *e) { return repeated(e, end_of_all); }

static const struct kind {
    plock_status (*does)(struct retry *e);
    plock_local_acquire_options terms;
    plock_status in_a_new_file;
    int held; /* how many of the two leases are held after the action */
} KINDS[] = {
    {acquires, {.ttl = 3600 * PLOCK_SECOND}, PLOCK_OK, 1},
    {acquires, {.ttl = 3600 * PLOCK_SECOND, .wait = 3600 * PLOCK_SECOND}, PLOCK_OK, 1},
    {acquires, {.ttl = 3600 * PLOCK_SECOND, .watched = true}, PLOCK_OK, 1},
    {acquires, {.ttl = 3600 * PLOCK_SECOND, .renews = true, .automatic = true}, PLOCK_OK, 1},
    {acquires, {.ttl = 3600 * PLOCK_SECOND, .mode = 'r', .limit = 5}, PLOCK_OK, 1},
    {acquires_both, {.ttl = 3600 * PLOCK_SECOND}, PLOCK_OK, 2},
    {acquires_both, {.ttl = 3600 * PLOCK_SECOND, .watched = true}, PLOCK_OK, 2},
    {adopts, {.ttl = 3600 * PLOCK_SECOND}, PLOCK_NOT_OWNER, 0},
    {adopts, {.ttl = 3600 * PLOCK_SECOND, .watched = true}, PLOCK_NOT_OWNER, 0},
    {releases_for_another, {.ttl = 0}, PLOCK_NOT_OWNER, 0},
    {examines, {.ttl = 0}, PLOCK_OK, 0},
    {lists, {.ttl = 0}, PLOCK_OK, 0},
    {breaks, {.ttl = 0}, PLOCK_NOT_OWNER, 0},
};
enum { KINDS_COUNT = sizeof KINDS / sizeof *KINDS };

static struct retry retry_to(plock_local *store, const struct kind *kind) {
    return (struct retry){.store = store,
                          .leases = {local_lease(store, "k"), local_lease(store, "l")},
                          .terms = kind->terms};
}

static void is_done(const struct retry *e) {
    for (int i = 0; i < 2; i++) plock_lease_free(e->leases[i]);
}

/* Checks that the first `held` leases are held in the present file, each of them once. */
static void holds_what_it_says(const struct retry *e, int held) {
    struct stat found;
    if (!CHECK(stat(lost.path, &found) == 0 && found.st_size > 0)) return;
    plock_local *other = open_there();
    for (int i = 0; i < 2; i++) {
        CHECK_INT(plock_lease_valid(e->leases[i]), i < held);
        CHECK_INT(local_holders(other, i ? "l" : "k"), i < held);
        CHECK_INT(local_waiters(other, i ? "l" : "k"), 0);
    }
    plock_local_close(other);
}

static void a_process_with_nothing_in_the_file_starts_again(void) {
    for (int i = 0; i < SEEN_INSIDE_COUNT; i++)
        for (int kind = 0; kind < KINDS_COUNT; kind++) {
            lost_clear();
            plock_local *store = open_there();
            struct retry e = retry_to(store, &KINDS[kind]);
            is_seen_at_the_section(store);
            SEEN_INSIDE[i].comes();
            const plock_status status = KINDS[kind].does(&e);
            if (!CHECK_STATUS(status, KINDS[kind].in_a_new_file))
                fprintf(stderr, "fate %d, kind %d: %s\n", i, kind, e.error.message);
            CHECK_INT(e.count + e.length, 0);
            holds_what_it_says(&e, KINDS[kind].held);
            is_done(&e);
            plock_local_close(store);
        }
    lost_clear();
}

/* If the process could already use the new file, two of its threads could hold the same lock. One
 * thread has not noticed yet that its lease in the old file is lost. The other acquires in the new
 * file. */
static void a_process_with_a_lease_in_the_file_is_refused_another(void) {
    for (int i = 0; i < SEEN_INSIDE_COUNT; i++)
        for (int kind = 0; kind < KINDS_COUNT; kind++) {
            lost_clear();
            plock_local *store = open_there(), *second = open_there();
            plock_lease *lease = local_lease(second, "m");
            struct retry e = retry_to(store, &KINDS[kind]);
            e.terms.wait = 0;
            CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
            is_seen_at_the_section(store);
            SEEN_INSIDE[i].comes();
            const plock_status status = KINDS[kind].does(&e);
            if (!CHECK(status == PLOCK_DISCONNECTED || status == PLOCK_PROTOCOL))
                fprintf(stderr, "fate %d, kind %d: %d\n", i, kind, status);
            CHECK_HAS(e.error.message, SEEN_INSIDE[i].told);
            for (int number = 0; number < 2; number++)
                CHECK(!plock_lease_held(e.leases[number]) && !plock_lease_valid(e.leases[number]));
            CHECK(plock_lease_lost(lease));
            CHECK_STATUS(local_release(lease), PLOCK_NOT_OWNER);
            plock_lease_free(lease);
            CHECK_STATUS(KINDS[kind].does(&e), KINDS[kind].in_a_new_file);
            holds_what_it_says(&e, KINDS[kind].held);
            is_done(&e);
            plock_local_close(second);
            plock_local_close(store);
        }
    lost_clear();
}

static plock__local_map *visited;

static void another_thread_enters(void) {
    plock_error error;
    CHECK_STATUS(plock__local_check_size(visited, plock_now(), &error), PLOCK_PROTOCOL);
}

static void a_check_that_has_only_begun_counts_for_nothing(void) {
    lost_clear();
    plock_local *store = open_there();
    plock_error error;
    visited = store->map;
    is_seen_at_the_section(store);
    is_truncated();
    plock__local_before(PLOCK__MEASURES, another_thread_enters);
    CHECK_STATUS(plock__local_check_size(visited, plock_now(), &error), PLOCK_PROTOCOL);
    plock_local_close(store);
    lost_clear();
}

static struct pause_of_a_thread { pthread_barrier_t begins, ends; } noticing;

static void lets_others_go_on(void) {
    (void)pthread_barrier_wait(&noticing.begins);
    (void)pthread_barrier_wait(&noticing.ends);
}

static void *notices_the_loss(void *unused) {
    another_thread_enters();
    return unused;
}

/* Another thread has noticed the loss, but has not given up the process's place in the file yet.
 * That thread pauses until the calling thread has completed its action. */
static void the_place_is_given_up_by_whoever_needs_it(void) {
    for (int kind = 0; kind < KINDS_COUNT; kind++) {
        lost_clear();
        plock_local *store = open_there();
        struct retry e = retry_to(store, &KINDS[kind]);
        pthread_t thread;
        visited = plock__local_retain(store->map);
        is_seen_at_the_section(store);
        is_truncated();
        CHECK(!pthread_barrier_init(&noticing.begins, NULL, 2) &&
              !pthread_barrier_init(&noticing.ends, NULL, 2));
        plock__local_before(PLOCK__LEAVES_PLACE, lets_others_go_on);
        CHECK(pthread_create(&thread, NULL, notices_the_loss, NULL) == 0);
        (void)pthread_barrier_wait(&noticing.begins);
        if (!CHECK_STATUS(KINDS[kind].does(&e), KINDS[kind].in_a_new_file))
            fprintf(stderr, "kind %d: %s\n", kind, e.error.message);
        (void)pthread_barrier_wait(&noticing.ends);
        CHECK(pthread_join(thread, NULL) == 0);
        holds_what_it_says(&e, KINDS[kind].held);
        is_done(&e);
        plock__local_release(visited);
        plock_local_close(store);
        CHECK(!pthread_barrier_destroy(&noticing.begins) &&
              !pthread_barrier_destroy(&noticing.ends));
    }
    lost_clear();
}

/* The waiter was refused in the lost file, but has not asked in the present one. */
static void a_waiter_whose_patience_ends_as_the_file_is_lost_asks_once_more(void) {
    for (int i = 0; i < 2;
         i++) /* the other losses leave a damaged file, which other processes may still need */
        for (int watched = 0; watched < 2; watched++) {
            struct behind behind;
            wait_behind_a_holder(&behind, watched);
            is_seen_at_the_section(behind.store);
            SEEN_INSIDE[i].comes();
            plock_lease_hurry(behind.lease, plock_now());
            if (!CHECK_STATUS(local_finish(behind.lease), PLOCK_OK))
                fprintf(stderr, "fate %d: %s\n", i, plock_lease_error(behind.lease)->message);
            CHECK(plock_lease_valid(behind.lease));
            CHECK_INT(local_holders(behind.store, "k"), 1);
            end_waiting(&behind);
        }
    lost_clear();
}

static void is_removed_long_after_it_was_looked_at(void) {
    (void)usleep(1000); /* so that the last check of the file is too old to count */
    is_removed();
}

static void a_file_removed_while_it_is_opened_is_replaced(void) {
    for (int kind = 0; kind < KINDS_COUNT; kind++) {
        lost_clear();
        plock_local_close(open_there());
        plock__local_before(PLOCK__TAKES_PLACE, is_removed_long_after_it_was_looked_at);
        plock_local *store = open_there();
        if (!store) continue;
        struct retry e = retry_to(store, &KINDS[kind]);
        is_removed();
        (void)usleep(LOOKED_AT);
        plock_local_close(open_there());
        plock__local_before(PLOCK__TAKES_PLACE, is_removed_long_after_it_was_looked_at);
        if (!CHECK_STATUS(KINDS[kind].does(&e), KINDS[kind].in_a_new_file))
            fprintf(stderr, "kind %d: %s\n", kind, e.error.message);
        holds_what_it_says(&e, KINDS[kind].held);
        is_done(&e);
        plock_local_close(store);
    }
    lost_clear();
}

static void is_removed_and_missed(int unused) {
    (void)unused;
    if (unlink(lost.path)) _exit(4);
    plock__local_lose(visited, PLOCK__LOCAL_MISSING);
}

/* Loses the file at step `point` of the action, as if another thread noticed the loss and replaced
 * the pages. Returns false if the action has fewer steps. */
static bool who_is_inside_begins_afresh_at(unsigned long point, const struct kind *kind) {
    lost_clear();
    plock_local *store = open_there();
    struct retry e = retry_to(store, kind);
    visited = plock__local_retain(store->map);
    (void)plock__local_signal_at(point);
    const plock_status status = kind->does(&e);
    const bool reached = plock__local_signal_at(0) >= point;
    if (!CHECK_STATUS(status, kind->in_a_new_file))
        fprintf(stderr, "kind %d, point %lu: %s\n", (int)(kind - KINDS), point, e.error.message);
    CHECK_INT(plock__local_lost(visited), reached);
    holds_what_it_says(&e, kind->held);
    is_done(&e);
    plock__local_release(visited);
    plock_local_close(store);
    return reached;
}

static void a_process_inside_when_the_file_is_lost_starts_again(void) {
    CHECK(signal(SIGUSR1, is_removed_and_missed) != SIG_ERR);
    for (int kind = 0; kind < KINDS_COUNT; kind++) {
        unsigned long point = 1;
        /* if leases are watched, the worker thread's steps would be counted too, even after the
         * action */
        if (KINDS[kind].terms.watched) continue;
        while (who_is_inside_begins_afresh_at(point, &KINDS[kind])) point++;
        CHECK(point > 1);
    }
    CHECK(signal(SIGUSR1, SIG_DFL) != SIG_ERR);
    lost_clear();
}

int main(void) {
    lost_begin();
    RUN(a_waiter_waits_in_the_present_file);
    RUN(and_does_so_within_a_second_after_damage);
    RUN(a_lease_that_is_asked_about_just_after_a_truncation_is_lost);
    RUN(a_waiter_that_is_interrupted_just_after_a_truncation_goes_on);
    RUN(a_folder_further_up_that_is_away_is_waited_for_a_second);
    RUN(a_file_that_comes_back_can_be_used_though_a_process_was_inside);
    RUN(a_check_that_has_only_begun_counts_for_nothing);
    RUN(the_place_is_given_up_by_whoever_needs_it);
    RUN(a_process_with_nothing_in_the_file_starts_again);
    RUN(a_process_with_a_lease_in_the_file_is_refused_another);
    RUN(a_file_removed_while_it_is_opened_is_replaced);
    RUN(a_waiter_whose_patience_ends_as_the_file_is_lost_asks_once_more);
    RUN(a_process_inside_when_the_file_is_lost_starts_again);
    local_end();
    return test_end("local_retry");
}
