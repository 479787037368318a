/* A turn: how several threads use one lease. A lease does one operation at a time; the next one
 * begins when it is over, in the order in which they were asked for.
 *
 * Leases, and turns on them, are used under one lock of the program's (an interpreter's), which is
 * let go of while plock_wait waits. */
#ifndef PLOCK_TURN_H
#define PLOCK_TURN_H

#include <stddef.h>

#include "plock/operation.h"

/* A place in the line for one lease. Its fields are the engine's. */
typedef struct plock_place_in_turn plock_place_in_turn;
struct plock_place_in_turn {
    plock_place_in_turn *next, **line; /* no line: the lease is a parent's */
    const void *lease;
    bool (*busy)(const void *lease);
};

/* An operation that begins when all of its leases are free. What the caller sets comes first. */
typedef struct plock_lease_use {
    plock_place_in_turn *places;
    size_t count; /* 1 or more */
    /* begins the operation; what it returns but PLOCK_OK is how this ends */
    plock_status (*begin)(void *context);
    /* it is given up before it has begun; NULL: nothing is to be done then */
    void (*give_up)(void *context);
    void *context;
    plock_operation operation; /* what has begun */
    /* within which it has begun, else PLOCK_IN_USE; where it has to wait, it ends within it, too */
    plock_ns patience;

    plock_ns deadline, hurried, pause;
    unsigned generation;
    bool queued, begun;
} plock_lease_use;

/* Gets in line, so that nobody who asks later comes first. The turn stays where it is until its
 * operation is over or cancelled. */
void plock_lease_use_take(plock_lease_use *turn);

/* Its step waits for the turn, begins the operation, and then is the operation's own. */
plock_operation plock_lease_use_operation(plock_lease_use *turn);

#endif
