/* Debts: releases that the worker thread repeats until they are done, or until the lease has
 * expired on the server. */
#include "fake_native.h"
#include "test.h"

#include "base/memory.h"
#include "base/process.h"
#include "redis/debt.h"
#include "redis/store.h"

#include <stdatomic.h>
#include <string.h>

enum { MANY = 300, TOO_MANY = 10000 };

typedef struct owed {
    plock_debt debt;
    unsigned number;
} owed;

static plock_store *store;
static atomic_uint asked, settled, last_asked;
static atomic_int last_status;
static atomic_bool dark; /* true: the server answers that it is still loading */

static const char *say(const char *command, unsigned nth) {
    (void)nth;
    if (strncmp(command, "EVALSHA release", 15)) return NULL;
    return atomic_load(&dark) ? "-LOADING x\r\n" : FAKE_DONE;
}

static plock_request request(plock_debt *debt, plock_ns now) {
    (void)now;
    atomic_store(&last_asked, ((owed *)(void *)debt)->number);
    atomic_fetch_add(&asked, 1);
    static const plock_request RELEASE = {
        .script = PLOCK__RELEASE,
        .keys = 2,
        .arguments = 1,
        .texts = {{"k", 1}, {"q", 1}, {"me", 2}},
    };
    return RELEASE;
}

static void settle(plock_debt *debt, plock_status status) {
    plock__free(debt);
    plock__store_release(store);
    atomic_store(&last_status, status);
    atomic_fetch_add(&settled, 1);
}

static void begin(bool in_the_dark) {
    fake_clock_start();
    store = fake_native_store(say);
    atomic_store(&asked, 0);
    atomic_store(&settled, 0);
    atomic_store(&last_status, PLOCK_AGAIN);
    atomic_store(&dark, in_the_dark);
}

static void end(void) { fake_end(NULL, store); }

static owed *owe(unsigned number, plock_ns span) {
    owed *made = plock__allocate(sizeof *made);
    if (!CHECK(made != NULL)) return NULL;
    made->debt.until = plock_after(plock_now(), span);
    made->debt.request = request;
    made->debt.settle = settle;
    made->number = number;
    plock__store_retain(store);
    return made;
}

static void submit(unsigned number, plock_ns span) {
    owed *made = owe(number, span);
    if (!made) return;
    plock__begin_step();
    plock__debt_submit(&store->node, &made->debt);
    plock__end_step();
}

static void await_settled(unsigned expected) {
    for (unsigned rounds = 0; atomic_load(&settled) < expected && test_patient(&rounds);) continue;
    CHECK_INT(atomic_load(&settled), expected);
}

static unsigned collectors(void) {
    plock__enter();
    const unsigned count = store->node.debts.collecting;
    plock__leave();
    return count;
}

/* --- debts that are settled, and debts that are given up --- */

static void it_is_settled_by_the_answer(void) {
    begin(false);
    submit(1, PLOCK_SECOND);
    await_settled(1);
    CHECK_STATUS((plock_status)atomic_load(&last_status), PLOCK_OK);
    CHECK_INT(atomic_load(&asked), 1);
    fake_await_settled(store);
    /* the collector's connection counts towards pool_size */
    CHECK_INT(store->node.pool.open, 1);
    end();
}

static const char *forbid(const char *command, unsigned nth) {
    (void)nth;
    return strncmp(command, "EVALSHA release", 15) ? NULL : "-NOPERM x\r\n";
}

static void a_failure_that_does_not_pass_is_its_end(void) {
    begin(false);
    fake_redis.says = forbid;
    submit(1, 3600 * PLOCK_SECOND);
    await_settled(1);
    CHECK_STATUS((plock_status)atomic_load(&last_status), PLOCK_NOPERM);
    CHECK_INT(atomic_load(&asked), 1);
    end();
}

/* --- a server that is away --- */

static void it_is_tried_again_after_growing_pauses_until_its_end(void) {
    static const plock_ns SPAN = 20 * PLOCK_SECOND;
    begin(true);
    const plock_ns began = plock_now();
    plock_ns last = began, longest = 0;
    submit(1, SPAN);
    fake_nudge();
    CHECK_INT(atomic_load(&asked), 1);
    while (atomic_load(&settled) == 0 && plock_now() < began + 2 * SPAN) {
        const unsigned before = atomic_load(&asked);
        fake_native_pass(10 * PLOCK_MILLISECOND);
        if (atomic_load(&asked) == before) continue;
        if (plock_now() - last > longest) longest = plock_now() - last;
        last = plock_now();
    }
    CHECK_INT(atomic_load(&settled), 1);
    CHECK_STATUS((plock_status)atomic_load(&last_status), PLOCK_LOADING);
    CHECK(plock_now() >= began + SPAN && plock_now() <= began + SPAN + 2 * PLOCK_SECOND);
    CHECK(longest > PLOCK_SECOND / 2 && longest < 2 * PLOCK_SECOND);
    CHECK(atomic_load(&asked) > 15 && atomic_load(&asked) < 60);
    end();
}

