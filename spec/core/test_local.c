/* The local store: leases of one process, and of several processes in turn. */
#include "local_support.h"

#include "base/memory.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const plock_ns LONG = 60 * PLOCK_SECOND;

static void a_key_is_held_by_one_at_a_time(void) {
    plock_local *store = local_open();
    plock_lease *one = local_lease(store, "k"), *two = local_lease(store, "k"),
                *other = local_lease(store, "l");
    CHECK_STATUS(local_acquire(one, LONG, 0), PLOCK_OK);
    CHECK_STATUS(local_acquire(two, LONG, 0), PLOCK_REFUSED);
    CHECK_STATUS(local_acquire(other, LONG, 0), PLOCK_OK);
    CHECK(plock_lease_valid(one) && !plock_lease_valid(two));
    CHECK_STATUS(local_release(one), PLOCK_OK);
    CHECK_STATUS(local_acquire(two, LONG, 0), PLOCK_OK);
    CHECK(plock_lease_fence(two) > plock_lease_fence(one));
    CHECK(plock_lease_fence(two) > plock_lease_fence(other));
    CHECK_STATUS(local_release(one), PLOCK_MISUSE);
    plock_lease_free(one);
    plock_lease_free(two);
    plock_lease_free(other);
    CHECK_INT(local_holders(store, "k"), 0); /* freeing a lease releases it */
    plock_local_close(store);
}

/* Returns the wall-clock time in microseconds. time() is not precise enough, because its clock may
 * be a tick behind. */
