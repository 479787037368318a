/* Leases that are left to other processes, and leases that their program forgot. */
#include "fake_watch.h"
#include "test.h"

#include <string.h>

static const plock_ns TTL = 3 * PLOCK_SECOND;
static const plock_acquire_options PLAIN = {.ttl = 3 * PLOCK_SECOND};
static const plock_acquire_options RENEWED = {.ttl = 3 * PLOCK_SECOND, .renews = true};
static const plock_acquire_options WATCHED = {.ttl = 3 * PLOCK_SECOND, .watched = true};
static const plock_acquire_options *const PATIENCES[] = {&PLAIN, &RENEWED, &WATCHED};
enum { KINDS = 3 };

static plock_store *store;
static plock_lease *lease;
static plock_interest interest;

static void begin(void) {
    store = fake_watching_store();
    lease = fake_lease(store);
}

static void end(void) {
    fake_no_notice();
    fake_end(lease, store);
}

/* Frees the lease as one that the program forgot to release. */
static void forget(void) {
    plock_lease_abandon(lease);
    lease = NULL;
}

/* Checks that the next notice reports the lease with this id, on the key "k", as forgotten. */
static void check_told(uint64_t id) {
    plock_notice *notice = plock_notice_next();
    if (!CHECK(notice != NULL)) return;
    CHECK_INT(notice->kind, PLOCK_ABANDONED);
    CHECK_INT(notice->id, id);
    CHECK_INT(notice->fence, FAKE_HELD_FENCE);
    CHECK_INT(notice->key_length, 1);
    CHECK_INT(notice->key[0], 'k');
    plock_notice_free(notice);
}

/* --- leaving --- */

static void what_is_left_is_not_released(void) {
    for (unsigned i = 0; i < KINDS; i++) {
        size_t length;
        begin();
        CHECK_STATUS(fake_hold(lease, PATIENCES[i]), PLOCK_OK);
        fake_leave(lease);
        CHECK(!plock_lease_valid(lease) && !plock_lease_lost(lease));
        /* the fields that the next owner needs can still be read */
        CHECK_INT(plock_lease_fence(lease), FAKE_HELD_FENCE);
        (void)plock_lease_owner(lease, &length);
        CHECK_INT(length, PLOCK_TOKEN_LENGTH);
        CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_MISUSE);
        CHECK_STATUS(plock_lease_extend(lease, TTL), PLOCK_MISUSE);
        end();
        CHECK_INT(fake_commands_like("EVALSHA release"), 0);
    }
}

static void it_is_no_longer_watched(void) {
    begin();
    fake_watch(lease, &WATCHED);
    fake_leave(lease);
    atomic_store(&fake_to_check, FAKE_NOT_OURS);
    fake_call("!", 0);
    fake_await("EVALSHA check", 1);
    fake_native_pass(2 * TTL);
    fake_no_notice();
    end();
}

static void leaving_is_harmless_where_nothing_is_held(void) {
    begin();
    fake_leave(lease);
    CHECK_STATUS(fake_hold(lease, &PLAIN), PLOCK_OK);
    fake_leave(lease);
    fake_leave(lease);
    CHECK_STATUS(fake_hold(lease, &PLAIN), PLOCK_OK); /* the lease can be used again */
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 1);
}

