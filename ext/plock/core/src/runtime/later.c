#include "runtime/later.h"

#include "base/container.h"
#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "runtime/worker.h"

/* A lease younger than this is not watched. So its watch begins with a check: if the lease was
 * broken while it was young, the loss is noticed within half a second. */
static const plock_ns LEFT_ALONE = 250 * PLOCK_MILLISECOND;

/* The job ends after the list has been empty for this long. It does not end sooner, because new
 * leases may come soon. A waiting job costs no more than a sleeping thread. */
static const plock_ns IDLE = 5 * PLOCK_SECOND;

/* The mutex protects these variables. */
static plock_job *at_work;
static plock__heap dates;   /* the entries that have a date */
static unsigned entries;    /* the number of entries, with and without a date */
static plock_ns looks_at;   /* when the job next looks for entries that are due; it may find none */
static plock_ns last_span;  /* how far in the future the last date was when it was set */
static bool used;           /* has a date been set since the job last looked? */
static plock_ns idle_since; /* when the list became empty; PLOCK_NEVER: it is not empty */

plock_ns plock__later_than(plock_ns now, plock_ns renew_at) {
    const plock_ns halfway = now + (renew_at - now) / 2, latest = plock_after(now, LEFT_ALONE);
    return halfway < latest ? halfway : latest;
}

/* --- the list; with the mutex held --- */

void plock__later_leave(plock_later *later) {
    if (!later->listed) return;
    later->listed = false;
    entries--;
    plock__heap_remove(&dates, &later->date);
    /* seconds may pass before the job looks at the list, so the time at which the list became
     * empty is noted here */
    if (!entries && looks_at == PLOCK_NEVER) idle_since = plock_now();
}

void plock__later_by(plock_later *later, plock_ns due) {
    if (!later->listed || (later->date.entered && due >= later->date.at)) return;
    plock__heap_move(&dates, &later->date, due);
    last_span = due - plock_now();
    used = true;
    if (due >= looks_at || !at_work) return;
    looks_at = due;
    plock__worker_schedule(at_work);
}

/* Returns when the job must look at the list again. While leases come and go, the job looks often
 * enough that the entry of a new lease need not wake it. */
static plock_ns next_look(plock_ns now) {
    const plock_ns at = plock__heap_at(&dates);
    const plock_ns soon =
        used ? plock_after(now, last_span > 0 ? last_span : LEFT_ALONE) : PLOCK_NEVER;
    used = false;
    return soon < at ? soon : at;
}

/* --- the job of the worker thread --- */

/* Returns true if the list has been empty for IDLE, so that the job must end. Otherwise lowers *at
 * to the earliest time at which the job may have to end, because the removal of an entry wakes no
 * job. */
static bool retires(plock_ns now, plock_ns *at) {
    if (entries > 0 || used)
        idle_since = PLOCK_NEVER;
    else if (idle_since == PLOCK_NEVER)
        idle_since = now;
    const bool empty = idle_since != PLOCK_NEVER;
    const plock_ns over = (empty ? idle_since : now) + IDLE;
    if (over < *at) *at = over;
    return empty && now >= over;
}

static plock_status step(plock_job *job, plock_interest *interest) {
    (void)job;
    for (;;) {
        const plock_ns now = plock_now();
        plock__enter();
        if (now >= plock__heap_at(&dates)) {
            plock_later *due = PLOCK__CONTAINER(plock_later, date, dates.first);
            plock__later_leave(due);
            due->keep(due);
            plock__leave();
            due->begin(due);
            continue;
        }
        plock_ns wakes_at = PLOCK_NEVER;
        const bool over = retires(now, &wakes_at);
        looks_at = next_look(now);
        if (looks_at < wakes_at) wakes_at = looks_at;
        if (over) at_work = NULL;
        plock__leave();
        *interest = (plock_interest){.fd = -1, .deadline = wakes_at};
        return over ? PLOCK_OK : PLOCK_AGAIN;
    }
}

static void destroy(plock_job *job) {
    plock__enter();
    if (at_work == job) at_work = NULL;
    plock__leave();
    plock__free(job);
}

/* --- entering --- */

/* Makes sure that the job exists. Returns PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_DESCRIPTORS. */
static plock_status appoint(void) {
    plock_job *made = plock__allocate(sizeof *made);
    if (!made) return PLOCK_NO_MEMORY;
    *made =
        (plock_job){.step = step, .destroy = destroy, .idle = plock__job_idles, .lingers = true};
    plock__enter();
    const bool first_one = !at_work;
    if (first_one) {
        at_work = made;
        looks_at = idle_since = PLOCK_NEVER;
        used = true;
    }
    plock__leave();
    if (first_one)
        plock__worker_submit(made);
    else
        plock__free(made); /* another thread has made the job */
    return PLOCK_OK;
}

static bool enter(plock_later *later) {
    plock__enter();
    const bool there = at_work;
    if (there && !later->listed) {
        later->listed = true;
        later->date = (plock__heap_entry){0};
        entries++;
    }
    plock__leave();
    return there;
}

plock_status plock__later_enter(plock_later *later, plock_error *error) {
    if (enter(later)) return PLOCK_OK;
    const plock_status status = appoint();
    if (status) return plock__fail_plainly(error, status);
    if (enter(later)) return PLOCK_OK;
    return plock__fail(error, PLOCK_DESCRIPTORS,
                       "no thread or file descriptor is left to renew the lease with");
}

/* The worker thread and the entries belong to the parent. */
void plock__later_in_child(void) {
    at_work = NULL;
    dates = (plock__heap){0};
    entries = 0;
}
