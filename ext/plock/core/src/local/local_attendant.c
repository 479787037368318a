/* The attendant is a job of the worker thread for the claims of this process in a local store. It
 * listens to the process's waker, and wakes waiters whose turn has come. When a waiter must look at
 * its queue again, the attendant looks on the waiter's behalf, by calling plock__local_look for the
 * waiter's claim. */
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

enum { AT_A_TIME = 64 }; /* how many leases are reviewed before other threads may take the lock */

/* --- looks --- */

static void look_at_latest(plock_local_lease *lease, plock_ns at) {
    if (at < lease->look.at) plock__local_look_at(lease, at);
}

/* A retained lease whose look is due, and its claim. By the time the attendant looks, the lease may
 * have a different claim or none. */
typedef struct looker {
    plock_local_lease *lease; /* NULL: none is due */
    uint32_t claim;
    uint64_t serial;
} looker;

/* Does the lease still have that claim? Call with the lock held. */
static bool there(const plock__local_attendant *attendant, const looker *who) {
    return who->lease->registered && who->lease->map == attendant->map &&
           who->lease->serial == who->serial;
}

/* Does the same as plock__local_heed, but within the attendant's step, so it also begins
 * watches. */
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

/* Runs in the waiting thread, which begins no watches on processes itself. If a watch is missing,
 * the attendant looks at once, and begins the watch. Usually all watches exist. */
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

/* Reads the claims that other processes have written into the waker, and makes their leases
 * look. */
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

/* Examines all registered leases. This finds changes that no process has reported. */
static void review(plock__local_map *map) {
    plock__enter();
    for (unsigned left = map->registered.count; left > 0 && map->registered.first;) {
        plock__local_make_readable(map);
        for (unsigned i = 0; i < AT_A_TIME && left > 0 && map->registered.first; i++, left--) {
            plock__local_examine(plock__local_rotate(map));
        }
        plock__leave(); /* lets other threads take the lock */
        plock__enter();
    }
    plock__leave();
}

/* Returns the first lease that is due to look. Call with the lock held. */
static looker next_looker(plock__local_map *map, plock_ns now) {
    plock__heap_entry *first = map->registered.looks.first;
    if (!first || now < first->at) return (looker){.lease = NULL};
    plock_local_lease *due = PLOCK__CONTAINER(plock_local_lease, look, first);
    plock__local_visit();
    plock__local_look_at(due, PLOCK_NEVER);
    due->references++;
    return (looker){.lease = due, .claim = due->claim, .serial = due->serial};
}

/* Runs after a look if the claim no longer waits, or if the file is `lost`. In a lost file, no
 * process will admit the waiter, so its wait ends. */
static void conclude(const plock__local_attendant *attendant, const looker *who, bool lost) {
    plock__enter();
    if (there(attendant, who)) {
        plock__local_make_readable(attendant->map);
        lost ? plock__local_remove_waiter(who->lease) : plock__local_examine(who->lease);
    }
    plock__leave();
}

/* Looks on behalf of a waiter, in the critical section. Another process may wake this process first
 * and make the change afterwards, but leaves the critical section only after the change. Returns
 * false if another process was inside. */
static bool look(plock__local_attendant *attendant, const looker *who) {
    PLOCK__BEFORE(PLOCK__LOOKS);
    plock__local_map *map = attendant->map;
    const plock_ns now = plock_now();
    plock__local_outlook outlook = {.look_at = now + PLOCK_MILLISECOND};
    plock_error ignored = {.status = PLOCK_OK};
    bool waits = true;
    plock__local_make_readable(map);
    plock_status status = plock__local_enter(map, now, &ignored);
    if (status == PLOCK_OK) {
        waits = plock__local_look(map, who->claim, who->serial, now, &outlook);
        status = plock__local_leave(map, &ignored);
    }
    const bool lost = status && status != PLOCK_AGAIN;
    if (waits && !lost)
        heed(attendant, who, &outlook); /* if another process was inside, the attendant looks again
                                         * in a moment */
    else
        conclude(attendant, who, lost);
    plock__local_lease_release(who->lease);
    return status != PLOCK_AGAIN;
}

static bool needed(const plock__local_attendant *attendant) {
    return attendant->map->registered.first ||
           attendant->map->references > 1U + attendant->map->pinned;
}

/* Checks the file, gives a sign of life, and reviews the leases if the last review was long ago or
 * the file is lost. */
static void check(plock__local_attendant *attendant, plock_ns now) {
    plock_error ignored;
    const plock_status checked = plock__local_check(attendant->map, now, &ignored);
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
        /* An earlier deadline stays, even if the waiter that needed it has gone. Otherwise each new
         * waiter might have to wake the worker thread, which costs more than one needless step. */
        if (now >= attendant->looks_at || at < attendant->looks_at) attendant->looks_at = at;
        *interest =
            (plock_interest){.fd = map->ears[0], .events = POLLIN, .deadline = attendant->looks_at};
        const bool over = !needed(attendant);
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

static void schedule(plock__local_map *map) {
    if (map->attendant) plock__worker_schedule(&map->attendant->job);
}

void plock__local_review(plock__local_map *map) {
    if (map->references == 1U + map->pinned) schedule(map);
}

static void destroy(plock_job *job) {
    plock__local_attendant *attendant = (plock__local_attendant *)(void *)job;
    plock__local_map *map = attendant->map;
    PLOCK__BEFORE(PLOCK__IS_FREED);
    plock__enter();
    const bool own = attendant->generation == plock__generation();
    /* if step() has already removed this attendant from the map, any leases of the map now belong
     * to a newer attendant */
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
    /* these are still open only if another thread opened the waker first */
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
