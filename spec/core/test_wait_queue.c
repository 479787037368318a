/* The waiters of a process for one lock: their order, which waiter asks again next, and when. */
#include "fake.h"
#include "test.h"

#include "base/memory.h"
#include "redis/wait_queue.h"

#include <stdio.h>
#include <string.h>

enum { WAITERS = 4 };

static plock_wait_queue *queue;
static plock_waiter waiters[WAITERS];
static plock_ns at;

static void begin(void) {
    fake_clock_start();
    queue = plock__wait_queue_new(plock__text("k", 1));
    memset(waiters, 0, sizeof waiters);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i].state = PLOCK__WAITER_RESTS;
        waiters[i].subject.owner.value = plock__text(&"abcd"[i], 1);
    }
    at = PLOCK_NEVER;
}

static void insert(unsigned i, int64_t ticket) {
    waiters[i].place.ticket = ticket;
    plock__wait_queue_insert(queue, &waiters[i]);
}

/* The tests change waiters directly. So they must also tell the queue about each change, as the
 * waiter's own code does. */
static void note_all(void) {
    for (int i = 0; i < WAITERS; i++) plock__wait_queue_note(&waiters[i]);
}

static void end(void) {
    while (queue->first) plock__wait_queue_remove(queue->first);
    plock__free(queue);
    fake_clock_stop();
    CHECK_INT(plock__live_allocations(), 0);
}

static void check_order(const char *expected) {
    char order[WAITERS + 1] = "", reverse[WAITERS + 1] = "";
    size_t n = 0;
    for (const plock_waiter *waiter = queue->first; waiter; waiter = waiter->next)
        order[n++] = *waiter->subject.owner.value.bytes;
    size_t m = n;
    for (const plock_waiter *waiter = queue->last; waiter && m > 0; waiter = waiter->previous)
        reverse[--m] = *waiter->subject.owner.value.bytes;
    CHECK_TEXT(order, expected);
    CHECK_TEXT(reverse, expected);
}

/* --- order --- */

static void a_waiter_without_a_ticket_goes_last_and_one_with_a_ticket_to_its_place(void) {
    begin();
    insert(0, 100);
    insert(1, 0);
    insert(2, 50);
    check_order("cab");
    insert(3, 75);
    check_order("cdab");
    end();
}

static void of_equals_the_first_comer_is_first(void) {
    begin();
    for (unsigned i = 0; i < WAITERS; i++) insert(i, 7);
    check_order("abcd");
    end();
    begin();
    for (unsigned i = 0; i < WAITERS; i++) insert(i, 0);
    check_order("abcd");
    end();
}

static void any_waiter_can_leave(void) {
    begin();
    for (unsigned i = 0; i < WAITERS; i++) insert(i, 0);
    plock__wait_queue_remove(&waiters[1]);
    check_order("acd");
    CHECK(waiters[1].queue == NULL);
    plock__wait_queue_remove(&waiters[0]);
    check_order("cd");
    plock__wait_queue_remove(&waiters[3]);
    check_order("c");
    plock__wait_queue_remove(&waiters[2]);
    check_order("");
    CHECK(!queue->first && !queue->last);
    end();
}

static void queues_are_found_by_key_and_waiters_by_value(void) {
    static plock_wait_queues queues;
    begin();
    plock_wait_queue *other = plock__wait_queue_new(plock__text("k\0x", 3));
    plock__wait_queues_add(&queues, queue);
    plock__wait_queues_add(&queues, other);
    insert(0, 0);
    insert(1, 0);
    CHECK(plock__wait_queue_find(&queues, plock__text("k", 1)) == queue);
    CHECK(plock__wait_queue_find(&queues, plock__text("k\0x", 3)) == other);
    CHECK(plock__wait_queue_find(&queues, plock__text("k\0y", 3)) == NULL);
    CHECK(plock__wait_queue_waiter(queue, plock__text("b", 1)) == &waiters[1]);
    CHECK(plock__wait_queue_waiter(queue, plock__text("bb", 2)) == NULL);
    CHECK(plock__wait_queue_waiter(NULL, plock__text("b", 1)) == NULL);
    plock__wait_queues_remove(other);
    CHECK(plock__wait_queue_find(&queues, plock__text("k\0x", 3)) == NULL);
    CHECK(queues.first == queue && !queue->next);
    plock__wait_queues_remove(queue);
    CHECK(!queues.first && !queues.looks.first);
    plock__free(other);
    end();
}

/* The coordinator visits only the queues that have changed, and those in which a waiter must ask
 * now. */
