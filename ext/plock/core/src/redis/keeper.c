#include "redis/keeper.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/pause.h"
#include "base/process.h"

/* Others may wait soon again; until then it costs a connection and a thread that sleeps. */
static const plock_ns IDLE = 5 * PLOCK_SECOND;

static plock_keeper *keepers; /* at work; under the lock */

/* --- the lines, with the lock held --- */

static plock_waiter *find(const plock_keeper *keeper, const plock_message *message) {
    return plock__line_waiter(plock__line_find(keeper->lines, message->key), message->value);
}

/* All ask again: whoever could not be told lost his place. So may he have whose refusal is still on its way. */
static void channel_opened(plock_keeper *keeper) {
    keeper->open = true;
    for (plock_line *line = keeper->lines; line; line = line->next) plock__line_shake(line, NULL);
    plock__watch_doubt(keeper->watches);
}

static plock_waiter *next_to_look(plock_keeper *keeper, plock_ns now, plock_ns *at) {
    for (plock_line *line = keeper->lines; line; line = line->next) {
        plock_waiter *waiter = plock__line_next(line, keeper->open, now, at);
        if (!waiter) continue;
        plock__line_looks(line, now);
        if (plock__waiter_call(waiter, false)) return waiter;
    }
    return NULL;
}

static void fail_all(plock_keeper *keeper, const plock_error *error) {
    for (plock_line *line = keeper->lines; line; line = line->next)
        for (plock_waiter *waiter = line->first; waiter; waiter = waiter->next) plock__waiter_fail(waiter, error);
}

/* --- steps --- */

static void understand(plock_keeper *keeper, const plock_message *message) {
    plock__enter();
    if (!message->kind) channel_opened(keeper);
    plock_waiter *waiter = message->kind ? find(keeper, message) : NULL;
    const bool shared = message->kind == '+', turn = shared || message->kind == '=';
    const bool employ = turn && waiter && plock__waiter_call(waiter, true);
    if (message->kind == '~' && waiter) plock__line_told(waiter->line, plock_now() + (plock_ns)message->ms * PLOCK_MILLISECOND);
    if (message->kind == '!') plock__watch_broken(keeper->watches, message->key, message->value);
    plock__leave();
    if (employ) plock__worker_submit(&waiter->job);
    if (turn && !waiter) plock__waiter_pass_on(keeper->store, message->key, message->value, shared);
}

static void channel_failed(plock_keeper *keeper, const plock_error *error) {
    keeper->retry_at = plock_now() + plock__pause_before_trying(keeper->failures++);
    plock__enter();
    /* One that was open comes back: the places in the queue are kept for those who present their tickets. */
    if (!keeper->open) fail_all(keeper, error);
    keeper->open = false;
    plock__leave();
}

/* With the lock held. */
static bool needed(const plock_keeper *keeper) {
    return keeper->lines || keeper->watches;
}

static bool is_needed(const plock_keeper *keeper) {
    plock__enter();
    const bool yes = needed(keeper);
    plock__leave();
    return yes;
}

static void attend(plock_keeper *keeper, plock_ns now, plock_want *want) {
    if (keeper->channel.state == PLOCK__CHANNEL_CLOSED) {
        if (!is_needed(keeper)) return; /* who comes tells */
        if (now < keeper->retry_at) {
            want->deadline = keeper->retry_at;
            return;
        }
    }
    plock_message message;
    plock_error error = {.status = PLOCK_OK};
    plock_status status;
    for (bool reads = keeper->job.ready;; reads = false) {
        status = plock__channel_step(&keeper->channel, keeper->store, reads, &message, want, &error);
        if (status) break;
        keeper->failures = 0;
        understand(keeper, &message);
    }
    if (status == PLOCK_AGAIN) return;
    channel_failed(keeper, &error);
    *want = (plock_want){.fd = -1, .deadline = keeper->retry_at};
}

static void send_to_look(plock_keeper *keeper, plock_ns now, plock_want *want) {
    for (;;) {
        plock__enter();
        plock_ns at = want->deadline;
        plock_waiter *waiter = next_to_look(keeper, now, &at);
        /* One that was set earlier is kept: lines come and go, and to wake this thread for each costs more than to wake it once in vain. */
        if (now >= keeper->looks_at || at < keeper->looks_at) keeper->looks_at = at;
        if (keeper->looks_at < want->deadline) want->deadline = keeper->looks_at;
        plock__leave();
        if (!waiter) return;
        plock__worker_submit(&waiter->job);
    }
}

/* What is said on the channel meanwhile concerns nobody any more. */
static bool idle(const plock_job *job) {
    const plock_keeper *keeper = (const plock_keeper *)(const void *)job;
    return !needed(keeper) && keeper->channel.state == PLOCK__CHANNEL_OPEN;
}

