/* The attendant is a job of the worker thread for the claims of this process in a local store. It
 * listens to the process's waker, and wakes waiters whose turn has come.
 *
 * To look on behalf of a waiter means to call plock__local_look for the waiter's claim. The lease
 * is said to look, or has to look, although the attendant does this work. */
#include "local/local_attendant.h"

#include "base/container.h"
#include "base/descriptor.h"
#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"

#include <poll.h>
#include <string.h>

/* How often the attendant looks on behalf of a waiter if no descriptor can report that a process
 * ahead of the waiter has ended. */
static const plock_ns WITHOUT_NEWS = 4 * PLOCK_MILLISECOND;

enum { AT_A_TIME = 64 }; /* how many leases are reviewed before other threads may take the mutex */

/* --- looks --- */

static void look_at_latest(plock_local_lease *lease, plock_ns at) {
    if (at < lease->look.at) plock__local_look_at(lease, at);
}

/* A lease for which the attendant must look now, referenced, and the claim that it had when it was
 * chosen. By the time the attendant looks, the lease may have a different claim or none. */
typedef struct looker {
    plock_local_lease *lease; /* NULL: the attendant need not look for any lease now */
    uint32_t claim;
    uint64_t serial;
} looker;

/* Does the chosen lease still have the claim with which it was chosen? Call with the mutex held. */
static bool there(const plock__local_attendant *attendant, const looker *who) {
    return who->lease->registered && who->lease->map == attendant->map &&
           who->lease->serial == who->serial;
}

/* Sets when the attendant next looks on behalf of the lease, as plock__local_heed does. Runs in the
 * attendant's step, so it can also begin the watches on processes that plock__local_heed cannot
 * begin. */
static void heed(plock__local_attendant *attendant, const looker *who,
                 const plock__local_outlook *outlook) {
    const plock_ns now = plock_now(), latest = now + PLOCK__LOCAL_IN_ANY_CASE,
                   soon = now + WITHOUT_NEWS;
    plock_ns at = outlook->look_at < latest ? outlook->look_at : latest;
    bool told =
        outlook->count <= PLOCK__LOCAL_WATCHED_MAX || plock__local_watch_all(attendant, now);
    for (unsigned i = 0; i < outlook->count && i < PLOCK__LOCAL_WATCHED_MAX && told; i++)
        told = plock__local_watch_process(attendant, outlook->processes[i], now);
    if (!told && soon < at) at = soon;
    plock__enter();
    if (there(attendant, who)) {
        plock__local_tell(attendant, who->lease, outlook);
        look_at_latest(who->lease, at);
    }
    plock__leave();
}

/* Runs in the waiting thread, which cannot begin watches on processes. In the rare case that a
 * watch is missing, makes the attendant look at once and begin the watch. */
void plock__local_heed(plock_local_lease *lease, const plock__local_outlook *outlook) {
    plock__enter();
    plock__local_attendant *attendant = lease->map->attendant;
    bool known = outlook->count <= PLOCK__LOCAL_WATCHED_MAX;
    for (unsigned i = 0; attendant && known && i < outlook->count; i++)
        known = plock__local_watches(attendant, outlook->processes[i]);
    if (attendant && lease->registered) {
        const plock_ns latest = plock_now() + PLOCK__LOCAL_IN_ANY_CASE;
        if (known) plock__local_tell(attendant, lease, outlook);
        look_at_latest(lease, !known ? 0 : outlook->look_at < latest ? outlook->look_at : latest);
        plock__local_attend_by(attendant, lease->look.at);
    }
    plock__leave();
}

/* --- steps --- */

/* Other processes wake this one by sending it numbers of claims. Makes the attendant look on
 * behalf of the leases of these claims. If messages may be missing, makes it look on behalf of all
 * leases. */
