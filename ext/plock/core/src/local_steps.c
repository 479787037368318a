/* The operations of a lease of a local store, step by step. */
#include "local_lease.h"

#include "failure.h"
#include "memory.h"
#include "process.h"
#include "waker.h"

#include <poll.h>
#include <string.h>

static plock_status finish(plock_local_lease *lease, plock_status status) {
    lease->doing = PLOCK__IDLE;
    return status;
}

/* The claim is gone, or another's. */
static void forget_map(plock_local_lease *lease) {
    plock__local_map *map = lease->map;
    plock__enter();
    const bool needed = lease->employed;
    if (!needed) lease->map = NULL;
    plock__leave();
    if (!needed && map) plock__local_release(map);
}

/* --- acquiring --- */

/* The owner as it stands in a claim. `room` is for a digest. */
static plock_status owner_text(const plock_local_lease *lease, char room[PLOCK_DIGEST_HEX], plock_text *text, bool *digested) {
    size_t length;
    const char *owner = plock_local_lease_owner(lease, &length);
    *text = plock__text(owner, length);
    *digested = length > PLOCK__LOCAL_OWNER_MAX;
    if (!*digested) return PLOCK_OK;
    *text = plock__text(room, PLOCK__LOCAL_OWNER_MAX); /* 160 bits of it are enough to tell owners apart */
    return plock_digest(owner, length, NULL, 0, room);
}

plock_status plock__local_wish_of(plock_local_lease *lease, plock__local_wish *wish, char room[PLOCK_DIGEST_HEX]) {
    const plock_local_terms *terms = &lease->terms;
    *wish = (plock__local_wish){.ttl = lease->ttl, .at_least = terms->at_least, .mode = terms->mode, .limit = terms->mode == 'w' ? 1 : terms->limit,
                                .watched = lease->watched, .label = plock__text(terms->label, terms->label_length),
                                .thread = (int64_t)plock__thread_number(), .lease = lease->watched || terms->wait ? lease : NULL};
    return owner_text(lease, room, &wish->owner, &wish->owner_digested);
}

/* Reads what the claim says; it is ours. */
void plock__local_date(plock_local_lease *lease, plock_ns now) {
    const plock__local_claim *claim = &lease->map->claims[lease->claim];
    lease->held = true;
    lease->fence = claim->fence;
    lease->valid_until = atomic_load(&claim->until);
    lease->acquired_at = lease->contended ? lease->valid_until - lease->ttl : now;
    lease->waited = lease->acquired_at - lease->began_at;
}

/* The claim that was just made. */
void plock__local_has_claim(plock_local_lease *lease, uint32_t claim) {
    lease->claim = claim;
    lease->serial = plock__serial(&lease->map->claims[claim]);
}

static plock_status fail(plock_local_lease *lease, plock_status status) {
    plock__local_dismiss(lease); /* he may have been in line when it was found out that the file is damaged */
    lease->queued = false;
    forget_map(lease);
    return finish(lease, status);
}

static plock_status refused(plock_local_lease *lease) {
    return fail(lease, plock__fail_plainly(&lease->error, PLOCK_REFUSED));
}

/* In the section. PLOCK_REFUSED: somebody is inside or before us. */
static plock_status claim(plock_local_lease *lease, const plock__local_wish *wish, bool waits, plock_ns now) {
    plock__local_map *map = lease->map;
    uint32_t key = plock__local_find(map, &lease->name), made;
    if (key != PLOCK__LOCAL_NONE) {
        plock__local_tidy(map, key, now);
        if (!plock__key(map, key)->length) key = PLOCK__LOCAL_NONE;
    }
    plock_status status = PLOCK_OK;
    const bool admitted = key == PLOCK__LOCAL_NONE || plock__local_admits(map, plock__key(map, key), wish->mode, wish->limit);
    if (!admitted) lease->contended = true;
    if (!admitted && !waits) return PLOCK_REFUSED;
    if (key == PLOCK__LOCAL_NONE) status = plock__local_make_key(map, &lease->name, &key, &lease->error);
    if (!status) status = plock__local_claim_key(map, key, wish, !admitted, now, &made, &lease->error);
    if (status == PLOCK_STORE_FULL && plock__local_sweep(map, now)) return claim(lease, wish, waits, now);
    if (status) return status;
    plock__local_has_claim(lease, made);
    return admitted ? PLOCK_OK : PLOCK_AGAIN;
}

