/* The lookout: looks now and then whether a local store's file is still in its place, as long as
 * somebody holds something in it. Else a file that was moved, and is put back before anybody asks,
 * would bring back leases that were lost meanwhile. */
#include "local/local_lease.h"

#include "base/memory.h"
#include "base/process.h"

/* A file that is away for so long is missed. */
static const plock_ns LOOKS_EVERY = PLOCK_SECOND / 2;

/* Others may come soon again; until then a thread that sleeps is all that it costs. */
static const plock_ns IDLE = 5 * PLOCK_SECOND;

struct plock__local_lookout {
    plock_job job; /* first, so that both are one address */
    unsigned generation;
    plock__local_map *map; /* under the lock; NULL: it is gone */
    plock_ns used_at;      /* when something was held in it, as far as seen: its own */
};

/* The map, retained, if something is held in it or waited for; over: nothing was for a while, or it
 * is gone. */
static plock__local_map *to_look_at(plock__local_lookout *lookout, plock_ns now, bool *over) {
    plock__enter();
    plock__local_map *map = lookout->map;
    const bool used = map && map->users > 0;
    if (used) map->references++;
    if (used) lookout->used_at = now;
    *over = !used && (!map || now - lookout->used_at >= IDLE);
    if (*over && map) map->lookout = NULL; /* whoever uses it next posts another one */
    if (*over) lookout->map = NULL;
    plock__leave();
    return used ? map : NULL;
}

static plock_status step(plock_job *job, plock_interest *interest) {
    plock__local_lookout *lookout = (plock__local_lookout *)(void *)job;
    const plock_ns now = plock_now();
    plock_error ignored;
    bool over;
    plock__local_map *map = to_look_at(lookout, now, &over);
    if (map) {
        /* where it is lost, the map says so from now on */
        (void)(plock__local_check(map, now, &ignored) == PLOCK_OK);
        plock__local_release(map);
    }
    *interest = (plock_interest){.fd = -1, .deadline = now + LOOKS_EVERY};
    return over ? PLOCK_OK : PLOCK_AGAIN;
}

/* A follower steps it as well as the native thread. */
static bool idle(const plock_job *job) {
    (void)job;
    return true;
}

static void destroy(plock_job *job) {
    plock__local_lookout *lookout = (plock__local_lookout *)(void *)job;
    plock__enter();
    const bool own = lookout->generation == plock__generation();
    if (own && lookout->map) lookout->map->lookout = NULL;
    plock__leave();
    plock__free(lookout);
}

void plock__local_post_lookout(plock__local_map *map) {
    plock__local_lookout *made = plock__allocate(sizeof *made);
    if (!made) return; /* the next one tries it again; who asks about a lease looks himself */
    *made = (plock__local_lookout){
        .job = {.step = step, .destroy = destroy, .idle = idle, .lingers = true},
        .generation = plock__generation(),
        .map = map,
        .used_at = plock_now()};
    plock__enter();
    const bool first = !map->lookout;
    if (first) map->lookout = made;
    plock__leave();
    if (first)
        plock__worker_submit(&made->job);
    else
        plock__free(made); /* another thread was quicker */
}

void plock__local_dismiss_lookout(plock__local_map *map) {
    plock__local_lookout *lookout = map->lookout;
    if (!lookout) return;
    map->lookout = NULL;
    lookout->map = NULL;
    plock__worker_schedule(&lookout->job);
}
