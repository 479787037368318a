#include "runtime/worker.h"

#include "base/process.h"
#include "runtime/nook.h"
#include "runtime/waker.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>

/* All under the lock, but `active`, which is the driver's. */
static plock_job *submitted, *active, *inherited;
static unsigned owed; /* jobs that somebody may wait for */
static bool running, joinable, stopping;
static enum { NOBODY, NATIVE, GUEST } driver;
static unsigned guests; /* since the native thread parked */
static plock_ns parked_until; /* then it looks by itself */
static plock_waker *bell, *parking, *ended; /* what the driver listens to, what the native thread does while it is not that, and who drains */
static pthread_t thread;

static _Thread_local bool drives, served;
static _Thread_local const plock_waker *guests_bell; /* what it waits for; NULL: it is no guest */
static _Thread_local plock_job *stepping;

plock_job *plock__worker_stepping(void) {
    return stepping;
}

/* The driver looks for what is new by itself. With the lock held. */
static void ring(void) {
    if (!drives && bell) plock_waker_ring(driver == NOBODY ? parking : bell);
}

static void destroy_all(plock_job *list) {
    while (list) {
        plock_job *job = list;
        list = job->next;
        job->destroy(job);
    }
}

static void append(plock_job **list, plock_job *more) {
    while (*list) list = &(*list)->next;
    *list = more;
}

/* These will never be done. With the lock held. */
static void forgive(const plock_job *list) {
    for (; list; list = list->next)
        if (!list->lingers) owed--;
}

/* One that was waited for is done. */
static void settle(void) {
    plock__enter();
    owed--;
    if (owed == 0 && ended) plock_waker_ring(ended);
    plock__leave();
}

static void end(plock_job *job) {
    const bool lingers = job->lingers;
    job->destroy(job); /* first, for it may submit another one, which is waited for, too */
    if (!lingers) settle();
}

/* Takes over what has been submitted. False: the thread is about to end, and it waits for the next one. With the lock held. */
static bool take_submitted(void) {
    if (stopping) return false;
    append(&active, submitted);
    submitted = NULL;
    return true;
}

/* False: there is nothing to do, and the thread is as good as gone. */
static bool more_to_do(bool *stop) {
    plock__enter();
    *stop = !take_submitted();
    if (!active) running = false;
    const bool more = active;
    if (!more && ended) plock_waker_ring(ended);
    plock__leave();
    return more;
}

static bool anything_new(void) {
    plock__enter();
    const bool new = submitted;
    plock__leave();
    return new;
}

/* --- a round: stepping those that are due, and waiting until some are --- */

enum {
    BELL = 0, JOBS, /* places in what is polled */
    PLACES = JOBS + 256                          /* where there are none left, it is looked at often whether a descriptor is ready */
};
static const plock_ns WITHOUT_A_PLACE = 2 * PLOCK_MILLISECOND;

typedef struct round {
    struct pollfd polled[PLACES];
    unsigned count; /* 0: nothing has been polled */
} round;

static bool may_be_ready(const round *r, const plock_job *job) {
    if (r->count == 0 || job->place == 0) return false;
    return job->place == PLACES || r->polled[job->place].revents;
}

