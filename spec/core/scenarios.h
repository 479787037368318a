/* What a program does with plock, for the tests in which memory runs out at each place of it in
 * turn. */
#ifndef SCENARIOS_H
#define SCENARIOS_H

#include "plock.h"

typedef struct scenario {
    const char *name, *url;
    /* Sets the peers up, when the store exists and no memory is missing yet; NULL: all of them
     * oblige. */
    void (*prepare)(void);
    /* With memory missing somewhere. */
    plock_status (*run)(plock_store *store, plock_lease *lease);
    plock_status result; /* of run when nothing is missing */
    /* what it may end with beside PLOCK_NO_MEMORY and its result, when something was */
    plock_status otherwise;
} scenario;

extern const scenario SCENARIOS[], WATCH_SCENARIOS[];
extern const unsigned SCENARIO_COUNT, WATCH_SCENARIO_COUNT;

/* Lets memory run out: arm(n) makes the n-th allocation from now fail and returns how many there
 * were since the last call; arm(0) ends it. */
typedef unsigned long scenario_arm(unsigned long n);

/* Runs the scenario with the first allocation failing, the second, and so on, until none is left to
 * fail. Each time the result is a clean one, the next attempt works, and nothing is left behind.
 * Returns how many there were. */
unsigned long scenario_starve(const scenario *scenario, scenario_arm *arm);

#endif
