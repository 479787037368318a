#include "runtime/round.h"

#include "base/process.h"
#include "runtime/waker.h"

#include <errno.h>
#include <stdatomic.h>

enum { LEADER_WAKER = 0, JOBS }; /* indexes in `polled` */

/* After this time a job or an interrupt for which no descriptor is left is looked at again. */
static const plock_ns SOON = 2 * PLOCK_MILLISECOND;

static _Thread_local plock_job *stepping;

plock_job *plock__worker_stepping(void) { return stepping; }

static bool may_be_ready(const plock__round *round, const plock_job *job) {
    if (round->count == 0 || job->place == 0) return false;
    return job->place == PLOCK__PLACES || round->polled[job->place].revents;
}

void plock__round_step(const plock__round *round, plock_job **jobs, void (*end)(plock_job *)) {
    plock_job **link = jobs;
    const plock_ns now = plock_now();
    plock__begin_step();
    while (*link) {
        plock_job *job = *link;
        job->ready = may_be_ready(round, job);
        if (atomic_exchange(&job->due, false) || job->ready || now >= job->interest.deadline) {
            job->interest = (plock_interest){.fd = -1, .deadline = PLOCK_NEVER};
            stepping = job;
            const plock_status status = job->step(job, &job->interest);
            stepping = NULL;
            if (status != PLOCK_AGAIN) {
                *link = job->next;
                end(job);
                continue;
            }
        }
        link = &job->next;
    }
    plock__end_step();
}

/* Returns the descriptor to poll: -1 if the job waits only for its deadline, or no descriptor is
 * left for the job's waker. */
static struct pollfd polled_for(const plock_interest *interest) {
    const int woken = interest->waker ? plock_waker_descriptor(interest->waker) : -1;
    if (interest->waker) return (struct pollfd){.fd = woken, .events = POLLIN};
    return (struct pollfd){.fd = interest->fd, .events = interest->events};
}

plock_ns plock__round_gather(plock__round *round, plock_job *jobs, plock_waker *leader_waker,
                             plock_ns deadline) {
    round->polled[LEADER_WAKER] =
        (struct pollfd){.fd = plock_waker_descriptor(leader_waker), .events = POLLIN};
    round->count = JOBS;
    bool without = false;
    for (plock_job *job = jobs; job; job = job->next) {
        const struct pollfd polled = polled_for(&job->interest);
        job->place = polled.fd >= 0 ? round->count : job->interest.waker ? PLOCK__PLACES : 0;
        if (job->place == PLOCK__PLACES)
            without = true;
        else if (job->place)
            round->polled[round->count++] = polled;
        if (job->interest.deadline < deadline) deadline = job->interest.deadline;
        if (atomic_load(&job->due)) deadline = 0; /* the job was scheduled after its step */
    }
    const plock_ns soon = without ? plock_now() + SOON : PLOCK_NEVER;
    return soon < deadline ? soon : deadline;
}

int plock__round_wait(plock__round *round, plock_waker *leader_waker, plock_ns deadline) {
    const int ready = poll(round->polled, round->count, plock_poll_timeout(deadline));
    /* a signal: the next round steps the jobs whose deadlines have passed */
    if (ready < 0)
        round->count = 0;
    else if (round->polled[LEADER_WAKER].revents)
        (void)plock_waker_clear(leader_waker);
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
