#include "local/local_queue.h"

#include "runtime/parking_slot.h"

#include <string.h>

static uint64_t process_of(const plock__local_claim *claim) {
    return atomic_load_explicit(&claim->process, memory_order_relaxed);
}

static plock_local_lease *lease_here(plock__local_map *map, const plock__local_claim *claim) {
    const uint32_t number = plock__claim_number(map, claim);
    const bool own = process_of(claim) == map->process;
    return own && number != PLOCK__LOCAL_NONE ? map->lease_of[number] : NULL;
}

static void wake(plock__local_map *map, const plock__local_claim *claim) {
    const uint64_t process = process_of(claim);
    if (!process || process == map->process) return;
    plock__local_calls *calls = &map->calls;
    if (!map->calls_later || calls->count == sizeof calls->to / sizeof *calls->to) {
        plock__local_wake(map, process, plock__claim_number(map, claim));
        return;
    }
    calls->to[calls->count].process = process;
    calls->to[calls->count++].claim = plock__claim_number(map, claim);
}

/* A claim may have changed since the release admitted it. In that case, this function at worst
 * wakes the claim's process needlessly. */
void plock__local_call(plock__local_map *map, const plock__local_calls *calls) {
    for (unsigned i = 0; i < calls->count; i++) {
        const uint32_t number = calls->to[i].claim;
        if (number < map->claim_count && atomic_load(&map->claims[number].asleep))
            plock__parking_slot_wake(&map->claims[number].word);
        else
            plock__local_wake(map, calls->to[i].process, number);
    }
}

/* Is the process alive? Asking the kernel costs a system call. So this function keeps the last
 * answer, and asks once for consecutive claims of the same process. */
static bool alive(plock__local_map *map, uint64_t process) {
    if (process != map->asked_about) map->lives = plock__local_alive(map, process);
    map->asked_about = process;
    return map->lives;
}

/* How long a process has to take a turn that was handed over to it. */
static const plock_ns HANDOVER = PLOCK_SECOND;

static bool any(uint32_t number) { return number != PLOCK__LOCAL_NONE; }

/* --- looking --- */

static void has_to_look(plock__local_map *map, uint32_t waiter) {
    if (!any(waiter)) return;
    plock__local_claim *claim = plock__claim(map, waiter);
    atomic_store(&claim->look, 1);
    wake(map, claim);
    if (lease_here(map, claim)) plock__local_has_to_look(lease_here(map, claim));
}

/* Returns the first waiter, from this one on, whose process is alive and not silent;
 * PLOCK__LOCAL_NONE: there is none. A sign of life alone is not enough, because the process may
 * have died since. */
static uint32_t living(plock__local_map *map, uint32_t waiter) {
    for (uint32_t steps = 0; plock__walks(map, waiter, &steps);) {
        const plock__local_claim *claim = plock__claim(map, waiter);
        const uint64_t process = process_of(claim);
        if (plock__local_silent_in(map, process) > 0 && alive(map, process)) break;
        waiter = claim->next;
    }
    return waiter;
}

void plock__local_first_looks(plock__local_map *map, const plock__local_key *key) {
    has_to_look(map, living(map, key->first_waiter));
}

/* --- admitting --- */

static bool holders_allow(plock__local_map *map, const plock__local_key *key, char mode,
                          unsigned limit) {
    if (!any(key->first_holder)) return true;
    return mode && plock__claim(map, key->first_holder)->mode == mode &&
           (!limit || key->holders < limit);
}

bool plock__local_admits(plock__local_map *map, const plock__local_key *key, char mode,
                         unsigned limit) {
    if (any(living(map, key->first_waiter))) return false;
    return holders_allow(map, key, mode, limit);
}

static plock_ns longest(const plock__local_claim *claim) {
    return claim->lasts > claim->at_least ? claim->lasts : claim->at_least;
}

/* Sets the expiry of a claim that holds its key from now on. */
static void begin(plock__local_map *map, plock__local_claim *claim, plock_ns now) {
    claim->kept_until = claim->at_least ? plock_after(now, claim->at_least) : 0;
    atomic_store_explicit(&claim->until, plock_after(now, longest(claim)), memory_order_relaxed);
    if (claim->kept_until) plock__local_outlives(map, claim->kept_until);
}