/* He waits in line; in the section, so that nobody lets him in before he is known. */
static void queue(plock_local_lease *lease, plock__local_outlook *outlook, plock_ns now) {
    plock__enter();
    lease->place = PLOCK__WAITS;
    lease->look_at = PLOCK_NEVER;
    plock__local_register(lease);
    plock__leave();
    lease->queued = true;
    if (!plock__local_look(lease->map, lease->claim, lease->serial, now, outlook)) *outlook = (plock__local_outlook){.look_at = PLOCK_NEVER};
}

static plock_status ask(plock_local_lease *lease, plock_want *want) {
    plock__local_wish wish;
    plock__local_outlook outlook;
    char room[PLOCK_DIGEST_HEX];
    plock_status status = PLOCK_OK;
    if (!lease->map) status = plock__local_use(lease->store, &lease->map, &lease->error);
    if (!status) status = plock__local_wish_of(lease, &wish, room);
    bool attended = false;
    if (!status && lease->watched) status = plock__local_attend(lease->map, &lease->error), attended = true;
    for (; !status; attended = true) {
        const plock_ns now = plock_now();
        status = plock__local_go_in(lease->map, lease->deadline, want, &lease->error);
        if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
        if (status) break;
        const bool waits = lease->terms.wait && attended;
        const plock_status answer = claim(lease, &wish, waits, now);
        if (answer == PLOCK_OK) {
            plock__local_date(lease, now);
            lease->place = PLOCK__HOLDS;
        }
        if (answer == PLOCK_AGAIN) queue(lease, &outlook, now);
        status = plock__local_leave(lease->map, &lease->error);
        if (status) break;
        if (answer == PLOCK_REFUSED) {
            if (!lease->terms.wait) return refused(lease);
            status = plock__local_attend(lease->map, &lease->error); /* so that we can be called, and then once more */
            continue;
        }
        if (answer == PLOCK_AGAIN) plock__local_heed(lease, &outlook);
        if (lease->watched && (answer == PLOCK_OK || answer == PLOCK_AGAIN)) {
            if (answer == PLOCK_OK) {
                plock__enter();
                plock__local_begin_watch(lease);
                plock__local_register(lease);
                plock__leave();
            }
            plock__local_employ(lease);
        }
        if (answer == PLOCK_OK) return finish(lease, PLOCK_OK);
        if (answer == PLOCK_AGAIN) return PLOCK_AGAIN;
        status = answer;
    }
    lease->held = false;
    return fail(lease, status);
}

static plock_status outcome(plock_local_lease *lease) {
    plock__enter();
    const plock_status status = lease->place == PLOCK__HOLDS ? PLOCK_OK : lease->place == PLOCK__WAITS ? PLOCK_AGAIN : PLOCK_DISCONNECTED;
    plock__leave();
    return status;
}

static plock_status wait_in_line(plock_local_lease *lease, plock_want *want) {
    plock_status status = outcome(lease);
    if (status == PLOCK_AGAIN && !lease->bell) {
        plock_waker *bell = plock_waker_take();
        if (!bell) return plock__fail(&lease->error, PLOCK_DESCRIPTORS, "no file descriptor is left to wait with");
        plock__enter();
        lease->bell = bell;
        plock__leave();
        status = outcome(lease);
    }
    *want = (plock_want){.fd = lease->bell ? plock_waker_descriptor(lease->bell) : -1, .events = POLLIN, .deadline = lease->patience_ends, .helps = true};
    return status;
}