static void the_coordinator_comes_only_to_the_queues_that_need_it(void) {
    static plock_wait_queues queues;
    const plock_place place = {.free_in = PLOCK_SECOND / 2, .notified = true};
    begin();
    plock_wait_queue *other = plock__wait_queue_new(plock__text("other", 5));
    plock__wait_queues_add(&queues, queue);
    plock__wait_queues_add(&queues, other);
    for (plock_wait_queue *due; (due = plock__wait_queues_due(&queues, plock_now()));)
        plock__wait_queue_come_at(due, PLOCK_NEVER);
    insert(0, 0);
    CHECK(plock__wait_queues_due(&queues, plock_now()) == queue);
    plock__wait_queue_come_at(queue, plock_now() + 5);
    CHECK(plock__wait_queues_due(&queues, plock_now()) == NULL);
    fake_clock_pass(5);
    CHECK(plock__wait_queues_due(&queues, plock_now()) == queue);
    plock__wait_queue_come_at(queue, PLOCK_NEVER);
    plock__wait_queue_schedule(other, &place, plock_now());
    CHECK(plock__wait_queues_due(&queues, plock_now()) == other);
    plock__wait_queue_come_at(other, PLOCK_NEVER);
    plock__wait_queue_told(queue, plock_now() + 1);
    CHECK(plock__wait_queues_due(&queues, plock_now()) == queue);
    plock__wait_queue_come_at(queue, PLOCK_NEVER);
    plock__wait_queue_remove(&waiters[0]);
    CHECK(plock__wait_queues_due(&queues, plock_now()) == queue);
    plock__wait_queues_remove(queue);
    plock__wait_queues_remove(other);
    plock__free(other);
    end();
}

/* --- which waiter asks again next --- */

static plock_waiter *next(bool open) {
    note_all();
    at = PLOCK_NEVER;
    return plock__wait_queue_next(queue, open, plock_now(), &at);
}

static void no_waiter_looks_too_early(void) {
    begin();
    insert(0, 1);
    insert(1, 2);
    queue->look_at = plock_now() + 1;
    CHECK(next(true) == NULL);
    CHECK_INT(at, plock_now() + 1);
    fake_clock_pass(1);
    CHECK(next(true) == &waiters[0]);
    plock__wait_queue_looks(queue, plock_now());
    CHECK(next(true) == NULL); /* a waiter's request is under way */
    CHECK_INT(at, PLOCK_NEVER);
    end();
}

static void a_message_counts_beside_an_answer(void) {
    const plock_place place = {.free_in = 5 * PLOCK_SECOND, .notified = true};
    begin();
    insert(0, 1);
    plock__wait_queue_told(queue, plock_now() + PLOCK_SECOND);
    plock__wait_queue_told(queue, plock_now() + 2 * PLOCK_SECOND);
    plock__wait_queue_schedule(queue, &place, plock_now());
    CHECK(next(true) == NULL);
    CHECK_INT(at, plock_now() + PLOCK_SECOND);
    /* The waiter asks before the announced moment, and must ask again at that moment. */
    plock__wait_queue_looks(queue, plock_now());
    fake_clock_pass(PLOCK_SECOND);
    CHECK(next(true) == &waiters[0]);
    plock__wait_queue_looks(queue, plock_now());
    CHECK(next(true) == NULL);
    /* a waiter's request is under way, and its answer will say when to ask again */
    CHECK_INT(at, PLOCK_NEVER);
    CHECK_INT(queue->look_at, PLOCK_NEVER);
    end();
}

static void a_waiter_that_is_already_asking_is_skipped(void) {
    begin();
    for (unsigned i = 0; i < WAITERS; i++) insert(i, 1 + i);
    queue->look_at = plock_now();
    waiters[0].state = PLOCK__WAITER_ASKS;
    waiters[1].state = PLOCK__WAITER_HOLDS;
    waiters[2].state = PLOCK__WAITER_FAILED;
    CHECK(next(true) == &waiters[3]);
    waiters[3].state = PLOCK__WAITER_ASKED;
    CHECK(next(true) == NULL);
    end();
}

/* The waiters ask one by one, so that they get their places in the order in which they came. */
static void a_waiter_without_a_place_asks_as_soon_as_it_can_queue(void) {
    begin();
    for (unsigned i = 0; i < 3; i++) insert(i, 0);
    waiters[1].due = waiters[2].due = true;
    note_all();
    CHECK(queue->unplaced);
    CHECK(next(false) == NULL);
    CHECK(next(true) == &waiters[1]);
    waiters[1].state = PLOCK__WAITER_ASKED;
    CHECK(next(true) == NULL);
    waiters[1].state = PLOCK__WAITER_RESTS;
    waiters[1].due = false;
    CHECK(next(true) == &waiters[2]);
    waiters[2].due = false;
    CHECK(next(true) == NULL);
    CHECK(!queue->unplaced);
    end();
}

/* The server may have lost the queue. Then a waiter that asks again could overtake an earlier
 * waiter that is still asking for its place. */
