#include "redis/watch.h"

#include "base/container.h"
#include "base/expiry.h"
#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "redis/coordinator.h"
#include "redis/store.h"
#include "runtime/notice.h"

#include <string.h>

/* A renewal begins after a third of the TTL, so two renewals may fail before the lease is lost. */
enum { RENEWALS_PER_TTL = 3 };

/* The pause after a renewal or check that failed despite its retries. */
static plock_ns before_another_try(const plock_watch *watch) {
    return watch->ttl / (4 * RENEWALS_PER_TTL);
}

static plock_status step(plock_job *job, plock_interest *interest);
static void put_down(plock_job *job);
static plock_status listen_for(plock_watch *watch, plock_error *error);

/* Returns the time of the first renewal of a lease that has this TTL and ends at valid_until. */
static plock_ns first_renewal(plock_ns valid_until, plock_ns ttl) {
    return valid_until - plock__expiry(0, ttl) + ttl / RENEWALS_PER_TTL;
}

static plock_node *current_node(const plock_watch *watch) {
    return plock__store_node(watch->node->store, watch->subject.key);
}

/* --- an automatic watch --- */

static plock_watch *watch_of(plock_later *later) {
    return PLOCK__CONTAINER(plock_watch, later, later);
}

static void keep(plock_later *later) { watch_of(later)->references++; }

/* Begins the work of an automatic watch. By now, its lease has been held for longer than most
 * leases are. */
static void begin_watching(plock_later *later) {
    plock_watch *watch = watch_of(later);
    plock_error ignored;
    /* even if listening fails, the lease is renewed, and the next renewal notices a break */
    watch->unnoted = listen_for(watch, &ignored) == PLOCK_OK;
    if (watch->unnoted) {
        char *end = watch->place + watch->place_length;
        *end = ' ';
        memcpy(end + 1, watch->channel, watch->channel_length);
        watch->place_length += 1 + watch->channel_length;
    }
    plock__enter();
    const plock_coordinator *coordinator = atomic_load(&current_node(watch)->coordinator);
    /* The coordinator did not listen for this watch before, so the watch must check whether its
     * lease was broken. If the channel is not open yet, its opening will start the check. */
    if (coordinator && coordinator->open) watch->doubtful = true;
    plock__leave();
    plock__worker_submit(&watch->job);
}

/* Sets the time at which an automatic watch begins its work, before the next renewal is due.
 * Call with the mutex held. */
static void set_date(plock_watch *watch, plock_ns now) {
    plock__later_by(&watch->later, plock__later_than(now, watch->renew_at));
}

/* --- life --- */

plock_watch *plock__watch_new(plock_node *node, const plock_subject *subject,
                              const plock_watching *options) {
    plock_watch *watch = plock__allocate(sizeof *watch + subject->key.length);
    /* an owner that the caller brought is copied now, while a lack of memory can be reported */
    if (!watch || plock__subject_copy(&watch->subject, watch->names, subject)) {
        plock__free(watch);
        return NULL;
    }
    watch->job = (plock_job){.step = step, .destroy = put_down, .lingers = true};
    watch->references = 1;
    watch->generation = plock__generation();
    watch->node = plock__node_retain(node);
    watch->options = *options;
    watch->later = (plock_later){.keep = keep, .begin = begin_watching};
    const char *identity = plock__identity(&watch->place_length);
    memcpy(watch->place, identity, watch->place_length);
    return watch;
}

plock_watch *plock__watch_retain(plock_watch *watch) {
    plock__enter();
    watch->references++;
    plock__leave();
    return watch;
}

void plock__watch_release(plock_watch *watch) {
    if (!plock__drop_reference(&watch->references)) return;
    plock__owner_clear(&watch->subject.owner);
    plock__node_release(watch->node);
    plock__free(watch);
}

/* Call with the mutex held. */
static void link_watch(plock_coordinator *coordinator, plock_watch *watch) {
    watch->next = coordinator->watches;
    watch->link = &coordinator->watches;
    if (watch->next) watch->next->link = &watch->next;
    coordinator->watches = watch;
    plock__index_add(&coordinator->watches_by_key, &watch->by_key, watch->subject.key);
}

static void unlink_watch(plock_watch *watch) {
    if (!watch->link) return;
    if (watch->next) watch->next->link = watch->link;
    *watch->link = watch->next;
    watch->link = NULL;
    plock__index_remove(&watch->by_key);
}