/* Patience is over. PLOCK_OK: he was let in meanwhile. */
static plock_status leave_line(plock_local_lease *lease, plock_want *want) {
    plock__local_map *map = lease->map;
    const plock_ns now = plock_now();
    plock_status status = plock__local_go_in(map, plock_after(lease->patience_ends, 20 * PLOCK_MILLISECOND), want, &lease->error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status == PLOCK_SILENT) {
        plock__local_dismiss(lease);
        plock__local_hand_over(lease);
    }
    if (status) return status;
    const bool holds = plock__local_still(lease, PLOCK__HELD), waits = plock__local_still(lease, PLOCK__WAITING);
    if (waits) {
        map->lease_of[lease->claim] = NULL;
        plock__local_end_claim(map, lease->claim, now);
    }
    status = plock__local_leave(map, &lease->error);
    if (status || holds) return status;
    return plock__fail_plainly(&lease->error, waits ? PLOCK_TIMED_OUT : PLOCK_DISCONNECTED);
}

static plock_status acquire_step(plock_local_lease *lease, plock_want *want) {
    if (!lease->queued) {
        const plock_status asked = ask(lease, want);
        if (asked != PLOCK_AGAIN || !lease->queued) return asked;
    }
    if (lease->bell) plock__waker_hush_if_rung(lease->bell);
    plock_status status = wait_in_line(lease, want);
    if (status == PLOCK_AGAIN && plock_now() >= lease->patience_ends) {
        status = leave_line(lease, want);
        if (status == PLOCK_OK) plock__local_granted(lease);
    }
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    plock__enter();
    plock_waker *bell = lease->bell;
    lease->bell = NULL;
    plock__leave();
    plock_waker_give(bell);
    if (status == PLOCK_OK) {
        plock__local_date(lease, plock_now());
        return finish(lease, PLOCK_OK);
    }
    if (status == PLOCK_DISCONNECTED && !*lease->error.message)
        (void)plock__fail(&lease->error, status, "the place in line was lost: the local store's file was damaged, or waiting was ended");
    if (status == PLOCK_DESCRIPTORS) {
        const plock_error error = lease->error;
        plock_local_lease *leaving = lease;
        plock_want ignored;
        if (leave_line(leaving, &ignored) == PLOCK_AGAIN) plock__local_hand_over(lease);
        lease->error = error;
    }
    return fail(lease, status);
}

/* --- what is held --- */

/* In the section: is it ours, and its time not over? */
static bool ours(const plock_local_lease *lease, plock_ns now) {
    return plock__local_still(lease, PLOCK__HELD) && now < atomic_load(&lease->map->claims[lease->claim].until);
}

void plock__local_keep(plock__local_map *map, plock__local_claim *held, plock_ns until) {
    plock__local_outlives(map, until);
    plock__local_first_looks(map, plock__key(map, held->key));
    PLOCK__FAULT();
    held->kept_until = until;
    PLOCK__FAULT();
    atomic_store(&held->until, until);
    PLOCK__FAULT();
    atomic_store(&held->word, plock__word(plock__serial(held), PLOCK__KEPT));
}

static void release(plock_local_lease *lease, plock_ns now) {
    plock__local_map *map = lease->map;
    map->lease_of[lease->claim] = NULL;
    if (lease->span) {
        plock__local_keep(map, &map->claims[lease->claim], plock_after(now, lease->span));
        return;
    }
    map->rings_later = true;
    plock__local_end_claim(map, lease->claim, now);
    map->rings_later = false;
}

/* Not ours any more, but still there because nobody has come since its time was over. */
static void end_if_over(plock_local_lease *lease, plock_ns now) {
    if (!plock__local_still(lease, PLOCK__HELD)) return;
    lease->map->lease_of[lease->claim] = NULL;
    plock__local_end_claim(lease->map, lease->claim, now);
}

/* When the key is to stay taken for longer, kept_until says it by now. */
static void give_span(plock__local_claim *held, plock_ns ttl, plock_ns until) {
    atomic_store(&held->until, until);
    held->ttl = ttl;
    held->at_least = 0;
}