static int64_t wall_us(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static void a_lease_says_what_it_is(void) {
    plock_local *store = local_open();
    plock_lease *lease = local_lease(store, "k");
    const plock_ns before = plock_now();
    const int64_t began = wall_us();
    CHECK_STATUS(local_acquire_as(lease, &(plock_local_acquire_options){.ttl = 10 * PLOCK_SECOND,
                                                                        .label = "why",
                                                                        .label_length = 3}),
                 PLOCK_OK);
    size_t length;
    CHECK(!memcmp(plock_lease_key(lease, &length), "k", 1) && length == 1);
    (void)plock_lease_owner(lease, &length);
    CHECK_INT(length, PLOCK_TOKEN_LENGTH);
    CHECK_INT(plock_lease_ttl(lease), 10 * PLOCK_SECOND);
    CHECK(plock_lease_acquired_at(lease) >= before &&
          plock_lease_acquired_at(lease) <= plock_now());
    CHECK_INT(plock_lease_valid_until(lease) - plock_lease_acquired_at(lease), 10 * PLOCK_SECOND);
    plock_local_person person;
    plock_interest interest;
    plock_error error;
    CHECK_STATUS(
        plock_local_examine(store, "k", 1, &person, 1, &length, local_soon(), &interest, &error),
        PLOCK_OK);
    CHECK_INT(length, 1);
    CHECK(!person.waits && person.pid == getpid() && person.fence == plock_lease_fence(lease));
    CHECK(person.label_length == 3 && !memcmp(person.label, "why", 3));
    CHECK(person.left > 9 * PLOCK_SECOND && person.left <= 10 * PLOCK_SECOND);
    CHECK(person.since >= began && person.since <= wall_us());
    plock_lease_free(lease);
    plock_local_close(store);
}

static void its_time_ends_it(void) {
    plock_local *store = local_open();
    plock_lease *one = local_lease(store, "k"), *two = local_lease(store, "k");
    CHECK_STATUS(local_acquire(one, 20 * PLOCK_MILLISECOND, 0), PLOCK_OK);
    CHECK_STATUS(local_acquire(two, LONG, 10 * PLOCK_SECOND), PLOCK_OK);
    CHECK(plock_lease_lost(one) && !plock_lease_valid(one));
    CHECK(plock_lease_contended(two) && plock_lease_waited(two) > 0);
    CHECK_STATUS(local_extend(one, LONG), PLOCK_NOT_OWNER);
    CHECK_STATUS(local_release(one), PLOCK_NOT_OWNER);
    CHECK_STATUS(local_release(two), PLOCK_OK);
    plock_lease_free(one);
    plock_lease_free(two);
    plock_local_close(store);
}

static void it_can_be_extended_and_shortened(void) {
    plock_local *store = local_open();
    plock_lease *one = local_lease(store, "k"), *two = local_lease(store, "k");
    CHECK_STATUS(local_acquire(one, PLOCK_SECOND, 0), PLOCK_OK);
    CHECK_STATUS(local_extend(one, LONG), PLOCK_OK);
    CHECK(plock_lease_valid_until(one) > plock_now() + LONG - 5 * PLOCK_SECOND);
    CHECK_STATUS(
        plock_local_lease_acquire(two, &(plock_local_acquire_options){.ttl = LONG, .wait = LONG}),
        PLOCK_OK);
    plock_interest interest;
    CHECK_STATUS(plock_lease_step(two, &interest), PLOCK_AGAIN);
    /* if the holder shortens its lease, the waiters check the key earlier */
    CHECK_STATUS(local_extend(one, 20 * PLOCK_MILLISECOND), PLOCK_OK);
    CHECK_STATUS(local_finish(two), PLOCK_OK);
    plock_lease_free(one);
    plock_lease_free(two);
    plock_local_close(store);
}

static void a_key_may_stay_taken_after_a_release(void) {
    plock_local *store = local_open();
    plock_lease *one = local_lease(store, "k"), *two = local_lease(store, "k");
    CHECK_STATUS(local_acquire(one, LONG, 0), PLOCK_OK);
    CHECK_STATUS(plock_lease_release(one, 30 * PLOCK_MILLISECOND), PLOCK_OK);
    CHECK_STATUS(local_finish(one), PLOCK_OK);
    const plock_ns released = plock_now();
    CHECK_STATUS(local_acquire(two, LONG, 0), PLOCK_REFUSED);
    CHECK_STATUS(local_acquire(two, LONG, 10 * PLOCK_SECOND), PLOCK_OK);
    CHECK(plock_now() - released >= 25 * PLOCK_MILLISECOND);
    plock_lease_free(one);
    plock_lease_free(two);
    plock_local_close(store);
}

static void patience_ends(void) {
    plock_local *store = local_open();
    plock_lease *one = local_lease(store, "k"), *two = local_lease(store, "k");
    CHECK_STATUS(local_acquire(one, LONG, 0), PLOCK_OK);
    const plock_ns asked = plock_now();
    CHECK_STATUS(local_acquire(two, LONG, 30 * PLOCK_MILLISECOND), PLOCK_TIMED_OUT);
    CHECK(plock_now() - asked >= 30 * PLOCK_MILLISECOND && plock_now() - asked < 5 * PLOCK_SECOND);
    CHECK_INT(local_waiters(store, "k"), 0);
    plock_lease_free(one);
    plock_lease_free(two);
    plock_local_close(store);
}

static void owners_can_be_brought(void) {
    plock_local *store = local_open();
    char name[300];
    memset(name, 'o', sizeof name);
    for (size_t length = 1; length <= sizeof name; length += 43) {
        plock_lease *one = local_lease(store, "k"), *two = local_lease(store, "k");
        CHECK_STATUS(local_acquire_as(one, &(plock_local_acquire_options){.ttl = LONG,
                                                                          .owner = name,
                                                                          .owner_length = length}),
                     PLOCK_OK);
        CHECK_STATUS(
            plock_local_lease_release_owned(two, name, length + 1 > sizeof name ? 1 : length + 1),
            PLOCK_OK);
        CHECK_STATUS(local_finish(two), PLOCK_NOT_OWNER);
        CHECK_STATUS(plock_local_lease_release_owned(two, name, length), PLOCK_OK);
        CHECK_STATUS(local_finish(two), PLOCK_OK);
        CHECK_INT(local_holders(store, "k"), 0);
        CHECK(plock_lease_lost(one));
        plock_lease_free(one);
        plock_lease_free(two);
    }
    plock_local_close(store);
}

static void keys_of_any_length_are_told_apart(void) {
    enum { LENGTH = 1200 };
    plock_local *store = local_open();
    static char key[LENGTH];
    memset(key, 'k', sizeof key);
    plock_lease *leases[LENGTH / 37 + 1];
    unsigned count = 0;
    for (size_t length = 1; length <= LENGTH; length += 37) {
        CHECK_STATUS(plock_local_lease_new(&leases[count], store, key, length), PLOCK_OK);
        CHECK_STATUS(local_acquire(leases[count], LONG, 0), PLOCK_OK);
        plock_lease *again;
        CHECK_STATUS(plock_local_lease_new(&again, store, key, length), PLOCK_OK);
        CHECK_STATUS(local_acquire(again, LONG, 0), PLOCK_REFUSED);
        plock_lease_free(again);
        count++;
    }
    while (count) plock_lease_free(leases[--count]);
    plock_local_close(store);
}

static void a_store_is_full_at_its_bound_and_has_room_again(void) {
    enum { KEYS = 600 };
    plock_local *store = local_open_keys(KEYS);
    plock_lease *leases[KEYS + 1];
    char name[32];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i <= KEYS; i++) {
            (void)snprintf(name, sizeof name, "%d:%d", round, i);
            leases[i] = local_lease(store, name);
            CHECK_STATUS(local_acquire(leases[i], LONG, 0), i < KEYS ? PLOCK_OK : PLOCK_STORE_FULL);
        }
        CHECK_HAS(plock_lease_error(leases[KEYS])->message, "600 keys");
        /* expired entries make room, although no caller asks for their keys */
        if (round == 1) {
            unsigned rounds = 0;
            for (int i = 0; i < KEYS; i++)
                CHECK_STATUS(local_extend(leases[i], PLOCK_TTL_MIN), PLOCK_OK);
            while (plock_lease_valid(leases[KEYS - 1]) && test_patient(&rounds)) continue;
            plock_status status = PLOCK_STORE_FULL;
            while (status == PLOCK_STORE_FULL && test_patient(&rounds))
                status = local_acquire(leases[KEYS], LONG, 0);
            CHECK_STATUS(status, PLOCK_OK);
        }
        for (int i = 0; i <= KEYS; i++) plock_lease_free(leases[i]);
    }
    plock_local_close(store);
}

