#include "plock/turn.h"

#include "base/process.h"

/* While other operations use its leases, a turn checks them again after each pause. The pause grows
 * from FIRST_PAUSE to LONGEST_PAUSE. An operation takes a round trip, or up to command_timeout if
 * the server is silent. */
static const plock_ns FIRST_PAUSE = PLOCK_MILLISECOND;
static const plock_ns LONGEST_PAUSE = 4 * PLOCK_MILLISECOND;

void plock_lease_use_take(plock_lease_use *turn) {
    turn->pause = FIRST_PAUSE;
    turn->deadline = 0;
    turn->hurried = PLOCK_NEVER;
    turn->generation = plock__generation();
    turn->queued = true;
    turn->begun = false;
    for (size_t i = 0; i < turn->count; i++) {
        plock_place_in_turn **last = turn->places[i].line;
        while (last && *last) last = &(*last)->next;
        if (last) *last = &turn->places[i];
    }
}

/* A child must not touch the queues, because they belong to the parent's threads. */
static void leave(plock_lease_use *turn) {
    if (!turn->queued || turn->generation != plock__generation()) return;
    turn->queued = false;
    for (size_t i = 0; i < turn->count; i++) {
        plock_place_in_turn **link = turn->places[i].line;
        while (link && *link && *link != &turn->places[i]) link = &(*link)->next;
        if (link && *link) *link = (*link)->next;
    }
}

static bool has_come(const plock_lease_use *turn) {
    for (size_t i = 0; i < turn->count; i++) {
        const plock_place_in_turn *place = &turn->places[i];
        if (place->line && (*place->line != place || place->busy(place->lease))) return false;
    }
    return true;
}

static void cancel(void *of) {
    plock_lease_use *turn = of;
    if (turn->begun) {
        turn->operation.cancel(turn->operation.of);
        return;
    }
    const bool waited = turn->queued;
    leave(turn);
    if (waited && turn->give_up) turn->give_up(turn->context);
}

/* Returns the time by which the operation must end; PLOCK_NEVER: no time is set. If the operation
 * had to wait for its turn, the deadline of that wait also covers the operation. If it did not have
 * to wait, only `hurry` can set a time. */
static plock_ns latest_end(const plock_lease_use *turn) {
    return turn->deadline && turn->deadline < turn->hurried ? turn->deadline : turn->hurried;
}

static plock_status wait(plock_lease_use *turn, plock_interest *interest) {
    const plock_ns now = plock_now(), again = plock_after(now, turn->pause);
    if (!turn->deadline) turn->deadline = plock_after(now, turn->patience);
    const plock_ns deadline = latest_end(turn);
    *interest = (plock_interest){.fd = -1, .deadline = again < deadline ? again : deadline};
    if (turn->pause < LONGEST_PAUSE) turn->pause *= 2;
    if (now < deadline) return PLOCK_AGAIN;
    cancel(turn);
    return PLOCK_IN_USE;
}

static plock_status step(void *of, plock_interest *interest) {
    plock_lease_use *turn = of;
    if (turn->begun) return turn->operation.step(turn->operation.of, interest);
    if (turn->generation != plock__generation()) return PLOCK_FORKED;
    if (!has_come(turn)) return wait(turn, interest);
    const plock_status status = turn->begin(turn->context);
    turn->begun = status == PLOCK_OK;
    leave(turn);
    if (status) return status;
    const plock_ns latest = latest_end(turn);
    if (latest != PLOCK_NEVER) turn->operation.hurry(turn->operation.of, latest);
    return turn->operation.step(turn->operation.of, interest);
}

static void hurry(void *of, plock_ns deadline) {
    plock_lease_use *turn = of;
    if (deadline < turn->hurried) turn->hurried = deadline;
    if (turn->begun) turn->operation.hurry(turn->operation.of, deadline);
}

plock_operation plock_lease_use_operation(plock_lease_use *turn) {
    return (plock_operation){.of = turn, .step = step, .cancel = cancel, .hurry = hurry};
}
