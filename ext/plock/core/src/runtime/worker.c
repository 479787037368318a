#include "runtime/worker.h"

#include "base/process.h"
#include "runtime/parking_slot.h"
#include "runtime/round.h"
#include "runtime/waker.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>

/* The mutex protects all of these variables. The leader moves the submitted jobs into the agenda.
 */
static plock__job_list submitted;
static plock__agenda agenda;
/* in a forked child: the jobs of the parent */
static plock__job_list inherited_submitted;
static plock__agenda inherited;
static unsigned owed; /* how many jobs a drain must wait for */
static bool running, joinable, stopping;
static enum { NOBODY, NATIVE, FOLLOWER } leader;
static unsigned followers; /* How many followers there have been since the worker thread parked. */
static plock_ns parked_until; /* When the parked worker thread will look for work. */
/* The leader waits for leader_waker, the parked worker thread for `parking`, and a drain for
 * `ended`. */
static plock_waker *leader_waker, *parking, *ended;
static pthread_t thread;

static _Thread_local bool leads, served;
/* the waker that this thread waits for as a follower; NULL if it is no follower */
static _Thread_local const plock_waker *follower_waker;

/* Wakes the thread that must look for new jobs. Does nothing if this thread is the leader, which
 * looks anyway. Call with the mutex held. */
static void wake(void) {
    if (!leads && leader_waker) plock_waker_wake(leader == NOBODY ? parking : leader_waker);
}

static void destroy_all(plock__job_list *list) {
    for (plock_job *job; (job = plock__jobs_pop(list));) job->destroy(job);
}

/* Tells a drain not to wait for these jobs, because they will not be done. Call with the mutex
 * held. */
static void forgive(const plock__job_list *list) {
    for (const plock_job *job = list->first; job; job = job->next)
        if (!job->lingers) owed--;
}

static void end(plock_job *job) {
    const bool lingers = job->lingers;
    /* first, because `destroy` may submit another job that a drain must wait for */
    job->destroy(job);
    if (lingers) return;
    plock__enter();
    owed--;
    if (owed == 0 && ended) plock_waker_wake(ended);
    plock__leave();
}

/* Moves the submitted jobs into the agenda. If the worker thread is about to end, returns false and
 * leaves the jobs to the next thread. Call with the mutex held. */
static bool take_submitted(void) {
    if (stopping) return false;
    plock__agenda_take(&agenda, &submitted);
    return true;
}

/* Returns false if no job is left. The thread must then not take the mutex again. Sets *stop if
 * the remaining jobs must be ended. */
static bool more_to_do(bool *stop) {
    plock__enter();
    *stop = !take_submitted();
    const bool more = agenda.count > 0;
    if (!more) running = false;
    if (!more && ended) plock_waker_wake(ended);
    plock__leave();
    return more;
}

/* Must the leader wait until something happens? If so, *deadline is the end of the wait. */
static bool must_wait(plock_ns *deadline) {
    plock__enter();
    const bool waits = agenda.count > 0 && !submitted.first;
    *deadline = plock__agenda_when(&agenda);
    plock__leave();
    return waits;
}

/* Ends the jobs without another step, because the thread is about to end. */
static void end_all(void) {
    plock__begin_step();
    for (;;) {
        plock__enter();
        plock_job *job = plock__agenda_empty(&agenda);
        plock__leave();
        if (!job) break;
        end(job);
    }
    plock__round_reset();
    plock__end_step();
}

/* --- the worker thread --- */

/* Lets followers lead while all jobs are idle. Returns false at once if there is something to do.
 * Sets *visited_at to the time at which a follower was last seen. */
static bool park(plock_ns deadline, plock_ns *visited_at) {
    plock__enter();
    /* a follower that leaves work behind wakes this thread; after this span, this thread looks for
     * work anyway */
    const plock_ns span = plock__agenda_idle(&agenda);
    const bool parks = !stopping && !submitted.first && span > 0;
    if (parks) leader = NOBODY;
    followers = 0;
    plock__leave();
    for (bool parked = parks; parked;) {
        const plock_ns latest = plock_after(plock_now(), span),
                       until = deadline < latest ? deadline : latest;
        plock__enter();
        parked_until = until;
        plock__leave();
        (void)plock__waker_sleep(parking, NULL, until);
        plock__waker_clear_if_woken(parking);
        deadline = PLOCK_NEVER;
        plock__enter();
        if (leader == NOBODY) leader = NATIVE;
        parked = leader == FOLLOWER;
        const bool visited = followers > 0;
        plock__leave();
        if (visited) *visited_at = plock_now();
    }
    return parks;
}

