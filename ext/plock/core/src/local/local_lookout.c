/* The lookout is a job of the worker thread. While this process holds or waits for a lease, the
 * lookout regularly checks that the store's file is in its place. Without these checks, a file that
 * was moved away and put back would revive lost leases. */
#include "local/local_lease.h"

#include "base/memory.h"
#include "base/process.h"

/* How often the lookout checks the file. If the file is away for longer than this, a check finds it
 * missing. */
static const plock_ns LOOKS_EVERY = PLOCK_SECOND / 2;

/* How long the lookout keeps running when no lease uses the map, because another lease may begin.
 * It costs only a sleeping thread. */
static const plock_ns IDLE = 5 * PLOCK_SECOND;

struct plock__local_lookout {
    plock_job job; /* first, so that the job has the lookout's address */
    unsigned generation;
    plock__local_map *map; /* under the mutex; NULL: the map is gone */
    plock_ns used_at;      /* when a lease last used the map; only the job uses this */
};

/* Returns the map, retained, if a lease uses it; otherwise NULL. Sets *over to true if no lease has
 * used the map for a while, or if the map is gone. */
static plock__local_map *to_look_at(plock__local_lookout *lookout, plock_ns now, bool *over) {
    plock__enter();
    plock__local_map *map = lookout->map;
    const bool used = map && map->users > 0;
    if (used) map->references++;
    if (used) lookout->used_at = now;
    *over = !used && (!map || now - lookout->used_at >= IDLE);
    if (*over && map) map->lookout = NULL; /* the next lease makes another lookout */
    if (*over) lookout->map = NULL;
    plock__leave();
    return used ? map : NULL;
}

static plock_status step(plock_job *job, plock_interest *interest) {
    plock__local_lookout *lookout = (plock__local_lookout *)(void *)job;
    const plock_ns now = plock_now();
    bool over;
    plock__local_map *map = to_look_at(lookout, now, &over);
    if (map) {
        /* if the file is lost, the check records that in the map */
        (void)(plock__local_check(map, now, NULL) == PLOCK_OK);
        plock__local_release(map);
    }
    *interest = (plock_interest){.fd = -1, .deadline = now + LOOKS_EVERY};
    return over ? PLOCK_OK : PLOCK_AGAIN;
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
    if (!made)
        return; /* the next lease tries again; until then, each query about a lease checks the file
                 */
    *made = (plock__local_lookout){
        .job = {.step = step, .destroy = destroy, .idle = plock__job_idles, .lingers = true},
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
        plock__free(made); /* another thread made a lookout first */
}

void plock__local_dismiss_lookout(plock__local_map *map) {
    plock__local_lookout *lookout = map->lookout;
    if (!lookout) return;
    map->lookout = NULL;
    lookout->map = NULL;
    plock__worker_schedule(&lookout->job);
}
