/* The attendant is a job of the worker thread for the claims of this process in a local store. It
 * listens to the waker, wakes waiters whose turn has come, and looks for those that are due. */
#include "local/local_attendant.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

/* WITHOUT_NEWS: how often a waiter looks if no descriptor reports the end of a process.
 * IN_ANY_CASE: how often the attendant checks the file, so that a loss is reported within a second.
 */
static const plock_ns WITHOUT_NEWS = 4 * PLOCK_MILLISECOND, IN_ANY_CASE = PLOCK_SECOND / 2;

/* --- leases --- */

/* With the lock held. */
static void attend_by(plock__local_attendant *attendant, plock_ns at) {
    if (at >= attendant->looks_at) return;
    attendant->looks_at = at;
    plock__worker_schedule(&attendant->job);
}

void plock__local_register(plock_local_lease *lease) {
    if (lease->registered) return;
    lease->registered = true;
    lease->next = lease->map->registered;
    lease->map->registered = lease;
    if (lease->map->attendant) attend_by(lease->map->attendant, plock_now() + IN_ANY_CASE);
}

void plock__local_unregister(plock_local_lease *lease) {
    if (!lease->registered) return;
    lease->registered = false;
    for (plock_local_lease **link = &lease->map->registered; *link; link = &(*link)->next)
        if (*link == lease) {
            *link = lease->next;
            return;
        }
}

static void schedule(plock__local_map *map) {
    if (map->attendant) plock__worker_schedule(&map->attendant->job);
}

/* With the lock held. */
static void give_turn(plock_local_lease *lease) {
    if (lease->state != PLOCK__LEASE_WAITING) return;
    plock__local_set_state(lease, PLOCK__LEASE_HELD);
    plock__local_begin_watch(lease);
    if (lease->watching == PLOCK__WATCHED)
        plock__worker_schedule(&lease->job);
    else
        plock__local_unregister(lease);
    if (lease->waker) plock__worker_wake(lease->waker);
}

static void remove_waiter(plock_local_lease *lease) {
    if (lease->state == PLOCK__LEASE_HELD && lease->job_state) plock__worker_schedule(&lease->job);
    if (lease->state != PLOCK__LEASE_WAITING) return;
    plock__local_set_state(lease, PLOCK__LEASE_REMOVED);
    plock__local_unregister(lease);
    if (lease->waker) plock__worker_wake(lease->waker);
}

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
    lease->look_at = 0;
    schedule(lease->map);
    plock__leave();
}

void plock__local_taken_away(plock_local_lease *lease) {
    plock__enter();
    remove_waiter(lease);
    plock__leave();
}

/* With the lock held. */
static void look_by(plock_local_lease *lease, plock__local_attendant *attendant, plock_ns look_at) {
    const plock_ns latest = plock_now() + IN_ANY_CASE;
    look_at = look_at < latest ? look_at : latest;
    if (look_at < lease->look_at) lease->look_at = look_at;
    attend_by(attendant, lease->look_at);
}

/* A lease that is due to look, retained, and its claim. When the attendant looks, the lease may
 * already have another claim or none. */
typedef struct looker {
    plock_local_lease *lease; /* NULL: none is due */
    uint32_t claim;
    uint64_t serial;
} looker;

/* Has the lease still that claim? With the lock held. */
static bool there(const plock__local_attendant *attendant, const looker *who) {
    return who->lease->registered && who->lease->map == attendant->map &&
           who->lease->serial == who->serial;
}

/* As plock__local_heed, within the attendant's step. */
static void heed(plock__local_attendant *attendant, const looker *who,
                 const plock__local_outlook *outlook) {
    const plock_ns now = plock_now(), latest = now + IN_ANY_CASE, soon = now + WITHOUT_NEWS;
    plock_ns look_at = outlook->look_at < latest ? outlook->look_at : latest;
    bool told =
        outlook->count <= PLOCK__LOCAL_WATCHED_MAX || plock__local_watch_all(attendant, now);
    for (unsigned i = 0; i < outlook->count && i < PLOCK__LOCAL_WATCHED_MAX && told; i++)
        told = plock__local_watch_process(attendant, outlook->processes[i], now);
    if (!told && soon < look_at) look_at = soon;
    plock__enter();
    if (there(attendant, who) && look_at < who->lease->look_at) who->lease->look_at = look_at;
    plock__leave();
}

/* The file is lost: no process will admit the waiter. */
static void drop_looker(const plock__local_attendant *attendant, const looker *who) {
    plock__enter();
    if (there(attendant, who)) remove_waiter(who->lease);
    plock__leave();
}

/* The waiting thread begins no watches on processes itself: if one is missing, the attendant looks
 * at once, and begins it. Usually all exist. */
void plock__local_heed(plock_local_lease *lease, const plock__local_outlook *outlook) {
    plock__enter();
    plock__local_attendant *attendant = lease->map->attendant;
    bool known = outlook->count <= PLOCK__LOCAL_WATCHED_MAX;
    for (unsigned i = 0; attendant && known && i < outlook->count; i++)
        known = plock__local_watches(attendant, outlook->processes[i]);
    if (attendant && known)
        look_by(lease, attendant, outlook->look_at);
    else if (attendant)
        look_by(lease, attendant, 0);
    plock__leave();
}

/* --- steps --- */

/* Applies the changes of the claims to their leases, and returns the lease that is due. With the
 * lock held. */