static plock_status listen_for(plock_watch *watch, plock_error *error) {
    plock_coordinator *coordinator, *start;
    /* on success, this returns with the mutex held */
    const plock_status status =
        plock__coordinator_find(current_node(watch), &coordinator, &start, error);
    if (status) return status;
    const plock_text name = plock__channel_text(&coordinator->channel);
    memcpy(watch->channel, name.bytes, name.length);
    watch->channel_length = name.length;
    link_watch(coordinator, watch);
    plock__coordinator_places(coordinator, watch->subject.key);
    if (!start && !coordinator->open) plock__worker_schedule(&coordinator->job);
    plock__leave();
    if (!start) return PLOCK_OK;
    plock__coordinator_start(start);
    plock__enter();
    /* if the worker thread could not start, the coordinator is gone, and `link` is NULL */
    const bool begun = watch->link;
    plock__leave();
    return begun ? PLOCK_OK
                 : plock__fail(error, PLOCK_DESCRIPTORS,
                               "no thread or file descriptor is left to watch the lease with");
}

plock_status plock__watch_prepare(plock_watch *watch, plock_error *error) {
    return watch->options.automatic ? plock__later_enter(&watch->later, error)
                                    : listen_for(watch, error);
}

void plock__watch_start(plock_watch *watch, const plock_subject *subject, plock_ns ttl,
                        plock_ns valid_until, plock_ns renewed_until) {
    plock__enter();
    const bool starts = !watch->ended && !watch->started;
    if (starts) {
        watch->started = true;
        watch->ttl = ttl;
        watch->valid_until = valid_until;
        watch->renewed_until = renewed_until;
        watch->renew_at = first_renewal(valid_until, ttl);
        if (watch->options.automatic)
            set_date(watch, plock_now());
        else
            watch->references++;
        if (!watch->subject.owner.brought)
            plock__owner_copy_fresh(&watch->subject.owner, &subject->owner);
    }
    plock__leave();
    if (starts && !watch->options.automatic) plock__worker_submit(&watch->job);
}

/* --- called by the program --- */

void plock__watch_pause(plock_watch *watch, plock_ns valid_until) {
    plock__enter();
    watch->paused = true;
    watch->epoch++;
    if (valid_until < watch->valid_until) watch->valid_until = valid_until;
    plock__leave();
}

/* Call with the mutex held. */
static void go_on(plock_watch *watch) {
    watch->paused = false;
    watch->epoch++;
    if (watch->later.listed)
        set_date(watch, plock_now());
    else if (watch->started && !watch->ended)
        plock__worker_schedule(&watch->job);
}

bool plock__watch_renews_beyond(plock_watch *watch, plock_ns ttl) {
    plock__enter();
    const bool beyond = watch->renewing_for > ttl;
    plock__leave();
    return beyond;
}

void plock__watch_resume(plock_watch *watch, plock_ns ttl, plock_ns valid_until) {
    plock__enter();
    watch->ttl = ttl;
    watch->valid_until = valid_until;
    watch->renew_at = first_renewal(valid_until, ttl);
    go_on(watch);
    plock__leave();
}

void plock__watch_resume_as_it_was(plock_watch *watch, plock_ns doubtful_ttl) {
    const plock_ns now = plock_now();
    plock__enter();
    if (doubtful_ttl < watch->ttl) watch->ttl = doubtful_ttl;
    /* the extension has no answer, but may have shortened the lease, so the renewal must come
     * soon */
    const plock_ns soon = now + (watch->valid_until - now) / RENEWALS_PER_TTL;
    if (soon < watch->renew_at) watch->renew_at = soon;
    go_on(watch);
    plock__leave();
}

void plock__watch_end(plock_watch *watch) {
    plock__enter();
    const bool own = watch->generation == plock__generation();
    watch->ended = true;
    if (own) plock__later_leave(&watch->later);
    if (own) unlink_watch(watch);
    if (own && watch->started && watch->references > 1) plock__worker_schedule(&watch->job);
    plock__leave();
}

plock_ns plock__watch_valid_until(plock_watch *watch, bool *lost) {
    plock__enter();
    const plock_ns until = watch->valid_until;
    *lost = watch->lost;
    plock__leave();
    return until;
}

/* --- called by the coordinator --- */

static void look_at_once(plock_watch *watch) {
    watch->doubtful = true;
    watch->check_at = 0;
    if (watch->started && !watch->ended) plock__worker_schedule(&watch->job);
}

/* A watch that has not started does not know its owner's value yet. The broken lease may be the
 * one that it watches, so the watch checks that lease when it starts. */
void plock__watch_broken(const plock__index *watches, plock_text key, plock_text value) {
    for (plock__index_entry *entry = plock__index_first(watches, key); entry;
         entry = plock__index_next(entry)) {
        plock_watch *watch = PLOCK__CONTAINER(plock_watch, by_key, entry);
        if (plock__same_text(watch->subject.key, key) &&
            (!watch->started || plock__same_text(watch->subject.owner.value, value)))
            look_at_once(watch);
    }
}

void plock__watch_move(plock_watch *watch, plock_coordinator *to) {
    unlink_watch(watch);
    link_watch(to, watch);
    if (to->open) look_at_once(watch);
}

void plock__watch_forsake(plock_watch *watches) {
    for (plock_watch *watch = watches, *next; watch; watch = next) {
        next = watch->next;
        watch->next = NULL;
        watch->link = NULL;
        plock__index_remove(&watch->by_key);
    }
}