static void a_held_lease_is_listed_once(void) {
    enum { KEYS = 700 };
    plock_local *store = local_open();
    plock_lease *leases[KEYS];
    char name[PLOCK_LOCAL_KEY_MAX];
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(name, sizeof name, "key %d", i);
        leases[i] = local_lease(store, name);
        CHECK_STATUS(local_acquire(leases[i], LONG, 0), PLOCK_OK);
    }
    for (int i = 0; i < KEYS; i += 2) CHECK_STATUS(local_release(leases[i]), PLOCK_OK);
    bool seen[KEYS] = {false};
    uint32_t cursor = 0;
    size_t length = 1;
    int found = 0;
    while (length) {
        plock_interest interest;
        plock_error error;
        CHECK_STATUS(
            plock_local_next_key(store, &cursor, name, &length, local_soon(), &interest, &error),
            PLOCK_OK);
        int number = -1;
        if (!length) break;
        name[length] = 0;
        CHECK(sscanf(name, "key %d", &number) == 1 && number >= 0 && number < KEYS &&
              number % 2 == 1 && !seen[number]);
        if (number >= 0 && number < KEYS) seen[number] = true;
        found++;
    }
    CHECK_INT(found, KEYS / 2);
    for (int i = 0; i < KEYS; i++) plock_lease_free(leases[i]);
    plock_local_close(store);
}