/* Nobody needs it any more, and nobody has for a while. */
static bool retires(plock_keeper *keeper, plock_ns now, plock_want *want) {
    plock__enter();
    const bool unneeded = !needed(keeper);
    const bool unused = keeper->store->references == 1 || plock__pool_closed(&keeper->store->pool);
    if (!unneeded) keeper->idle_since = PLOCK_NEVER;
    else if (keeper->idle_since == PLOCK_NEVER) keeper->idle_since = now;
    const bool over = unneeded && (unused || now >= keeper->idle_since + IDLE);
    if (over) atomic_store(&keeper->store->keeper, NULL);
    plock__leave();
    const plock_ns again = (unneeded ? keeper->idle_since : now) + IDLE; /* it is not told when the last one leaves */
    if (again < want->deadline) want->deadline = again;
    return over;
}

static plock_status step(plock_job *job, plock_want *want) {
    plock_keeper *keeper = (plock_keeper *)(void *)job;
    const plock_ns now = plock_now();
    *want = (plock_want){.fd = -1, .deadline = PLOCK_NEVER};
    keeper->begun = true;
    attend(keeper, now, want);
    send_to_look(keeper, now, want);
    return retires(keeper, now, want) ? PLOCK_OK : PLOCK_AGAIN;
}

/* --- life --- */

plock_keeper *plock__keeper_of(plock_store *store) {
    return atomic_load(&store->keeper);
}

static void free_lines(plock_line *list) {
    while (list) {
        plock_line *line = list;
        list = line->next;
        plock__free(line);
    }
}

static void unlink_keeper(plock_keeper *keeper) {
    plock_keeper **link = &keepers;
    while (*link && *link != keeper) link = &(*link)->next;
    if (*link) *link = keeper->next;
    if (atomic_load(&keeper->store->keeper) == keeper) atomic_store(&keeper->store->keeper, NULL);
}

/* In a child its waiters are the parent's, and are not touched. */
static void destroy(plock_job *job) {
    plock_keeper *keeper = (plock_keeper *)(void *)job;
    const plock_error ended = {.status = PLOCK_DISCONNECTED, .message = "waiting for locks has been ended"};
    const plock_error never_begun = {.status = PLOCK_DESCRIPTORS, .message = "no thread or file descriptor is left to wait with"};
    plock__enter();
    unlink_keeper(keeper);
    plock_line *lines = keeper->lines;
    if (keeper->generation == plock__generation()) {
        fail_all(keeper, keeper->begun ? &ended : &never_begun);
        for (plock_line *line = lines; line; line = line->next)
            while (line->first) plock__line_remove(line->first);
    }
    plock__leave();
    free_lines(lines);
    plock__channel_close(&keeper->channel, keeper->store);
    plock__store_release(keeper->store);
    plock__free(keeper);
}

static plock_keeper *new_keeper(plock_store *store, plock_error *error) {
    plock_keeper *keeper = plock__allocate(sizeof *keeper);
    const plock_status status = keeper ? plock__channel_name(&keeper->channel) : PLOCK_NO_MEMORY;
    if (status) {
        (void)plock__fail_plainly(error, status);
        plock__free(keeper);
        return NULL;
    }
    keeper->job.step = step;
    keeper->job.destroy = destroy;
    keeper->job.idle = idle;
    keeper->job.lingers = true;
    keeper->generation = plock__generation();
    keeper->idle_since = keeper->looks_at = PLOCK_NEVER;
    keeper->store = plock__store_retain(store);
    return keeper;
}

static void free_unused(plock_keeper *keeper) {
    if (keeper) plock__store_release(keeper->store);
    plock__free(keeper);
}

plock_status plock__keeper_find(plock_store *store, plock_keeper **found, plock_keeper **start, plock_error *error) {
    *start = NULL;
    plock__enter();
    *found = plock__keeper_of(store);
    if (*found) return PLOCK_OK;
    plock__leave();
    plock_keeper *made = new_keeper(store, error);
    if (!made) return error->status;
    plock__enter();
    *found = plock__keeper_of(store);
    if (*found) { /* another thread was quicker */
        plock__leave();
        free_unused(made);
        return plock__keeper_find(store, found, start, error);
    }
    *found = *start = made;
    atomic_store(&store->keeper, made);
    made->next = keepers;
    keepers = made;
    return PLOCK_OK;
}

void plock__keeper_start(plock_keeper *keeper) {
    plock__worker_submit(&keeper->job);
}

void plock__keeper_review(plock_store *store) {
    plock_keeper *keeper = plock__keeper_of(store);
    if (keeper) plock__keeper_prod(keeper);
}

void plock__keeper_prod(plock_keeper *keeper) {
    plock__worker_prod(&keeper->job);
}

void plock__keeper_tell(plock_keeper *keeper, plock_ns by) {
    if (by >= keeper->looks_at) return;
    keeper->looks_at = by;
    plock__worker_prod(&keeper->job);
}

/* The thread is the parent's; so are those who wait. */
void plock__keepers_in_child(void) {
    for (plock_keeper *keeper = keepers; keeper; keeper = keeper->next) atomic_store(&keeper->store->keeper, NULL);
    keepers = NULL;
}