static void stamp(plock__local_map *map, plock__local_claim *claim) {
    claim->since = plock__local_wall();
    claim->fence = plock__local_next_fence(map, claim->since);
}

void plock__local_take_turn(plock__local_map *map, uint32_t number, plock_ns now) {
    plock__local_claim *claim = plock__claim(map, number);
    claim->since = plock__local_wall();
    begin(map, claim, now);
    PLOCK__FAULT();
    atomic_store(&claim->word, plock__word(plock__serial(claim), PLOCK__HELD));
    PLOCK__FAULT();
}

static void grant(plock__local_map *map, plock__local_key *key, uint32_t number, plock_ns now) {
    plock__local_claim *claim = plock__claim(map, number);
    const bool own = process_of(claim) == map->process;
    wake(map, claim);
    PLOCK__FAULT();
    stamp(map, claim);
    if (own) {
        begin(map, claim, now);
    } else {
        claim->kept_until = 0;
        atomic_store_explicit(&claim->until, plock_after(now, HANDOVER), memory_order_relaxed);
    }
    PLOCK__FAULT();
    plock__local_unlink_waiter(map, key, number);
    plock__local_link_holder(map, key, number);
    PLOCK__FAULT();
    const unsigned state = own ? PLOCK__HELD : PLOCK__HANDED;
    atomic_store(&claim->word, plock__word(plock__serial(claim), state));
    PLOCK__FAULT();
    if (!map->calls_later && atomic_load(&claim->asleep)) plock__parking_slot_wake(&claim->word);
    if (lease_here(map, claim)) plock__local_granted(lease_here(map, claim));
}

static void admit_waiters(plock__local_map *map, plock__local_key *key, plock_ns now) {
    bool shared = false;
    uint32_t first = living(map, key->first_waiter);
    while (any(first) && !map->damaged) {
        const plock__local_claim *claim = plock__claim(map, first);
        const uint32_t next = claim->next;
        if (!holders_allow(map, key, claim->mode, claim->limit)) break;
        shared = claim->mode != 0;
        grant(map, key, first, now);
        first = living(map, next);
    }
    /* the next waiter must look, because it may not be watching the processes of the new holders
     * yet */
    if (shared) plock__local_first_looks(map, key);
}

/* --- ending --- */

static void end(plock__local_map *map, plock__local_key *key, uint32_t number) {
    plock__local_claim *claim = plock__claim(map, number);
    const unsigned state = plock__state(claim);
    plock_local_lease *lease = lease_here(map, claim);
    if (state == PLOCK__HANDED || (claim->watched && state == PLOCK__HELD)) wake(map, claim);
    PLOCK__FAULT();
    atomic_store(&claim->word, plock__word(plock__serial(claim), PLOCK__FREE));
    PLOCK__FAULT();
    if (state == PLOCK__WAITING)
        plock__local_unlink_waiter(map, key, number);
    else
        plock__local_unlink_holder(map, key, number);
    PLOCK__FAULT();
    if (number < map->claim_count) map->lease_of[number] = NULL;
    plock__local_drop_claim(map, number);
    if (lease) plock__local_taken_away(lease);
}

/* Admits waiters, and drops the key if it has no claims. */
static void settle(plock__local_map *map, uint32_t number, plock__local_key *key, plock_ns now) {
    admit_waiters(map, key, now);
    if (!any(key->first_holder) && !any(key->first_waiter) && key->length)
        plock__local_drop_key(map, number);
}

void plock__local_end_claim(plock__local_map *map, uint32_t claim, plock_ns now) {
    const uint32_t number = plock__claim(map, claim)->key,
                   successor = plock__claim(map, claim)->next;
    const bool waited = plock__state(plock__claim(map, claim)) == PLOCK__WAITING;
    plock__local_key *key = plock__key(map, number);
    /* The next waiter has been watching the process of the waiter whose claim ends. So the next
     * waiter must look at the queue, to find which processes it must watch instead. */
    if (waited) has_to_look(map, living(map, successor));
    end(map, key, claim);
    settle(map, number, key, now);
}

void plock__local_give_up_claim(plock__local_map *map, uint32_t claim, plock_ns now) {
    map->lease_of[claim] = NULL;
    plock__local_end_claim(map, claim, now);
}

