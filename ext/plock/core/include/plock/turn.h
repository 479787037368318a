/* Turns let several threads use one lease. A lease does one operation at a time; further operations
 * begin one after another, in FIFO order.
 *
 * The program protects leases and their turns with one lock, such as an interpreter's lock. It
 * releases that lock while plock_wait waits. */
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

/* An operation that begins when all of its leases are free. The caller sets the fields up to
 * patience. */
typedef struct plock_lease_use {
    plock_place_in_turn *places;
    size_t count; /* 1 or more */
    /* Begins the operation. A status other than PLOCK_OK ends the turn, and is its result. */
    plock_status (*begin)(void *context);
    /* called if the operation is given up before it has begun; may be NULL */
    void (*give_up)(void *context);
    void *context;
    plock_operation operation; /* used once `begin` has succeeded */
    /* The wait for the turn ends with PLOCK_IN_USE after this span. An operation that had to wait
     * must also end within the span. */
    plock_ns patience;

    plock_ns deadline, hurried, pause;
    unsigned generation;
    bool queued, begun;
} plock_lease_use;

/* Enters the queue, ahead of all later callers. The turn must not move in memory until its
 * operation is over or cancelled. */
void plock_lease_use_take(plock_lease_use *turn);

/* Returns an operation whose step waits for the turn, begins the use's operation, and steps it. */
plock_operation plock_lease_use_operation(plock_lease_use *turn);

#endif
