#include "worker.h"

#include "plock/store.h"
#include "process.h"
#include "waker.h"

#include <poll.h>
#include <stddef.h>

enum { AT_ONCE = 256 }; /* jobs stepped at a time; more wait until some are done */

/* All under the lock, but `active`, which is the thread's own. */
static plock_job *submitted, *active, *inherited;
static bool running, joinable, stopping;
static plock_waker *bell, *ended;
static pthread_t thread;

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

static void step_all(struct pollfd *polled, nfds_t *count, plock_ns *deadline) {
    plock_job **link = &active;
    plock__begin_step();
    while (*link && *count <= AT_ONCE) {
        plock_job *job = *link;
        plock_want want = {.fd = -1, .deadline = PLOCK_NEVER};
        if (job->step(job, &want) != PLOCK_AGAIN) {
            *link = job->next;
            job->destroy(job);
            continue;
        }
        polled[(*count)++] = (struct pollfd){.fd = want.fd, .events = want.events};
        if (want.deadline < *deadline) *deadline = want.deadline;
        link = &job->next;
    }
    plock__end_step();
}

static void *work(void *argument) {
    (void)argument;
    for (bool stop = false; more_to_do(&stop);) {
        if (stop) {
            plock__begin_step();
            destroy_all(active);
            active = NULL;
            plock__end_step();
            continue;
        }
        struct pollfd polled[AT_ONCE + 1] = {{.fd = plock_waker_descriptor(bell), .events = POLLIN}};
        nfds_t count = 1;
        plock_ns deadline = PLOCK_NEVER;
        step_all(polled, &count, &deadline);
        if (!active) continue;
        (void)poll(polled, count, plock_poll_timeout(deadline)); /* whatever it says, all are stepped again */
        (void)plock_waker_hush(bell);
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
    plock_waker *made = plock_waker_take();
    plock__enter();
    plock_job *dead = inherited;
    inherited = NULL;
    if (!bell) {
        bell = made;
        made = NULL;
    }
    if (running || (stopping && bell) || start()) {
        append(&submitted, job);
        plock_waker_ring(bell);
    } else {
        append(&dead, job);
    }
    plock__leave();
    plock_waker_give(made);
    destroy_all(dead);
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
    while (running && waker && plock_now() < deadline) {
        plock__leave();
        struct pollfd polled = {.fd = plock_waker_descriptor(waker), .events = POLLIN};
        (void)poll(&polled, 1, plock_poll_timeout(deadline));
        plock__enter();
    }
    ended = NULL;
    stopping = true;
    plock_job *dropped = submitted; /* its time is over; what comes while the thread ends waits for the next one */
    submitted = NULL;
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
    running = joinable = stopping = false;
    if (bell) plock__waker_put_back(bell);
    bell = ended = NULL;
}