void plock__watch_doubt(plock_watch *watches) {
    for (; watches; watches = watches->next) look_at_once(watches);
}

/* --- in the worker thread --- */

/* The watch's next task. `decide` chooses it under the mutex, because other threads change the
 * fields on which it depends. */
enum task { REST, STOP, LOSE, RENEW, CHECK };

static enum task decide(plock_watch *watch, plock_ns now, plock_interest *interest) {
    plock__enter();
    const bool renews = watch->options.renews && !watch->paused && now < watch->renewed_until;
    const bool doubts = watch->doubtful && !watch->paused && now >= watch->check_at;
    enum task task = REST;
    if (watch->ended)
        task = STOP;
    else if (watch->lost || now >= watch->valid_until)
        task = LOSE;
    else if (watch->asks)
        task = REST;
    else if (renews && (now >= watch->renew_at || doubts))
        task = RENEW; /* a renewal is also a check */
    else if (doubts)
        task = CHECK;
    if (task == RENEW || task == CHECK) watch->doubtful = false;
    if (task == LOSE) watch->lost = true;
    interest->deadline = watch->valid_until;
    if (renews && !watch->asks && watch->renew_at < interest->deadline)
        interest->deadline = watch->renew_at;
    if (watch->doubtful && !watch->paused && !watch->asks && watch->check_at < interest->deadline)
        interest->deadline = watch->check_at;
    if (task == RENEW || task == CHECK) watch->asked_in = watch->epoch;
    if (task == RENEW) watch->renewing_for = watch->ttl;
    plock__leave();
    return task;
}

static void begin(plock_watch *watch, enum task task) {
    plock__enter();
    const plock_ns until = watch->valid_until;
    plock__leave();
    const plock_text place = plock__text(watch->place, watch->unnoted ? watch->place_length : 0);
    const plock_request request =
        task == RENEW ? plock__renew_request(&watch->subject, watch->renewing_for, place)
                      : plock__check_request(&watch->subject);
    plock__retry_begin(&watch->retry, watch->node, &request, until, true);
    watch->asks = true;
}

static void understand(plock_watch *watch, plock_status status) {
    const plock_ns now = plock_now(), asked_at = watch->retry.call.left_at;
    const plock_ns asked_ttl = watch->renewing_for;
    const bool renewal = asked_ttl > 0;
    watch->asks = false;
    plock__enter();
    watch->renewing_for = 0;
    const bool current = watch->epoch == watch->asked_in;
    if (status == PLOCK_NOT_OWNER) watch->lost = true;
    if (status == PLOCK_OK && renewal) watch->unnoted = false;
    /* if the program has changed the dates since this request began, its dates stay */
    if (status == PLOCK_OK && renewal && current)
        watch->valid_until = plock__expiry(asked_at, asked_ttl);
    if (renewal && current)
        watch->renew_at =
            status ? now + before_another_try(watch) : asked_at + watch->ttl / RENEWALS_PER_TTL;
    /* a check must follow a failed renewal too, because max_hold may allow no further renewal */
    if (status && status != PLOCK_NOT_OWNER) {
        watch->doubtful = true;
        watch->check_at = now + before_another_try(watch);
    }
    plock__leave();
    if (status == PLOCK_OK && renewal)
        plock__notice_post(PLOCK_RENEWED, watch->options.id, plock__text("", 0), 0, now - asked_at);
}

static plock_status step(plock_job *job, plock_interest *interest) {
    plock_watch *watch = (plock_watch *)(void *)job;
    for (;;) {
        if (watch->asks) {
            plock_error ignored = {.status = PLOCK_OK};
            plock_interest answer = {.fd = -1, .deadline = PLOCK_NEVER};
            const plock_status status = plock__retry_step(&watch->retry, &answer, &ignored);
            if (status != PLOCK_AGAIN) understand(watch, status);
            *interest = answer;
        }
        plock_interest own = {.fd = -1, .deadline = PLOCK_NEVER};
        const enum task task = decide(watch, plock_now(), &own);
        if (task == STOP) return PLOCK_OK;
        if (task == LOSE) {
            if (watch->options.told)
                plock__notice_post(PLOCK_LOST, watch->options.id, plock__text("", 0), 0, 0);
            return PLOCK_OK;
        }
        if (task == REST) {
            if (!watch->asks)
                *interest = own;
            else if (own.deadline < interest->deadline)
                interest->deadline = own.deadline;
            return PLOCK_AGAIN;
        }
        begin(watch, task);
    }
}

static void put_down(plock_job *job) {
    plock_watch *watch = (plock_watch *)(void *)job;
    if (watch->asks) plock__retry_cancel(&watch->retry);
    watch->asks = false;
    plock__enter();
    watch->renewing_for = 0;
    if (watch->generation == plock__generation()) unlink_watch(watch);
    plock__leave();
    plock__watch_release(watch);
}