static void a_look_of_one_without_a_place_waits_for_those_before_it(void) {
    begin();
    insert(0, 1);
    insert(1, 2);
    queue->look_at = plock_now() + 1;
    plock__wait_queue_shake(queue, NULL);
    CHECK(next(true) == &waiters[0]);
    plock__wait_queue_looks(queue, plock_now());
    CHECK(plock__waiter_call(&waiters[0], false));
    fake_clock_pass(1); /* now it is time to ask again */
    CHECK(next(true) == NULL);
    waiters[0].due = false;
    waiters[0].state = PLOCK__WAITER_RESTS;
    CHECK(next(true) == &waiters[1]);
    end();
}

/* After the server has lost the queue, all waiters ask again, in the order that the queue had. */
static void those_that_are_due_ask_in_order(void) {
    begin();
    insert(0, 100);
    insert(1, 0);
    insert(2, 50);
    insert(3, 0);
    waiters[3].follows = true;
    plock__wait_queue_shake(queue, NULL);
    static const int ORDER[WAITERS] = {2, 0, 1, 3};
    for (int i = 0; i < WAITERS; i++) {
        plock_waiter *first = next(true);
        CHECK(first == &waiters[ORDER[i]]);
        first->due = false;
    }
    CHECK(next(true) == NULL);
    plock__wait_queue_remove(&waiters[2]);
    waiters[0].due = true;
    CHECK(next(true) == &waiters[0]);
    plock__wait_queue_remove(&waiters[0]);
    CHECK(next(true) == NULL);
    end();
}

/* The work is counted, not timed. */
static void many_that_rest_cost_nothing(void) {
    enum { MANY = 1000, TIMES = 100 };
    static plock_waiter many[MANY];
    begin();
    for (int i = 0; i < MANY; i++) {
        many[i].state = i ? PLOCK__WAITER_RESTS : PLOCK__WAITER_ASKED;
        many[i].place.ticket = 1 + i;
        plock__wait_queue_insert(queue, &many[i]);
    }
    queue->look_at = plock_now() + 1;
    (void)plock__wait_queue_visited();
    for (int i = 0; i < TIMES; i++) {
        at = PLOCK_NEVER;
        CHECK(plock__wait_queue_next(queue, true, plock_now(), &at) == NULL);
        CHECK_INT(at, plock_now() + 1);
        CHECK(!queue->unplaced);
    }
    CHECK(plock__wait_queue_visited() <= TIMES);
    end();
}

/* --- when a waiter asks again --- */

static void a_holder_that_notifies_is_looked_at_when_its_lease_ends_each_rank_a_little_later(void) {
    begin();
    for (int64_t rank = 0; rank < 5; rank++) {
        const plock_place place = {.free_in = PLOCK_SECOND / 2, .rank = rank, .notified = true};
        plock__wait_queue_schedule(queue, &place, plock_now());
        CHECK_INT(queue->look_at, plock_now() + PLOCK_SECOND / 2 + (1 + rank) * PLOCK_MILLISECOND);
    }
    end();
}

/* A waiter asks again at least once a second, whatever the server promised and whatever the
 * waiter's rank is. The reason is that the server may lose the queue. */
static void there_is_a_look_in_each_second(void) {
    static const plock_place PLACES[] = {
        {.free_in = PLOCK_NEVER, .notified = true},
        {.free_in = 5 * PLOCK_SECOND, .notified = true},
        {.free_in = PLOCK_SECOND, .rank = 7, .notified = true},
        {.free_in = PLOCK_SECOND / 2, .rank = 20000, .notified = true},
        {.free_in = 5 * PLOCK_SECOND, .rank = INT32_MAX}};
    begin();
    for (unsigned i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
        plock__wait_queue_schedule(queue, &PLACES[i], plock_now());
        CHECK_INT(queue->look_at, plock_now() + PLOCK_SECOND);
    }
    end();
}

static void what_the_server_has_not_finished_is_asked_for_at_once(void) {
    begin();
    const plock_place place = {.free_in = 0, .rank = 5000, .notified = true};
    plock__wait_queue_schedule(queue, &place, plock_now());
    CHECK_INT(queue->look_at, plock_now());
    end();
}

/* The server has lost the queue. Each resting waiter asks for its place, and a waiter that is
 * already asking asks once more. */
static void all_waiters_except_those_seen_in_the_queue_can_be_made_to_ask(void) {
    begin();
    for (unsigned i = 0; i < WAITERS; i++) insert(i, 1 + i);
    waiters[2].state = PLOCK__WAITER_ASKED;
    plock__wait_queue_shake(queue, &waiters[1]);
    for (unsigned i = 0; i < WAITERS; i++) {
        /* the waiter that is asking is due as well, so that no newcomer overtakes it */
        CHECK_INT(waiters[i].due, i != 1);
        CHECK_INT(waiters[i].shaken, i != 1);
        CHECK_INT(waiters[i].state, i == 2 ? PLOCK__WAITER_ASKED_CALLED : PLOCK__WAITER_RESTS);
    }
    end();
}

