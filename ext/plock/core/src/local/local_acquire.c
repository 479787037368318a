/* The steps of acquiring a lease of a local store: making a claim, waiting in the queue, and taking
 * the turn. */
#include "local/local_lease.h"

#include "base/failure.h"
#include "base/process.h"
#include "runtime/waker.h"

plock_text plock__local_owner(const plock_local_lease *lease) {
    return plock__text(lease->brought ? lease->brought : lease->token, lease->owner_length);
}

plock_status plock__local_owner_text(plock_text owner, char room[PLOCK_DIGEST_HEX],
                                     plock_text *text, bool *digested) {
    *text = owner;
    *digested = owner.length > PLOCK__LOCAL_OWNER_MAX;
    if (!*digested) return PLOCK_OK;
    /* 160 bits of the digest are enough to distinguish owners */
    *text = plock__text(room, PLOCK__LOCAL_OWNER_MAX);
    return plock_digest(owner.bytes, owner.length, NULL, 0, room);
}

/* Returns how long a claim of the lease may be held while its process is alive. A lease that is
 * renewed needs no expiry, because it ends with its process or at max_hold. */
static plock_ns lasts(const plock_local_lease *lease) {
    if (!lease->terms.renews) return lease->base.ttl;
    return lease->terms.max_hold ? lease->terms.max_hold : PLOCK_NEVER;
}

plock_status plock__local_wait_request_of(plock_local_lease *lease,
                                          plock__local_wait_request *wait_request,
                                          char room[PLOCK_DIGEST_HEX]) {
    const plock_local_acquire_options *terms = &lease->terms;
    *wait_request =
        (plock__local_wait_request){.ttl = lease->base.ttl,
                                    .lasts = lasts(lease),
                                    .at_least = terms->at_least,
                                    .mode = terms->mode,
                                    .limit = terms->mode == 'w' ? 1 : terms->limit,
                                    .watched = lease->watching == PLOCK__WATCHED,
                                    .label = plock__text(terms->label, terms->label_length),
                                    .thread = (int64_t)plock__thread_number(),
                                    .lease = lease->watching || terms->wait ? lease : NULL};
    return plock__local_owner_text(plock__local_owner(lease), room, &wait_request->owner,
                                   &wait_request->owner_digested);
}

/* Reads the lease's times and fence from its claim. */
void plock__local_date(plock_local_lease *lease, plock_ns now) {
    const plock__local_claim *claim = &lease->map->claims[lease->claim];
    lease->base.held = true;
    lease->base.fence = claim->fence;
    const plock_ns until = atomic_load(&claim->until);
    lease->base.acquired_at =
        lease->base.contended && until != PLOCK_NEVER
            ? until - (claim->lasts > claim->at_least ? claim->lasts : claim->at_least)
            : now;
    plock__local_seen_until(lease, until, lease->base.acquired_at);
    lease->base.waited = lease->base.acquired_at - lease->began_at;
}

void plock__local_has_claim(plock_local_lease *lease, uint32_t claim) {
    lease->claim = claim;
    lease->serial = plock__serial(&lease->map->claims[claim]);
}

static plock_status fail(plock_local_lease *lease, plock_status status) {
    /* the claim may still exist, but the program no longer wants it */
    if (lease->operation == PLOCK__OP_WAITS) plock__local_let_go(lease, 0);
    plock__local_give_waker_back(lease);
    plock__local_dismiss(lease);
    return plock__local_finish_without(lease, status);
}

static plock_status holds(plock_local_lease *lease) {
    plock__local_give_waker_back(lease);
    lease->operation = PLOCK__OP_NONE;
    return PLOCK_OK;
}

/* Makes a claim. Runs in the critical section. Returns PLOCK_OK if the claim holds the key,
 * PLOCK_AGAIN if it waits, PLOCK_REFUSED without a claim if it may not wait, or a failure. */
static plock_status claim(plock_local_lease *lease, const plock__local_wait_request *wait_request,
                          bool waits, plock_ns now) {
    plock__local_map *map = lease->map;
    uint32_t key = plock__local_find(map, &lease->name), made;
    if (key != PLOCK__LOCAL_NONE) {
        plock__local_tidy(map, key, now);
        if (!plock__key(map, key)->length) key = PLOCK__LOCAL_NONE;
    }
    plock_status status = PLOCK_OK;
    const bool admitted =
        key == PLOCK__LOCAL_NONE ||
        plock__local_admits(map, plock__key(map, key), wait_request->mode, wait_request->limit);
    if (!admitted) lease->base.contended = true;
    if (!admitted && !waits) return PLOCK_REFUSED;
    if (key == PLOCK__LOCAL_NONE)
        status = plock__local_make_key(map, &lease->name, &key, &lease->base.error);
    if (!status)
        status = plock__local_claim_key(map, key, wait_request, !admitted, now, &made,
                                        &lease->base.error);
    if (status == PLOCK_STORE_FULL && plock__local_sweep(map, now))
        return claim(lease, wait_request, waits, now);
    if (status) return status;
    plock__local_has_claim(lease, made);
    return admitted ? PLOCK_OK : PLOCK_AGAIN;
}

