#include "plock/group.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "redis/redis_lease.h"

#include <string.h>

_Static_assert(PLOCK__GROUP_TEXTS(PLOCK_GROUP_MAX) + 3 <= PLOCK__LIST_MAX,
               "a command has room for a group's request");
_Static_assert(PLOCK_GROUP_MAX < PLOCK__REPLY_VALUES_MAX, "a reply has room for a group's answer");

struct plock_group {
    enum { NO_OPERATION, ALL_ACQUIRING, ALL_RELEASING } doing;
    plock_node *node; /* the node that has all keys */
    size_t count;
    unsigned generation;
    size_t free_ones;
    bool reconnected;  /* a closed connection was replaced; an acquire replaces only one */
    plock_ns deadline; /* of an acquire */
    plock_call call;
    plock_retry retry; /* of a release */
    plock_error error;

    plock_subject *subjects[PLOCK_GROUP_MAX]; /* of the leases that are being released */
    size_t places[PLOCK_GROUP_MAX];           /* the indexes of these leases in `leases` */
    size_t releasing;
    plock_ns keep, release_by;
    /* the server refused one request for all keys (CROSSSLOT), so they are released one by one */
    bool apart;
    size_t at;    /* if `apart`: the index in `subjects` of the key that is being released */
    bool hurried; /* the program has made the release's deadline earlier */
    bool released[PLOCK_GROUP_MAX], passed_over[PLOCK_GROUP_MAX];
    plock_text *texts; /* of the current request; stored after the leases */
    plock_redis_lease *leases[];
};

/* --- lifecycle --- */

plock_status plock_group_new(plock_group **out, plock_lease *const *bases, size_t count) {
    plock_redis_lease *leases[PLOCK_GROUP_MAX];
    *out = NULL;
    if (count == 0 || count > PLOCK_GROUP_MAX) return PLOCK_MISUSE;
    for (size_t i = 0; i < count; i++) leases[i] = plock__redis_lease(bases[i]);
    for (size_t i = 0; i < count; i++)
        if (leases[i]->store != leases[0]->store || *leases[i]->subject.share ||
            (leases[i]->base.held && leases[i]->subject.owner.brought))
            return PLOCK_MISUSE;
    plock_group *group = plock__allocate(sizeof *group + count * sizeof *leases +
                                         PLOCK__GROUP_TEXTS(count) * sizeof *group->texts);
    if (!group) return PLOCK_NO_MEMORY;
    group->texts = (plock_text *)(void *)(group->leases + count);
    memcpy(group->leases, leases, count * sizeof *leases);
    group->count = count;
    group->node = plock__node_retain(leases[0]->node);
    *out = group;
    return PLOCK_OK;
}

static plock_status finish(plock_group *group, plock_status status) {
    group->doing = NO_OPERATION;
    return status;
}

/* Does the lease only name an owner (plock_lease_own), and hold nothing itself? If so, a release
 * frees the lock that this owner holds, even if another lease acquired it. */
static bool is_named(const plock_redis_lease *lease) {
    return !lease->base.held && lease->subject.owner.brought;
}

/* --- acquiring --- */

static size_t list_all(plock_group *group) {
    for (size_t i = 0; i < group->count; i++) group->subjects[i] = &group->leases[i]->subject;
    return group->count;
}

/* Ends a failed acquire. Releases the locks that the server may have granted, with a request behind
 * the acquire on the same connection. doubt: also releases them in the background. */
static void give_back(plock_group *group, bool doubt) {
    plock_text texts[PLOCK__GROUP_TEXTS(PLOCK_GROUP_MAX)];
    const plock_request undo =
        plock__release_all_request(group->subjects, list_all(group), 0, texts);
    plock__call_cancel(&group->call, &undo);
    for (size_t i = 0; i < group->count; i++) {
        plock_redis_lease *lease = group->leases[i];
        if (doubt) (void)plock__lease_release_in_background(lease, false);
        plock__lease_drop_watch(lease);
    }
}

