/* The worker thread's job for one lease of a local store. The job renews the lease, reports its
 * loss, and ends the lease's claim if the program could not do so itself. */
#include "local/local_lease.h"

#include "base/container.h"
#include "base/memory.h"
#include "base/process.h"
#include "runtime/notice.h"

/* The attendant of a map (local_attendant.h) checks that the map's file is in its place. If the map
 * has no attendant, the job of each lease makes this check at this interval. */
static const plock_ns UNATTENDED = PLOCK_SECOND / 2;

void plock__local_lease_destroy(plock_local_lease *lease) {
    if (lease->map) plock__local_release(lease->map);
    plock__local_store_release(lease->store);
    plock__free(lease->brought);
    plock__free(lease->left);
    plock__free(lease);
}

void plock__local_lease_release(plock_local_lease *lease) {
    if (plock__drop_reference(&lease->references)) plock__local_lease_destroy(lease);
}

/* Call with the mutex held. */
static void set_job(plock_local_lease *lease, enum plock__local_job_state state) {
    plock__local_assert_job(lease->job_state, state);
    lease->job_state = state;
}

static plock_status step(plock_job *job, plock_interest *interest);
static void put_down(plock_job *job);

/* --- watching a held lease --- */

static plock_ns until_of(const plock_local_lease *lease) {
    return atomic_load(&lease->map->claims[lease->claim].until);
}

/* Renews the lease if a renewal is due, and returns true if it did. The claim lasts until its
 * process ends or until max_hold, so only the expiry that the program sees moves. Call with the
 * mutex held. */
static bool renew(plock_local_lease *lease, plock_ns now) {
    const plock_ns third = lease->base.ttl / PLOCK__RENEWALS_PER_TTL;
    if (!lease->renew_at) lease->renew_at = now + third;
    if (!lease->terms.renews || now < lease->renew_at) return false;
    plock__local_seen_until(lease, until_of(lease), now);
    lease->renew_at = now + third;
    return true;
}

/* Stops watching the lease. Call with the mutex held. */
static void stop(plock_local_lease *lease) {
    plock__later_leave(&lease->later);
    plock__local_unregister(lease);
    if (lease->job_state == PLOCK__JOB_RENEWS || lease->job_state == PLOCK__JOB_RENEWS_NEXT)
        set_job(lease, PLOCK__JOB_STOPS);
    if (lease->job_state) plock__worker_schedule(&lease->job);
}

/* Records that the lease is lost. Returns true if the loss is new. Call with the mutex held. */
static bool lose(plock_local_lease *lease) {
    if (lease->state != PLOCK__LEASE_HELD) return false;
    plock__local_set_state(lease, PLOCK__LEASE_LOST);
    stop(lease);
    return true;
}

static void tell(const plock_local_lease *lease) {
    if (lease->watching == PLOCK__WATCHED || lease->terms.watched)
        plock__notice_post(PLOCK_LOST, lease->base.id, plock__text("", 0), 0, 0);
}

void plock__local_has_lost(plock_local_lease *lease, bool tells) {
    plock__enter();
    const bool news = lose(lease);
    plock__leave();
    if (news && tells) tell(lease);
}

static plock_status watch(plock_local_lease *lease, plock_interest *interest) {
    const plock_ns now = plock_now();
    /* if the file is lost, this check records that, and the lease is found lost below */
    (void)(plock__local_check(lease->map, now, NULL) == PLOCK_OK);
    plock__enter();
    plock__local_make_readable(lease->map);
    const bool holds = lease->job_state == PLOCK__JOB_RENEWS && lease->state == PLOCK__LEASE_HELD,
               over = !plock__local_still(lease, PLOCK__HELD) || now >= until_of(lease);
    const bool lost = holds && over && lose(lease), renewed = holds && !over && renew(lease, now),
               watches = lease->job_state == PLOCK__JOB_RENEWS;
    *interest = (plock_interest){.fd = -1, .deadline = holds ? until_of(lease) : PLOCK_NEVER};
    if (holds && lease->terms.renews && lease->renew_at < interest->deadline)
        interest->deadline = lease->renew_at;
    if (!lease->map->attendant && now + UNATTENDED < interest->deadline)
        interest->deadline = now + UNATTENDED;
    plock__leave();
    if (lost) tell(lease);
    if (renewed) plock__notice_post(PLOCK_RENEWED, lease->base.id, plock__text("", 0), 0, 0);
    return watches ? PLOCK_AGAIN : PLOCK_OK;
}

/* --- a lease that is watched later --- */

static plock_local_lease *lease_of(plock_later *later) {
    return PLOCK__CONTAINER(plock_local_lease, later, later);
}

/* Prepares the job. The job keeps a reference to the lease until the job is OFF again. Call with
 * the mutex held. The caller must then submit the job. */
static void take_up(plock_local_lease *lease, enum plock__local_job_state state) {
    lease->references++;
    set_job(lease, state);
    lease->job =
        (plock_job){.step = step, .destroy = put_down, .lingers = state == PLOCK__JOB_RENEWS};
}

static void keep(plock_later *later) { take_up(lease_of(later), PLOCK__JOB_RENEWS); }

/* Marks the claim as watched. A process that ends the claim then wakes this process. If the claim
 * cannot be marked, the job notices the claim's end only when it runs next. */
static void ask_to_be_told(plock_local_lease *lease) {
    plock__local_map *map = lease->map;
    plock_status status = plock__local_attend(map, NULL);
    if (!status) status = plock__local_enter(map, plock_now(), NULL);
    if (status) return;
    const bool held = plock__local_still(lease, PLOCK__HELD);
    if (held) map->claims[lease->claim].watched = 1;
    /* if this fails, the file is damaged, and the next renewal notices the damage */
    (void)(plock__local_leave(map, NULL) == PLOCK_OK);
    PLOCK__BEFORE(PLOCK__REGISTERS);
    plock__enter();
    if (held && lease->job_state == PLOCK__JOB_RENEWS) plock__local_register(lease);
    plock__leave();
}