plock_ns plock__local_end_of(plock__local_map *map, plock__local_claim *claim) {
    const uint64_t process = process_of(claim);
    const plock_ns until = atomic_load_explicit(&claim->until, memory_order_relaxed);
    if (!process || alive(map, process)) return until;
    if (plock__state(claim) == PLOCK__HANDED) return 0;
    return claim->kept_until < until ? claim->kept_until : until;
}

void plock__local_tidy(plock__local_map *map, uint32_t number, plock_ns now) {
    plock__local_key *key = plock__key(map, number);
    for (uint32_t at = key->first_holder, steps = 0, next; plock__walks(map, at, &steps);
         at = next) {
        plock__local_claim *claim = plock__claim(map, at);
        next = claim->next;
        if (now >= plock__local_end_of(map, claim)) end(map, key, at);
    }
    settle(map, number, key, now);
}

/* Ends the claims of waiters whose process has died. Before a claim ends, the next living waiter
 * behind it must be told to look. So the walk begins with the last waiter, and reaches that living
 * waiter first. Admits no waiter, because an admitted claim would leave the list during this
 * walk. */
static void end_dead_waiters(plock__local_map *map, plock__local_key *key) {
    uint32_t behind = PLOCK__LOCAL_NONE;
    for (uint32_t at = key->last_waiter, steps = 0, further; plock__walks(map, at, &steps);
         at = further) {
        const plock__local_claim *claim = plock__claim(map, at);
        const uint64_t process = process_of(claim);
        further = claim->previous;
        if (!alive(map, process)) {
            has_to_look(map, behind);
            behind = PLOCK__LOCAL_NONE;
            end(map, key, at);
        } else if (plock__local_silent_in(map, process) > 0) {
            behind = at;
        }
    }
}

void plock__local_tidy_whole(plock__local_map *map, uint32_t number, plock_ns now) {
    end_dead_waiters(map, plock__key(map, number));
    plock__local_tidy(map, number, now);
}

/* Because a sweep takes long, this function does nothing if the last sweep was a moment ago. */
bool plock__local_sweep(plock__local_map *map, plock_ns now) {
    static const plock_ns OFTEN = 100 * PLOCK_MILLISECOND;
    const plock__local_header *header = map->header;
    const uint32_t free_key = header->keys_free, free_claim = header->claims_free;
    if (map->swept_at && now - map->swept_at < OFTEN) return false;
    map->swept_at = now;
    for (uint32_t number = 0;
         number < header->keys_made && number < map->key_count && !map->damaged; number++)
        if (map->keys[number].length) plock__local_tidy_whole(map, number, now);
    return header->keys_free != free_key || header->claims_free != free_claim;
}

/* --- claims --- */

plock_status plock__local_claim_key(plock__local_map *map, uint32_t number,
                                    const plock__local_wait_request *wait_request, bool waits,
                                    plock_ns now, uint32_t *made, plock_error *error) {
    plock__local_key *key = plock__key(map, number);
    const plock_status status = plock__local_make_claim(map, made, error);
    if (status) {
        settle(map, number, key, now);
        return status;
    }
    plock__local_claim *claim = plock__claim(map, *made);
    claim->key = number;
    claim->ttl = wait_request->ttl;
    claim->at_least = wait_request->at_least;
    claim->lasts = wait_request->lasts;
    claim->thread = wait_request->thread;
    claim->pid = map->processes[map->slot].pid;
    claim->limit = (uint16_t)wait_request->limit;
    claim->mode = wait_request->mode;
    claim->watched = wait_request->watched;
    atomic_store_explicit(&claim->look, 0, memory_order_relaxed);
    atomic_store_explicit(&claim->asleep, 0, memory_order_relaxed);
    claim->owner_length = (uint8_t)wait_request->owner.length;
    claim->owner_digested = wait_request->owner_digested;
    memcpy(claim->owner, wait_request->owner.bytes, wait_request->owner.length);
    claim->label_length = (uint8_t)wait_request->label.length;
    if (wait_request->label.length)
        memcpy(claim->label, wait_request->label.bytes, wait_request->label.length);
    atomic_store_explicit(&claim->process, map->process, memory_order_relaxed);
    map->lease_of[*made] = wait_request->lease;
    PLOCK__FAULT();
    if (waits) {
        plock__local_give_sign(map);
        claim->since = plock__local_wall();
        plock__local_link_waiter(map, key, *made, PLOCK__LOCAL_NONE);
    } else {
        stamp(map, claim);
        begin(map, claim, now);
        PLOCK__FAULT();
        plock__local_link_holder(map, key, *made);
    }
    PLOCK__FAULT();
    atomic_store(&claim->word,
                 plock__word(++map->header->serial, waits ? PLOCK__WAITING : PLOCK__HELD));
    PLOCK__FAULT();
    return PLOCK_OK;
}

