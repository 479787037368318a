/* The local store: processes that die at every step, and the waiters for their keys. */
#include "local_support.h"

#include "local/local_lease.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Under TSan, each child takes a second to shut down, so only some steps are tested. TSan cannot
 * observe other processes anyway. */
enum { STRIDE = TEST_TSAN ? 23 : 1 };

static const plock_ns LONG = 60 * PLOCK_SECOND, SOON = 5 * PLOCK_SECOND;

/* The memory that the processes of a test share. */
typedef struct scene {
    plock_local *store;
    _Atomic int stage;
    _Atomic int64_t at, fence;
    unsigned long fault;
    int order[16];
    _Atomic int served;
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

static void stay(void) {
    for (;;) (void)pause();
}

/* --- a holder that dies --- */

static void hold_and_stay(void *context) {
    scene *s = context;
    plock_lease *lease = local_lease(s->store, "k");
    if (local_acquire(lease, LONG, 0)) _exit(1);
    atomic_store(&s->fence, plock_lease_fence(lease));
    atomic_store(&s->stage, 1);
    stay();
}

static void wait_and_tell(void *context) {
    scene *s = context;
    plock_lease *lease = local_lease(s->store, "k");
    if (local_acquire(lease, LONG, LONG)) _exit(1);
    atomic_store(&s->at, plock_now());
    atomic_store(&s->stage, 2);
    if (plock_lease_fence(lease) <= atomic_load(&s->fence)) _exit(2);
    plock_lease_free(lease);
}

static void a_dead_holders_lock_passes_on_at_once(void) {
    static const plock_ns AT_ONCE = 10 * PLOCK_MILLISECOND;
    plock_ns best = PLOCK_NEVER;
    for (int round = 0; round < 5; round++) {
        scene *s = new_scene();
        s->store = local_open();
        const pid_t holder = local_child(hold_and_stay, s);
        CHECK(await_stage(s, 1));
        const pid_t waiter = local_child(wait_and_tell, s);
        CHECK(local_await_waiters(s->store, "k", 1));
        const plock_ns killed = plock_now();
        CHECK(kill(holder, SIGKILL) == 0);
        CHECK(await_stage(s, 2));
        const plock_ns took = atomic_load(&s->at) - killed;
        if (took < best) best = took;
        CHECK_INT(local_status_of(waiter), 0);
        (void)local_status_of(holder);
        plock_local_close(s->store);
    }
    /* the best round counts, because the machine may be busy during the other rounds */
    if (!TEST_TSAN) CHECK(best < AT_ONCE);
}

static void after_its_death_the_next_process_gets_it_without_waiting(void) {
    scene *s = new_scene();
    s->store = local_open();
    const pid_t holder = local_child(hold_and_stay, s);
    CHECK(await_stage(s, 1));
    plock_lease *lease = local_lease(s->store, "k");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_REFUSED);
    CHECK(kill(holder, SIGKILL) == 0);
    (void)local_status_of(holder);
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    CHECK(plock_lease_fence(lease) > atomic_load(&s->fence));
    plock_lease_free(lease);
    plock_local_close(s->store);
}

static void hold_at_least(void *context) {
    scene *s = context;
    plock_lease *lease = local_lease(s->store, "k");
    if (local_acquire_as(lease, &(plock_local_acquire_options){
                                    .ttl = LONG, .at_least = 150 * PLOCK_MILLISECOND}))
        _exit(1);
    atomic_store(&s->at, plock_lease_acquired_at(lease));
    plock_lease *left = local_lease(s->store, "left");
    if (local_acquire(left, 150 * PLOCK_MILLISECOND, 0) || plock_lease_leave(left) ||
        local_finish(left))
        _exit(1);
}

static void what_is_meant_to_outlive_its_process_does(void) {
    scene *s = new_scene();
    s->store = local_open();
    CHECK_INT(local_status_of(local_child(hold_at_least, s)), 0);
    static const char *const KEYS[] = {"k", "left"};
    for (int i = 0; i < 2; i++) CHECK_INT(local_holders(s->store, KEYS[i]), 1);
    for (int i = 0; i < 2; i++) {
        plock_lease *lease = local_lease(s->store, KEYS[i]);
        CHECK_STATUS(local_acquire(lease, LONG, SOON), PLOCK_OK);
        CHECK(plock_now() - atomic_load(&s->at) >= 150 * PLOCK_MILLISECOND);
        CHECK(plock_now() - atomic_load(&s->at) < SOON);
        plock_lease_free(lease);
    }
    plock_local_close(s->store);
}

/* --- an adopter that dies --- */

typedef struct bequest {
    scene *s;
    char owner[PLOCK_TOKEN_LENGTH];
    plock_local_acquire_options terms; /* the terms of the adoption */
} bequest;