static void *work(void *argument) {
    (void)argument;
    plock__name_thread("plock-worker");
    leads = true;
    /* after a second without a follower, this thread listens itself until something happens */
    plock_ns visited_at = plock_now();
    for (bool stop = false; more_to_do(&stop);) {
        plock_ns deadline;
        if (stop) {
            end_all();
            continue;
        }
        plock__round_step(&agenda, end);
        if (!must_wait(&deadline)) continue;
        const bool inviting = plock_now() < visited_at + PLOCK_SECOND;
        if (inviting && park(deadline, &visited_at)) deadline = 0; /* poll once */
        if (plock__round_wait(&agenda, leader_waker, deadline) > 0) visited_at = plock_now();
    }
    return NULL;
}

/* --- followers --- */

static bool become_follower(void) {
    plock__enter();
    const bool may = running && !stopping && leader == NOBODY;
    if (may) leader = FOLLOWER;
    if (may) followers++;
    plock__leave();
    return may;
}

/* Ends the follower's lead. Wakes the worker thread if a job is not idle, or is due before the
 * worker thread looks for work. */
static void stop_driving(void) {
    leads = false;
    plock__enter();
    leader = NOBODY;
    if (stopping || submitted.first || !plock__agenda_idle(&agenda) ||
        plock__agenda_when(&agenda) < parked_until)
        plock_waker_wake(parking);
    plock__leave();
}

static bool goes_on(void) {
    plock__enter();
    const bool yes = take_submitted();
    plock__leave();
    return yes;
}

/* Returns the result of the follower's own wait, or PLOCK_AGAIN if that has not ended yet. */
static plock_status look(const plock_interest *interest, const plock_waker *interrupt) {
    if (interrupt && plock__waker_woken(interrupt)) return PLOCK_INTERRUPTED;
    if (plock__waker_woken(interest->waker)) return PLOCK_OK;
    return plock_now() >= interest->deadline ? PLOCK_OK : PLOCK_AGAIN;
}

static void forward_wakes(const plock_interest *interest, plock_waker *interrupt, plock_waker *to) {
    plock__waker_forward(interest->waker, to);
    if (interrupt) plock__waker_forward(interrupt, to);
}

static plock_status drive(const plock_interest *interest, plock_waker *interrupt) {
    plock_status status = PLOCK_AGAIN;
    leads = true;
    served = false;
    follower_waker = interest->waker;
    forward_wakes(interest, interrupt, leader_waker);
    while (status == PLOCK_AGAIN && goes_on()) {
        plock_ns deadline;
        plock__round_step(&agenda, end);
        const bool waits = must_wait(&deadline);
        if (served || !agenda.count) break;
        if (!waits) continue;
        status = look(interest, interrupt);
        if (status != PLOCK_AGAIN) break;
        if (interest->deadline < deadline) deadline = interest->deadline;
        if (plock__round_wait(&agenda, leader_waker, deadline) < 0) status = PLOCK_INTERRUPTED;
    }
    forward_wakes(interest, interrupt, NULL);
    follower_waker = NULL;
    stop_driving();
    return status == PLOCK_AGAIN ? PLOCK_OK : status;
}

/* If there is no descriptor to wait for, this also closes the descriptor of `interrupt`. Otherwise,
 * hundreds of waiting threads could use up the process's descriptors. */
plock_status plock_await(const plock_interest *interest, plock_waker *interrupt) {
    plock_status status;
    if (interest->fd >= 0) return plock__await_descriptor(interest, interrupt);
    if (interrupt) plock__waker_rest(interrupt);
    if (interest->parking_slot && plock__parking_slot_await(interest, interrupt, &status))
        return status;
    if (interest->helps && become_follower()) return drive(interest, interrupt);
    if (interest->waker || interrupt)
        return plock__waker_sleep(interest->waker, interrupt, interest->deadline);
    const int ready = poll(NULL, 0, plock_poll_timeout(interest->deadline));
    return ready < 0 && errno == EINTR ? PLOCK_INTERRUPTED : PLOCK_OK;
}

plock_status plock_await_answer(const plock_interest *interest) {
    const plock_status status = interest->read_ahead ? interest->read_ahead(interest) : PLOCK_AGAIN;
    return status == PLOCK_AGAIN ? plock_await(interest, NULL) : status;
}

void plock_have_led(void) {
    plock__enter();
    if (running && leader == NOBODY) plock_waker_wake(parking);
    plock__leave();
}