static plock_status finish_acquire(plock_group *group, plock_status status) {
    for (size_t i = 0; i < group->count; i++)
        if (group->leases[i]->doing == ACQUIRING)
            (void)plock__lease_finish(group->leases[i], status);
    return finish(group, status);
}

plock_status plock_group_acquire(plock_group *group, const plock_acquire_options *patience) {
    if (group->doing || patience->wait < 0) return PLOCK_MISUSE;
    const plock_ns longest = group->node->config->attempt_timeout,
                   attempt = plock__lease_attempt(group->node->store, patience);
    plock_acquire_options once = *patience;
    once.wait = 0;
    for (size_t i = 0; i < group->count; i++) {
        const plock_status status = is_named(group->leases[i])
                                        ? PLOCK_MISUSE
                                        : plock_lease_acquire(&group->leases[i]->base, &once);
        if (!status) continue;
        while (i-- > 0) (void)plock__lease_finish(group->leases[i], status);
        return status;
    }
    group->doing = ALL_ACQUIRING;
    group->generation = plock__generation();
    group->reconnected = false;
    group->deadline = plock_after(plock_now(), attempt < longest ? attempt : longest);
    return PLOCK_OK;
}

static plock_status attempt(plock_group *group) {
    for (size_t i = 0; i < group->count; i++) {
        const plock_status status = plock__acquire_prepare(group->leases[i]);
        if (!status) continue;
        group->error = group->leases[i]->base.error;
        return status;
    }
    const plock_request request = plock__acquire_all_request(
        group->subjects, list_all(group), group->leases[0]->new_ttl, group->texts);
    plock__call_begin(&group->call, group->node, &request, group->deadline);
    return PLOCK_OK;
}

/* Handles a grant. All leases expire at the same time, so either all have expired or none has. */
static plock_status granted(plock_group *group, const plock_value *answer) {
    plock_grant grants[PLOCK_GROUP_MAX];
    if (answer->type != PLOCK__ARRAY || answer->length != group->count)
        return plock__not_our_answer(&group->error);
    for (size_t i = 0; i < group->count; i++) {
        const plock_value *fence = plock__element(answer, i, PLOCK__STRING);
        grants[i] = (plock_grant){.asked_at = group->call.left_at, .next_in = PLOCK_NEVER};
        if (!fence || !plock__read_number(fence, &grants[i].fence))
            return plock__not_our_answer(&group->error);
    }
    plock__call_finish(&group->call);
    for (size_t i = 0; i < group->count; i++) {
        const plock_status status = plock__acquire_granted(group->leases[i], &grants[i]);
        if (!status) continue;
        group->error = group->leases[i]->base.error;
        while (i-- > 0) { /* the caller then calls give_back, which also releases these leases */
            group->leases[i]->base.held = false;
            group->leases[i]->doing = ACQUIRING;
        }
        return status;
    }
    return PLOCK_OK;
}

/* free_ones: how many keys precede the first one that is not free, or PLOCK__ASK_AGAIN. */
static plock_status refused(plock_group *group, int64_t free_ones) {
    give_back(group, false);
    if (free_ones >= 0) {
        group->free_ones = (size_t)free_ones;
        group->leases[free_ones]->base.contended = true;
    }
    return finish_acquire(group, plock__fail_plainly(&group->error, PLOCK_REFUSED));
}

static plock_status acquire_step(plock_group *group, plock_interest *interest) {
    for (;;) {
        plock_status status = group->call.state == PLOCK__CALL_NONE ? attempt(group) : PLOCK_OK;
        const plock_value *answer;
        if (!status) status = plock__call_step(&group->call, &answer, interest, &group->error);
        if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
        const bool left = plock__call_left(&group->call);
        if (!status && answer->type == PLOCK__INTEGER && answer->integer >= PLOCK__ASK_AGAIN &&
            answer->integer < (int64_t)group->count) {
            const int64_t free_ones = answer->integer;
            plock__call_finish(&group->call);
            if (free_ones == PLOCK__ASK_AGAIN && plock_now() < group->deadline) continue;
            return refused(group, free_ones);
        }
        if (!status && (status = granted(group, answer)) == PLOCK_OK)
            return finish(group, PLOCK_OK);
        const bool again =
            status == PLOCK_DISCONNECTED && group->call.reused && !group->reconnected;
        give_back(group, left && plock_status_leaves_doubt(status));
        if (!again || plock_now() >= group->deadline) return finish_acquire(group, status);
        /* a closed idle connection does not count as a failure */
        group->reconnected = true;
        group->call.state = PLOCK__CALL_NONE;
    }
}

