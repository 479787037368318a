/* The local store: several processes work on a few keys. They are killed at random times and
 * replaced. Each process checks that there is one holder at a time, that fences grow, and that no
 * waiter waits forever. */
#include "local_support.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 6, KEYS = 3, PERMITS = 2, LIVES_MAX = 4096 };

static const plock_ns LONG = 60 * PLOCK_SECOND, RUNS_FOR = (TEST_TSAN ? 1 : 3) * PLOCK_SECOND;

static struct wake {
    plock_local *store;
    plock_ns ends;
    /* A life is one process, from its start until it is killed. */
    _Atomic int owner[KEYS]; /* the number of the life that holds the key, plus 1; 0: none */
    _Atomic int64_t fence[KEYS + 2];
    /* How many lives are inside. A life that dies inside is never subtracted. */
    _Atomic int permits, readers, writer;
    /* doomed[life]: the life was killed, so it may have left itself in owner or in a count. */
    _Atomic int doomed[LIVES_MAX];
    _Atomic long sections, wrongs;
} * stage;

static void wrong(const char *what, int life) {
    atomic_fetch_add(&stage->wrongs, 1);
    fprintf(stderr, "life %d: %s\n", life, what);
}

static void grow(int key, int64_t fence, int life) {
    const int64_t before = atomic_exchange(&stage->fence[key], fence);
    if (fence <= before) wrong("a fence that does not grow", life);
}

static void alone(int key, int life) {
    char name[16];
    (void)snprintf(name, sizeof name, "key %d", key);
    plock_lease *lease = local_lease(stage->store, name);
    const plock_status status = local_acquire(lease, LONG, 30 * PLOCK_SECOND);
    if (status) wrong(plock_status_name(status), life);
    const int before = atomic_exchange(&stage->owner[key], life + 1);
    if (before && !atomic_load(&stage->doomed[before - 1])) wrong("two are inside", life);
    grow(key, plock_lease_fence(lease), life);
    if (life % 3 == 0) (void)usleep((useconds_t)(rand() % 300));
    if (atomic_exchange(&stage->owner[key], 0) != life + 1) wrong("another one was inside", life);
    atomic_fetch_add(&stage->sections, 1);
    if (local_release(lease)) wrong("it could not be released", life);
    plock_lease_free(lease);
}

/* Checks a shared lock. The counts cannot be used here, because they still include dead lives. So
 * this checks the number of holders that the store reports. */
static void together(int life, bool writes) {
    plock_lease *lease = local_lease(stage->store, "shared");
    const plock_local_acquire_options terms = {
        .ttl = LONG, .wait = 30 * PLOCK_SECOND, .mode = writes ? 'w' : 'r'};
    const plock_status status = local_acquire_as(lease, &terms);
    if (status) wrong(plock_status_name(status), life);
    const int holders = local_holders(stage->store, "shared");
    if (writes && holders != 1) wrong("a writer is not alone", life);
    if (!writes && (holders < 1 || holders > WORKERS)) wrong("readers that cannot be", life);
    if (writes && plock_lease_downgrade(lease) == PLOCK_OK && local_finish(lease))
        wrong("a writer cannot read", life);
    atomic_fetch_add(&stage->sections, 1);
    plock_lease_free(lease);
}

static void one_of_some(int life) {
    plock_lease *lease = local_lease(stage->store, "permits");
    const plock_local_acquire_options terms = {
        .ttl = LONG, .wait = 30 * PLOCK_SECOND, .mode = 's', .limit = PERMITS};
    const plock_status status = local_acquire_as(lease, &terms);
    if (status) wrong(plock_status_name(status), life);
    const int holders = local_holders(stage->store, "permits");
    if (holders < 1 || holders > PERMITS) wrong("more are inside than there are permits", life);
    atomic_fetch_add(&stage->sections, 1);
    plock_lease_free(lease);
}

static void all_of_them(int life) {
    plock_lease *leases[KEYS];
    plock_interest interest;
    plock_error error;
    size_t refused;
    for (int key = 0; key < KEYS; key++) {
        char name[16];
        (void)snprintf(name, sizeof name, "key %d", key);
        leases[key] = local_lease(stage->store, name);
    }
    plock_status status;
    do
        status = plock_local_acquire_all(leases, KEYS, &(plock_local_acquire_options){.ttl = LONG},
                                         &refused, &interest, &error);
    while (status == PLOCK_AGAIN && plock_wait_poll(NULL, &interest) == PLOCK_OK);
    if (status != PLOCK_OK && status != PLOCK_REFUSED) wrong(plock_status_name(status), life);
    for (int key = 0; key < KEYS && status == PLOCK_OK; key++) {
        const int before = atomic_exchange(&stage->owner[key], life + 1);
        if (before && !atomic_load(&stage->doomed[before - 1]))
            wrong("two are inside, and one of them has all", life);
        grow(key, plock_lease_fence(leases[key]), life);
    }
    for (int key = 0; key < KEYS; key++) {
        if (status == PLOCK_OK && atomic_exchange(&stage->owner[key], 0) != life + 1)
            wrong("another one was inside beside all", life);
        plock_lease_free(leases[key]);
    }
}

static void work(void *context) {
    const int life = *(const int *)context;
    srand((unsigned)life);
    while (plock_now() < stage->ends) {
        const int what = rand() % 10;
        if (what < 5)
            alone(rand() % KEYS, life);
        else if (what < 7)
            together(life, what == 5);
        else if (what < 9)
            one_of_some(life);
        else
            all_of_them(life);
    }
}

static void many_at_work_killed_and_replaced(void) {
    stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(stage != MAP_FAILED);
    stage->store = local_open();
    stage->ends = plock_now() + RUNS_FOR;
    pid_t workers[WORKERS];
    int lives[WORKERS], next = 0;
    for (int i = 0; i < WORKERS; i++) {
        lives[i] = next++;
        workers[i] = local_child(work, &lives[i]);
    }
    srand(1);
    while (plock_now() < stage->ends && next < LIVES_MAX) {
        (void)usleep((useconds_t)(2000 + rand() % 6000));
        const int i = rand() % WORKERS;
        atomic_store(&stage->doomed[lives[i]], 1);
        CHECK(kill(workers[i], SIGKILL) == 0);
        (void)local_status_of(workers[i]);
        lives[i] = next++;
        workers[i] = local_child(work, &lives[i]);
    }
    for (int i = 0; i < WORKERS; i++) CHECK_INT(local_status_of(workers[i]), 0);
    CHECK_INT(stage->wrongs, 0);
    CHECK(stage->sections > 100 && next > 20);
    for (int key = 0; key < KEYS; key++) {
        char name[16];
        (void)snprintf(name, sizeof name, "key %d", key);
        CHECK_INT(local_holders(stage->store, name), 0);
        CHECK_INT(local_waiters(stage->store, name), 0);
    }
    plock_local_close(stage->store);
}

int main(void) {
    local_begin();
    RUN(many_at_work_killed_and_replaced);
    local_end();
    return test_end("local_stress");
}