/* Waits until the collector pauses. If the clock moved earlier, an attempt in progress would time
 * out. */
static void await_pause(void) {
    bool pauses = false;
    for (unsigned rounds = 0; !pauses && test_patient(&rounds);) {
        plock__enter();
        pauses = store->node.debts.resume_at > plock_now();
        plock__leave();
    }
    CHECK(pauses);
}

static void many_wait_for_one_that_tries_and_are_done_soon_when_it_succeeds(void) {
    begin(true);
    for (unsigned i = 0; i < MANY; i++) submit(i, 3600 * PLOCK_SECOND);
    for (int i = 0; i < 10; i++) {
        await_pause();
        fake_native_pass(PLOCK_SECOND / 2);
    }
    CHECK_INT(atomic_load(&settled), 0);
    CHECK(atomic_load(&asked) < 20); /* one debt is tried, and the others wait */
    CHECK_INT(collectors(), 1);
    await_pause();
    atomic_store(&dark, false);
    fake_clock_pass(2 * PLOCK_SECOND);
    fake_nudge();
    await_settled(MANY);
    CHECK(atomic_load(&asked) < MANY + 20);
    CHECK(fake_connections() <= 4);
    end();
}

static void each_has_its_turn_where_only_some_can_be_done(void) {
    begin(true);
    for (unsigned i = 1; i <= 3; i++) submit(i, 3600 * PLOCK_SECOND);
    bool tried[4] = {false};
    for (int i = 0; i < 12; i++) {
        fake_native_pass(2 * PLOCK_SECOND);
        tried[atomic_load(&last_asked)] = true;
    }
    CHECK(tried[1] && tried[2] && tried[3]);
    end();
}

static void those_whose_time_is_over_are_not_kept_in_memory(void) {
    begin(true);
    for (unsigned i = 0; i < MANY; i++) submit(i, i % 2 ? PLOCK_SECOND : 3600 * PLOCK_SECOND);
    for (int i = 0; i < 4; i++) fake_native_pass(2 * PLOCK_SECOND);
    await_settled(MANY / 2);
    end();
}

static void there_are_never_too_many(void) {
    begin(true);
    for (unsigned i = 0; i < TOO_MANY + 1; i++) submit(i, 3600 * PLOCK_SECOND);
    for (unsigned rounds = 0; atomic_load(&asked) == 0 && test_patient(&rounds);) continue;
    /* three debts exceed the limit, or two if the collector has taken one out of the list */
    submit(TOO_MANY + 1, 3600 * PLOCK_SECOND);
    submit(TOO_MANY + 2, 3600 * PLOCK_SECOND);
    CHECK(atomic_load(&settled) >= 2 && atomic_load(&settled) <= 3);
    CHECK_STATUS((plock_status)atomic_load(&last_status), PLOCK_STORE_FULL);
    end();
}

static void a_connection_found_closed_is_no_failure(void) {
    begin(false);
    submit(1, PLOCK_SECOND);
    await_settled(1);
    fake_redis.says = NULL;
    for (int i = 0; i < FAKE_ANSWERS; i++) fake_peers[0].answers[i] = FAKE_CLOSES;
    submit(2, PLOCK_SECOND);
    await_settled(2);
    CHECK_STATUS((plock_status)atomic_load(&last_status), PLOCK_OK);
    CHECK_INT(atomic_load(&asked), 3);
    CHECK_INT(fake_connections(), 2);
    end();
}

/* --- a debt that comes while the last collector ends --- */

static void (*destroy_collector)(plock_job *);
static atomic_bool destroyed;

/* Destroys the collector at the worst moment: another thread has just recorded a debt and found no
 * collector, but has not started one yet. */
static void destroy_late(plock_job *job) {
    owed *made = owe(2, PLOCK_SECOND);
    plock__enter();
    plock_debts *debts = &store->node.debts;
    CHECK(!debts->collectors && !debts->first);
    if (made) debts->first = debts->last = &made->debt;
    debts->count++;
    plock__leave();
    destroy_collector(job);
    atomic_store(&destroyed, true);
}

