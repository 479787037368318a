#include "worker.h"

#include "plock/store.h"
#include "process.h"
#include "waker.h"

#include <poll.h>
#include <stddef.h>

enum { AT_ONCE = 256 }; /* jobs stepped at a time; more wait until some are done */

/* All under the lock, but `active`, which is the thread's own. */
static plock_job *submitted, *active, *inherited;
static unsigned owed; /* jobs that somebody may wait for */
static bool running, joinable, stopping;
static plock_waker *bell, *ended;
static pthread_t thread;

static _Thread_local bool is_worker;

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
static void settle(const plock_job *job) {
    if (job->lingers) return;
    plock__enter();
    owed--;
    if (owed == 0 && ended) plock_waker_ring(ended);
    plock__leave();
}

static void end(plock_job *job) {
    settle(job);
    job->destroy(job);
}

/* Takes over what has been submitted. False: there is nothing to do, and the thread is as good as gone. */
static bool more_to_do(bool *stop) {
    plock__enter();
    *stop = stopping;
    if (!stopping) { /* else they wait for the next thread */
        append(&active, submitted);
        submitted = NULL;
    }
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

/* `polled`: what the last poll(2) said, from the second on in the order of the jobs; NULL: there was none. */
static void step_those_due(const struct pollfd *polled, nfds_t count) {
    plock_job **link = &active;
    const plock_ns now = plock_now();
    plock__begin_step();
    for (nfds_t i = 1; *link && i <= AT_ONCE; i++) {
        plock_job *job = *link;
        job->ready = polled && i < count && polled[i].revents;
        if (atomic_exchange(&job->due, false) || job->ready || now >= job->want.deadline) {
            job->want = (plock_want){.fd = -1, .deadline = PLOCK_NEVER};
            if (job->step(job, &job->want) != PLOCK_AGAIN) {
                *link = job->next;
                end(job);
                continue;
            }
        }
        link = &job->next;
    }
    plock__end_step();
}

static nfds_t gather(struct pollfd *polled, plock_ns *deadline) {
    nfds_t count = 1;
    for (const plock_job *job = active; job && count <= AT_ONCE; job = job->next) {
        polled[count++] = (struct pollfd){.fd = job->want.fd, .events = job->want.events};
        if (job->want.deadline < *deadline) *deadline = job->want.deadline;
        if (atomic_load(&job->due)) *deadline = 0; /* prodded since its step */
    }
    return count;
}

static void *work(void *argument) {
    (void)argument;
    is_worker = true;
    struct pollfd polled[AT_ONCE + 1];
    nfds_t count = 0;
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
        step_those_due(count ? polled : NULL, count);
        count = 0;
        if (!active || anything_new()) continue;
        plock_ns deadline = PLOCK_NEVER;
        polled[0] = (struct pollfd){.fd = plock_waker_descriptor(bell), .events = POLLIN};
        count = gather(polled, &deadline);
        if (poll(polled, count, plock_poll_timeout(deadline)) < 0) count = 0; /* then those whose time has come are stepped, and the others soon */
        else if (polled[0].revents) (void)plock_waker_hush(bell);
    }
    return NULL;
}

/* With the lock held. */
static bool start(void) {
    if (joinable) (void)pthread_join(thread, NULL); /* it has said that it is done, and takes the lock no more */
    joinable = false;
    running = bell && plock__start_thread(&thread, work, NULL) == 0;
    joinable = running;
    return running;
}

void plock__worker_submit(plock_job *job) {
    job->next = NULL;
    atomic_store(&job->due, true);
    plock_waker *made = is_worker ? NULL : plock_waker_take();
    plock__enter();
    plock_job *dead = inherited;
    inherited = NULL;
    if (!bell) {
        bell = made;
        made = NULL;
    }
    if (running || (stopping && bell) || start()) {
        append(&submitted, job);
        if (!job->lingers) owed++;
        if (!is_worker) plock_waker_ring(bell);
    } else {
        append(&dead, job);
    }
    plock__leave();
    plock_waker_give(made);
    destroy_all(dead);
}

void plock__worker_prod(plock_job *job) {
    atomic_store(&job->due, true);
    if (bell && !is_worker) plock_waker_ring(bell);
}

void plock_drain(plock_ns deadline) {
    plock_waker *waker = plock_waker_take();
    plock__enter();
    if (stopping || ended) { /* another thread is at it */
        plock__leave();
        plock_waker_give(waker);
        return;
    }
    ended = waker;
    while (running && owed && waker && plock_now() < deadline) {
        plock__leave();
        struct pollfd polled = {.fd = plock_waker_descriptor(waker), .events = POLLIN};
        (void)poll(&polled, 1, plock_poll_timeout(deadline));
        (void)plock_waker_hush(waker);
        plock__enter();
    }
    ended = NULL;
    stopping = true;
    plock_job *dropped = submitted; /* its time is over; what comes while the thread ends waits for the next one */
    submitted = NULL;
    forgive(dropped);
    if (running && bell) plock_waker_ring(bell);
    const bool join = joinable;
    const pthread_t ending = thread;
    joinable = false;
    plock__leave();
    if (join) (void)pthread_join(ending, NULL); /* it never blocks but in poll, and has just been woken from that */
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
    plock_waker *given = running ? NULL : bell;
    if (!running) bell = NULL;
    plock__leave();
    plock_waker_give(waker);
    plock_waker_give(given);
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
    if (bell) plock__waker_put_back(bell);
    bell = ended = NULL;
}