static void an_extension_under_way_ends_before_the_lease_is_left(void) {
    begin();
    fake_watch(lease, &RENEWED);
    atomic_store(&fake_to_extend, FAKE_SILENCE);
    CHECK_STATUS(plock_lease_extend(lease, TTL), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    CHECK_STATUS(plock_lease_leave(lease), PLOCK_IN_USE);
    atomic_store(&fake_to_extend, NULL);
    fake_answer("EVALSHA extend", 1, FAKE_DONE);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    fake_leave(lease);
    CHECK(!plock_lease_valid(lease));
    fake_native_pass(TTL);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
}

/* --- forgetting --- */

static void what_is_held_and_forgotten_is_told_and_released(void) {
    for (unsigned i = 0; i < KINDS; i++) {
        begin();
        CHECK_STATUS(fake_hold(lease, PATIENCES[i]), PLOCK_OK);
        const uint64_t id = plock_lease_id(lease);
        forget();
        check_told(id);
        fake_await("EVALSHA release", 1);
        end();
    }
}

static void what_is_not_held_is_forgotten_without_a_word(void) {
    enum { NEVER_HELD, RELEASED, LEFT, ACQUIRING, RELEASING, NOT_OURS, WAYS };
    for (int way = 0; way < WAYS; way++) {
        begin();
        if (way == ACQUIRING) {
            atomic_store(&fake_to_acquire, FAKE_SILENCE);
            CHECK_STATUS(plock_lease_acquire(lease, &PLAIN), PLOCK_OK);
            CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
        } else if (way != NEVER_HELD) {
            CHECK_STATUS(fake_hold(lease, &PLAIN), PLOCK_OK);
        }
        if (way == RELEASED) CHECK_STATUS(fake_release(lease), PLOCK_OK);
        if (way == LEFT) fake_leave(lease);
        if (way == RELEASING) {
            CHECK_STATUS(plock_lease_release(lease, PLOCK_KEEP_AT_LEAST), PLOCK_OK);
            CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
        }
        if (way == NOT_OURS) {
            atomic_store(&fake_to_extend, FAKE_NOT_OURS);
            CHECK_STATUS(plock_lease_extend(lease, TTL), PLOCK_OK);
            CHECK_STATUS(fake_await_end(lease), PLOCK_NOT_OWNER);
        }
        forget();
        fake_no_notice();
        end();
        const unsigned releases = fake_commands_like("EVALSHA release");
        test_check(way == ACQUIRING || way == RELEASING ? releases >= 1
                                                        : releases == (way == RELEASED),
                   "it is released where it may be held", __FILE__, __LINE__);
    }
    plock_lease_abandon(NULL);
}

/* No further notice is needed. The loss has been reported, or the program could foresee that the
 * lease would expire. */
static void so_is_what_was_lost(void) {
    enum { TIME_OVER, TOLD, WAYS };
    for (int way = 0; way < WAYS; way++) {
        begin();
        if (way == TIME_OVER) {
            CHECK_STATUS(fake_hold(lease, &PLAIN), PLOCK_OK);
            fake_clock_pass(TTL);
        } else {
            fake_watch(lease, &RENEWED);
            atomic_store(&fake_to_extend, FAKE_NOT_OURS);
            fake_native_pass(TTL / 3);
            fake_await_notice(PLOCK_LOST, lease);
        }
        forget();
        end();
    }
}

static void what_is_renewed_and_forgotten_is_renewed_no_more(void) {
    begin();
    fake_watch(lease, &RENEWED);
    const uint64_t id = plock_lease_id(lease);
    forget();
    check_told(id);
    fake_native_pass(TTL);
    fake_await("EVALSHA extend", 1);
    fake_await("EVALSHA release", 1);
    end();
}

static void one_in_mid_extension_is_held(void) {
    begin();
    CHECK_STATUS(fake_hold(lease, &PLAIN), PLOCK_OK);
    const uint64_t id = plock_lease_id(lease);
    CHECK_STATUS(plock_lease_extend(lease, TTL), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    forget();
    check_told(id);
    fake_await("EVALSHA release", 1);
    end();
}

/* --- in a child --- */

static void forget_in_child(void *context) {
    (void)context;
    const unsigned commands = fake_commands_like("");
    forget();
    CHECK(!plock_notice_next());
    fake_end(NULL, store);
    CHECK_INT(fake_commands_like(""), commands);
}

static void a_child_neither_tells_nor_releases_what_it_forgets(void) {
    for (unsigned i = 0; i < KINDS; i++) {
        begin();
        CHECK_STATUS(fake_hold(lease, PATIENCES[i]), PLOCK_OK);
        test_in_child(forget_in_child, NULL);
        CHECK(plock_lease_valid(lease));
        end();
        CHECK_INT(fake_commands_like("EVALSHA release"), 1);
    }
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(what_is_left_is_not_released);
    RUN(it_is_no_longer_watched);
    RUN(leaving_is_harmless_where_nothing_is_held);
    RUN(an_extension_under_way_ends_before_the_lease_is_left);
    RUN(what_is_held_and_forgotten_is_told_and_released);
    RUN(what_is_not_held_is_forgotten_without_a_word);
    RUN(so_is_what_was_lost);
    RUN(what_is_renewed_and_forgotten_is_renewed_no_more);
    RUN(one_in_mid_extension_is_held);
    RUN(a_child_neither_tells_nor_releases_what_it_forgets);
    return test_end("lease leave");
}
