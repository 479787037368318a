/* Several callers of one lease: one operation at a time, in the order of the calls. */
#include "fake_watch.h"
#include "local_support.h"
#include "test.h"

#include <string.h>

static const plock_ns TTL = 3 * PLOCK_SECOND;
static const plock_ns PATIENCE = 100 * PLOCK_MILLISECOND;
static const plock_acquire_options PLAIN = {.ttl = 3 * PLOCK_SECOND};
static const plock_acquire_options RENEWED = {.ttl = 3 * PLOCK_SECOND, .renews = true};

static plock_store *store;
static plock_lease *lease;
static plock_interest interest;

typedef struct one {
    plock_lease_use turn;
    plock_place_in_turn place;
    plock_lease *lease;
    unsigned given_up;
} one;

static void begin(const plock_acquire_options *patience) {
    store = fake_watching_store();
    lease = fake_lease(store);
    CHECK_STATUS(fake_hold(lease, patience), PLOCK_OK);
}

static void end(void) {
    fake_no_notice();
    fake_end(lease, store);
}

static plock_status begin_release(void *context) {
    return plock_lease_release(((one *)context)->lease, PLOCK_KEEP_AT_LEAST);
}

static plock_status begin_extension(void *context) {
    return plock_lease_extend(((one *)context)->lease, 2 * TTL);
}

static void give_up(void *context) {
    one *o = context;
    o->given_up++;
    plock_lease_let_go(o->lease, PLOCK_KEEP_AT_LEAST);
}

static plock_operation take(one *o, plock_status (*operation)(void *)) {
    *o = (one){.lease = lease, .place = plock_lease_turn(lease)};
    o->turn = (plock_lease_use){.places = &o->place,
                                .count = 1,
                                .begin = operation,
                                .context = o,
                                .operation = plock_lease_operation(lease),
                                .give_up = operation == begin_release ? give_up : NULL,
                                .patience = PATIENCE};
    plock_lease_use_take(&o->turn);
    return plock_lease_use_operation(&o->turn);
}

static plock_status step(plock_operation operation) {
    return operation.step(operation.of, &interest);
}

static plock_status finish(plock_operation operation) {
    plock_status status;
    for (unsigned rounds = 0; (status = step(operation)) == PLOCK_AGAIN && test_patient(&rounds);)
        continue;
    return status;
}

/* Begins an extension that the server does not answer yet. */
static void begin_silent_extension(void) {
    atomic_store(&fake_to_extend, FAKE_SILENCE);
    CHECK_STATUS(plock_lease_extend(lease, TTL), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
}

static void check_waits(plock_operation operation) {
    const plock_ns now = plock_now();
    CHECK_STATUS(step(operation), PLOCK_AGAIN);
    CHECK(interest.fd == -1 && interest.deadline > now && interest.deadline <= now + PATIENCE);
}

static void what_is_free_begins_at_once(void) {
    one release;
    begin(&PLAIN);
    CHECK_STATUS(finish(take(&release, begin_release)), PLOCK_OK);
    CHECK(!plock_lease_held(lease));
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 1);
}

static void a_release_waits_for_the_extension(void) {
    one release;
    begin(&RENEWED);
    fake_await("SUBSCRIBE", 1);
    fake_await("EVALSHA extend", 1);
    begin_silent_extension();
    const plock_operation releasing = take(&release, begin_release);
    for (unsigned i = 0; i < 5; i++) {
        check_waits(releasing);
        fake_clock_pass(PLOCK_MILLISECOND);
    }
    CHECK(plock_lease_valid(lease) && !plock_lease_lost(lease));
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
    fake_answer("EVALSHA extend", 1, FAKE_DONE);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK_STATUS(finish(releasing), PLOCK_OK);
    CHECK(!plock_lease_held(lease) && !plock_lease_lost(lease));
    end();
    CHECK_INT(fake_commands_like("EVALSHA release"), 1);
}

