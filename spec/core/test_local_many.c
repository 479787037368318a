/* The local store with many waiters and watched leases in one process. The cost of an event for one
 * of them must not grow with their number. The tests count the work instead of measuring time. */
#include "local_support.h"

#include "base/platform.h"
#include "local/local_attendant.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const plock_ns LONG = 60 * PLOCK_SECOND;

enum { MANY = 2000, TIMES = 200 };

static plock_local *store;
static plock_lease *holder, *leases[MANY];

/* Makes the lease wait, without a thread that waits for it. The attendant serves this lease like
 * any other. */
static void queue(plock_lease *lease) {
    plock_interest interest;
    CHECK_STATUS(
        plock_local_lease_acquire(lease, &(plock_local_acquire_options){.ttl = LONG, .wait = LONG}),
        PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
}

static void begin(void) {
    store = local_open();
    holder = local_lease(store, "k");
    CHECK_STATUS(local_acquire(holder, LONG, 0), PLOCK_OK);
}

static void end(void) {
    for (int i = 0; i < MANY; i++) plock_lease_free(leases[i]);
    plock_lease_free(holder);
    plock_local_close(store);
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
}

/* The worker thread visits some leases at intervals, and not because of an event. Returns how many
 * such visits there can have been at most since the given moment. */
static unsigned long at_intervals(plock_ns since) {
    const plock_ns passed = plock_now() - since;
    return (unsigned long)(3 * (passed / PLOCK__LOCAL_IN_ANY_CASE + 2) * MANY);
}

static void one_more_comes_and_goes(const char *key) {
    plock_lease *one = local_lease(store, key);
    queue(one);
    plock_lease_free(one);
}

static void a_waiter_comes_and_goes_beside_many_of_one_key(void) {
    begin();
    for (int i = 0; i < MANY; i++) queue(leases[i] = local_lease(store, "k"));
    (void)plock__local_visited();
    const plock_ns since = plock_now();
    for (int i = 0; i < TIMES; i++) one_more_comes_and_goes("k");
    CHECK(plock__local_visited() <= 8ul * TIMES + at_intervals(since));
    end();
}

/* Each lease waits on a key of its own, which another process releases. */
static void turns_come_from_another_process(void) {
    char key[16];
    int ready[2], go[2];
    CHECK(pipe(ready) == 0 && pipe(go) == 0);
    char byte;
    const pid_t child = fork();
    if (child == 0) {
        plock_local *theirs = local_open();
        plock_lease *held[MANY];
        for (int i = 0; i < MANY; i++) {
            (void)snprintf(key, sizeof key, "key %d", i);
            held[i] = local_lease(theirs, key);
            if (local_acquire(held[i], LONG, 0)) _exit(1);
        }
        if (write(ready[1], "", 1) != 1) _exit(2);
        for (int i = 0; i < TIMES; i++)
            if (read(go[0], &byte, 1) != 1 || local_release(held[i])) _exit(3);
        if (read(go[0], &byte, 1) != 1) _exit(4);
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    begin();
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(key, sizeof key, "key %d", i);
        queue(leases[i] = local_lease(store, key));
    }
    (void)plock__local_visited();
    const plock_ns since = plock_now();
    for (int i = 0; i < TIMES; i++) {
        CHECK(write(go[1], "", 1) == 1);
        CHECK_STATUS(local_finish(leases[i]), PLOCK_OK);
    }
    const unsigned long visited = plock__local_visited();
#ifdef PLOCK__PIDFD
    CHECK(visited <= 8ul * TIMES + at_intervals(since));
#else
    /* without a pidfd, the worker thread checks for each lease whether the holder's process has
     * ended */
    (void)visited, (void)since;
#endif
    /* when the child ends, the other leases are granted without further releases */
    CHECK(write(go[1], "", 1) == 1);
    CHECK_INT(WEXITSTATUS(local_status_of(child)), 0);
    for (int i = TIMES; i < MANY; i++) CHECK_STATUS(local_finish(leases[i]), PLOCK_OK);
    for (int i = 0; i < 2; i++) (void)(close(ready[i]) + close(go[i]));
    end();
}

/* The worker thread finds one broken lease among many watched leases. */
static void a_loss_is_found_among_many(void) {
    char key[16];
    begin();
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(key, sizeof key, "key %d", i);
        leases[i] = local_lease(store, key);
        CHECK_STATUS(local_acquire_as(leases[i],
                                      &(plock_local_acquire_options){.ttl = LONG, .renews = true}),
                     PLOCK_OK);
    }
    (void)plock__local_visited();
    const plock_ns since = plock_now();
    for (int i = 0; i < TIMES; i++) {
        (void)snprintf(key, sizeof key, "key %d", i);
        CHECK_STATUS(local_break(store, key), PLOCK_OK);
        for (unsigned rounds = 0; !plock_lease_lost(leases[i]) && test_patient(&rounds);) continue;
        CHECK(plock_lease_lost(leases[i]));
    }
    CHECK(plock__local_visited() <= 8ul * TIMES + at_intervals(since));
    CHECK(plock_lease_valid(leases[MANY - 1]));
    end();
}

int main(void) {
    local_begin();
    RUN(a_waiter_comes_and_goes_beside_many_of_one_key);
    RUN(turns_come_from_another_process);
    RUN(a_loss_is_found_among_many);
    local_end();
    return test_end("local_many");
}
