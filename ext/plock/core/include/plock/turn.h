/* Turns let several threads use one lease. A lease does one operation at a time. Further operations
 * wait for their turns, in FIFO order.
 *
 * The program must protect leases and their turns with one mutex or with an interpreter's lock. Its
 * plock_wait must release that mutex or lock while it waits. */
#ifndef PLOCK_TURN_H
#define PLOCK_TURN_H

#include <stddef.h>

#include "plock/operation.h"

/* A place in the queue for one lease. Only the engine uses its fields. */
typedef struct plock_place_in_turn plock_place_in_turn;
struct plock_place_in_turn {
    plock_place_in_turn *next, **line; /* line: the queue; NULL if the lease was inherited by
                                        * fork */
    const void *lease;
    bool (*busy)(const void *lease);
};

/* An operation that begins when none of its leases has another operation under way. The caller sets
 * the fields up to and including `patience`. */
typedef struct plock_lease_use {
    plock_place_in_turn *places;
    size_t count; /* 1 or more */
    /* Begins the operation. A status other than PLOCK_OK ends the turn, and is its result. */
    plock_status (*begin)(void *context);
    /* called if the operation is given up while it waits for its turn; may be NULL */
    void (*give_up)(void *context);
    void *context;
    plock_operation operation; /* used once `begin` has succeeded */
    /* The wait for the turn ends with PLOCK_IN_USE after this span. If an operation waited and got
     * its turn, it must end within the rest of the span. */
    plock_ns patience;

    plock_ns deadline, hurried, pause;
    unsigned generation;
    bool queued, begun;
} plock_lease_use;

/* Enters the queue, ahead of all later callers. The struct must not move in memory until its
 * operation is over or cancelled. */
void plock_lease_use_take(plock_lease_use *turn);

/* Returns an operation whose steps first wait for the turn, then call `begin`, and then step the
 * field `operation`. */
plock_operation plock_lease_use_operation(plock_lease_use *turn);

#endif
