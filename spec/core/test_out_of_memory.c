/* Each allocation of the engine fails once. Each time, the result is a clean error or success, the
 * next attempt works, and nothing leaks. */
#include "scenarios.h"
#include "test.h"

#include "base/memory.h"

static void starve_each(const scenario *scenarios, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        test_begin(scenarios[i].name);
        CHECK(scenario_starve(&scenarios[i], plock__fail_allocation) > 0);
    }
}

static void each_allocation_of_each_scenario_may_fail(void) {
    starve_each(SCENARIOS, SCENARIO_COUNT);
    starve_each(WATCH_SCENARIOS, WATCH_SCENARIO_COUNT);
}

/* The fault point itself, on which all other tests here rely. */
static void the_fault_point_fails_once_and_counts(void) {
    (void)plock__fail_allocation(2);
    void *first = plock__allocate(1), *second = plock__allocate(1), *third = plock__allocate(1);
    CHECK(first != NULL && second == NULL && third != NULL);
    CHECK_INT(plock__live_allocations(), 2);
    CHECK_INT(plock__fail_allocation(0), 3);
    plock__free(first);
    plock__free(third);
    plock__free(NULL);
    CHECK_INT(plock__live_allocations(), 0);
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(the_fault_point_fails_once_and_counts);
    RUN(each_allocation_of_each_scenario_may_fail);
    return test_end("out of memory");
}
