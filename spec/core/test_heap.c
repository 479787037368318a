/* The heap: the entry with the earliest moment is always the first. */
#include "test.h"

#include "base/heap.h"

#include <stdint.h>
#include <stdlib.h>

enum { MANY = 20000, BITS = 15 };

static plock__heap heap;
static plock__heap_entry entries[MANY];

static uint32_t drawn;

/* Returns a pseudorandom number below the bound. The numbers are the same in each run. */
static unsigned draw(unsigned below) {
    drawn = drawn * 1664525u + 1013904223u;
    return (drawn >> 8) % below;
}

static void begin(void) {
    heap = (plock__heap){0};
    for (int i = 0; i < MANY; i++) entries[i] = (plock__heap_entry){0};
    drawn = 1;
    (void)plock__heap_compared();
}

static plock_ns take(void) {
    plock__heap_entry *first = heap.first;
    plock__heap_remove(&heap, first);
    CHECK(!first->entered);
    return first->at;
}

/* Empties the heap. Returns how many entries came out in order. */
static int take_all(void) {
    int count = 0;
    for (plock_ns last = INT64_MIN; heap.first; count++) {
        const plock_ns at = take();
        if (!CHECK(at >= last)) break;
        last = at;
    }
    return count;
}

static void an_empty_one_has_no_moment(void) {
    begin();
    CHECK(!heap.first);
    CHECK_INT(plock__heap_at(&heap), PLOCK_NEVER);
    plock__heap_remove(&heap, &entries[0]); /* the entry is not in the heap */
    CHECK(!heap.first);
}

static void the_earliest_is_first_in_whatever_order_they_come(void) {
    for (int order = 0; order < 3; order++) {
        begin();
        for (int i = 0; i < MANY; i++) {
            const plock_ns moments[] = {i, MANY - i, draw(MANY / 2)};
            plock__heap_insert(&heap, &entries[i], moments[order]);
        }
        CHECK_INT(take_all(), MANY);
    }
}

/* Compares with a plain array: the heap's first entry must have the earliest moment of all its
 * entries. */
static void entries_leave_and_move_from_any_place(void) {
    enum { FEW = 60, TIMES = 20000 };
    begin();
    for (int i = 0; i < TIMES; i++) {
        plock__heap_entry *entry = &entries[draw(FEW)];
        switch (draw(3)) {
        case 0: plock__heap_remove(&heap, entry); break;
        case 1: plock__heap_move(&heap, entry, draw(100)); break;
        default:
            if (!entry->entered) plock__heap_insert(&heap, entry, draw(100));
        }
        plock_ns earliest = PLOCK_NEVER;
        for (int k = 0; k < FEW; k++)
            if (entries[k].entered && entries[k].at < earliest) earliest = entries[k].at;
        if (!CHECK(plock__heap_at(&heap) == earliest)) break;
    }
    int inside = 0;
    for (int k = 0; k < FEW; k++) inside += entries[k].entered;
    CHECK_INT(take_all(), inside);
}

static void two_become_one(void) {
    plock__heap other = {0};
    begin();
    plock__heap_merge(&heap, &other);
    CHECK(!heap.first);
    for (int i = 0; i < MANY; i++)
        plock__heap_insert(draw(2) ? &heap : &other, &entries[i], draw(1000));
    plock__heap_merge(&heap, &other);
    CHECK(!other.first);
    plock__heap_merge(&heap, &other);
    CHECK_INT(take_all(), MANY);
}

/* Counts comparisons instead of measuring time. */
static void an_operation_takes_the_logarithm_of_their_number(void) {
    begin();
    for (int i = 0; i < MANY; i++) plock__heap_insert(&heap, &entries[i], draw(MANY));
    CHECK(plock__heap_compared() < MANY);
    /* each entry becomes due, and is due again later */
    for (int i = 0; i < 2 * MANY; i++) {
        plock__heap_entry *first = heap.first;
        plock__heap_move(&heap, first, first->at + MANY + draw(100));
    }
    CHECK(plock__heap_compared() < 2ul * MANY * 2 * BITS);
    for (int i = 0; i < MANY; i++) plock__heap_remove(&heap, &entries[draw(MANY)]);
    CHECK(plock__heap_compared() < (unsigned long)MANY * 2 * BITS);
    (void)take_all();
}

/* Most leases are released long before they are due for renewal. */
static void what_comes_and_goes_among_others_costs_next_to_nothing(void) {
    enum { OTHERS = MANY / 2 };
    begin();
    for (int i = 0; i < OTHERS; i++) plock__heap_insert(&heap, &entries[i], draw(MANY));
    (void)plock__heap_compared();
    for (int i = OTHERS; i < MANY; i++) {
        plock__heap_insert(&heap, &entries[i], MANY + i);
        plock__heap_remove(&heap, &entries[i]);
    }
    CHECK(plock__heap_compared() <= MANY - OTHERS);
    (void)take_all();
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(an_empty_one_has_no_moment);
    RUN(the_earliest_is_first_in_whatever_order_they_come);
    RUN(entries_leave_and_move_from_any_place);
    RUN(two_become_one);
    RUN(an_operation_takes_the_logarithm_of_their_number);
    RUN(what_comes_and_goes_among_others_costs_next_to_nothing);
    return test_end("heap");
}