static void hear(plock__local_attendant *attendant) {
    plock__local_map *map = attendant->map;
    uint32_t claims[PLOCK__LOCAL_HEARD_MAX];
    unsigned all = 0;
    int heard;
    do {
        heard = plock__local_hear(map->ears, claims);
        plock__enter();
        for (int i = 0; i < heard; i++) {
            plock_local_lease *lease =
                claims[i] < map->claim_count ? map->registered.of_claim[claims[i]] : NULL;
            if (lease) plock__local_look_at(lease, 0);
        }
        if (heard > 0) all += (unsigned)heard;
        const bool unsure = heard < 0 || all >= PLOCK__LOCAL_HEARD_TOO_MANY;
        for (plock_local_lease *lease = unsure ? map->registered.first : NULL; lease;
             lease = lease->next)
            plock__local_look_at(lease, 0);
        plock__leave();
    } while (heard < 0 || heard == PLOCK__LOCAL_HEARD_MAX);
}

/* Finds changes of claims that no process has reported. */
static void review(plock__local_map *map) {
    plock__enter();
    for (unsigned left = map->registered.count; left > 0 && map->registered.first;) {
        plock__local_make_readable(map);
        for (unsigned i = 0; i < AT_A_TIME && left > 0 && map->registered.first; i++, left--) {
            plock__local_examine(plock__local_rotate(map));
        }
        plock__leave(); /* lets other threads take the mutex */
        plock__enter();
    }
    plock__leave();
}

/* Returns the first lease for which the attendant must look by now. Call with the mutex held. */
static looker next_looker(plock__local_map *map, plock_ns now) {
    plock__heap_entry *first = map->registered.looks.first;
    if (!first || now < first->at) return (looker){.lease = NULL};
    plock_local_lease *due = PLOCK__CONTAINER(plock_local_lease, look, first);
    plock__local_visit();
    plock__local_look_at(due, PLOCK_NEVER);
    due->references++;
    return (looker){.lease = due, .claim = due->claim, .serial = due->serial};
}

/* Applies the outcome of a look after which the claim no longer waits, or after which the file is
 * `lost`. In a lost file, no process will admit the waiter, so its wait ends. */
static void conclude(const plock__local_attendant *attendant, const looker *who, bool lost) {
    plock__enter();
    if (there(attendant, who)) {
        plock__local_make_readable(attendant->map);
        lost ? plock__local_remove_waiter(who->lease) : plock__local_examine(who->lease);
    }
    plock__leave();
}

/* Looks on behalf of a waiter. Another process may wake this process, and only then change the
 * claim. But it leaves the critical section only after the change, so this function sees the
 * change. Returns false if another process was inside. */
static bool look(plock__local_attendant *attendant, const looker *who) {
    PLOCK__BEFORE(PLOCK__LOOKS);
    plock__local_map *map = attendant->map;
    const plock_ns now = plock_now();
    plock__local_outlook outlook = {.look_at = now + PLOCK_MILLISECOND};
    bool waits = true;
    plock__local_make_readable(map);
    plock_status status = plock__local_enter(map, now, NULL);
    if (status == PLOCK_OK) {
        waits = plock__local_look(map, who->claim, who->serial, now, &outlook);
        status = plock__local_leave(map, NULL);
    }
    const bool lost = status && status != PLOCK_AGAIN;
    if (waits && !lost)
        heed(attendant, who, &outlook); /* if another process was inside, heed() makes the attendant
                                         * look again in a millisecond */
    else
        conclude(attendant, who, lost);
    plock__local_lease_release(who->lease);
    return status != PLOCK_AGAIN;
}

/* Checks the file, and gives a sign of life for this process. If the last review was long ago, or
 * the file is lost, also reviews the leases. */
static void check(plock__local_attendant *attendant, plock_ns now) {
    const plock_status checked = plock__local_check(attendant->map, now, NULL);
    if (!checked) plock__local_make_readable(attendant->map);
    if (!checked) plock__local_give_sign(attendant->map);
    if (!plock__local_lost(attendant->map) && now < attendant->reviews_at) return;
    attendant->reviews_at = now + PLOCK__LOCAL_IN_ANY_CASE;
    review(attendant->map);
}