static void they_are_served_in_order(void) {
    one first, second, third;
    begin(&PLAIN);
    begin_silent_extension();
    const plock_operation head = take(&first, begin_extension), next = take(&second, begin_release),
                          last = take(&third, begin_extension);
    fake_answer("EVALSHA extend", 0, FAKE_DONE);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    check_waits(last);
    check_waits(next); /* no operation is in progress, but the turn of `head` comes first */
    CHECK_STATUS(step(head), PLOCK_AGAIN);
    check_waits(next);
    fake_answer("EVALSHA extend", 1, FAKE_DONE);
    CHECK_STATUS(finish(head), PLOCK_OK);
    CHECK_INT(plock_lease_ttl(lease), 2 * TTL);
    check_waits(last);
    CHECK_STATUS(finish(next), PLOCK_OK);
    CHECK_STATUS(step(last), PLOCK_MISUSE); /* the lease has been released, and was not lost */
    CHECK(!plock_lease_lost(lease));
    end();
}

static void a_caller_that_gives_up_delays_no_other(void) {
    one first, second;
    begin(&PLAIN);
    begin_silent_extension();
    const plock_operation extending = take(&first, begin_extension),
                          releasing = take(&second, begin_release);
    extending.cancel(extending.of);
    extending.cancel(extending.of); /* a second cancel is harmless */
    fake_answer("EVALSHA extend", 0, FAKE_DONE);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK_STATUS(finish(releasing), PLOCK_OK);
    end();
}

/* The background release may reach the server before or after the pending extension. If the release
 * comes first, the server finds nothing to extend. */
static void a_release_that_does_not_get_its_turn_goes_on_in_the_background(void) {
    static const char *const ANSWERS[] = {FAKE_DONE, FAKE_NOT_OURS};
    enum { PATIENCE_ENDS, HURRIED, CANCELLED, WAYS };
    for (unsigned i = 0; i < 2 * WAYS; i++) {
        one release;
        const unsigned way = i / 2;
        begin(&PLAIN);
        begin_silent_extension();
        const plock_operation releasing = take(&release, begin_release);
        check_waits(releasing);
        if (way == HURRIED) releasing.hurry(releasing.of, plock_now());
        if (way == PATIENCE_ENDS) fake_clock_pass(PATIENCE);
        if (way == CANCELLED)
            releasing.cancel(releasing.of);
        else
            CHECK_STATUS(step(releasing), PLOCK_IN_USE);
        CHECK_INT(release.given_up, 1);
        CHECK(!plock_lease_held(lease) && !plock_lease_lost(lease));
        fake_await("EVALSHA release", 1);
        fake_answer("EVALSHA extend", 0, ANSWERS[i % 2]);
        CHECK_STATUS(fake_await_end(lease), i % 2 ? PLOCK_MISUSE : PLOCK_OK);
        CHECK(!plock_lease_valid(lease) && !plock_lease_lost(lease));
        end();
        CHECK_INT(fake_commands_like("EVALSHA release"), 1);
    }
}

static void an_extension_that_does_not_get_its_turn_leaves_the_lease(void) {
    one extension;
    begin(&PLAIN);
    begin_silent_extension();
    const plock_operation extending = take(&extension, begin_extension);
    check_waits(extending);
    fake_clock_pass(PATIENCE);
    CHECK_STATUS(step(extending), PLOCK_IN_USE);
    CHECK(plock_lease_valid(lease) && !plock_lease_lost(lease));
    fake_answer("EVALSHA extend", 0, FAKE_DONE);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
}

static plock_status begin_group(void *group) { return plock_group_release(group, 0); }

static void a_group_waits_for_all_of_its_leases(void) {
    plock_group *group;
    begin(&PLAIN);
    plock_lease *other = fake_lease(store), *leases[] = {lease, other};
    CHECK_STATUS(fake_hold(other, &PLAIN), PLOCK_OK);
    CHECK_STATUS(plock_group_new(&group, leases, 2), PLOCK_OK);
    begin_silent_extension();
    CHECK_STATUS(plock_group_release(group, 0), PLOCK_IN_USE);
    CHECK(plock_lease_held(lease) && plock_lease_held(other));
    plock_place_in_turn places[] = {plock_lease_turn(lease), plock_lease_turn(other)};
    plock_lease_use turn = {.places = places,
                            .count = 2,
                            .begin = begin_group,
                            .context = group,
                            .operation = plock_group_operation(group),
                            .patience = PATIENCE};
    plock_lease_use_take(&turn);
    const plock_operation releasing = plock_lease_use_operation(&turn);
    check_waits(releasing);
    fake_answer("EVALSHA extend", 0, FAKE_DONE);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK_STATUS(step(releasing), PLOCK_AGAIN); /* the release has begun */
    CHECK(!plock_lease_held(lease) && !plock_lease_held(other));
    CHECK_INT(fake_commands_like("EVALSHA release_all"), 1);
    plock_group_free(group);
    plock_lease_free(other);
    end();
}