static looker review(plock__local_attendant *attendant, plock_ns now, plock_ns *at) {
    plock_local_lease *due = NULL;
    if (attendant->map->registered) plock__local_make_readable(attendant->map);
    for (plock_local_lease *lease = attendant->map->registered, *next; lease; lease = next) {
        next = lease->next;
        const uint64_t word = atomic_load(&lease->map->claims[lease->claim].word);
        const bool handed = word == plock__word(lease->serial, PLOCK__HANDED);
        if (word == plock__word(lease->serial, PLOCK__HELD)) {
            give_turn(lease);
        } else if (!handed && word != plock__word(lease->serial, PLOCK__WAITING)) {
            remove_waiter(lease);
        } else {
            /* The look takes a turn that was handed over. */
            const bool changed = atomic_load(&lease->map->claims[lease->claim].look);
            if (handed || changed) lease->look_at = 0;
            const bool looks = now >= lease->look_at;
            if (looks && !due)
                due = lease;
            else if (looks)
                *at = 0;
            else if (lease->look_at < *at)
                *at = lease->look_at;
        }
    }
    if (!due) return (looker){.lease = NULL};
    due->look_at = PLOCK_NEVER;
    due->references++;
    return (looker){.lease = due, .claim = due->claim, .serial = due->serial};
}

static void all_look_now(plock__local_attendant *attendant) {
    if (attendant->all_look)
        for (plock_local_lease *lease = attendant->map->registered; lease; lease = lease->next)
            lease->look_at = 0;
    attendant->all_look = false;
}

/* Returns false if another process was in the critical section. */
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
    if (status == PLOCK_OK || status == PLOCK_AGAIN) {
        if (waits)
            heed(attendant, who, &outlook); /* if the critical section was taken, in a moment */
    } else {
        drop_looker(attendant, who);
    }
    plock__local_lease_release(who->lease);
    return status != PLOCK_AGAIN;
}

static bool needed(const plock__local_attendant *attendant) {
    return attendant->map->registered || attendant->map->references > 1U + attendant->map->pinned;
}

/* A process wakes others before it makes a change. So an attendant that was woken looks again until
 * that process has left the critical section, or is found dead in it. Returns false if another
 * process is still inside. */
static bool can_look(plock__local_attendant *attendant, plock_ns now) {
    plock_error ignored = {.status = PLOCK_OK};
    if (!attendant->heard) return true;
    const plock_status status = plock__local_enter(attendant->map, now, &ignored);
    if (status == PLOCK_AGAIN) return false;
    attendant->heard = false;
    return status || plock__local_leave(attendant->map, &ignored) != PLOCK_AGAIN;
}

static plock_status step(plock_job *job, plock_interest *interest) {
    plock__local_attendant *attendant = (plock__local_attendant *)(void *)job;
    if (job->ready) plock__local_clear(attendant->map->ears);
    attendant->heard = attendant->heard || job->ready;
    for (;;) {
        plock_error ignored;
        const plock_ns now = plock_now();
        /* If the file is lost, so is every claim that is reviewed. */
        const plock_status checked = plock__local_check(attendant->map, now, &ignored);
        if (!checked) plock__local_make_readable(attendant->map);
        if (!checked) plock__local_give_sign(attendant->map);
        plock_ns at = can_look(attendant, now) ? PLOCK_NEVER : now + PLOCK_MILLISECOND;
        plock__enter();
        all_look_now(attendant);
        const looker due = review(attendant, now, &at);
        if (attendant->map->registered && at > now + IN_ANY_CASE) at = now + IN_ANY_CASE;
        /* An earlier deadline is kept: waiters come and go, and one needless look costs less than a
         * wake for each of them. */
        if (now >= attendant->looks_at || at < attendant->looks_at) attendant->looks_at = at;
        *interest = (plock_interest){
            .fd = attendant->map->ears[0], .events = POLLIN, .deadline = attendant->looks_at};
        const bool over = !needed(attendant);
        if (over) attendant->map->attendant = NULL;
        plock__leave();
        if (over) return PLOCK_OK;
        if (!due.lease) return PLOCK_AGAIN;
        if (!look(attendant, &due)) {
            interest->deadline = now + PLOCK_MILLISECOND;
            return PLOCK_AGAIN;
        }
    }
}

static bool idle(const plock_job *job) {
    return !((const plock__local_attendant *)(const void *)job)->map->registered;
}

/* --- life --- */

void plock__local_review(plock__local_map *map) {
    if (map->references == 1U + map->pinned) schedule(map);
}

static void destroy(plock_job *job) {
    plock__local_attendant *attendant = (plock__local_attendant *)(void *)job;
    plock__local_map *map = attendant->map;
    PLOCK__BEFORE(PLOCK__IS_FREED);
    plock__enter();
    const bool own = attendant->generation == plock__generation();
    /* otherwise it had no leases, and the map may have another attendant by now */
    const bool last = own && map->attendant == attendant;
    if (last) map->attendant = NULL;
    if (own) plock__local_end_watches(attendant);
    for (plock_local_lease *lease = last ? map->registered : NULL, *next; lease; lease = next) {
        next = lease->next;
        remove_waiter(lease); /* no job is left to wake it */
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
    for (int end = 0; end < 2; end++)
        if (ears[end] >= 0) (void)close(ears[end]); /* another thread was quicker */
    if (first)
        plock__worker_submit(&made->job);
    else
        plock__free(made);
    return status;
}