static void a_lease_can_be_left_and_adopted(void) {
    plock_local *store = local_open();
    plock_lease *one = local_lease(store, "k"), *two = local_lease(store, "k");
    CHECK_STATUS(local_acquire(one, LONG, 0), PLOCK_OK);
    size_t length;
    const char *owner = plock_lease_owner(one, &length);
    const plock_local_acquire_options terms = {.renews = false};
    CHECK_STATUS(plock_lease_leave(one), PLOCK_OK);
    CHECK_STATUS(local_finish(one), PLOCK_OK);
    CHECK(!plock_lease_valid(one) && !plock_lease_lost(one));
    CHECK_STATUS(plock_local_lease_adopt(two, owner, 0, &terms), PLOCK_MISUSE);
    CHECK_STATUS(plock_local_lease_adopt(two, owner, length - 1, &terms), PLOCK_OK);
    CHECK_STATUS(local_finish(two), PLOCK_NOT_OWNER);
    CHECK_STATUS(plock_local_lease_adopt(two, owner, length, &terms), PLOCK_OK);
    CHECK_STATUS(local_finish(two), PLOCK_OK);
    CHECK(plock_lease_valid(two));
    CHECK_INT(plock_lease_valid_until(two), plock_lease_valid_until(one));
    CHECK(plock_lease_fence(two) > plock_lease_fence(one));
    size_t other_length;
    const char *other = plock_lease_owner(two, &other_length);
    /* the adopted lease has a fresh token … */
    CHECK(other_length != length || memcmp(other, owner, length));
    plock_lease *late = local_lease(store, "k");
    CHECK_STATUS(plock_local_lease_adopt(late, owner, length, &terms), PLOCK_OK);
    /* … so the old token could be used only once */
    CHECK_STATUS(local_finish(late), PLOCK_NOT_OWNER);
    CHECK(plock_lease_valid(two));
    plock_lease_free(late);
    plock_lease_free(one);
    CHECK_INT(local_holders(store, "k"), 1);
    CHECK_STATUS(local_release(two), PLOCK_OK);
    plock_lease_free(two);
    plock_local_close(store);
}

static void it_can_be_adopted_for_another_time(void) {
    const plock_ns spans[] = {PLOCK_SECOND, LONG * 2};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        plock_local *store = local_open();
        plock_lease *one = local_lease(store, "k"), *two = local_lease(store, "k");
        CHECK_STATUS(local_acquire(one, LONG, 0), PLOCK_OK);
        size_t length;
        const char *owner = plock_lease_owner(one, &length);
        plock_local_acquire_options terms = {
            .owner = "heir", .owner_length = 4, .ttl = PLOCK_TTL_MAX + 1};
        CHECK_STATUS(plock_lease_leave(one), PLOCK_OK);
        CHECK_STATUS(local_finish(one), PLOCK_OK);
        CHECK_STATUS(plock_local_lease_adopt(two, owner, length, &terms), PLOCK_MISUSE);
        terms.ttl = spans[i];
        const plock_ns before = plock_now();
        CHECK_STATUS(plock_local_lease_adopt(two, owner, length, &terms), PLOCK_OK);
        CHECK_STATUS(local_finish(two), PLOCK_OK);
        size_t heir_length;
        CHECK(!memcmp(plock_lease_owner(two, &heir_length), "heir", 4) && heir_length == 4);
        const plock_ns until = plock_lease_valid_until(two);
        CHECK(until >= before + spans[i] && until <= plock_now() + spans[i]);
        plock_lease_free(one);
        CHECK_STATUS(local_release(two), PLOCK_OK);
        plock_lease_free(two);
        plock_local_close(store);
    }
}

static void it_can_be_broken(void) {
    plock_local *store = local_open();
    plock_lease *one = local_lease(store, "k");
    CHECK_STATUS(local_break(store, "k"), PLOCK_NOT_OWNER);
    CHECK_STATUS(local_acquire(one, LONG, 0), PLOCK_OK);
    CHECK_STATUS(local_break(store, "k"), PLOCK_OK);
    CHECK(plock_lease_lost(one));
    CHECK_STATUS(local_release(one), PLOCK_NOT_OWNER);
    plock_lease_free(one);
    plock_local_close(store);
}