static void extend(plock_local_lease *lease, plock_ns now) {
    plock__local_claim *held = &lease->map->claims[lease->claim];
    const plock_ns until = plock_after(now, lease->span);
    if (until < atomic_load(&held->until)) plock__local_first_looks(lease->map, plock__key(lease->map, held->key));
    PLOCK__FAULT();
    give_span(held, lease->span, until);
    lease->valid_until = until;
    plock__enter();
    lease->ttl = lease->span;
    lease->renew_at = 0;
    if (lease->employed) plock__worker_prod(&lease->job);
    plock__leave();
}

static void downgrade(plock_local_lease *lease, plock_ns now) {
    plock__local_claim *held = &lease->map->claims[lease->claim];
    held->mode = lease->mode = 'r';
    PLOCK__FAULT();
    plock__local_tidy(lease->map, held->key, now);
}

static void leave(plock_local_lease *lease) {
    plock__local_map *map = lease->map;
    plock__local_claim *held = &map->claims[lease->claim];
    plock__local_outlives(map, atomic_load(&held->until));
    plock__local_first_looks(map, plock__key(map, held->key));
    PLOCK__FAULT();
    map->lease_of[lease->claim] = NULL;
    held->watched = 0;
    atomic_store(&held->process, 0);
    lease->valid_until = atomic_load(&held->until);
    lease->held = false;
}

static plock_status held_step(plock_local_lease *lease, plock_want *want) {
    plock__local_map *map = lease->map;
    plock_status status = plock__local_go_in(map, lease->deadline, want, &lease->error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status == PLOCK_SILENT && lease->doing == PLOCK__RELEASES) plock__local_hand_over(lease);
    if (status) return finish(lease, status);
    const plock_ns now = plock_now();
    const bool valid = ours(lease, now);
    if (!valid) end_if_over(lease, now);
    else if (lease->doing == PLOCK__RELEASES) release(lease, now);
    else if (lease->doing == PLOCK__EXTENDS) extend(lease, now);
    else if (lease->doing == PLOCK__DOWNGRADES) downgrade(lease, now);
    else leave(lease);
    uint64_t to_ring[sizeof map->to_ring / sizeof *map->to_ring];
    const unsigned count = map->to_ring_count;
    memcpy(to_ring, map->to_ring, sizeof to_ring);
    map->to_ring_count = 0;
    status = plock__local_leave(map, &lease->error);
    for (unsigned i = 0; i < count; i++) plock__local_ring(map, to_ring[i]);
    if (!valid) {
        plock__enter();
        lease->place = PLOCK__OUSTED;
        plock__leave();
        if (lease->held && lease->watched && lease->doing != PLOCK__LEAVES) plock__local_employ(lease); /* so that it is told */
        if (lease->doing == PLOCK__LEAVES) lease->held = false;
    }
    if (!lease->held) forget_map(lease);
    return finish(lease, status ? status : valid ? PLOCK_OK : PLOCK_NOT_OWNER);
}

/* --- by owner --- */

/* The holder that has this owner, or NONE; in the section. fence 0: any. */
static uint32_t held_by(plock_local_lease *lease, plock_text owner, bool digested, int64_t fence, plock_ns now) {
    plock__local_map *map = lease->map;
    const uint32_t number = plock__local_find(map, &lease->name);
    if (number == PLOCK__LOCAL_NONE) return PLOCK__LOCAL_NONE;
    plock__local_tidy(map, number, now);
    uint32_t steps = 0;
    for (uint32_t at = plock__key(map, number)->length ? plock__key(map, number)->first_holder : PLOCK__LOCAL_NONE; at != PLOCK__LOCAL_NONE;) {
        const plock__local_claim *held = plock__claim(map, at);
        if (plock__state(held) == PLOCK__HELD && held->owner_length == owner.length && held->owner_digested == digested &&
            !memcmp(held->owner, owner.bytes, owner.length) && (!fence || held->fence == fence))
            return at;
        if (map->damaged || ++steps > map->claim_count) return PLOCK__LOCAL_NONE;
        at = held->next;
    }
    return PLOCK__LOCAL_NONE;
}