/* --- releasing --- */

static plock_status read_released(void *context, const plock_value *answer, plock_error *error) {
    plock_group *group = context;
    bool unfinished = false;
    if (answer->type != PLOCK__ARRAY || answer->length != group->releasing)
        return plock__not_our_answer(error);
    for (size_t i = 0; i < group->releasing; i++) {
        const plock_value *done = plock__element(answer, i, PLOCK__INTEGER);
        bool *released = &group->released[group->places[i]];
        if (!done || done->integer < 0 || done->integer > PLOCK__UNFINISHED)
            return plock__not_our_answer(error);
        /* If the server says that a lease is not held, an earlier attempt may have released it.
         * That attempt's answer was read by this function (`released`), or was lost (`doubt`). */
        *released = *released || done->integer > 0 || group->retry.doubt;
        unfinished = unfinished || done->integer == PLOCK__UNFINISHED;
    }
    return unfinished ? PLOCK_AGAIN : PLOCK_OK;
}

plock_status plock_group_release(plock_group *group, plock_ns keep) {
    if (group->doing) return PLOCK_MISUSE;
    group->releasing = 0;
    for (size_t i = 0; i < group->count; i++) {
        plock_redis_lease *lease = group->leases[i];
        group->released[i] = false;
        group->passed_over[i] =
            !is_named(lease) && (!lease->base.held || plock_lease_inherited(&lease->base));
        if (group->passed_over[i]) continue;
        if (lease->doing) return lease->base.held ? PLOCK_IN_USE : PLOCK_MISUSE;
        group->subjects[group->releasing] = &lease->subject;
        group->places[group->releasing++] = i;
    }
    if (!group->releasing) return PLOCK_MISUSE;
    for (size_t i = 0; i < group->releasing; i++) {
        plock_redis_lease *lease = group->leases[group->places[i]];
        if (is_named(lease)) lease->undoes = false;
        lease->base.held = false;
        lease->taken_until = keep > 0 ? plock_after(plock_now(), keep) : 0;
        plock__lease_drop_watch(lease);
    }
    group->doing = ALL_RELEASING;
    group->hurried = group->apart = false;
    group->at = 0;
    group->keep = keep;
    group->release_by = plock_after(plock_now(), group->node->config->release_timeout);
    group->generation = plock__generation();
    const plock_request request =
        plock__release_all_request(group->subjects, group->releasing, keep, group->texts);
    plock__retry_begin(&group->retry, group->node, &request, group->release_by, true);
    plock__retry_heed(&group->retry, read_released, NULL, NULL, group);
    return PLOCK_OK;
}

static void release_single(plock_group *group) {
    const plock_request request =
        plock__release_request(group->subjects[group->at], 0, group->keep);
    plock__retry_begin(&group->retry, group->node, &request, group->release_by, true);
}

/* Returns PLOCK_AGAIN or the final status. */
static plock_status release_apart(plock_group *group, plock_interest *interest) {
    for (;;) {
        const plock_status status = plock__retry_step(&group->retry, interest, &group->error);
        if (status && status != PLOCK_NOT_OWNER) return status;
        group->released[group->places[group->at]] = status == PLOCK_OK || group->retry.doubt;
        if (++group->at == group->releasing) return PLOCK_OK;
        release_single(group);
    }
}

/* May the release go on in the background? Not if the caller brought the owner, which may acquire
 * the key again soon. If the program did not hurry the release, `why` must also allow a retry. */
static bool goes_on(const plock_group *group, const plock_redis_lease *lease, plock_status why) {
    return group->hurried ? !lease->subject.owner.brought : plock__lease_carries_on(lease, why);
}