void plock__worker_wake(plock_waker *waker) {
    if (waker == follower_waker)
        served = true;
    else
        plock_waker_wake(waker);
}

/* --- jobs --- */

/* Call with the mutex held. */
static bool start(void) {
    /* the earlier thread has set `running` to false and never takes the mutex again, so it ends
     * soon */
    if (joinable) (void)pthread_join(thread, NULL);
    joinable = false;
    running = leader_waker && parking && plock__start_thread(&thread, work, NULL) == 0;
    joinable = running;
    if (running) leader = NATIVE;
    return running;
}

static void equip(plock_waker **place, plock_waker **made) {
    if (*place) return;
    *place = *made;
    *made = NULL;
}

/* In a child: takes the jobs of the parent, so that they can be destroyed. Call with the mutex
 * held. */
static void take_inherited(plock__job_list *list) {
    plock__jobs_append_all(list, &inherited_submitted);
    for (plock_job *job; (job = plock__agenda_empty(&inherited));) plock__jobs_append(list, job);
}

void plock__worker_submit(plock_job *job) {
    plock__job_list dead = {0};
    plock_waker *made[2] = {0};
    plock__enter();
    if (!leader_waker || !parking) {
        plock__leave();
        made[0] = plock__waker_take_open();
        made[1] = plock_waker_take();
        plock__enter();
    }
    take_inherited(&dead);
    equip(&leader_waker, &made[0]);
    equip(&parking, &made[1]);
    /* this thread is ending its jobs for a drain, so no thread would step a new job */
    const bool given_up = stopping && leads;
    if (!given_up && (running || (stopping && leader_waker && parking) || start())) {
        job->progress = PLOCK__JOB_OUT;
        job->generation = plock__generation();
        job->place = 0;
        job->ready = false;
        plock__jobs_append(&submitted, job);
        if (!job->lingers) owed++;
        wake();
    } else {
        plock__jobs_append(&dead, job);
    }
    plock__leave();
    for (int i = 0; i < 2; i++) plock_waker_give(made[i]);
    destroy_all(&dead);
}

/* A job that has been submitted but is not in the agenda yet is due anyway. */
void plock__worker_schedule(plock_job *job) {
    plock__agenda_schedule(&agenda, job);
    wake();
}

/* Waits until no owed job is left. Called with the mutex held, and releases the mutex while this
 * thread sleeps. */
static void await_owed(plock_waker *waker, plock_ns deadline) {
    ended = waker;
    while (running && owed && waker && plock_now() < deadline) {
        plock__leave();
        (void)plock__waker_sleep(waker, NULL, deadline);
        (void)plock_waker_clear(waker);
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
    if (stopping || ended) { /* another thread is draining */
        plock__leave();
        plock_waker_give(waker);
        return;
    }
    await_owed(waker, deadline);
    stopping = true;
    /* drop the jobs that the worker thread has not taken; later jobs are for the next thread */
    plock__job_list dropped = submitted;
    submitted = (plock__job_list){0};
    forgive(&dropped);
    if (running) {
        plock_waker_wake(leader_waker);
        plock_waker_wake(parking);
    }
    const bool join = joinable;
    const pthread_t ending = thread;
    joinable = false;
    plock__leave();
    /* This join is short. The worker thread blocks only while it listens, and the wakes above have
     * ended its listening. */
    if (join) (void)pthread_join(ending, NULL);
    plock__enter();
    stopping = false;
    plock__job_list dead = {0};
    take_inherited(&dead);
    plock__jobs_append_all(&dead, &dropped);
    if (submitted.first && !start()) {
        forgive(&submitted);
        plock__jobs_append_all(&dead, &submitted);
    }
    plock_waker *given[] = {running ? NULL : leader_waker, running ? NULL : parking};
    if (!running) leader_waker = parking = NULL;
    plock__leave();
    plock_waker_give(waker);
    plock_waker_give(given[0]);
    plock_waker_give(given[1]);
    plock__begin_step();
    destroy_all(&dead);
    plock__end_step();
}

/* A child has no worker thread. The jobs belong to the parent, and the next submit or drain frees
 * the child's copies. */
void plock__worker_in_child(void) {
    plock__jobs_append_all(&inherited_submitted, &submitted);
    plock__agenda_put_away(&inherited, &agenda);
    plock__round_reset();
    owed = 0;
    running = joinable = stopping = false;
    leader = NOBODY;
    if (leader_waker) plock__waker_put_back(leader_waker);
    if (parking) plock__waker_put_back(parking);
    leader_waker = parking = ended = NULL;
}