static void take_over(plock_local_lease *lease, uint32_t number, plock_ns now) {
    plock__local_map *map = lease->map;
    plock__local_claim *held = plock__claim(map, number);
    plock__local_first_looks(map, plock__key(map, held->key));
    held->kept_until = lease->terms.at_least ? plock_after(now, lease->terms.at_least) : 0;
    if (held->kept_until) plock__local_outlives(map, held->kept_until);
    held->watched = lease->watched;
    held->pid = map->processes[map->slot].pid;
    held->thread = (int64_t)plock__thread_number();
    PLOCK__FAULT();
    map->lease_of[number] = lease->watched ? lease : NULL;
    atomic_store(&held->process, map->process);
    PLOCK__FAULT();
    if (lease->terms.ttl) give_span(held, lease->terms.ttl, plock_after(now, lease->terms.ttl));
    PLOCK__FAULT();
    atomic_store(&held->word, plock__word(++map->header->serial, PLOCK__HELD)); /* whoever had it has it no more */
    plock__local_has_claim(lease, number);
    lease->held = true;
    lease->mode = held->mode;
    lease->place = PLOCK__HOLDS;
    lease->ttl = held->ttl > held->at_least ? held->ttl : held->at_least;
    lease->acquired_at = now;
    lease->valid_until = atomic_load(&held->until);
}

static plock_status owner_step(plock_local_lease *lease, plock_want *want) {
    char room[PLOCK_DIGEST_HEX];
    plock_text owner;
    bool digested;
    const bool adopts = lease->doing == PLOCK__ADOPTS;
    plock_status status = PLOCK_OK;
    if (!lease->map) status = plock__local_use(lease->store, &lease->map, &lease->error);
    if (!status) status = owner_text(lease, room, &owner, &digested);
    if (!status && adopts && lease->watched) status = plock__local_attend(lease->map, &lease->error);
    if (!status) status = plock__local_go_in(lease->map, lease->deadline, want, &lease->error);
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    if (status) return fail(lease, status);
    const plock_ns now = plock_now();
    const uint32_t number = held_by(lease, owner, digested, adopts ? lease->fence : 0, now);
    const bool found = number != PLOCK__LOCAL_NONE;
    if (found && adopts) take_over(lease, number, now);
    else if (found) lease->map->lease_of[number] = NULL, plock__local_end_claim(lease->map, number, now);
    status = plock__local_leave(lease->map, &lease->error);
    if (status || !found || !adopts) {
        lease->held = false;
        return fail(lease, status ? status : found ? PLOCK_OK : plock__fail_plainly(&lease->error, PLOCK_NOT_OWNER));
    }
    if (lease->watched) {
        plock__enter();
        plock__local_register(lease);
        plock__local_begin_watch(lease);
        if (lease->terms.max_hold) lease->renewed_until = plock_after(now, lease->terms.max_hold);
        plock__leave();
        plock__local_employ(lease);
    }
    return finish(lease, PLOCK_OK);
}

/* --- step --- */

static plock_status step(plock_local_lease *lease, plock_want *want) {
    if (!lease->doing) return PLOCK_MISUSE;
    if (plock_local_lease_inherited(lease)) return finish(lease, plock__fail_plainly(&lease->error, PLOCK_FORKED));
    switch (lease->doing) {
    case PLOCK__ACQUIRES: return acquire_step(lease, want);
    case PLOCK__ADOPTS:
    case PLOCK__RELEASES_OWNED: return owner_step(lease, want);
    default: return held_step(lease, want);
    }
}

plock_status plock_local_lease_step(plock_local_lease *lease, plock_want *want) {
    plock__begin_step();
    const plock_status status = step(lease, want);
    plock__end_step();
    return status;
}