/* Some of many leases that share a key are broken. The other leases keep the key. */
static void some_of_many_can_be_broken(void) {
    enum { MANY = 2 * PLOCK_LOCAL_KEYS_MIN - 2, SOME = MANY / 2 };
    (void)unlink(local_path());
    plock_local *store = local_open_keys(PLOCK_LOCAL_KEYS_MIN);
    plock_lease *leases[MANY];
    int64_t fences[SOME];
    plock_error error;
    plock_interest interest;
    for (int i = 0; i < MANY; i++) {
        leases[i] = local_lease(store, "k");
        CHECK_STATUS(
            local_acquire_as(leases[i], &(plock_local_acquire_options){.ttl = LONG, .mode = 'r'}),
            PLOCK_OK);
        if (i < SOME) fences[i] = plock_lease_fence(leases[i]);
    }
    CHECK_STATUS(plock_local_break(store, "k", 1, fences, SOME, local_soon(), &interest, &error),
                 PLOCK_OK);
    for (int i = 0; i < MANY; i++) {
        CHECK(plock_lease_valid(leases[i]) == (i >= SOME));
        plock_lease_free(leases[i]);
    }
    plock_local_close(store);
    (void)unlink(local_path());
}

static void hold_in_child(void *context) {
    plock_local *store = context;
    plock_lease *lease = local_lease(store, "k");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_REFUSED);
    plock_lease_free(lease);
    lease = local_lease(store, "of the child");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    CHECK_STATUS(local_release(lease), PLOCK_OK);
    plock_lease_free(lease);
}

static void a_child_works_and_has_nothing_of_its_parents(void) {
    plock_local *store = local_open();
    plock_lease *lease = local_lease(store, "k");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    plock_drain(plock_now() + PLOCK_SECOND);
    test_in_child(hold_in_child, store);
    CHECK(plock_lease_valid(lease));
    CHECK_STATUS(local_release(lease), PLOCK_OK);
    plock_lease_free(lease);
    plock_local_close(store);
}

static void free_in_child(void *context) {
    plock_lease *lease = context;
    CHECK(plock_lease_inherited(lease) && !plock_lease_valid(lease) && !plock_lease_lost(lease));
    CHECK_STATUS(plock_lease_release(lease, 0), PLOCK_MISUSE);
    plock_lease_free(lease);
}

static void a_child_releases_nothing_of_its_parents(void) {
    plock_local *store = local_open();
    plock_lease *lease = local_lease(store, "k");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    test_in_child(free_in_child, lease);
    CHECK_INT(local_holders(store, "k"), 1);
    plock_lease_free(lease);
    plock_local_close(store);
}

/* Makes the n-th allocation fail. Each call must succeed or report a lack of memory. Returns true
 * if all calls succeeded. */
static bool works_without_one(unsigned long n) {
    plock_local *store = NULL;
    plock_lease *one = NULL, *two = NULL;
    plock_error error;
    (void)plock__fail_allocation(n);
    plock_status status = plock_local_open(&store, local_path(), 0, &error);
    if (!status) status = plock_local_lease_new(&one, store, "k", 1);
    if (!status)
        status = local_acquire_as(
            one, &(plock_local_acquire_options){
                     .ttl = LONG, .watched = true, .owner = "me", .owner_length = 2});
    if (!status) status = plock_local_lease_new(&two, store, "k", 1);
    const plock_status second = status ? status : local_acquire(two, LONG, 5 * PLOCK_MILLISECOND);
    CHECK(second == PLOCK_TIMED_OUT || second == PLOCK_NO_MEMORY || second == PLOCK_DESCRIPTORS ||
          second == PLOCK_DISCONNECTED);
    plock_lease_free(two);
    plock_lease_free(one);
    plock_local_close(store);
    plock_drain(plock_now() + PLOCK_SECOND);
    (void)plock__fail_allocation(0);
    plock_notice_free(plock_notice_next());
    return second == PLOCK_TIMED_OUT;
}