static void step_those_due(const round *r) {
    plock_job **link = &active;
    const plock_ns now = plock_now();
    plock__begin_step();
    while (*link) {
        plock_job *job = *link;
        job->ready = may_be_ready(r, job);
        if (atomic_exchange(&job->due, false) || job->ready || now >= job->want.deadline) {
            job->want = (plock_want){.fd = -1, .deadline = PLOCK_NEVER};
            stepping = job;
            const plock_status status = job->step(job, &job->want);
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

/* What it waits for, as something to poll: -1 where that is its deadline, or where no
 * descriptor is left for its waker. */
static struct pollfd polled_for(const plock_want *want) {
    const int rung = want->waker ? plock_waker_descriptor(want->waker) : -1;
    if (want->waker) return (struct pollfd){.fd = rung, .events = POLLIN};
    return (struct pollfd){.fd = want->fd, .events = want->events};
}

static plock_ns gather(round *r, plock_ns deadline) {
    r->polled[BELL] = (struct pollfd){.fd = plock_waker_descriptor(bell), .events = POLLIN};
    r->count = JOBS;
    bool without = false;
    for (plock_job *job = active; job; job = job->next) {
        const struct pollfd polled = polled_for(&job->want);
        job->place = polled.fd >= 0 ? r->count : job->want.waker ? PLACES : 0;
        if (job->place == PLACES) without = true;
        else if (job->place) r->polled[r->count++] = polled;
        if (job->want.deadline < deadline) deadline = job->want.deadline;
        if (atomic_load(&job->due)) deadline = 0; /* prodded since its step */
    }
    const plock_ns soon = without ? plock_now() + WITHOUT_A_PLACE : PLOCK_NEVER;
    return soon < deadline ? soon : deadline;
}

static int wait_for_some(round *r, plock_ns deadline) {
    const int ready = poll(r->polled, r->count, plock_poll_timeout(deadline));
    if (ready < 0) r->count = 0; /* then those whose time has come are stepped, and the others soon */
    else if (r->polled[BELL].revents) (void)plock_waker_hush(bell);
    return ready;
}

/* --- the native thread --- */

/* With the lock held, by the driver. */
static bool all_idle(void) {
    for (const plock_job *job = active; job; job = job->next)
        if (!job->idle || !job->idle(job) || atomic_load(&job->due)) return false;
    return active;
}

/* Lets guests drive while there is nothing but idle jobs. False: there is something to do. *visited: one did. */
static bool park(plock_ns deadline, bool *visited) {
    static const plock_ns ROUND = PLOCK_SECOND; /* a guest that leaves something behind rings; one that does not is noticed by then */
    plock__enter();
    const bool parks = !stopping && !submitted && all_idle();
    if (parks) driver = NOBODY;
    guests = 0;
    plock__leave();
    for (bool parked = parks; parked;) {
        const plock_ns latest = plock_after(plock_now(), ROUND), until = deadline < latest ? deadline : latest;
        plock__enter();
        parked_until = until;
        plock__leave();
        (void)plock__waker_sleep(parking, NULL, until);
        plock__waker_hush_if_rung(parking);
        deadline = PLOCK_NEVER;
        plock__enter();
        if (driver == NOBODY) driver = NATIVE;
        parked = driver == GUEST;
        *visited = guests > 0;
        plock__leave();
    }
    return parks;
}

static void *work(void *argument) {
    (void)argument;
    drives = true;
    round r = {.count = 0};
    bool inviting = true; /* after a second without a guest it listens itself, until something happens */
    for (bool stop = false; more_to_do(&stop);) {
        if (stop) {
            plock__begin_step();
            while (active) {
                plock_job *job = active;
                active = job->next;
                end(job);
            }
            plock__end_step();
            continue;
        }
        step_those_due(&r);
        r.count = 0;
        if (!active || anything_new()) continue;
        const plock_ns deadline = gather(&r, PLOCK_NEVER);
        if (inviting && park(deadline, &inviting)) r.count = 0;
        else inviting = wait_for_some(&r, deadline) > 0;
    }
    return NULL;
}

/* --- guests --- */

static bool become_guest(void) {
    plock__enter();
    const bool may = running && !stopping && driver == NOBODY;
    if (may) driver = GUEST;
    if (may) guests++;
    plock__leave();
    return may;
}

/* Has a job to be stepped before the native thread looks by itself? With the lock held, by the driver. */
static bool due_before(plock_ns moment) {
    for (const plock_job *job = active; job; job = job->next)
        if (job->want.deadline < moment) return true;
    return false;
}

/* The native thread goes on with what is not idle, and with what is due soon. */
static void stop_driving(void) {
    drives = false;
    plock__enter();
    driver = NOBODY;
    if (stopping || submitted || !all_idle() || due_before(parked_until)) plock_waker_ring(parking);
    plock__leave();
}

static bool goes_on(void) {
    plock__enter();
    const bool yes = take_submitted();
    plock__leave();
    return yes;
}

/* What ends a guest's stay; the rings come to the bell that it listens to. PLOCK_AGAIN: nothing
 * yet. */
static plock_status look(const plock_want *want, const plock_waker *interrupt) {
    if (interrupt && plock__waker_rung(interrupt)) return PLOCK_INTERRUPTED;
    if (plock__waker_rung(want->waker)) return PLOCK_OK;
    return plock_now() >= want->deadline ? PLOCK_OK : PLOCK_AGAIN;
}

static void forward_rings(const plock_want *want, plock_waker *interrupt, plock_waker *to) {
    plock__waker_forward(want->waker, to);
    if (interrupt) plock__waker_forward(interrupt, to);
}

static plock_status drive(const plock_want *want, plock_waker *interrupt) {
    round r = {.count = 0};
    plock_status status = PLOCK_AGAIN;
    drives = true;
    served = false;
    guests_bell = want->waker;
    forward_rings(want, interrupt, bell);
    while (status == PLOCK_AGAIN && goes_on()) {
        step_those_due(&r);
        r.count = 0;
        if (served || !active) break;
        if (anything_new()) continue;
        status = look(want, interrupt);
        if (status != PLOCK_AGAIN) break;
        if (wait_for_some(&r, gather(&r, want->deadline)) < 0) status = PLOCK_INTERRUPTED;
    }
    forward_rings(want, interrupt, NULL);
    guests_bell = NULL;
    stop_driving();
    return status == PLOCK_AGAIN ? PLOCK_OK : status;
}

/* At a descriptor, with another one for the interrupt; where none is left for that, it is
 * looked at often. */
static plock_status await_descriptor(const plock_want *want, plock_waker *interrupt) {
    struct pollfd polled[] = {{.fd = want->fd, .events = want->events},
                              {.fd = -1, .events = POLLIN}};
    plock_ns deadline = want->deadline;
    if (interrupt) {
        polled[1].fd = plock_waker_descriptor(interrupt);
        if (plock__waker_rung(interrupt)) return PLOCK_INTERRUPTED;
        const plock_ns soon = plock_after(plock_now(), WITHOUT_A_PLACE);
        if (polled[1].fd < 0 && soon < deadline) deadline = soon;
    }
    const int ready = poll(polled, 2, plock_poll_timeout(deadline));
    if (ready < 0 && errno == EINTR) return PLOCK_INTERRUPTED;
    if (polled[1].revents) plock__waker_drain(interrupt);
    return interrupt && plock__waker_rung(interrupt) ? PLOCK_INTERRUPTED : PLOCK_OK;
}

/* A thread that rests keeps no descriptor: it may rest for long, and beside hundreds. */
plock_status plock_await(const plock_want *want, plock_waker *interrupt) {
    plock_status status;
    if (want->fd >= 0) return await_descriptor(want, interrupt);
    if (interrupt) plock__waker_rest(interrupt);
    if (want->nook && plock__nook_await(want, interrupt, &status)) return status;
    if (want->helps && become_guest()) return drive(want, interrupt);
    if (want->waker || interrupt)
        return plock__waker_sleep(want->waker, interrupt, want->deadline);
    const int ready = poll(NULL, 0, plock_poll_timeout(want->deadline));
    return ready < 0 && errno == EINTR ? PLOCK_INTERRUPTED : PLOCK_OK;
}

void plock_have_driven(void) {
    plock__enter();
    if (running && driver == NOBODY) plock_waker_ring(parking);
    plock__leave();
}

void plock__worker_ring(plock_waker *waker) {
    if (waker == guests_bell) served = true;
    else plock_waker_ring(waker);
}

/* --- jobs --- */

/* With the lock held. */
static bool start(void) {
    if (joinable) (void)pthread_join(thread, NULL); /* it has said that it is done, and takes the lock no more */
    joinable = false;
    running = bell && parking && plock__start_thread(&thread, work, NULL) == 0;
    joinable = running;
    if (running) driver = NATIVE;
    return running;
}

static void equip(plock_waker **place, plock_waker **made) {
    if (*place) return;
    *place = *made;
    *made = NULL;
}

void plock__worker_submit(plock_job *job) {
    job->next = NULL;
    job->place = 0;
    atomic_store(&job->due, true);
    plock_waker *made[2] = {0};
    plock__enter();
    if (!bell || !parking) {
        plock__leave();
        made[0] = plock__waker_take_open();
        made[1] = plock_waker_take();
        plock__enter();
    }
    plock_job *dead = inherited;
    inherited = NULL;
    equip(&bell, &made[0]);
    equip(&parking, &made[1]);
    const bool given_up = stopping && drives; /* by a job that is ended just now: nobody waits for what it leaves */
    if (!given_up && (running || (stopping && bell && parking) || start())) {
        append(&submitted, job);
        if (!job->lingers) owed++;
        ring();
    } else {
        append(&dead, job);
    }
    plock__leave();
    for (int i = 0; i < 2; i++) plock_waker_give(made[i]);
    destroy_all(dead);
}

void plock__worker_prod(plock_job *job) {
    atomic_store(&job->due, true);
    ring();
}

/* With the lock held, which others may have meanwhile. */
static void await_owed(plock_waker *waker, plock_ns deadline) {
    ended = waker;
    while (running && owed && waker && plock_now() < deadline) {
        plock__leave();
        (void)plock__waker_sleep(waker, NULL, deadline);
        (void)plock_waker_hush(waker);
        plock__enter();
    }
    ended = NULL;
}

void plock__worker_await(plock_ns deadline) {
    plock_waker *waker = plock_waker_take();
    plock__enter();
    if (!stopping && !ended) await_owed(waker, deadline);
    plock__leave();
    plock_waker_give(waker);
}

void plock__worker_drain(plock_ns deadline) {
    plock_waker *waker = plock_waker_take();
    plock__enter();
    if (stopping || ended) { /* another thread is at it */
        plock__leave();
        plock_waker_give(waker);
        return;
    }
    await_owed(waker, deadline);
    stopping = true;
    plock_job *dropped = submitted; /* its time is over; what comes while the thread ends waits for the next one */
    submitted = NULL;
    forgive(dropped);
    if (running) {
        plock_waker_ring(bell);
        plock_waker_ring(parking);
    }
    const bool join = joinable;
    const pthread_t ending = thread;
    joinable = false;
    plock__leave();
    /* It never blocks but where it listens, and has just been woken from that. */
    if (join) (void)pthread_join(ending, NULL);
    plock__enter();
    stopping = false;
    plock_job *dead = inherited;
    inherited = NULL;
    append(&dead, dropped);
    if (submitted && !start()) {
        forgive(submitted);
        append(&dead, submitted);
        submitted = NULL;
    }
    plock_waker *given[] = {running ? NULL : bell, running ? NULL : parking};
    if (!running) bell = parking = NULL;
    plock__leave();
    plock_waker_give(waker);
    plock_waker_give(given[0]);
    plock_waker_give(given[1]);
    plock__begin_step();
    destroy_all(dead);
    plock__end_step();
}

/* The thread did not come along; its jobs are the parent's, and their memory is given back at the next occasion. */
void plock__worker_in_child(void) {
    append(&inherited, submitted);
    append(&inherited, active);
    submitted = active = NULL;
    owed = 0;
    running = joinable = stopping = false;
    driver = NOBODY;
    if (bell) plock__waker_put_back(bell);
    if (parking) plock__waker_put_back(parking);
    bell = parking = ended = NULL;
}
