/* The local store: waiters whose turn coincides with other events. */
#include "local_support.h"

#include "base/platform.h"
#include "local/local_lease.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static const plock_ns LONG = 60 * PLOCK_SECOND, BRIEF = 30 * PLOCK_MILLISECOND;

static void nap(plock_ns span) { (void)usleep((useconds_t)(span / 1000)); }

/* Returns a lease that waited behind another lease until it was granted the key. The lease has
 * expired since the grant, but its caller has not seen the grant yet. */
static plock_lease *late(plock_local *store, plock_local_acquire_options terms) {
    plock_lease *first = local_lease(store, "k"), *second = local_lease(store, "k");
    plock_interest interest;
    CHECK_STATUS(local_acquire(first, LONG, 0), PLOCK_OK);
    CHECK_STATUS(plock_local_lease_acquire(second, &terms), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(second, &interest), PLOCK_AGAIN);
    CHECK_STATUS(local_release(first), PLOCK_OK);
    plock_lease_free(first);
    nap(terms.ttl + BRIEF);
    return second;
}

static void a_waiter_too_late_for_its_turn_does_not_hold_beside_another(void) {
    plock_local *store = local_open();
    for (int watched = 0; watched < 2; watched++) {
        plock_lease *one = late(store, (plock_local_acquire_options){.ttl = BRIEF,
                                                                     .wait = LONG,
                                                                     .watched = watched}),
                    *other = local_lease(store, "k");
        plock_interest interest;
        CHECK_STATUS(local_acquire(other, LONG, 0), PLOCK_OK);
        CHECK_STATUS(plock_lease_step(one, &interest), PLOCK_AGAIN);
        for (int rounds = 0; rounds < 3; rounds++)
            CHECK_STATUS(plock_lease_step(one, &interest), PLOCK_AGAIN);
        CHECK(!plock_lease_valid(one) && plock_lease_valid(other));
        CHECK_INT(local_waiters(store, "k"), 1); /* the late waiter is in the queue again */
        CHECK_STATUS(local_release(other), PLOCK_OK);
        CHECK_STATUS(local_finish(one), PLOCK_OK);
        CHECK(plock_lease_valid(one));
        CHECK(plock_lease_fence(one) > plock_lease_fence(other));
        plock_lease_free(one);
        plock_lease_free(other);
    }
    CHECK_INT(local_holders(store, "k"), 0);
    plock_local_close(store);
}

static void it_gets_the_key_again_if_no_other_came(void) {
    plock_local *store = local_open();
    plock_lease *one = late(store, (plock_local_acquire_options){.ttl = BRIEF, .wait = LONG});
    CHECK_STATUS(local_finish(one), PLOCK_OK);
    CHECK(plock_lease_valid(one));
    plock_lease_free(one);
    plock_local_close(store);
}

static void its_patience_is_not_longer_for_that(void) {
    plock_local *store = local_open();
    plock_lease *one = late(store, (plock_local_acquire_options){.ttl = BRIEF, .wait = BRIEF}),
                *other = local_lease(store, "k");
    CHECK_STATUS(local_acquire(other, LONG, 0), PLOCK_OK);
    CHECK_STATUS(local_finish(one), PLOCK_TIMED_OUT);
    CHECK_INT(local_waiters(store, "k"), 0);
    CHECK_INT(local_holders(store, "k"), 1);
    plock_lease_free(one);
    plock_lease_free(other);
    plock_local_close(store);
}

/* --- the worker thread is held up before an action --- */

enum { BEFORE, ABOUT_TO, MAY, LOOKS };
static atomic_int moment;

static void await(int wanted) {
    unsigned rounds = 0;
    while (atomic_load(&moment) != wanted && test_patient(&rounds)) continue;
}

static void await_program(void) {
    atomic_store(&moment, ABOUT_TO);
    await(MAY);
}

/* While the second lease waited, the worker thread was about to check it. When the thread goes on,
 * that lease has been granted and released. In the first round, it has no place in the file any
 * more. In the second round, it waits again, at another place. */