static void a_call_while_a_request_is_under_way_is_remembered(void) {
    static const enum plock_waiter_state STATES[][2] = {
        {PLOCK__WAITER_ASKS, PLOCK__WAITER_ASKS_CALLED},
        {PLOCK__WAITER_ASKED, PLOCK__WAITER_ASKED_CALLED},
        {PLOCK__WAITER_ANSWERED, PLOCK__WAITER_ANSWERED_CALLED},
        {PLOCK__WAITER_FAILED, PLOCK__WAITER_FAILED}};
    begin();
    for (unsigned i = 0; i < sizeof STATES / sizeof *STATES; i++) {
        waiters[0].state = STATES[i][0];
        for (unsigned times = 0; times < 2; times++) {
            CHECK(!plock__waiter_call(&waiters[0], true));
            CHECK_INT(waiters[0].state, STATES[i][1]);
        }
    }
    waiters[0].state = PLOCK__WAITER_RESTS;
    CHECK(plock__waiter_call(&waiters[0], false));
    CHECK_INT(waiters[0].state, PLOCK__WAITER_ASKED);
    end();
}

/* The intervals are jittered, so that many waiters do not ask at the same moment. They grow, so
 * that the requests do not load the server. */
static void a_holder_that_does_not_notify_is_looked_at_in_jittered_growing_intervals(void) {
    plock_ns last = 0;
    bool alike = true;
    begin();
    const plock_place place = {.free_in = 5 * PLOCK_SECOND};
    for (unsigned i = 0; i < 16; i++) {
        plock__wait_queue_schedule(queue, &place, plock_now());
        const plock_ns pause = queue->look_at - plock_now();
        CHECK(pause >= 2 * PLOCK_MILLISECOND && pause <= 26 * PLOCK_MILLISECOND);
        if (i > 8) CHECK(pause >= 14 * PLOCK_MILLISECOND);
        alike = alike && (i < 10 || pause == last);
        last = pause;
    }
    CHECK(!alike);
    const plock_place told = {.free_in = PLOCK_SECOND, .notified = true};
    plock__wait_queue_schedule(queue, &told, plock_now());
    /* if another holder does not notify, the intervals begin with the shortest one again */
    plock__wait_queue_schedule(queue, &place, plock_now());
    CHECK(queue->look_at - plock_now() <= 6 * PLOCK_MILLISECOND);
    end();
}

static void a_lease_that_ends_soon_is_looked_at_then(void) {
    begin();
    const plock_place place = {.free_in = 2 * PLOCK_MILLISECOND};
    for (unsigned i = 0; i < 16; i++) plock__wait_queue_schedule(queue, &place, plock_now());
    CHECK_INT(queue->look_at, plock_now() + 2 * PLOCK_MILLISECOND);
    end();
}

static void those_behind_look_more_rarely(void) {
    begin();
    const plock_place place = {.free_in = 5 * PLOCK_SECOND, .rank = 10};
    plock__wait_queue_schedule(queue, &place, plock_now());
    CHECK(queue->look_at - plock_now() >= 100 * PLOCK_MILLISECOND);
    end();
}

int main(void) {
    RUN(a_waiter_without_a_ticket_goes_last_and_one_with_a_ticket_to_its_place);
    RUN(of_equals_the_first_comer_is_first);
    RUN(any_waiter_can_leave);
    RUN(queues_are_found_by_key_and_waiters_by_value);
    RUN(the_coordinator_comes_only_to_the_queues_that_need_it);
    RUN(no_waiter_looks_too_early);
    RUN(a_message_counts_beside_an_answer);
    RUN(a_waiter_that_is_already_asking_is_skipped);
    RUN(a_waiter_without_a_place_asks_as_soon_as_it_can_queue);
    RUN(a_look_of_one_without_a_place_waits_for_those_before_it);
    RUN(those_that_are_due_ask_in_order);
    RUN(many_that_rest_cost_nothing);
    RUN(a_call_while_a_request_is_under_way_is_remembered);
    RUN(a_holder_that_notifies_is_looked_at_when_its_lease_ends_each_rank_a_little_later);
    RUN(there_is_a_look_in_each_second);
    RUN(what_the_server_has_not_finished_is_asked_for_at_once);
    RUN(all_waiters_except_those_seen_in_the_queue_can_be_made_to_ask);
    RUN(a_holder_that_does_not_notify_is_looked_at_in_jittered_growing_intervals);
    RUN(a_lease_that_ends_soon_is_looked_at_then);
    RUN(those_behind_look_more_rarely);
    return test_end("wait queue");
}
