#include "runtime/round.h"

#include "base/process.h"
#include "runtime/waker.h"

#include <errno.h>
#include <poll.h>

/* Indexes in `polled`. If no place is left for a job's descriptor, the job is stepped at short
 * intervals. A job that waits only for a deadline needs no place, so only a few of the jobs of
 * leases and waiters need one. */
enum { LEADER_WAKER, JOBS, PLACES = 257 };

/* If there is no descriptor to poll for a job or an interrupt, the thread looks at that job or
 * interrupt again after this time. */
static const plock_ns SOON = 2 * PLOCK_MILLISECOND;

/* The descriptors that the jobs wait for, each with its job. Only the leader uses these lists, and
 * changes them only within a step. */
static struct {
    unsigned count;
    struct pollfd polled[PLACES];
    plock_job *jobs[PLACES];
} places = {.count = JOBS};

static _Thread_local plock_job *stepping;

plock_job *plock__worker_stepping(void) { return stepping; }

/* --- the polled descriptors --- */

/* Stops polling the job's descriptor. The other jobs keep their order, so that if two descriptors
 * are ready at once, the job that has waited for longer is stepped first. The loop costs little,
 * because poll(2) looks at all places anyway. */
static void leave_place(plock_job *job) {
    const unsigned left = job->place;
    job->place = 0;
    if (left == 0 || left == PLACES) return;
    places.count--;
    for (unsigned place = left; place < places.count; place++) {
        places.polled[place] = places.polled[place + 1];
        places.jobs[place] = places.jobs[place + 1];
        places.jobs[place]->place = place;
    }
}

/* Makes each round poll the interest's descriptor from now on. Returns false if no descriptor is
 * left for the interest's waker, or if no place is left for the descriptor. */
static bool take_place(plock_job *job, const plock_interest *interest) {
    const int fd = interest->waker ? plock_waker_descriptor(interest->waker) : interest->fd;
    const bool has_one = job->place > 0 && job->place < PLACES;
    if (fd < 0 || (!has_one && places.count == PLACES)) {
        leave_place(job);
        const bool needs_none = fd < 0 && !interest->waker;
        job->place = needs_none ? 0 : PLACES;
        return needs_none;
    }
    if (!has_one) job->place = places.count++;
    places.jobs[job->place] = job;
    places.polled[job->place] =
        (struct pollfd){.fd = fd, .events = interest->waker ? POLLIN : interest->events};
    return true;
}

void plock__round_reset(void) { places.count = JOBS; }

/* --- steps --- */

/* Returns true if the job is done. Otherwise sets *moment to the time of the job's next step. */
static bool step(plock_job *job, plock_ns *moment) {
    plock_interest interest = {.fd = -1, .deadline = PLOCK_NEVER};
    job->ready = job->ready || job->place == PLACES;
    stepping = job;
    const plock_status status = job->step(job, &interest);
    stepping = NULL;
    job->ready = false;
    *moment = interest.deadline;
    if (status != PLOCK_AGAIN) {
        leave_place(job);
        return true;
    }
    if (take_place(job, &interest)) return false;
    const plock_ns soon = plock_now() + SOON;
    if (soon < *moment) *moment = soon;
    return false;
}

void plock__round_step(plock__agenda *agenda, void (*end)(plock_job *)) {
    const plock_ns now = plock_now();
    plock__begin_step();
    plock__enter();
    unsigned due = agenda->due_count;
    for (plock_job *job; (job = plock__agenda_next(agenda, &due, now));) {
        plock_ns moment;
        plock__job_visit();
        plock__leave();
        const bool done = step(job, &moment);
        plock__enter();
        if (!done) {
            plock__agenda_rest(agenda, job, moment, now);
            continue;
        }
        plock__agenda_drop(agenda, job);
        plock__leave();
        end(job);
        plock__enter();
    }
    plock__leave();
    plock__end_step();
}

/* --- waiting --- */

static void heed_ready(plock__agenda *agenda) {
    plock__enter();
    for (unsigned place = JOBS; place < places.count; place++) {
        if (!places.polled[place].revents) continue;
        plock__job_visit();
        places.jobs[place]->ready = true;
        plock__agenda_schedule(agenda, places.jobs[place]);
    }
    plock__leave();
}

int plock__round_wait(plock__agenda *agenda, plock_waker *leader_waker, plock_ns deadline) {
    places.polled[LEADER_WAKER] =
        (struct pollfd){.fd = plock_waker_descriptor(leader_waker), .events = POLLIN};
    const int ready = poll(places.polled, places.count, plock_poll_timeout(deadline));
    /* a signal came; the next round steps the jobs whose moments have come */
    if (ready < 0) return ready;
    if (places.polled[LEADER_WAKER].revents) (void)plock_waker_clear(leader_waker);
    if (ready > (places.polled[LEADER_WAKER].revents ? 1 : 0)) heed_ready(agenda);
    return ready;
}

plock_status plock__await_descriptor(const plock_interest *interest, plock_waker *interrupt) {
    struct pollfd polled[] = {{.fd = interest->fd, .events = interest->events},
                              {.fd = -1, .events = POLLIN}};
    plock_ns deadline = interest->deadline;
    if (interrupt) {
        polled[1].fd = plock_waker_descriptor(interrupt);
        if (plock__waker_woken(interrupt)) return PLOCK_INTERRUPTED;
        const plock_ns soon = plock_after(plock_now(), SOON);
        if (polled[1].fd < 0 && soon < deadline) deadline = soon;
    }
    const int ready = poll(polled, 2, plock_poll_timeout(deadline));
    if (ready < 0 && errno == EINTR) return PLOCK_INTERRUPTED;
    if (polled[1].revents) plock__waker_drain(interrupt);
    return interrupt && plock__waker_woken(interrupt) ? PLOCK_INTERRUPTED : PLOCK_OK;
}