/* --- the outlook of a waiter --- */

static void heed(plock__local_outlook *outlook, const plock__local_map *map, uint64_t process) {
    if (!process || process == map->process) return;
    for (unsigned i = 0; i < outlook->count && i < PLOCK__LOCAL_WATCHED_MAX; i++)
        if (outlook->processes[i] == process) return;
    if (outlook->count < PLOCK__LOCAL_WATCHED_MAX) outlook->processes[outlook->count] = process;
    outlook->count++;
}

static void look_by(plock__local_outlook *outlook, plock_ns at) {
    if (at < outlook->look_at) outlook->look_at = at;
}

static void heed_holders(plock__local_map *map, const plock__local_key *key, plock_ns now,
                         plock__local_outlook *outlook) {
    for (uint32_t at = key->first_holder, steps = 0; plock__walks(map, at, &steps);
         at = plock__claim(map, at)->next) {
        plock__local_claim *holder = plock__claim(map, at);
        look_by(outlook, plock__local_end_of(map, holder));
        const bool handed =
            plock__state(holder) == PLOCK__HANDED; /* when the holder's process takes its turn, the
                                                    * claim may get an earlier end */
        if (handed) look_by(outlook, plock_after(now, longest(holder)));
        const uint64_t process = atomic_load(&holder->process);
        if (process && alive(map, process)) heed(outlook, map, process);
    }
}

/* Returns the nearest waiter ahead of the claim whose process is not silent, or PLOCK__LOCAL_NONE.
 * Adds that waiter's process to the outlook. Ends the claims of dead processes in between. */
static uint32_t before(plock__local_map *map, plock__local_key *key,
                       const plock__local_claim *claim, plock_ns now,
                       plock__local_outlook *outlook) {
    for (uint32_t at = claim->previous, steps = 0, further; plock__walks(map, at, &steps);
         at = further) {
        const plock__local_claim *other = plock__claim(map, at);
        const uint64_t process = atomic_load(&other->process);
        const plock_ns silent_in = plock__local_silent_in(map, process);
        further = other->previous;
        if (!alive(map, process)) {
            end(map, key, at);
        } else if (silent_in > 0) {
            /* The waiter ahead may be admitted, and then let its claim expire. That takes at least
             * this long, so this claim need not look earlier. */
            look_by(outlook, plock_after(now, other->ttl < HANDOVER ? other->ttl : HANDOVER));
            look_by(outlook, plock_after(now, silent_in));
            heed(outlook, map, process);
            return at;
        }
    }
    return PLOCK__LOCAL_NONE;
}

bool plock__local_look(plock__local_map *map, uint32_t number, uint64_t serial, plock_ns now,
                       plock__local_outlook *outlook) {
    plock__local_claim *claim = plock__claim(map, number);
    const uint64_t waiting = plock__word(serial, PLOCK__WAITING), word = atomic_load(&claim->word);
    *outlook = (plock__local_outlook){.look_at = PLOCK_NEVER};
    if (word == plock__word(serial, PLOCK__HANDED)) {
        plock__local_take_turn(map, number, now);
        if (lease_here(map, claim)) plock__local_granted(lease_here(map, claim));
    }
    if (word != waiting) return false;
    atomic_store(&claim->look, 0);
    plock__local_key *key = plock__key(map, claim->key);
    if (any(before(map, key, claim, now, outlook))) return true;
    plock__local_tidy(map, claim->key, now);
    if (atomic_load(&claim->word) != waiting) return false;
    heed_holders(map, key, now, outlook);
    return !map->damaged;
}