static void a_process_that_was_inside_since_is_not_checked(void) {
    plock_local *store = local_open();
    for (int again = 0; again < 2; again++) {
        plock_lease *first = local_lease(store, "k"), *second = local_lease(store, "k"),
                    *third = local_lease(store, "k");
        const plock_local_acquire_options terms = {.ttl = LONG, .wait = LONG};
        plock_interest interest;
        atomic_store(&moment, BEFORE);
        CHECK_STATUS(local_acquire(first, LONG, 0), PLOCK_OK);
        CHECK_STATUS(plock_local_lease_acquire(second, &terms), PLOCK_OK);
        CHECK_STATUS(plock_lease_step(second, &interest), PLOCK_AGAIN);
        plock__local_before(PLOCK__LOOKS, await_program);
        await(ABOUT_TO);
        CHECK_STATUS(local_release(first), PLOCK_OK);
        CHECK_STATUS(local_finish(second), PLOCK_OK);
        CHECK_STATUS(local_release(second), PLOCK_OK);
        if (again) {
            CHECK_STATUS(local_acquire(third, LONG, 0), PLOCK_OK);
            CHECK_STATUS(plock_local_lease_acquire(second, &terms), PLOCK_OK);
            CHECK_STATUS(plock_lease_step(second, &interest), PLOCK_AGAIN);
        }
        atomic_store(&moment, MAY);
        if (again) {
            CHECK_STATUS(local_release(third), PLOCK_OK);
            CHECK_STATUS(local_finish(second), PLOCK_OK);
            CHECK_STATUS(local_release(second), PLOCK_OK);
        }
        plock_drain(plock_now() + PLOCK_SECOND);
        plock_lease_free(first);
        plock_lease_free(second);
        plock_lease_free(third);
    }
    plock_local_close(store);
}

/* --- the file is removed while a lease waits --- */