/* Called when the lease has been held for longer than most leases are held. */
static void begin_watching(plock_later *later) {
    plock_local_lease *lease = lease_of(later);
    ask_to_be_told(lease);
    plock__worker_submit(&lease->job);
}

plock_status plock__local_prepare_watch(plock_local_lease *lease) {
    if (lease->watching == PLOCK__WATCHED)
        return plock__local_attend(lease->map, &lease->base.error);
    if (lease->watching == PLOCK__UNWATCHED) return PLOCK_OK;
    lease->later.keep = keep;
    lease->later.begin = begin_watching;
    return plock__later_enter(&lease->later, &lease->base.error);
}

void plock__local_see_to_later(plock_local_lease *lease) {
    const plock_ns now = plock_now();
    plock__enter();
    lease->renew_at = 0;
    plock__later_by(&lease->later,
                    plock__later_than(now, now + lease->base.ttl / PLOCK__RENEWALS_PER_TTL));
    plock__leave();
}

/* --- ending --- */

static plock_status end(plock_local_lease *lease, plock_interest *interest) {
    const plock_ns now = plock_now();
    if (!plock__local_end_own_claim(lease, now)) {
        *interest = (plock_interest){.fd = -1, .deadline = now + PLOCK_MILLISECOND};
        return PLOCK_AGAIN;
    }
    plock__enter();
    set_job(lease, PLOCK__JOB_STOPS);
    plock__leave();
    return PLOCK_OK;
}

static plock_status step(plock_job *job, plock_interest *interest) {
    plock_local_lease *lease = PLOCK__CONTAINER(plock_local_lease, job, job);
    plock__enter();
    const bool to_end =
        lease->job_state == PLOCK__JOB_ENDS || lease->job_state == PLOCK__JOB_ENDS_NEXT;
    plock__leave();
    return to_end ? end(lease, interest) : watch(lease, interest);
}

/* Called when the job is done, when no thread could run the job, or in a forked child. If the job
 * has a next task, submits the job again. */
static void put_down(plock_job *job) {
    plock_local_lease *lease = PLOCK__CONTAINER(plock_local_lease, job, job);
    plock__enter();
    const bool own = !plock_lease_inherited(&lease->base);
    const bool again = own && (lease->job_state == PLOCK__JOB_RENEWS_NEXT ||
                               lease->job_state == PLOCK__JOB_ENDS_NEXT);
    if (own && !again && lease->state != PLOCK__LEASE_WAITING && lease->map)
        plock__local_unregister(lease);
    if (again)
        set_job(lease,
                lease->job_state == PLOCK__JOB_ENDS_NEXT ? PLOCK__JOB_ENDS : PLOCK__JOB_RENEWS);
    else
        set_job(lease, PLOCK__JOB_OFF);
    plock__local_map *unused = plock__local_unused(lease);
    plock__leave();
    if (unused) plock__local_release(unused);
    if (again)
        plock__worker_submit(job);
    else
        plock__local_lease_release(lease);
}

/* --- requests of the program --- */

/* Gives the job the task `state`. A job that is stopping cannot begin a task before put_down has
 * run. Such a job gets the state `after_stopping`, with which put_down submits the job again. */
static void employ(plock_local_lease *lease, enum plock__local_job_state state,
                   enum plock__local_job_state after_stopping) {
    plock__enter();
    const bool off = lease->job_state == PLOCK__JOB_OFF;
    if (off)
        take_up(lease, state);
    else if (lease->job_state == PLOCK__JOB_RENEWS)
        set_job(lease, state);
    else if (lease->job_state != PLOCK__JOB_ENDS)
        set_job(lease, after_stopping);
    if (!off) plock__worker_schedule(&lease->job);
    plock__leave();
    if (off) plock__worker_submit(&lease->job);
}

void plock__local_watch(plock_local_lease *lease) {
    employ(lease, PLOCK__JOB_RENEWS, PLOCK__JOB_RENEWS_NEXT);
}

void plock__local_hand_over(plock_local_lease *lease) {
    employ(lease, PLOCK__JOB_ENDS, PLOCK__JOB_ENDS_NEXT);
}

void plock__local_has_begun(plock_local_lease *lease) {
    if (lease->watching == PLOCK__WATCHED_LATER) plock__local_see_to_later(lease);
    if (lease->watching != PLOCK__WATCHED) return;
    plock__enter();
    lease->renew_at = 0;
    plock__local_register(lease);
    plock__leave();
    plock__local_watch(lease);
}

bool plock__local_start_over(plock_local_lease *lease) {
    plock__local_map *map = lease->map;
    const bool lost = plock__local_lost(map);
    plock__enter();
    plock__local_set_state(lease, PLOCK__LEASE_NONE);
    if (lost)
        stop(lease);
    else
        plock__local_unregister(lease);
    /* the job is stopping because the earlier lease was lost; but the new attempt needs the job, so
     * put_down must submit it again */
    if (!lost && lease->job_state == PLOCK__JOB_STOPS) set_job(lease, PLOCK__JOB_RENEWS_NEXT);
    const bool ready = !lost || lease->job_state == PLOCK__JOB_OFF;
    plock__leave();
    if (lost && ready) plock__local_has_used(lease);
    return ready;
}

void plock__local_dismiss(plock_local_lease *lease) {
    if (plock_lease_inherited(&lease->base)) return;
    plock__enter();
    if (lease->map) stop(lease);
    plock__leave();
}