static void each_allocation_may_fail_once(void) {
    unsigned long n = 1;
    for (int through = 0; through < 8 && n < 100; n++)
        through = works_without_one(n) ? through + 1 : 0;
    CHECK(n > 8 && n < 100);
    plock_local *store = local_open();
    CHECK_INT(local_holders(store, "k"), 0);
    plock_local_close(store);
}

/* Expired entries make room, even if no process has looked at them. */
static void several_find_room_where_something_is_over(void) {
    (void)unlink(local_path());
    plock_local *store = local_open_keys(PLOCK_LOCAL_KEYS_MIN);
    char name[32];
    for (int i = 0; i < PLOCK_LOCAL_KEYS_MIN; i++) {
        (void)snprintf(name, sizeof name, "over %d", i);
        plock_lease *lease = local_lease(store, name);
        CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
        CHECK_STATUS(plock_lease_release(lease, PLOCK_MILLISECOND), PLOCK_OK);
        CHECK_STATUS(local_finish(lease), PLOCK_OK);
        plock_lease_free(lease);
    }
    (void)usleep(5000);
    plock_lease *leases[] = {local_lease(store, "one"), local_lease(store, "two")};
    plock_interest interest;
    plock_error error;
    size_t refused;
    CHECK_STATUS(plock_local_acquire_all(leases, 2, &(plock_local_acquire_options){.ttl = LONG},
                                         &refused, &interest, &error),
                 PLOCK_OK);
    for (int i = 0; i < 2; i++) plock_lease_free(leases[i]);
    CHECK_INT(local_holders(store, "one"), 0);
    plock_local_close(store);
    (void)unlink(local_path());
}

static void leases_that_are_acquired_together_again_have_a_wait_of_their_own(void) {
    plock_local *store = local_open();
    plock_lease *leases[] = {local_lease(store, "one"), local_lease(store, "two")};
    plock_interest interest;
    plock_error error;
    size_t refused;
    const plock_local_acquire_options terms = {.ttl = LONG};
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(plock_local_acquire_all(leases, 2, &terms, &refused, &interest, &error),
                     PLOCK_OK);
        CHECK(plock_lease_waited(leases[0]) < PLOCK_SECOND / 2);
        for (int lease = 0; lease < 2; lease++)
            CHECK_STATUS(local_release(leases[lease]), PLOCK_OK);
        (void)usleep(i ? 0 : 500000);
    }
    for (int i = 0; i < 2; i++) plock_lease_free(leases[i]);
    plock_local_close(store);
}

int main(void) {
    const int descriptors = test_open_descriptors();
    local_begin();
    RUN(a_key_is_held_by_one_at_a_time);
    RUN(a_lease_says_what_it_is);
    RUN(its_time_ends_it);
    RUN(it_can_be_extended_and_shortened);
    RUN(a_key_may_stay_taken_after_a_release);
    RUN(patience_ends);
    RUN(owners_can_be_brought);
    RUN(keys_of_any_length_are_told_apart);
    RUN(a_held_lease_is_listed_once);
    RUN(a_lease_can_be_left_and_adopted);
    RUN(it_can_be_adopted_for_another_time);
    RUN(it_can_be_broken);
    RUN(each_allocation_may_fail_once);
    RUN(a_child_works_and_has_nothing_of_its_parents);
    RUN(a_child_releases_nothing_of_its_parents);
    plock_drain(plock_now() + PLOCK_SECOND);
    RUN(several_find_room_where_something_is_over);
    RUN(leases_that_are_acquired_together_again_have_a_wait_of_their_own);
    RUN(some_of_many_can_be_broken);
    local_end();
    local_begin();
    RUN(a_store_is_full_at_its_bound_and_has_room_again);
    local_end();
    CHECK_INT(plock__live_allocations(), 3); /* three wakers that are kept for reuse */
    CHECK(test_open_descriptors() <= descriptors + 10);
    return test_end("local");
}