static void use_in_child(void *context) {
    one extension;
    (void)context;
    /* only callers in the parent wait for a turn on this lease */
    CHECK_STATUS(step(take(&extension, begin_extension)), PLOCK_MISUSE);
    fake_end(lease, store);
}

static void a_child_gets_no_turn_on_its_parents_lease(void) {
    one release;
    begin(&PLAIN);
    begin_silent_extension();
    const plock_operation releasing = take(&release, begin_release);
    check_waits(releasing);
    test_in_child(use_in_child, NULL);
    fake_answer("EVALSHA extend", 0, FAKE_DONE);
    CHECK_STATUS(fake_await_end(lease), PLOCK_OK);
    CHECK_STATUS(finish(releasing), PLOCK_OK);
    end();
}

/* --- leases of a local store --- */

static plock_status begin_local_release(void *local) { return plock_lease_release(local, 0); }

static void a_lease_of_a_local_store_is_used_in_turn(void) {
    plock_local *local = local_open();
    plock_lease *held = local_lease(local, "k");
    CHECK_STATUS(local_acquire(held, TTL, 0), PLOCK_OK);
    CHECK_STATUS(plock_lease_extend(held, TTL), PLOCK_OK);
    CHECK_STATUS(plock_lease_release(held, 0), PLOCK_IN_USE);
    CHECK_STATUS(plock_lease_extend(held, TTL), PLOCK_IN_USE);
    CHECK_STATUS(plock_lease_leave(held), PLOCK_IN_USE);
    plock_place_in_turn place = plock_lease_turn(held);
    plock_lease_use turn = {.places = &place,
                            .count = 1,
                            .begin = begin_local_release,
                            .context = held,
                            .operation = plock_lease_operation(held),
                            .patience = PLOCK_SECOND};
    plock_lease_use_take(&turn);
    const plock_operation releasing = plock_lease_use_operation(&turn);
    check_waits((plock_operation){.of = releasing.of, .step = releasing.step});
    CHECK_STATUS(local_finish(held), PLOCK_OK);
    CHECK_STATUS(finish(releasing), PLOCK_OK);
    CHECK_INT(local_holders(local, "k"), 0);
    CHECK(!plock_lease_lost(held));
    plock_lease_free(held);
    plock_local_close(local);
}

static void it_can_be_let_go_of_whatever_is_under_way(void) {
    plock_local *local = local_open();
    plock_lease *held = local_lease(local, "k");
    CHECK_STATUS(local_acquire(held, TTL, 0), PLOCK_OK);
    CHECK_STATUS(plock_lease_extend(held, TTL), PLOCK_OK);
    plock_lease_let_go(held, 0);
    CHECK_INT(local_holders(local, "k"), 0);
    CHECK_STATUS(local_finish(held), PLOCK_MISUSE);
    CHECK(!plock_lease_lost(held) && !plock_lease_held(held));
    plock_lease_free(held);
    plock_local_close(local);
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(what_is_free_begins_at_once);
    RUN(a_release_waits_for_the_extension);
    RUN(they_are_served_in_order);
    RUN(a_caller_that_gives_up_delays_no_other);
    RUN(a_release_that_does_not_get_its_turn_goes_on_in_the_background);
    RUN(an_extension_that_does_not_get_its_turn_leaves_the_lease);
    RUN(a_group_waits_for_all_of_its_leases);
    RUN(a_child_gets_no_turn_on_its_parents_lease);
    local_begin();
    RUN(a_lease_of_a_local_store_is_used_in_turn);
    RUN(it_can_be_let_go_of_whatever_is_under_way);
    local_end();
    return test_end("turn");
}