/* Releases the remaining leases in the background. Skips the leases whose release may not go on
 * after `failure` (PLOCK_OK: skips none). Returns false if a lease was not submitted. */
static bool go_on_in_background(plock_group *group, plock_status failure, bool tells) {
    bool all = true;
    for (size_t i = 0; i < group->releasing; i++) {
        const size_t place = group->places[i];
        const plock_redis_lease *lease = group->leases[place];
        if (group->released[place]) continue;
        if ((failure && !goes_on(group, lease, failure)) ||
            !plock__lease_release_in_background(lease, tells))
            all = false;
    }
    return all;
}

static bool all_carry_on(const plock_group *group, plock_status status) {
    for (size_t i = 0; i < group->releasing; i++)
        if (!plock__lease_carries_on(group->leases[group->places[i]], status)) return false;
    return true;
}

/* Handles a failed release. If the pool had no free connection, the release goes on in the
 * background. In that case, the function returns PLOCK_OK (plock__lease_released says why). */
static plock_status failed_to_release(plock_group *group, plock_status status) {
    const bool hides = status == PLOCK_SATURATED && all_carry_on(group, status);
    if (!go_on_in_background(group, status, hides) || !hides) return status;
    for (size_t i = 0; i < group->releasing; i++) group->released[group->places[i]] = true;
    return PLOCK_OK;
}

static plock_status release_step(plock_group *group, plock_interest *interest) {
    plock_status status = PLOCK_CROSSSLOT;
    if (!group->apart) status = plock__retry_step(&group->retry, interest, &group->error);
    if (status == PLOCK_CROSSSLOT) {
        if (!group->apart) release_single(group);
        group->apart = true;
        status = release_apart(group, interest);
    }
    if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
    return finish(group, status ? failed_to_release(group, status) : PLOCK_OK);
}

/* --- any operation --- */

static void give_up(plock_group *group) {
    const bool own = group->generation == plock__generation();
    if (group->doing == ALL_ACQUIRING) {
        give_back(group, own && plock__call_unanswered(&group->call));
        (void)finish_acquire(group, PLOCK_OK);
    }
    if (group->doing == ALL_RELEASING) {
        plock__retry_cancel(&group->retry);
        if (own) (void)go_on_in_background(group, PLOCK_OK, false);
    }
    group->doing = NO_OPERATION;
}

void plock_group_free(plock_group *group) {
    if (!group) return;
    plock__begin_step();
    give_up(group);
    plock__node_release(group->node);
    plock__free(group);
    plock__end_step();
}

static plock_status advance(plock_group *group, plock_interest *interest) {
    if (!group->doing) return PLOCK_MISUSE;
    if (group->generation != plock__generation()) { /* the parent process began the operation */
        give_up(group);
        return plock__fail_plainly(&group->error, PLOCK_FORKED);
    }
    return group->doing == ALL_ACQUIRING ? acquire_step(group, interest)
                                         : release_step(group, interest);
}

static plock_status step(void *group, plock_interest *interest) {
    plock__begin_step();
    const plock_status status = advance(group, interest);
    plock__end_step();
    return status;
}

static void cancel(void *group) {
    plock__begin_step();
    give_up(group);
    plock__end_step();
}

static void hurry(void *of, plock_ns deadline) {
    plock_group *group = of;
    if (deadline < group->deadline) group->deadline = deadline;
    if (deadline < group->call.deadline) group->call.deadline = deadline;
    if (deadline < group->retry.deadline) group->hurried = true;
    if (deadline < group->release_by) group->release_by = deadline;
    plock__retry_hurry(&group->retry, deadline);
}

plock_operation plock_group_operation(plock_group *group) {
    return (plock_operation){.of = group, .step = step, .cancel = cancel, .hurry = hurry};
}

/* --- results --- */

size_t plock_group_free_ones(const plock_group *group) { return group->free_ones; }

bool plock_group_released(const plock_group *group, size_t index) { return group->released[index]; }

bool plock_group_passed_over(const plock_group *group, size_t index) {
    return group->passed_over[index];
}

const plock_error *plock_group_error(const plock_group *group) { return &group->error; }
