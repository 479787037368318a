#include "redis/trim.h"

#include "base/memory.h"
#include "base/process.h"
#include "redis/routes.h"

/* How long an unused connection stays open. */
static const plock_ns UNUSED = 10 * PLOCK_SECOND;

struct plock_trim {
    plock_job job; /* first, so that the job has the address of plock_trim */
    plock_store *store;
    unsigned generation;
};

/* --- with the mutex held --- */

static unsigned count_open(plock_store *store) {
    unsigned count = 0;
    for (plock_node *node = NULL; (node = plock__store_nodes(store, node));)
        count += node->pool.open;
    return count;
}

static const plock_connection *last_used(plock_store *store) {
    const plock_connection *last = NULL;
    for (plock_node *node = NULL; (node = plock__store_nodes(store, node));) {
        const plock_connection *idle = node->pool.idle;
        if (idle && (!last || idle->idle_since > last->idle_since)) last = idle;
    }
    return last;
}

static bool attended(const plock_store *store) {
    const plock_trim *trim = store->routes->trim;
    return trim && trim->generation == plock__generation();
}

/* --- the job --- */

static bool is_over(plock_trim *trim) {
    plock_store *store = trim->store;
    const bool over = plock__store_unused(store) || count_open(store) <= 1;
    if (over && store->routes->trim == trim) store->routes->trim = NULL;
    return over;
}

static plock_status step(plock_job *job, plock_interest *interest) {
    plock_trim *trim = (plock_trim *)(void *)job;
    const plock_ns now = plock_now();
    *interest = (plock_interest){.fd = -1, .deadline = plock_after(now, UNUSED / 4)};
    plock__enter();
    const plock_connection *spared = last_used(trim->store);
    plock__leave();
    for (plock_node *node = NULL; (node = plock__store_nodes(trim->store, node));)
        plock__pool_trim(&node->pool, now - UNUSED, spared);
    plock__enter();
    const bool over = is_over(trim);
    plock__leave();
    return over ? PLOCK_OK : PLOCK_AGAIN;
}

static void destroy(plock_job *job) {
    plock_trim *trim = (plock_trim *)(void *)job;
    plock__enter();
    if (trim->store->routes->trim == trim) trim->store->routes->trim = NULL;
    plock__leave();
    plock__store_unattend(&trim->store->node);
    plock__free(trim);
}

void plock__trim_attend(plock_store *store) {
    plock__enter();
    const bool needless = attended(store) || count_open(store) < 2;
    plock__leave();
    plock_trim *trim = needless ? NULL : plock__allocate(sizeof *trim);
    if (!trim) return;
    *trim = (plock_trim){
        .job = {.step = step, .destroy = destroy, .idle = plock__job_idles, .lingers = true},
        .store = store,
        .generation = plock__generation(),
    };
    plock__enter();
    const bool late = attended(store); /* another thread was quicker */
    if (!late) {
        store->routes->trim = trim;
        store->references++;
        store->attendants++;
    }
    plock__leave();
    if (late)
        plock__free(trim);
    else
        plock__worker_submit(&trim->job);
}

void plock__trim_review(plock_store *store) {
    if (attended(store)) plock__worker_schedule(&store->routes->trim->job);
}