/* Registers the new waiter, and looks at the queue once on the waiter's behalf. Runs in the
 * critical section, so that no process can admit the waiter before the attendant knows the waiter's
 * lease. */
static void queue(plock_local_lease *lease, plock__local_outlook *outlook, plock_ns now) {
    plock__enter();
    plock__local_set_state(lease, PLOCK__LEASE_WAITING);
    plock__local_register(lease);
    const bool attended = lease->map->attendant;
    plock__leave();
    lease->operation = PLOCK__OP_WAITS;
    /* without an attendant (another thread has failed to start it), nothing would wake this waiter,
     * so its wait ends */
    if (!attended) plock__local_taken_away(lease);
    if (!plock__local_look(lease->map, lease->claim, lease->serial, now, outlook))
        *outlook = (plock__local_outlook){.look_at = PLOCK_NEVER};
}

/* Makes sure that the attendant runs, and gives the lease a waker. A waiter needs both. */
static plock_status prepare_to_wait(plock_local_lease *lease) {
    const plock_status status = plock__local_attend(lease->map, &lease->base.error);
    if (status || lease->waker) return status;
    plock_waker *waker = plock_waker_take();
    if (!waker) return plock__fail_plainly(&lease->base.error, PLOCK_NO_MEMORY);
    plock__enter();
    lease->waker = waker;
    plock__leave();
    return PLOCK_OK;
}

/* Returns true if the acquire must try again in a moment, because its file is missing or lost. The
 * path may soon lead to the file again, or this process may let go of its leases in the lost file.
 * The acquire keeps trying for up to a second, or until its own time to wait is over. */
static bool rides_out(plock_local_lease *lease, plock_interest *interest) {
    const plock_ns now = plock_now();
    if (!lease->away_since) lease->away_since = now;
    *interest = (plock_interest){.fd = -1, .deadline = now + 10 * PLOCK_MILLISECOND};
    return interest->deadline < lease->patience_ends &&
           now - lease->away_since < PLOCK_LOCAL_PATIENCE;
}

static plock_status ask(plock_local_lease *lease, plock_interest *interest) {
    plock__local_wait_request wait_request;
    plock__local_outlook outlook;
    char room[PLOCK_DIGEST_HEX];
    plock_status status = plock__local_use_for(lease, interest);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    /* The lease may have waited in a file that was truncated or written over, which no process can
     * replace before all its users have noticed the loss. */
    const bool went_over = status == PLOCK_PROTOCOL && lease->base.contended;
    if ((status == PLOCK_DISCONNECTED || went_over) && rides_out(lease, interest))
        return PLOCK_AGAIN;
    lease->away_since = 0;
    if (!status) status = plock__local_wait_request_of(lease, &wait_request, room);
    /* If claim() does not admit a lease with a waker, the lease is queued in the same call, and
     * then needs an attendant. The attendant of an earlier file does not serve the file that has
     * replaced that file. */
    if (!status && lease->waker) status = plock__local_attend(lease->map, &lease->base.error);
    if (!status) status = plock__local_prepare_watch(lease);
    while (!status) {
        const plock_ns now = plock_now();
        status = plock__local_go_in(lease->map, now, lease->deadline, interest, &lease->base.error);
        if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
        if (status) break;
        const plock_status answer = claim(lease, &wait_request, lease->waker, now);
        if (answer == PLOCK_OK) {
            plock__local_date(lease, now);
            plock__local_set_state(lease, PLOCK__LEASE_HELD);
        }
        if (answer == PLOCK_AGAIN) queue(lease, &outlook, now);
        status = plock__local_leave(lease->map, &lease->base.error);
        if (status) break;
        if (answer == PLOCK_REFUSED) {
            if (!lease->terms.wait)
                return fail(lease, plock__fail_plainly(&lease->base.error, PLOCK_REFUSED));
            status = prepare_to_wait(lease);
            continue; /* ask again: because the lease has a waker now, a claim that is not admitted
                       * waits */
        }
        if (answer == PLOCK_AGAIN) {
            plock__local_heed(lease, &outlook);
            if (lease->watching == PLOCK__WATCHED) plock__local_watch(lease);
            return PLOCK_AGAIN;
        }
        if (answer == PLOCK_OK) {
            plock__local_has_begun(lease);
            return holds(lease);
        }
        status = answer;
    }
    status = plock__local_retry_if_lost(lease, status, interest);
    lease->base.held = false;
    if (status != PLOCK_AGAIN) return fail(lease, status);
    lease->operation = PLOCK__OP_ASKS;
    return PLOCK_AGAIN;
}

