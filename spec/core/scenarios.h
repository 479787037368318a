/* Programs that use plock, for the tests in which each allocation fails in turn. */
#ifndef SCENARIOS_H
#define SCENARIOS_H

#include "plock.h"

typedef struct scenario {
    const char *name, *url;
    /* Prepares the peers when the store exists and memory is available. NULL: all of them grant
     * everything. */
    void (*prepare)(void);
    /* Runs while an allocation may fail. */
    plock_status (*run)(plock_store *store, plock_lease *lease);
    plock_status result; /* of run when nothing is missing */
    /* other results than PLOCK_NO_MEMORY and `result` that are allowed if an allocation failed */
    plock_status otherwise;
} scenario;

extern const scenario SCENARIOS[], WATCH_SCENARIOS[];
extern const unsigned SCENARIO_COUNT, WATCH_SCENARIO_COUNT;

/* Makes memory run out. arm(n) makes the n-th allocation from now fail, and returns the number of
 * allocations since the last call. arm(0) ends it. */
typedef unsigned long scenario_arm(unsigned long n);

/* Runs the scenario with the first allocation failing, then the second, until none is left to fail.
 * Checks each time that the result is allowed, that the next attempt works, and that nothing leaks.
 * Returns the number of allocations. */
unsigned long scenario_starve(const scenario *scenario, scenario_arm *arm);

#endif