static void a_waiter_in_a_removed_file_gets_no_lease_there(void) {
    plock_local *store = local_open();
    plock_lease *first = local_lease(store, "k"), *second = local_lease(store, "k"), *other;
    plock_interest interest;
    CHECK_STATUS(local_acquire(first, LONG, 0), PLOCK_OK);
    CHECK_STATUS(plock_local_lease_acquire(
                     second, &(plock_local_acquire_options){.ttl = LONG, .wait = LONG}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(second, &interest), PLOCK_AGAIN);
    CHECK(unlink(local_path()) == 0);
    nap(150 * PLOCK_MILLISECOND);
    CHECK_STATUS(local_release(first), PLOCK_NOT_OWNER);
    plock_lease_free(first);
    CHECK_STATUS(local_finish(second), PLOCK_OK);
    CHECK(access(local_path(), F_OK) == 0);
    plock_local *another = local_open();
    other = local_lease(another, "k");
    /* the waiter holds the key in the new file */
    CHECK_STATUS(local_acquire(other, LONG, 0), PLOCK_REFUSED);
    plock_lease_free(other);
    plock_lease_free(second);
    plock_local_close(another);
    plock_local_close(store);
}

static void take_it(void *context) {
    plock_lease *lease = local_lease(context, "k");
    if (local_acquire(lease, LONG, LONG)) _exit(1);
    for (;;) (void)pause();
}

/* No process wakes the waiter, because the holder keeps its lease in the removed file. */
static void and_notices_by_itself(void) {
    plock_local *store = local_open();
    const pid_t holder = local_child(take_it, store);
    unsigned rounds = 0;
    while (local_holders(store, "k") < 1 && test_patient(&rounds)) continue;
    plock_lease *lease = local_lease(store, "k");
    plock_interest interest;
    CHECK_STATUS(
        plock_local_lease_acquire(lease, &(plock_local_acquire_options){.ttl = LONG, .wait = LONG}),
        PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    CHECK(unlink(local_path()) == 0);
    const plock_ns removed = plock_now();
    CHECK_STATUS(local_finish(lease), PLOCK_OK);
    CHECK(plock_now() - removed < 5 * PLOCK_SECOND);
    plock_lease_free(lease);
    CHECK(kill(holder, SIGKILL) == 0);
    (void)local_status_of(holder);
    plock_local_close(store);
}

/* --- a dead process that other processes cannot see as dead yet --- */

static void share_life(void *context) {
    _Atomic int *const fd = context;
    (void)atomic_load(fd);
    for (;;) (void)pause();
}

static void hold_and_share(void *context) {
    plock_local *store = *(plock_local **)context;
    _Atomic int *stage = (_Atomic int *)((char *)context + sizeof store);
    plock_error error;
    plock_lease *lease = local_lease(store, "k");
    if (local_acquire(lease, LONG, 0)) _exit(1);
    const int shared = fcntl(plock_local_liveness(store, &error), F_DUPFD_CLOEXEC, 0);
    _Atomic int fd;
    atomic_init(&fd, shared);
    const pid_t other = local_child(share_life, &fd);
    (void)close(shared);
    atomic_store(stage, (int)other);
    for (;;) (void)pause();
}

/* The holder is dead. But another process has the descriptor with the holder's lock, so the holder
 * still counts as alive. If the waiter checked again and again, it would use processor time. */
static void waiting_for_a_zombie_costs_no_time(void) {
    struct {
        plock_local *store;
        _Atomic int other;
    } *scene = mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(scene != MAP_FAILED);
    scene->store = local_open();
    const pid_t holder = local_child(hold_and_share, scene);
    unsigned rounds = 0;
    while (!atomic_load(&scene->other) && test_patient(&rounds)) continue;
    plock_lease *lease = local_lease(scene->store, "k");
    CHECK(kill(holder, SIGKILL) == 0);
    nap(BRIEF);
    struct rusage before, after;
    (void)getrusage(RUSAGE_SELF, &before);
    CHECK_STATUS(local_acquire(lease, LONG, 500 * PLOCK_MILLISECOND), PLOCK_TIMED_OUT);
    (void)getrusage(RUSAGE_SELF, &after);
    const long spent = (after.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_utime.tv_sec -
                        before.ru_stime.tv_sec) *
                           1000000 +
                       (after.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_utime.tv_usec -
                        before.ru_stime.tv_usec);
    CHECK(spent < (TEST_TSAN ? 400000 : 100000));
    CHECK(kill((pid_t)atomic_load(&scene->other), SIGKILL) == 0);
    CHECK_STATUS(local_acquire(lease, LONG, LONG), PLOCK_OK);
    (void)local_status_of(holder);
    plock_lease_free(lease);
    plock_local_close(scene->store);
}

static void note_that_it_looks(void) { atomic_store(&moment, LOOKS); }

static void a_waiter_with_a_new_attendant_keeps_its_place_when_the_old_one_is_freed(void) {
    plock_interest interest;
    plock_local *store = local_open();
    plock_lease *first = local_lease(store, "k");
    CHECK_STATUS(
        local_acquire_as(first, &(plock_local_acquire_options){.ttl = LONG, .watched = true}),
        PLOCK_OK);
    atomic_store(&moment, BEFORE);
    plock__local_before(PLOCK__IS_FREED, await_program);
    plock_lease_free(first);
    plock_local_close(store);
    await(ABOUT_TO);
    store = local_open();
    first = local_lease(store, "k");
    plock_lease *second = local_lease(store, "k");
    CHECK_STATUS(local_acquire(first, LONG, 0), PLOCK_OK);
    CHECK_STATUS(plock_local_lease_acquire(
                     second, &(plock_local_acquire_options){.ttl = LONG, .wait = LONG}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(second, &interest), PLOCK_AGAIN);
    plock__local_before(PLOCK__LOOKS, note_that_it_looks);
    plock__local_has_to_look(plock__local_lease(second));
    atomic_store(&moment, MAY);
    /* the worker thread frees the old attendant before it checks the second lease */
    await(LOOKS);
    CHECK_STATUS(plock_lease_step(second, &interest), PLOCK_AGAIN);
    CHECK_STATUS(local_release(first), PLOCK_OK);
    CHECK_STATUS(local_finish(second), PLOCK_OK);
    plock_lease_free(first);
    plock_lease_free(second);
    plock_local_close(store);
}

static void a_lease_that_was_broken_does_not_oust_the_next_one_in_its_record(void) {
    plock_interest interest;
    plock_local *store = local_open();
    plock_lease *held = local_lease(store, "l"), *broken = local_lease(store, "k"),
                *waiting = local_lease(store, "l");
    CHECK_STATUS(local_acquire(held, LONG, 0), PLOCK_OK);
    atomic_store(&moment, BEFORE);
    plock__local_before(PLOCK__REGISTERS, await_program);
    CHECK_STATUS(
        local_acquire_as(
            broken, &(plock_local_acquire_options){.ttl = LONG, .renews = true, .automatic = true}),
        PLOCK_OK);
    await(ABOUT_TO);
    CHECK_STATUS(local_break(store, "k"), PLOCK_OK);
    CHECK_STATUS(plock_local_lease_acquire(
                     waiting, &(plock_local_acquire_options){.ttl = LONG, .wait = LONG}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(waiting, &interest), PLOCK_AGAIN);
    CHECK_INT(plock__local_lease(waiting)->claim, plock__local_lease(broken)->claim);
    plock__local_before(PLOCK__LOOKS, note_that_it_looks);
    plock__local_has_to_look(plock__local_lease(waiting));
    atomic_store(&moment, MAY);
    await(LOOKS);
    CHECK_STATUS(plock_lease_step(waiting, &interest), PLOCK_AGAIN);
    CHECK_STATUS(local_release(held), PLOCK_OK);
    CHECK_STATUS(local_finish(waiting), PLOCK_OK);
    CHECK_STATUS(local_release(broken), PLOCK_NOT_OWNER);
    plock__local_before(PLOCK__LOOKS, NULL);
    plock_lease_free(held);
    plock_lease_free(broken);
    plock_lease_free(waiting);
    plock_local_close(store);
}

/* --- messages --- */

static void close_both(const int ears[2]) {
    for (int end = 0; end < 2; end++) (void)close(ears[end]);
}

static void a_second_listener_takes_no_message_from_the_first(void) {
    int first[2], second[2];
    uint32_t claims[PLOCK__LOCAL_HEARD_MAX];
    plock_error error;
    plock_local *store = local_open();
    CHECK_STATUS(plock__local_listen(store->map, first, &error), PLOCK_OK);
    plock__local_wake(store->map, store->map->process, 7);
    CHECK_STATUS(plock__local_listen(store->map, second, &error), PLOCK_OK);
    CHECK_INT(plock__local_hear(first, claims), 1);
    CHECK_INT(claims[0], 7);
    close_both(first);
    close_both(second);
    plock_local_close(store);
}

/* A message for no lease was meant for an earlier process at this place in the file, or comes from
 * another program. */
static void messages_that_are_for_no_lease_do_no_harm(void) {
    static const uint32_t OTHERS[] = {0, 1, 999999, UINT32_MAX};
    for (int full = 0; full < 2; full++) {
        int ears[2];
        struct pollfd left;
        plock_interest interest;
        plock_error error;
        plock_local *store = local_open();
        plock_lease *held = local_lease(store, "k"), *waiting = local_lease(store, "k");
        CHECK_STATUS(plock__local_listen(store->map, ears, &error), PLOCK_OK);
        CHECK_INT(write(ears[1], "odd", 3), 3);
        CHECK(write(ears[1], OTHERS, sizeof OTHERS) == sizeof OTHERS);
        while (full && write(ears[1], OTHERS, sizeof OTHERS) > 0) continue;
        CHECK_STATUS(local_acquire(held, LONG, 0), PLOCK_OK);
        CHECK_STATUS(plock_local_lease_acquire(
                         waiting, &(plock_local_acquire_options){.ttl = LONG, .wait = LONG}),
                     PLOCK_OK);
        CHECK_STATUS(plock_lease_step(waiting, &interest), PLOCK_AGAIN);
        left = (struct pollfd){.fd = ears[0], .events = POLLIN};
        unsigned rounds = 0;
        while (poll(&left, 1, 0) && test_patient(&rounds)) continue;
        CHECK_INT(poll(&left, 1, 0), 0);
        CHECK_STATUS(plock_lease_step(waiting, &interest), PLOCK_AGAIN);
        CHECK_STATUS(local_release(held), PLOCK_OK);
        CHECK_STATUS(local_finish(waiting), PLOCK_OK);
        close_both(ears);
        plock_lease_free(held);
        plock_lease_free(waiting);
        plock_local_close(store);
    }
}

int main(void) {
    local_begin();
    /* comes first, because an attendant that an earlier test began could take the message */
    RUN(a_second_listener_takes_no_message_from_the_first);
    RUN(a_waiter_too_late_for_its_turn_does_not_hold_beside_another);
    RUN(it_gets_the_key_again_if_no_other_came);
    RUN(its_patience_is_not_longer_for_that);
    RUN(a_process_that_was_inside_since_is_not_checked);
    RUN(a_waiter_with_a_new_attendant_keeps_its_place_when_the_old_one_is_freed);
    RUN(a_lease_that_was_broken_does_not_oust_the_next_one_in_its_record);
    RUN(messages_that_are_for_no_lease_do_no_harm);
    RUN(a_waiter_in_a_removed_file_gets_no_lease_there);
    RUN(and_notices_by_itself);
#ifdef PLOCK__OFD
    RUN(waiting_for_a_zombie_costs_no_time);
#else
    test_skip("a life that is shared", "this system's locks end with the process");
    (void)waiting_for_a_zombie_costs_no_time;
#endif
    local_end();
    return test_end("local_turn");
}