/* Returns PLOCK_AGAIN (the lease waits), PLOCK_OK (the waiter was admitted, but may have lost the
 * lease since) or PLOCK_DISCONNECTED (the claim was ended). */
static plock_status outcome(plock_local_lease *lease) {
    plock__enter();
    const enum plock__local_lease_state state = lease->state;
    plock__leave();
    if (state == PLOCK__LEASE_WAITING) return PLOCK_AGAIN;
    return state == PLOCK__LEASE_HELD || state == PLOCK__LEASE_LOST ? PLOCK_OK : PLOCK_DISCONNECTED;
}

/* If the claim was handed over, takes its turn. Runs in the critical section. */
static void take_if_handed_over(const plock_local_lease *lease, plock_ns now) {
    if (!plock__local_still(lease, PLOCK__HANDED)) return;
    plock__local_take_turn(lease->map, lease->claim, now);
}

/* Ends the claim, because the time to wait is over. Returns PLOCK_TIMED_OUT or a failure, or
 * PLOCK_OK if the waiter was admitted in the meantime. */
static plock_status leave_queue(plock_local_lease *lease, plock_interest *interest) {
    plock__local_map *map = lease->map;
    const plock_ns now = plock_now();
    plock_status status =
        plock__local_go_in(map, now, plock_after(lease->patience_ends, 20 * PLOCK_MILLISECOND),
                           interest, &lease->base.error);
    /* the acquire has timed out, although its claim still exists; the worker thread will end the
     * claim */
    if (status == PLOCK_SILENT) return plock__fail_plainly(&lease->base.error, PLOCK_TIMED_OUT);
    if (status) return status;
    const bool admitted = plock__local_admitted(lease);
    const bool waits = plock__local_still(lease, PLOCK__WAITING);
    take_if_handed_over(lease, now);
    if (waits) plock__local_give_up_claim(map, lease->claim, now);
    status = plock__local_leave(map, &lease->base.error);
    if (admitted && !status) plock__local_granted(lease);
    if (status || admitted) return status;
    return plock__fail_plainly(&lease->base.error, PLOCK_TIMED_OUT);
}

/* Takes the turn, unless the worker thread has taken it. Returns PLOCK_AGAIN if another process is
 * in the critical section. */
static plock_status take(plock_local_lease *lease, plock_ns now, plock_interest *interest) {
    plock__local_map *map = lease->map;
    if (!plock__local_still(lease, PLOCK__HANDED)) return PLOCK_OK;
    plock_status status =
        plock__local_go_in(map, now, lease->deadline, interest, &lease->base.error);
    if (status) return status;
    take_if_handed_over(lease, now);
    return plock__local_leave(map, &lease->base.error);
}

/* Completes the acquire of a lease whose turn has come. Returns PLOCK_OK if the lease is held.
 * Returns PLOCK_NOT_OWNER if the thread came too late for its turn, or if the file is lost. Returns
 * PLOCK_AGAIN and PLOCK_SILENT as plock__local_go_in does. */
static plock_status take_turn(plock_local_lease *lease, plock_interest *interest) {
    plock__local_map *map = lease->map;
    const plock_ns now = plock_now();
    if (plock__local_check(map, now, NULL)) return PLOCK_NOT_OWNER;
    const plock_status status = take(lease, now, interest);
    if (status) return plock__local_lost(map) ? PLOCK_NOT_OWNER : status;
    plock__local_date(lease, now);
    const plock_ns until = atomic_load(&map->claims[lease->claim].until);
    lease->base.held = plock__local_still(lease, PLOCK__HELD) && now < until;
    if (!lease->base.held) return PLOCK_NOT_OWNER;
    /* A lease that is watched from the start stays registered. All others leave the attendant's
     * list. */
    if (lease->watching != PLOCK__WATCHED) plock__local_has_turn(lease);
    if (lease->watching == PLOCK__WATCHED_LATER) plock__local_see_to_later(lease);
    return PLOCK_OK;
}