static plock_status step(plock_job *job, plock_interest *interest) {
    plock__local_attendant *attendant = (plock__local_attendant *)(void *)job;
    plock__local_map *map = attendant->map;
    const plock_ns now = plock_now();
    if (job->ready) hear(attendant);
    check(attendant, now);
    for (;;) {
        plock__enter();
        const looker due = next_looker(map, now);
        plock_ns at = plock__heap_at(&map->registered.looks);
        if (map->registered.first && attendant->reviews_at < at) at = attendant->reviews_at;
        /* Until the deadline has come, it only becomes earlier, even if the waiter that needed it
         * has gone. The needless step costs less than to wake the worker thread for the next
         * waiter. */
        if (now >= attendant->looks_at || at < attendant->looks_at) attendant->looks_at = at;
        *interest =
            (plock_interest){.fd = map->ears[0], .events = POLLIN, .deadline = attendant->looks_at};
        const bool over = !map->registered.first && map->references <= 1U + map->pinned;
        if (over) map->attendant = NULL;
        plock__leave();
        if (over) return PLOCK_OK;
        if (!due.lease) return PLOCK_AGAIN;
        if (!look(attendant, &due)) {
            interest->deadline = now + PLOCK_MILLISECOND;
            return PLOCK_AGAIN;
        }
    }
}

static plock_ns idle(const plock_job *job) {
    const plock__local_map *map = ((const plock__local_attendant *)(const void *)job)->map;
    return map->registered.first ? 0 : PLOCK_SECOND;
}

/* --- life --- */

void plock__local_review(plock__local_map *map) {
    if (map->attendant && map->references == 1U + map->pinned)
        plock__worker_schedule(&map->attendant->job);
}

static void destroy(plock_job *job) {
    plock__local_attendant *attendant = (plock__local_attendant *)(void *)job;
    plock__local_map *map = attendant->map;
    PLOCK__BEFORE(PLOCK__IS_FREED);
    plock__enter();
    const bool own = attendant->generation == plock__generation();
    /* if step() has already removed this attendant from the map, the leases in the map's list
     * belong to a newer attendant */
    const bool last = own && map->attendant == attendant;
    if (last) map->attendant = NULL;
    if (own) plock__local_end_watches(attendant);
    for (plock_local_lease *lease = last ? map->registered.first : NULL, *next; lease;
         lease = next) {
        next = lease->next;
        plock__local_remove_waiter(lease); /* no job is left to wake the waiter */
    }
    plock__leave();
    plock__local_release(map);
    plock__free(attendant);
}

plock_status plock__local_attend(plock__local_map *map, plock_error *error) {
    plock__enter();
    const bool attended = map->attendant;
    plock__leave();
    if (attended) return PLOCK_OK;
    plock__local_attendant *made = plock__allocate(sizeof *made);
    if (!made) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    made->job = (plock_job){.step = step, .destroy = destroy, .idle = idle, .lingers = true};
    made->generation = plock__generation();
    made->map = map;
    made->looks_at = PLOCK_NEVER;
    int ears[] = {-1, -1};
    const plock_status status = plock__local_listen(map, ears, error);
    plock__enter();
    const bool first = !status && !map->attendant;
    if (first) {
        map->attendant = made;
        map->references++;
    }
    if (map->ears[0] < 0) {
        memcpy(map->ears, ears, sizeof ears);
        ears[0] = ears[1] = -1;
    }
    plock__leave();
    /* `ears` still has descriptors only if another thread opened the waker before this one */
    for (int end = 0; end < 2; end++) plock__close_descriptor(&ears[end]);
    if (first)
        plock__worker_submit(&made->job);
    else
        plock__free(made);
    if (status) return status;
    plock__enter();
    const bool begun = map->attendant; /* false if no thread could run the job */
    plock__leave();
    if (begun) return PLOCK_OK;
    return plock__fail(error, PLOCK_DESCRIPTORS,
                       "no thread or file descriptor is left to wait with");
}