/* Acquires the key on these terms, and gives the lease up without a release, so that another
 * process can adopt it. */
static void bequeath(bequest *b, const plock_local_acquire_options *terms) {
    plock_lease *lease = local_lease(b->s->store, "k");
    CHECK_STATUS(local_acquire_as(lease, terms), PLOCK_OK);
    atomic_store(&b->s->at, plock_lease_acquired_at(lease));
    size_t length;
    const char *owner = plock_lease_owner(lease, &length);
    CHECK_INT(length, sizeof b->owner);
    memcpy(b->owner, owner, sizeof b->owner);
    CHECK_STATUS(plock_lease_leave(lease), PLOCK_OK);
    CHECK_STATUS(local_finish(lease), PLOCK_OK);
    plock_lease_free(lease);
}

static void adopt_and_die(void *context) {
    bequest *b = context;
    plock_lease *lease = local_lease(b->s->store, "k");
    (void)plock__local_die_at(b->s->fault);
    if (plock_local_lease_adopt(lease, b->owner, sizeof b->owner, &b->terms) || local_finish(lease))
        _exit(1);
    b->s->fault = plock__local_die_at(0);
    (void)raise(SIGKILL);
}

static void check_killed(pid_t child) {
    const int status = local_status_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void what_is_to_outlive_its_process_outlives_an_adopter_too(void) {
    bequest b = {.s = new_scene()};
    b.s->store = local_open();
    for (const char *mode = "-rws"; *mode; mode++) {
        plock_local_acquire_options terms = {.ttl = LONG,
                                             .mode = *mode == '-' ? 0 : *mode,
                                             .limit = *mode == 's' ? 3 : *mode == 'w'};
        bequeath(&b, &terms);
        CHECK_INT(local_holders(b.s->store, "k"), 1);
        check_killed(local_child(adopt_and_die, &b));
        /* without at_least, the lease now belongs to the adopter's process, and ends with that
         * process */
        CHECK_INT(local_holders(b.s->store, "k"), 0);
        terms.at_least = LONG;
        bequeath(&b, &terms);
        check_killed(local_child(adopt_and_die, &b));
        CHECK_INT(local_holders(b.s->store, "k"), 1);
        CHECK_STATUS(local_break(b.s->store, "k"), PLOCK_OK);
    }
    plock_local_close(b.s->store);
}

static void it_does_so_for_its_time_or_the_adopters_where_that_is_longer(void) {
    static const plock_ns SPAN = 150 * PLOCK_MILLISECOND;
    /* at_least of the first holder, at_least of the adopter, and how long the key stays taken */
    static const int SPANS[][3] = {{1, 0, 1}, {1, 2, 2}, {2, 1, 2}, {0, 1, 1}};
    bequest b = {.s = new_scene()};
    b.s->store = local_open();
    for (size_t i = 0; i < sizeof SPANS / sizeof *SPANS; i++) {
        b.terms = (plock_local_acquire_options){.at_least = SPANS[i][1] * SPAN};
        bequeath(&b, &(plock_local_acquire_options){.ttl = LONG, .at_least = SPANS[i][0] * SPAN});
        check_killed(local_child(adopt_and_die, &b));
        plock_lease *lease = local_lease(b.s->store, "k");
        CHECK_STATUS(local_acquire(lease, LONG, SOON), PLOCK_OK);
        CHECK(plock_now() - atomic_load(&b.s->at) >= SPANS[i][2] * SPAN);
        CHECK(plock_now() - atomic_load(&b.s->at) < SOON);
        plock_lease_free(lease);
    }
    plock_local_close(b.s->store);
}

static void nor_does_a_short_span_end_it_before(void) {
    static const plock_local_acquire_options TERMS[][2] = {
        /* the terms of the first holder, and of the adopter */
        {{.ttl = LONG, .at_least = LONG}, {.ttl = PLOCK_SECOND}},
        {{.ttl = PLOCK_SECOND}, {.at_least = LONG}},
        {{.ttl = PLOCK_SECOND}, {.ttl = PLOCK_SECOND, .at_least = LONG}},
    };
    bequest b = {.s = new_scene()};
    b.s->store = local_open();
    for (size_t i = 0; i < sizeof TERMS / sizeof *TERMS; i++) {
        bequeath(&b, &TERMS[i][0]);
        plock_lease *lease = local_lease(b.s->store, "k");
        CHECK_STATUS(plock_local_lease_adopt(lease, b.owner, sizeof b.owner, &TERMS[i][1]),
                     PLOCK_OK);
        CHECK_STATUS(local_finish(lease), PLOCK_OK);
        CHECK(plock_lease_valid_until(lease) >= atomic_load(&b.s->at) + LONG);
        CHECK(plock_lease_valid_until(lease) <= plock_now() + LONG);
        CHECK(plock_lease_ttl(lease) > LONG / 2 && plock_lease_ttl(lease) <= LONG);
        CHECK_STATUS(local_release(lease), PLOCK_OK);
        plock_lease_free(lease);
    }
    plock_local_close(b.s->store);
}

static void it_does_so_whatever_step_the_adopter_dies_at(void) {
    bequest b = {.s = new_scene()};
    b.s->store = local_open();
    unsigned long faults = 1;
    for (unsigned long fault = 0; fault <= faults; fault += fault ? STRIDE : 1) {
        bequeath(&b, &(plock_local_acquire_options){.ttl = LONG, .at_least = LONG});
        b.s->fault = fault;
        check_killed(local_child(adopt_and_die, &b));
        if (!fault) faults = b.s->fault;
        CHECK_INT(local_holders(b.s->store, "k"), 1);
        CHECK_STATUS(local_break(b.s->store, "k"), PLOCK_OK);
    }
    CHECK(faults > 5);
    plock_local_close(b.s->store);
}

#if defined(__linux__) && !defined(PLOCK_PORTABLE)
static bool is_told_of_ends(int fd) {
    char path[64], name[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(path, name, sizeof name);
    return length > 0 && (size_t)length < sizeof name &&
           memmem(name, (size_t)length, "inotify", strlen("inotify"));
}

/* When a process dies, the kernel closes its descriptors from the highest number down. Closing the
 * inotify descriptor takes long. The file must be closed before that, so it must have the higher
 * number. */
static void the_dead_let_go_of_the_file_before_what_told_them_of_others_ends(void) {
    plock_local *store = local_open();
    plock__local_map *map = local_map_of(store);
    /* takes all numbers below the file's descriptor, as a real program soon does */
    int taken[64], count = 0;
    do taken[count] = dup(STDERR_FILENO);
    while (taken[count++] < map->fd && count < 64);
    for (int again = 0; again < 2; again++) {
        const int fd = plock__local_ends(map);
        CHECK(fd >= 0 && is_told_of_ends(fd));
        int last = 0;
        while (last < fd && !is_told_of_ends(last)) last++;
        CHECK(last < map->fd);
        (void)close(fd);
    }
    while (count > 0) (void)close(taken[--count]);
    plock__local_release(map);
    plock_local_close(store);
}

/* When the second store opens, descriptor numbers below those of the first store are free. */
static void with_several_stores_they_let_go_of_each_file_first(void) {
    enum { TAKEN = 40, NUMBERS = 1024 };
    int taken[TAKEN];
    for (int i = 0; i < TAKEN; i++) taken[i] = dup(STDERR_FILENO);
    plock_local *stores[2] = {local_open()};
    plock__local_map *maps[2] = {local_map_of(stores[0])};
    int ends[2] = {plock__local_ends(maps[0])};
    for (int i = 0; i < TAKEN; i++) (void)close(taken[i]);
    char path[600];
    plock_error error;
    (void)snprintf(path, sizeof path, "%s.second", local_path());
    CHECK_STATUS(plock_local_open(&stores[1], path, 0, &error), PLOCK_OK);
    maps[1] = local_map_of(stores[1]);
    ends[1] = plock__local_ends(maps[1]);
    for (int i = 0; i < 2; i++) CHECK(ends[i] >= 0 && close(ends[i]) == 0);
    int found = 0, last = 0;
    for (int fd = 0; fd < NUMBERS; fd++) {
        if (!is_told_of_ends(fd)) continue;
        found++;
        last = fd;
    }
    CHECK_INT(found, 2);
    for (int i = 0; i < 2; i++) {
        CHECK(last < maps[i]->fd);
        plock__local_release(maps[i]);
        plock_local_close(stores[i]);
    }
    CHECK(unlink(path) == 0);
}
#endif

/* --- children of a holder --- */

static void stay_in_child(void *context) {
    atomic_store(&((scene *)context)->stage, 2);
    stay();
}

static void hold_with_child(void *context) {
    scene *s = context;
    plock_lease *lease = local_lease(s->store, "k");
    if (local_acquire(lease, LONG, 0)) _exit(1);
    const pid_t child = local_child(stay_in_child, s);
    atomic_store(&s->at, child);
    while (atomic_load(&s->stage) < 2) (void)usleep(1000);
    atomic_store(&s->stage, 3);
    stay();
}

static void a_child_does_not_keep_its_dead_parent_alive(void) {
    scene *s = new_scene();
    s->store = local_open();
    const pid_t holder = local_child(hold_with_child, s);
    CHECK(await_stage(s, 3));
    plock_lease *lease = local_lease(s->store, "k");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_REFUSED);
    CHECK(kill(holder, SIGKILL) == 0);
    (void)local_status_of(holder);
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    CHECK(kill((pid_t)atomic_load(&s->at), SIGKILL) == 0);
    plock_lease_free(lease);
    plock_local_close(s->store);
}

/* --- waiters --- */

typedef struct place {
    scene *s;
    int number;
} place;

static void wait_in_line(void *context) {
    const place *p = context;
    plock_lease *lease = local_lease(p->s->store, "k");
    if (local_acquire(lease, LONG, LONG)) _exit(1);
    p->s->order[atomic_fetch_add(&p->s->served, 1)] = p->number;
    if (local_release(lease)) _exit(2);
    plock_lease_free(lease);
}

static void the_dead_are_skipped_and_the_others_keep_their_order(void) {
    enum { WAITERS = 6 };
    scene *s = new_scene();
    s->store = local_open();
    plock_lease *lease = local_lease(s->store, "k");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    pid_t waiters[WAITERS];
    for (int i = 0; i < WAITERS; i++) {
        place p = {s, i};
        waiters[i] = local_child(wait_in_line, &p);
        CHECK(local_await_waiters(s->store, "k", i + 1));
    }
    static const int DEAD[] = {0, 2, 3};
    for (int i = 0; i < 3; i++) {
        CHECK(kill(waiters[DEAD[i]], SIGKILL) == 0);
        (void)local_status_of(waiters[DEAD[i]]);
    }
    CHECK_STATUS(local_release(lease), PLOCK_OK);
    static const int ALIVE[] = {1, 4, 5};
    for (int i = 0; i < 3; i++) CHECK_INT(local_status_of(waiters[ALIVE[i]]), 0);
    for (int i = 0; i < 3; i++) CHECK_INT(s->order[i], ALIVE[i]);
    plock_lease_free(lease);
    CHECK_INT(local_holders(s->store, "k"), 0);
    plock_local_close(s->store);
}

/* --- a query about a key with dead waiters --- */

enum { BEGUN, MAY_LOOK };
static atomic_int moment;

/* Delays this process's worker thread before it checks a waiting lease, so that the query finds the
 * dead waiter first. */
static void keep_from_looking(void) {
    unsigned rounds = 0;
    while (atomic_load(&moment) != MAY_LOOK && test_patient(&rounds)) continue;
}

static void wait_to_write(void *context) {
    const scene *s = context;
    plock_lease *lease = local_lease(s->store, "k");
    (void)local_acquire_as(lease,
                           &(plock_local_acquire_options){.ttl = LONG, .wait = LONG, .mode = 'w'});
    _exit(1);
}

static void share_at_least_and_die(void *context) {
    const scene *s = context;
    plock_lease *lease = local_lease(s->store, "k");
    (void)local_acquire_as(
        lease, &(plock_local_acquire_options){.ttl = LONG, .at_least = LONG, .mode = 'r'});
    (void)raise(SIGKILL);
}

/* The query finds the dead waiter, and lets the next waiter in. That waiter shares the key with a
 * lease that does not end with its process. In the first round, the process died before at_least
 * was over. In the second round, the process left the lease to other processes. */
static void a_look_at_a_key_ends_no_share_that_outlives_its_process(void) {
    for (int left = 0; left < 2; left++) {
        bequest b = {.s = new_scene()};
        scene *s = b.s;
        s->store = local_open();
        if (left)
            bequeath(&b, &(plock_local_acquire_options){.ttl = LONG, .mode = 'r'});
        else
            check_killed(local_child(share_at_least_and_die, s));
        const pid_t writer = local_child(wait_to_write, s);
        CHECK(local_await_waiters(s->store, "k", 1));
        plock_lease *reader = local_lease(s->store, "k");
        plock_interest interest;
        CHECK_STATUS(
            plock_local_lease_acquire(
                reader, &(plock_local_acquire_options){.ttl = LONG, .wait = LONG, .mode = 'r'}),
            PLOCK_OK);
        CHECK_STATUS(plock_lease_step(reader, &interest), PLOCK_AGAIN);
        CHECK(local_await_waiters(s->store, "k", 2));
        atomic_store(&moment, BEGUN);
        plock__local_before(PLOCK__LOOKS, keep_from_looking);
        CHECK(kill(writer, SIGKILL) == 0);
        (void)local_status_of(writer);
        CHECK_INT(local_waiters(s->store, "k"), 0);
        CHECK_INT(local_holders(s->store, "k"), 2);
        plock__local_before(PLOCK__LOOKS, NULL);
        atomic_store(&moment, MAY_LOOK);
        CHECK_STATUS(local_finish(reader), PLOCK_OK);
        CHECK_STATUS(local_release(reader), PLOCK_OK);
        plock_lease_free(reader);
        plock_lease *other = local_lease(s->store, "k");
        CHECK_STATUS(local_acquire(other, LONG, 0), PLOCK_REFUSED);
        plock_lease_free(other);
        CHECK_STATUS(local_break(s->store, "k"), PLOCK_OK);
        plock_local_close(s->store);
    }
}

/* Sets the moment at which all other processes gave their last sign of life. */
static void set_last_signs(plock_local *store, plock_ns at) {
    plock__local_map *map = local_map_of(store);
    for (uint32_t slot = 0; slot < PLOCK__LOCAL_PROCESSES; slot++)
        if (slot != map->slot) atomic_store(&map->processes[slot].seen_at, at);
    plock__local_release(map);
}

static void hold_the_key(void *context) {
    const scene *s = context;
    plock_lease *lease = local_lease(s->store, "k");
    if (local_acquire(lease, LONG, 0)) _exit(1);
    (void)raise(SIGSTOP);
    _exit(2);
}

static pid_t stopped_child(void (*body)(void *), scene *s) {
    int status;
    const pid_t child = local_child(body, s);
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    return child;
}

static void end_by_force(pid_t child) {
    CHECK(kill(child, SIGKILL) == 0);
    (void)local_status_of(child);
}

/* A waiter that has just died does not get the key, and does not keep it from other processes. */
static void a_key_that_only_the_dead_held_and_waited_for_is_free(void) {
    scene *s = new_scene();
    s->store = local_open();
    const pid_t holder = stopped_child(hold_the_key, s);
    const pid_t waiter = local_child(wait_to_write, s);
    CHECK(local_await_waiters(s->store, "k", 1));
    end_by_force(waiter);
    end_by_force(holder);
    set_last_signs(s->store, PLOCK_NEVER / 2);
    plock_lease *lease = local_lease(s->store, "k");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    plock_lease_free(lease);
    plock_local_close(s->store);
}

static void a_dead_writer_keeps_no_reader_out(void) {
    scene *s = new_scene();
    s->store = local_open();
    const plock_local_acquire_options reads = {.ttl = LONG, .mode = 'r'};
    plock_lease *first = local_lease(s->store, "k"), *second = local_lease(s->store, "k");
    CHECK_STATUS(local_acquire_as(first, &reads), PLOCK_OK);
    const pid_t writer = local_child(wait_to_write, s);
    CHECK(local_await_waiters(s->store, "k", 1));
    CHECK_STATUS(local_acquire_as(second, &reads), PLOCK_REFUSED);
    end_by_force(writer);
    set_last_signs(s->store, PLOCK_NEVER / 2);
    CHECK_STATUS(local_acquire_as(second, &reads), PLOCK_OK);
    plock_lease_free(first);
    plock_lease_free(second);
    plock_local_close(s->store);
}

/* Makes `count` waiters without threads, each on its own key (`apart`) or all on one key. */
static void wait_often(const scene *s, int count, bool apart) {
    char name[32];
    for (int i = 0; i < count; i++) {
        plock_interest interest;
        (void)snprintf(name, sizeof name, "key %d", apart ? i : 0);
        plock_lease *lease = local_lease(s->store, name);
        if (plock_local_lease_acquire(lease,
                                      &(plock_local_acquire_options){.ttl = LONG, .wait = LONG}) ||
            plock_lease_step(lease, &interest) != PLOCK_AGAIN)
            _exit(1);
    }
    /* Checks that each step made a claim. A step makes no claim if the critical section is
     * taken. */
    for (int i = 0; i < (apart ? count : 1); i++) {
        (void)snprintf(name, sizeof name, "key %d", i);
        if (local_waiters(s->store, name) != (apart ? 1 : count)) _exit(2);
    }
}

enum { KEYS = 16, CLAIMS = PLOCK__LOCAL_CLAIMS_PER_KEY * KEYS };

static void wait_for_one_key(void *context) {
    wait_often(context, CLAIMS - 1, false);
    (void)raise(SIGKILL);
}

static void wait_for_all_keys(void *context) {
    wait_often(context, KEYS, true);
    (void)raise(SIGKILL);
}

/* No live waiter is behind the dead waiters, and no caller asks for their keys. So their claims end
 * only when another key needs room. */
static void dead_waiters_make_room(void) {
    char name[32];
    for (int all = 0; all < 2; all++) {
        (void)unlink(local_path());
        scene *s = new_scene();
        s->store = local_open_keys(KEYS);
        plock_lease *held[KEYS];
        const int count = all ? KEYS : 1;
        for (int i = 0; i < count; i++) {
            (void)snprintf(name, sizeof name, "key %d", i);
            held[i] = local_lease(s->store, name);
            CHECK_STATUS(local_acquire(held[i], LONG, 0), PLOCK_OK);
        }
        check_killed(local_child(all ? wait_for_all_keys : wait_for_one_key, s));
        set_last_signs(s->store, 0); /* more than a second ago */
        for (int i = 0; all && i < count; i++) CHECK_STATUS(local_release(held[i]), PLOCK_OK);
        plock_lease *other = local_lease(s->store, "other");
        CHECK_STATUS(local_acquire(other, LONG, 0), PLOCK_OK);
        plock_lease_free(other);
        for (int i = 0; i < count; i++) plock_lease_free(held[i]);
        plock_local_close(s->store);
    }
    (void)unlink(local_path());
}

/* --- death at every step --- */

static plock_status take_all(plock_local *store, plock_lease *leases[2]) {
    plock_interest interest;
    plock_error error;
    size_t refused;
    leases[0] = local_lease(store, "k");
    leases[1] = local_lease(store, "second");
    return plock_local_acquire_all(leases, 2, &(plock_local_acquire_options){.ttl = LONG}, &refused,
                                   &interest, &error);
}

/* Performs every operation that changes the file. If other processes of a test wait, they wait for
 * "k", one of the keys. */
static void do_everything(plock_local *store) {
    plock_lease *lease = local_lease(store, "k"), *other = local_lease(store, "of its own");
    plock_lease *pair[2];
    if (local_acquire(lease, LONG, LONG)) _exit(1);
    if (local_acquire(other, LONG, 0)) _exit(1);
    if (local_extend(lease, LONG)) _exit(1);
    if (plock_lease_release(other, PLOCK_MILLISECOND) || local_finish(other)) _exit(1);
    if (local_release(lease)) _exit(1);
    plock_lease_free(other);
    plock_lease_free(lease);
    if (take_all(store, pair) == PLOCK_OK) (void)(local_release(pair[0]) || local_release(pair[1]));
    plock_lease_free(pair[0]);
    plock_lease_free(pair[1]);
    plock_lease *writer = local_lease(store, "shared"), *reader = local_lease(store, "shared");
    if (local_acquire_as(writer,
                         &(plock_local_acquire_options){.ttl = LONG, .wait = LONG, .mode = 'w'}))
        _exit(1);
    if (plock_lease_downgrade(writer) || local_finish(writer)) _exit(1);
    if (local_acquire_as(reader,
                         &(plock_local_acquire_options){.ttl = LONG, .wait = LONG, .mode = 'r'}))
        _exit(1);
    (void)local_break(store, "shared");
    plock_lease_free(writer);
    plock_lease_free(reader);
    plock_lease *line = local_lease(store, "held by the test");
    if (local_acquire(line, LONG, PLOCK_MILLISECOND) != PLOCK_TIMED_OUT) _exit(1);
    plock_lease_free(line);
}

static void die_somewhere(void *context) {
    const scene *s = context;
    (void)plock__local_die_at(s->fault);
    do_everything(s->store);
}

static void count_faults(void *context) {
    scene *s = context;
    (void)plock__local_die_at(0);
    do_everything(s->store);
    s->fault = plock__local_die_at(0);
}

/* Checks that all keys are free, and that fences still grow. */
static void check_usable(plock_local *store, int64_t *fence) {
    plock_lease *lease = local_lease(store, "k"), *second = local_lease(store, "second"),
                *own = local_lease(store, "of its own");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    CHECK_STATUS(local_acquire(second, LONG, 0), PLOCK_OK);
    /* if the process died just after its release, at_least keeps this key taken for a moment */
    CHECK_STATUS(local_acquire(own, LONG, SOON), PLOCK_OK);
    CHECK(plock_lease_fence(lease) > *fence);
    *fence = plock_lease_fence(own);
    plock_lease_free(lease);
    plock_lease_free(second);
    plock_lease_free(own);
}

static void it_may_die_at_every_step(void) {
    scene *s = new_scene();
    s->store = local_open();
    plock_lease *held = local_lease(s->store, "held by the test");
    CHECK_STATUS(local_acquire(held, LONG, 0), PLOCK_OK);
    CHECK_INT(local_status_of(local_child(count_faults, s)), 0);
    const unsigned long faults = s->fault;
    int64_t fence = 0;
    int died = 0;
    CHECK(faults > 50);
    for (s->fault = 1; s->fault <= faults; s->fault += STRIDE) {
        const int status = local_status_of(local_child(die_somewhere, s));
        died += WIFSIGNALED(status);
        CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        check_usable(s->store, &fence);
        CHECK(plock_lease_valid(held)); /* other leases are unaffected */
    }
    /* a run may make fewer steps than were counted, for example if a key stays taken for a
     * moment */
    CHECK(died * STRIDE >= (int)faults - 40);
    CHECK_STATUS(local_release(held), PLOCK_OK);
    plock_lease_free(held);
    plock_local_close(s->store);
}

/* Waits until the first process and this many others wait for the key. If the first process dies
 * meanwhile, sets *gone, and waits only for the others. */
static void await_line(const scene *s, int others, pid_t first, bool *gone) {
    unsigned rounds = 0;
    for (;;) {
        *gone = *gone || waitpid(first, NULL, WNOHANG) == first;
        if (local_waiters(s->store, "k") == others + !*gone) return;
        if (!CHECK(test_patient(&rounds))) return;
    }
}

static void break_and_die_somewhere(void *context) {
    scene *s = context;
    (void)plock__local_die_at(s->fault);
    (void)local_break(s->store, "k");
    s->fault = plock__local_die_at(0);
}

static void wait_and_say_how_long(void *context) {
    scene *s = context;
    plock_lease *lease = local_lease(s->store, "k");
    if (local_acquire(lease, LONG, LONG)) _exit(1);
    s->at = plock_now();
}

/* The holder's process is not told of the break, and does not check its lease meanwhile. So only
 * the process that breaks the lease can notify the waiters, and it must do so before it changes
 * anything. */
static void waiters_are_served_at_once_at_whatever_step_a_break_dies(void) {
    scene *s = new_scene();
    unsigned long faults = 1;
    for (unsigned long fault = 0; fault <= faults; fault += fault ? STRIDE : 1) {
        (void)unlink(local_path());
        s->store = local_open();
        plock_lease *held = local_lease(s->store, "k");
        CHECK_STATUS(local_acquire(held, LONG, 0), PLOCK_OK);
        const pid_t waiter = local_child(wait_and_say_how_long, s);
        CHECK(local_await_waiters(s->store, "k", 1));
        s->fault = fault;
        const int status = local_status_of(local_child(break_and_die_somewhere, s));
        const plock_ns broken_at = plock_now();
        CHECK(fault ? WIFSIGNALED(status) || status == 0 : status == 0);
        if (!fault) faults = s->fault;
        if (plock_lease_valid(
                held)) { /* the process died before the break had any effect on the lease */
            CHECK(kill(waiter, SIGKILL) == 0);
            (void)local_status_of(waiter);
        } else {
            CHECK_INT(local_status_of(waiter), 0);
            /* a waiter that is not notified checks the key only after half a second */
            CHECK(s->at - broken_at < 250 * PLOCK_MILLISECOND);
        }
        plock_lease_free(held);
        plock_local_close(s->store);
    }
    CHECK(faults > 5);
    (void)unlink(local_path());
}

static void keep_both(plock_local *store) {
    plock_lease *leases[] = {local_lease(store, "one"), local_lease(store, "two")};
    plock_interest interest;
    plock_error error;
    size_t refused;
    const plock_local_acquire_options terms = {.ttl = PLOCK_SECOND, .at_least = LONG};
    if (plock_local_acquire_all(leases, 2, &terms, &refused, &interest, &error)) _exit(1);
}

static void keep_both_and_die_somewhere(void *context) {
    scene *s = context;
    (void)plock__local_die_at(s->fault);
    keep_both(s->store);
    s->fault = plock__local_die_at(0);
}

/* If a process dies before it has all keys, none of them stays held. If it dies later, all of them
 * stay held, because these leases outlive their process. */
static void what_is_to_outlive_its_process_does_so_only_together(void) {
    scene *s = new_scene();
    unsigned long faults = 1;
    for (unsigned long fault = 0; fault <= faults; fault += fault ? STRIDE : 1) {
        (void)unlink(local_path());
        s->store = local_open();
        s->fault = fault;
        const int status = local_status_of(local_child(keep_both_and_die_somewhere, s));
        CHECK(fault ? WIFSIGNALED(status) : status == 0);
        if (!fault) faults = s->fault;
        const int kept = local_holders(s->store, "one") + local_holders(s->store, "two");
        CHECK(fault ? kept != 1 : kept == 2);
        plock_local_close(s->store);
    }
    CHECK(faults > 10);
    (void)unlink(local_path());
}

/* Both keys are kept for at_least, as after a single acquire. max_hold limits only the renewal. */
static void keep_both_beyond_max_hold(void *context) {
    scene *s = context;
    plock_lease *leases[] = {local_lease(s->store, "one"), local_lease(s->store, "two")};
    plock_interest interest;
    plock_error error;
    size_t refused;
    const plock_local_acquire_options terms = {
        .ttl = PLOCK_SECOND, .at_least = LONG, .max_hold = PLOCK_MILLISECOND, .renews = true};
    if (plock_local_acquire_all(leases, 2, &terms, &refused, &interest, &error)) _exit(1);
    for (int i = 0; i < 2; i++)
        if (plock_lease_valid_until(leases[i]) < plock_lease_acquired_at(leases[i]) + LONG)
            _exit(2);
    s->at = plock_lease_acquired_at(leases[0]) + terms.max_hold;
    if (s->fault) (void)raise(SIGKILL);
    while (plock_now() <= s->at) continue;
    for (int i = 0; i < 2; i++)
        if (!plock_lease_valid(leases[i])) _exit(3);
}

static void several_keys_stay_taken_for_longer_than_max_hold(void) {
    for (int dies = 0; dies < 2; dies++) {
        scene *s = new_scene();
        s->store = local_open();
        s->fault = (unsigned long)dies;
        const int status = local_status_of(local_child(keep_both_beyond_max_hold, s));
        CHECK(dies ? WIFSIGNALED(status) : status == 0);
        while (plock_now() <= s->at) continue;
        CHECK_INT(local_holders(s->store, "one"), 1);
        CHECK_INT(local_holders(s->store, "two"), 1);
        plock_local_close(s->store);
        (void)unlink(local_path());
    }
}

/* Other processes wait for the key. At whatever step the first process dies, the others get the key
 * in their order. */
static void waiters_are_served_at_whatever_step_the_first_dies(void) {
    scene *s = new_scene();
    s->store = local_open();
    plock_lease *held = local_lease(s->store, "held by the test");
    CHECK_STATUS(local_acquire(held, LONG, 0), PLOCK_OK);
    CHECK_INT(local_status_of(local_child(count_faults, s)), 0);
    const unsigned long faults = s->fault;
    for (s->fault = 1; s->fault <= faults; s->fault += STRIDE) {
        plock_lease *lease = local_lease(s->store, "k");
        CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
        const pid_t first = local_child(die_somewhere, s);
        bool gone = false;
        await_line(s, 0, first, &gone);
        place places[2] = {{s, 1}, {s, 2}};
        atomic_store(&s->served, 0);
        pid_t others[2];
        for (int i = 0; i < 2; i++) {
            others[i] = local_child(wait_in_line, &places[i]);
            await_line(s, i + 1, first, &gone);
        }
        const plock_ns released = plock_now();
        CHECK_STATUS(local_release(lease), PLOCK_OK);
        for (int i = 0; i < 2; i++) CHECK_INT(local_status_of(others[i]), 0);
        CHECK(plock_now() - released < SOON);
        CHECK_INT(s->order[0], 1);
        CHECK_INT(s->order[1], 2);
        if (!gone) (void)local_status_of(first);
        plock_lease_free(lease);
    }
    plock_lease_free(held);
    plock_local_close(s->store);
}

int main(void) {
    local_begin();
    RUN(a_dead_holders_lock_passes_on_at_once);
    RUN(after_its_death_the_next_process_gets_it_without_waiting);
    RUN(what_is_meant_to_outlive_its_process_does);
    RUN(what_is_to_outlive_its_process_outlives_an_adopter_too);
    RUN(it_does_so_for_its_time_or_the_adopters_where_that_is_longer);
    RUN(nor_does_a_short_span_end_it_before);
    RUN(it_does_so_whatever_step_the_adopter_dies_at);
#if defined(__linux__) && !defined(PLOCK_PORTABLE)
    RUN(the_dead_let_go_of_the_file_before_what_told_them_of_others_ends);
    RUN(with_several_stores_they_let_go_of_each_file_first);
#endif
    RUN(a_child_does_not_keep_its_dead_parent_alive);
    RUN(the_dead_are_skipped_and_the_others_keep_their_order);
    RUN(a_look_at_a_key_ends_no_share_that_outlives_its_process);
    RUN(a_key_that_only_the_dead_held_and_waited_for_is_free);
    RUN(a_dead_writer_keeps_no_reader_out);
    RUN(dead_waiters_make_room);
    RUN(it_may_die_at_every_step);
    RUN(what_is_to_outlive_its_process_does_so_only_together);
    RUN(several_keys_stay_taken_for_longer_than_max_hold);
    RUN(waiters_are_served_at_whatever_step_the_first_dies);
    RUN(waiters_are_served_at_once_at_whatever_step_a_break_dies);
    local_end();
    return test_end("local_death");
}
