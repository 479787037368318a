/* The leases of this process that wait or are watched in a local store. This file keeps the
 * attendant's lists of these leases. It also applies each change of a claim to the claim's
 * lease. */
#include "local/local_attendant.h"

#include "base/process.h"

/* How often the attendant reviews the leases, so that a loss is reported within a second. */
const plock_ns PLOCK__LOCAL_IN_ANY_CASE = PLOCK_SECOND / 2;

#ifdef PLOCK_TESTING
static atomic_ulong visited;

unsigned long plock__local_visited(void) { return atomic_exchange(&visited, 0); }
void plock__local_visit(void) { atomic_fetch_add(&visited, 1); }
#endif

/* --- the registered leases; with the mutex held --- */

static void append(plock_local_lease *lease) {
    plock__local_map *map = lease->map;
    lease->next = NULL;
    lease->previous = map->registered.last;
    *(lease->previous ? &lease->previous->next : &map->registered.first) = lease;
    map->registered.last = lease;
}

static void take_out(plock_local_lease *lease) {
    plock__local_map *map = lease->map;
    *(lease->next ? &lease->next->previous : &map->registered.last) = lease->previous;
    *(lease->previous ? &lease->previous->next : &map->registered.first) = lease->next;
}

plock_local_lease *plock__local_rotate(plock__local_map *map) {
    plock_local_lease *lease = map->registered.first;
    if (!lease) return NULL;
    take_out(lease);
    append(lease);
    return lease;
}

void plock__local_attend_by(plock__local_attendant *attendant, plock_ns at) {
    if (at >= attendant->looks_at) return;
    attendant->looks_at = at;
    plock__worker_schedule(&attendant->job);
}

void plock__local_look_at(plock_local_lease *lease, plock_ns at) {
    if (lease->registered) plock__heap_move(&lease->map->registered.looks, &lease->look, at);
}

void plock__local_register(plock_local_lease *lease) {
    plock__local_map *map = lease->map;
    if (lease->registered) return;
    /* The same record may have been used for two claims in turn, so another lease may be registered
     * for it. The earlier of the two claims has ended unnoticed. If that claim was the other
     * lease's, plock__local_remove_waiter notifies that lease. If it was this lease's, the job of
     * this lease finds the loss. */
    plock_local_lease *earlier = map->registered.of_claim[lease->claim];
    if (earlier && earlier->serial > lease->serial) return;
    if (earlier) plock__local_remove_waiter(earlier);
    if (earlier) plock__local_unregister(earlier);
    map->registered.of_claim[lease->claim] = lease;
    lease->registered_as = lease->claim;
    lease->registered = true;
    map->registered.count++;
    append(lease);
    plock__local_look_at(lease, PLOCK_NEVER);
    if (map->attendant)
        plock__local_attend_by(map->attendant, plock_now() + PLOCK__LOCAL_IN_ANY_CASE);
}

/* In a forked child, does not change the lists, because they are the parent's. */
void plock__local_unregister(plock_local_lease *lease) {
    if (!lease->registered) return;
    plock__local_map *map = lease->map;
    lease->registered = false;
    if (map->generation != plock__generation()) return;
    map->registered.of_claim[lease->registered_as] = NULL;
    map->registered.count--;
    take_out(lease);
    plock__heap_remove(&map->registered.looks, &lease->look);
    plock__local_tell_no_more(lease);
}

/* --- changes of leases; with the mutex held --- */

static void give_turn(plock_local_lease *lease) {
    if (lease->state != PLOCK__LEASE_WAITING) return;
    plock__local_set_state(lease, PLOCK__LEASE_HELD);
    lease->renew_at = 0;
    if (lease->watching == PLOCK__WATCHED) {
        plock__local_tell_no_more(lease);
        plock__local_look_at(lease, PLOCK_NEVER);
        plock__worker_schedule(&lease->job);
    } else {
        plock__local_unregister(lease);
    }
    if (lease->waker) plock__worker_wake(lease->waker);
}

void plock__local_remove_waiter(plock_local_lease *lease) {
    if (lease->state == PLOCK__LEASE_HELD && lease->job_state) plock__worker_schedule(&lease->job);
    if (lease->state != PLOCK__LEASE_WAITING) return;
    plock__local_set_state(lease, PLOCK__LEASE_REMOVED);
    plock__local_unregister(lease);
    if (lease->waker) plock__worker_wake(lease->waker);
}

void plock__local_examine(plock_local_lease *lease) {
    plock__local_visit();
    plock__local_claim *claim = &lease->map->claims[lease->claim];
    const uint64_t word = atomic_load(&claim->word);
    const bool handed = word == plock__word(lease->serial, PLOCK__HANDED);
    if (word == plock__word(lease->serial, PLOCK__HELD))
        give_turn(lease);
    else if (!handed && word != plock__word(lease->serial, PLOCK__WAITING))
        plock__local_remove_waiter(lease);
    else if (handed || atomic_load(&claim->look)) /* if the claim was handed over, the attendant
                                                   * looks on its behalf, and takes the turn */
        plock__local_look_at(lease, 0);
}

/* --- the same changes, for callers without the mutex --- */

void plock__local_has_turn(plock_local_lease *lease) {
    plock__enter();
    if (lease->state == PLOCK__LEASE_WAITING) plock__local_set_state(lease, PLOCK__LEASE_HELD);
    plock__local_unregister(lease);
    plock__leave();
}

void plock__local_granted(plock_local_lease *lease) {
    plock__enter();
    give_turn(lease);
    plock__leave();
}

void plock__local_has_to_look(plock_local_lease *lease) {
    plock__enter();
    plock__local_look_at(lease, 0);
    if (lease->map->attendant) plock__worker_schedule(&lease->map->attendant->job);
    plock__leave();
}

void plock__local_taken_away(plock_local_lease *lease) {
    plock__enter();
    plock__local_remove_waiter(lease);
    plock__leave();
}