static void one_that_comes_while_the_last_collector_ends_is_for_the_next(void) {
    begin(true);
    submit(1, 3600 * PLOCK_SECOND);
    await_pause();
    plock__enter();
    plock_job *job = (plock_job *)(void *)store->node.debts.collectors;
    destroy_collector = job->destroy;
    job->destroy = destroy_late;
    plock__leave();
    atomic_store(&dark, false);
    fake_clock_pass(2 * PLOCK_SECOND);
    fake_nudge();
    for (unsigned rounds = 0; !atomic_load(&destroyed) && test_patient(&rounds);) continue;
    CHECK_INT(atomic_load(&settled), 1);
    submit(3, PLOCK_SECOND);
    await_settled(3);
    CHECK_STATUS((plock_status)atomic_load(&last_status), PLOCK_OK);
    end();
}

/* --- the end of the process, and child processes --- */

static void a_drain_waits_for_no_pause(void) {
    begin(true);
    for (unsigned i = 0; i < MANY; i++) submit(i, 3600 * PLOCK_SECOND);
    for (int i = 0; i < 10; i++) fake_native_pass(PLOCK_SECOND / 2);
    const unsigned before = atomic_load(&asked);
    atomic_store(&dark, false);
    /* if the drain waited for a pause, it would not end, because the fake clock stands still */
    plock_drain(plock_now() + 60 * PLOCK_SECOND);
    CHECK_INT(atomic_load(&settled), MANY);
    CHECK(atomic_load(&asked) >= before + MANY);
    CHECK_STATUS((plock_status)atomic_load(&last_status), PLOCK_OK);
    end();
}

static void a_drain_that_is_over_lets_go_of_what_is_left(void) {
    begin(true);
    for (unsigned i = 0; i < MANY; i++) submit(i, 3600 * PLOCK_SECOND);
    fake_nudge();
    plock_drain(plock_now());
    CHECK_INT(atomic_load(&settled), MANY);
    CHECK_INT(collectors(), 0);
    atomic_store(&dark, false);
    submit(1, PLOCK_SECOND); /* a worker thread runs again for the next debt */
    await_settled(MANY + 1);
    end();
}

static void settle_own(void *context) {
    (void)context;
    const unsigned before = atomic_load(&asked);
    atomic_store(&dark, false);
    submit(1, PLOCK_SECOND);
    await_settled(MANY + 1);                    /* the child frees the parent's debts … */
    CHECK_INT(atomic_load(&asked), before + 1); /* … but sends none of their releases */
    end();
}

static void a_child_settles_nothing_of_its_parents(void) {
    if (TEST_TSAN) return test_skip("debts in a child", "it starts a thread");
    begin(true);
    for (unsigned i = 0; i < MANY; i++) submit(i, 3600 * PLOCK_SECOND);
    fake_nudge();
    test_in_child(settle_own, NULL);
    atomic_store(&dark, false);
    fake_clock_pass(2 * PLOCK_SECOND);
    fake_nudge();
    await_settled(MANY);
    end();
}

/* --- out of memory --- */

static void each_allocation_may_fail(void) {
    for (unsigned long n = 1; n < 12; n++) {
        begin(false);
        owed *made = owe(1, PLOCK_SECOND);
        if (!made) return;
        plock__begin_step();
        (void)plock__fail_allocation(n);
        plock__debt_submit(&store->node, &made->debt);
        plock__end_step();
        unsigned rounds = 0;
        while (atomic_load(&settled) == 0 && test_patient(&rounds))
            fake_clock_pass(PLOCK_MILLISECOND);
        (void)plock__fail_allocation(0);
        CHECK_INT(atomic_load(&settled), 1);
        end();
    }
}

int main(void) {
    RUN(it_is_settled_by_the_answer);
    RUN(a_failure_that_does_not_pass_is_its_end);
    RUN(it_is_tried_again_after_growing_pauses_until_its_end);
    RUN(many_wait_for_one_that_tries_and_are_done_soon_when_it_succeeds);
    RUN(each_has_its_turn_where_only_some_can_be_done);
    RUN(those_whose_time_is_over_are_not_kept_in_memory);
    RUN(there_are_never_too_many);
    RUN(a_connection_found_closed_is_no_failure);
    RUN(one_that_comes_while_the_last_collector_ends_is_for_the_next);
    RUN(a_drain_waits_for_no_pause);
    RUN(a_drain_that_is_over_lets_go_of_what_is_left);
    RUN(a_child_settles_nothing_of_its_parents);
    RUN(each_allocation_may_fail);
    return test_end("debt");
}
