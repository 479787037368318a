/* Programs that use plock, for the tests in which each allocation fails in turn. */
#ifndef SCENARIOS_H
#define SCENARIOS_H

#include "plock.h"

typedef struct scenario {
    const char *name, *url;
    /* Prepares the peers after the store has been made, when memory is available. NULL: all peers
     * grant everything. */
    void (*prepare)(void);
    /* Runs while an allocation may fail. */
    plock_status (*run)(plock_store *store, plock_lease *lease);
    plock_status result; /* the result of run if no allocation fails */
    /* a further result that is allowed if an allocation failed, in addition to PLOCK_NO_MEMORY and
     * `result` */
    plock_status otherwise;
} scenario;

extern const scenario SCENARIOS[], WATCH_SCENARIOS[];
extern const unsigned SCENARIO_COUNT, WATCH_SCENARIO_COUNT;

/* Makes an allocation fail. arm(n) makes the n-th allocation from now fail, and returns the number
 * of allocations since the last call. After arm(0), none fails. */
typedef unsigned long scenario_arm(unsigned long n);

/* Runs the scenario with the first allocation failing, then with the second, and so on to the last.
 * Checks each time that the result is allowed, that the next attempt works, and that nothing leaks.
 * Returns the number of allocations. */
unsigned long scenario_starve(const scenario *scenario, scenario_arm *arm);

#endif