/* Ends the claim, if the lease still has one and the file is still in its place. */
static plock_status end_claim(plock_local_lease *lease, plock_ns now, plock_interest *interest) {
    plock__local_map *map = lease->map;
    plock_status status = plock__local_check(map, now, &lease->base.error);
    if (!status)
        status = plock__local_go_in(map, now, plock_after(lease->patience_ends, PLOCK_SECOND),
                                    interest, &lease->base.error);
    if (status) return status;
    if (plock__local_has_place(lease)) plock__local_give_up_claim(map, lease->claim, now);
    return plock__local_leave(map, &lease->base.error);
}

/* Starts the acquire over, with the rest of its time to wait. If the file is lost, the acquire
 * continues in a new file. */
static plock_status start_over(plock_local_lease *lease, plock_interest *interest) {
    const plock_ns now = plock_now();
    const plock_status status = end_claim(lease, now, interest);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status && !plock__local_lost(lease->map)) return fail(lease, status);
    const bool ready = plock__local_start_over(lease);
    if (ready) lease->operation = PLOCK__OP_ASKS;
    *interest = (plock_interest){.fd = -1, .deadline = ready ? 0 : now + PLOCK_MILLISECOND};
    return PLOCK_AGAIN;
}

static plock_status lost_place(plock_local_lease *lease) {
    const plock_status loss = plock__local_loss_of(lease->map, &lease->base.error);
    if (loss) return loss;
    static const char WHY[] = "the place in the wait queue was lost: acquire again";
    return plock__fail(&lease->base.error, PLOCK_DISCONNECTED, WHY);
}

static bool is_there(const void *lease) {
    plock__local_map *map = ((const plock_local_lease *)lease)->map;
    plock__local_make_readable(map);
    return !plock__local_lost(map);
}

/* Returns the parking slot in which the waiter sleeps until its claim's word changes; NULL: the
 * worker thread watches the lease from the start, and wakes the waiter by its waker. */
static const plock__parking_slot *parking_slot(plock_local_lease *lease) {
    plock__local_claim *claim = &lease->map->claims[lease->claim];
    if (lease->watching == PLOCK__WATCHED) return NULL;
    lease->parking_slot = (plock__parking_slot){.word = &claim->word,
                                                .value = plock__word(lease->serial, PLOCK__WAITING),
                                                .asleep = &claim->asleep,
                                                .waker = lease->waker,
                                                .is_there = is_there,
                                                .of = lease};
    return &lease->parking_slot;
}

/* Returns the same as outcome(), but reads it from the claim's word. */
static plock_status see_turn(const plock_local_lease *lease) {
    if (plock__local_check(lease->map, plock_now(), NULL)) return PLOCK_DISCONNECTED;
    switch (plock__local_claim_state(lease)) {
    case PLOCK__WAITING: return PLOCK_AGAIN;
    case PLOCK__HANDED:
    case PLOCK__HELD: return PLOCK_OK;
    default: return PLOCK_DISCONNECTED;
    }
}

static plock_status wait_in_queue(plock_local_lease *lease, plock_interest *interest) {
    plock__waker_clear_if_woken(lease->waker);
    plock__local_make_readable(lease->map);
    plock_status status = outcome(lease);
    if (status == PLOCK_AGAIN) {
        *interest = (plock_interest){.fd = -1,
                                     .waker = lease->waker,
                                     .deadline = lease->patience_ends,
                                     .helps = true,
                                     .parking_slot = parking_slot(lease)};
        if (interest->parking_slot) status = see_turn(lease);
    }
    const bool patient = status != PLOCK_AGAIN || plock_now() < lease->patience_ends;
    if (!patient) status = leave_queue(lease, interest);
    if (status == PLOCK_OK) status = take_turn(lease, interest);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status == PLOCK_OK) return holds(lease);
    plock__local_make_readable(lease->map);
    /* The acquire starts over if the thread came too late for its turn (PLOCK_NOT_OWNER). It also
     * starts over if the file is lost, because the key may be free in a new file. */
    const bool over = status == PLOCK_NOT_OWNER ||
                      plock__local_may_retry(lease->map, status, PLOCK_NEVER, interest);
    const bool ousted = status == PLOCK_DISCONNECTED && patient;
    /* true: the claim still waits, but the attendant has ended and cannot wake the waiter */
    const bool uncalled = plock__local_still(lease, PLOCK__WAITING);
    if (over || (ousted && !uncalled)) return start_over(lease, interest);
    return fail(lease, status == PLOCK_DISCONNECTED ? lost_place(lease) : status);
}

plock_status plock__local_acquire_step(plock_local_lease *lease, plock_interest *interest) {
    if (lease->operation == PLOCK__OP_ASKS) {
        const plock_status asked = ask(lease, interest);
        if (asked != PLOCK_AGAIN || lease->operation == PLOCK__OP_ASKS) return asked;
    }
    return wait_in_queue(lease, interest);
}
