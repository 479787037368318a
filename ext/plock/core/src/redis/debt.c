#include "redis/debt.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/pause.h"
#include "base/process.h"
#include "redis/call.h"
#include "redis/store.h"
#include "runtime/worker.h"

enum {
    DEBTS_MAX = 10000,  /* At most this many debts of a node. If all are leases: 20 MB. */
    COLLECTORS_MAX = 4, /* At most this many collectors of a node run at the same time. */
    /* Collectors use at most 1 / POOL_SHARE of the pool's connections, but at least one. */
    POOL_SHARE = 4
};

/* A job of the worker thread that settles one debt after another. While the server cannot be
 * reached, only one collector tries. When the server answers, other collectors join. */
struct plock_collector {
    plock_job job; /* first, so that the job has the collector's address */
    plock_collector *next;
    plock_node *node;
    unsigned generation;
    bool ended;       /* the collector is no longer in the node's list */
    plock_debt *debt; /* the debt that it is settling; NULL: none */
    plock_call call;
};

static plock_debts *indebted; /* the debts of the nodes for which this process has collectors */

/* --- lists, with the mutex held --- */

static void append(plock_debts *debts, plock_debt *debt) {
    debt->next = NULL;
    *(debts->last ? &debts->last->next : &debts->first) = debt;
    debts->last = debt;
    debts->count++;
}

static void prepend(plock_debts *debts, plock_debt *debt) {
    debt->next = debts->first;
    debts->first = debt;
    if (!debts->last) debts->last = debt;
    debts->count++;
}

static plock_debt *take_first(plock_debts *debts) {
    plock_debt *debt = debts->first;
    if (!debt) return NULL;
    debts->first = debt->next;
    if (!debts->first) debts->last = NULL;
    debts->count--;
    return debt;
}

static plock_debt *take_all(plock_debts *debts) {
    plock_debt *list = debts->first;
    debts->first = debts->last = NULL;
    debts->count = 0;
    return list;
}

static plock_debt *take_expired(plock_debts *debts, plock_ns now) {
    plock_debt *expired = NULL;
    for (plock_debt *debt = take_all(debts), *next; debt; debt = next) {
        next = debt->next;
        if (now < debt->until) {
            append(debts, debt);
        } else {
            debt->next = expired;
            expired = debt;
        }
    }
    return expired;
}

static void link_collector(plock_debts *debts, plock_collector *collector) {
    if (!debts->collectors) {
        debts->next = indebted;
        indebted = debts;
    }
    collector->next = debts->collectors;
    debts->collectors = collector;
    debts->collecting++;
}

static void unlink_collector(plock_debts *debts, plock_collector *collector) {
    plock_collector **link = &debts->collectors;
    while (*link != collector) link = &(*link)->next;
    *link = collector->next;
    debts->collecting--;
    collector->ended = true;
    if (debts->collectors) return;
    plock_debts **among = &indebted;
    while (*among != debts) among = &(*among)->next;
    *among = debts->next;
    debts->failures = 0;
    debts->resume_at = 0;
}

/* --- without the mutex --- */

static void settle_all(plock_debt *list, plock_status status) {
    while (list) {
        plock_debt *debt = list;
        list = debt->next;
        debt->settle(debt, status);
    }
}

static unsigned most_collectors(const plock_node *node) {
    const unsigned share = node->pool.limit / POOL_SHARE;
    return share < 1 ? 1 : share > COLLECTORS_MAX ? COLLECTORS_MAX : share;
}

/* --- collecting --- */

static void begin(plock_collector *collector, plock_ns now) {
    const plock_config *config = collector->node->config;
    /* enough time for one try, even if the debt has expired */
    const plock_ns least = plock_after(now, config->release_timeout);
    const plock_ns end = collector->debt->until > least ? collector->debt->until : least;
    const plock_ns all = plock_after(least, config->connect_timeout + config->command_timeout);
    const plock_request request = collector->debt->request(collector->debt, now);
    plock__call_begin(&collector->call, collector->node, &request, all < end ? all : end);
}

/* Takes the next debt. Returns false if the collector has ended or pauses. One collector is enough
 * to try the server again, so all others end instead of pausing. */
static bool take_next(plock_collector *collector, plock_interest *interest) {
    plock_debts *debts = &collector->node->debts;
    const plock_ns now = plock_now();
    plock__enter();
    const bool pauses = now < debts->resume_at;
    collector->debt = pauses ? NULL : take_first(debts);
    *interest = (plock_interest){.fd = -1, .deadline = debts->resume_at};
    const bool ends = !collector->debt && (!debts->first || debts->collecting > 1);
    if (ends) unlink_collector(debts, collector);
    plock__leave();
    if (collector->debt) begin(collector, now);
    return collector->debt;
}

static void start_collector(plock_node *node);

static void conclude(plock_collector *collector, plock_status status) {
    plock_debts *debts = &collector->node->debts;
    plock_debt *debt = collector->debt, *expired = NULL;
    const plock_ns now = plock_now();
    /* the server has executed only a part of the request */
    const bool unfinished = status == PLOCK_AGAIN;
    const bool done = status == PLOCK_OK || status == PLOCK_NOT_OWNER || unfinished;
    /* If the server has closed an idle connection, that does not count as a failure. The same debt
     * does not meet a second closed connection, because the pool then closes its other idle
     * connections. */
    const bool closed = status == PLOCK_DISCONNECTED && collector->call.reused;
    const bool passes = plock_status_retries(status) || status == PLOCK_NO_MEMORY;
    const bool kept =
        (unfinished && now < debt->until) || (!done && passes && (closed || now < debt->until));
    collector->debt = NULL;
    plock__enter();
    if (kept) closed || unfinished ? prepend(debts, debt) : append(debts, debt);
    if (done) {
        debts->failures = 0;
        debts->resume_at = 0;
    } else if (passes && !closed) {
        /* if several collectors fail together, only the first failure counts */
        const bool first = now >= debts->resume_at;
        if (first) debts->resume_at = now + plock__pause_in_background(debts->failures++);
        expired = take_expired(debts, now);
    }
    const unsigned most = most_collectors(collector->node);
    const bool joined = done && debts->first && debts->collecting < most;
    plock__leave();
    if (!kept) debt->settle(debt, unfinished ? PLOCK_OK : status);
    settle_all(expired, status);
    if (joined) start_collector(collector->node);
}

static plock_status step(plock_job *job, plock_interest *interest) {
    plock_collector *collector = (plock_collector *)(void *)job;
    for (;;) {
        const bool has_one = collector->debt || take_next(collector, interest);
        if (!has_one) return collector->ended ? PLOCK_OK : PLOCK_AGAIN;
        const plock_value *answer;
        plock_error error = {.status = PLOCK_OK};
        plock_status status = plock__call_step(&collector->call, &answer, interest, &error);
        if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
        if (!status) status = plock__read_done(collector->call.request.script, answer, &error);
        const bool answered =
            status == PLOCK_OK || status == PLOCK_NOT_OWNER || status == PLOCK_AGAIN;
        if (answered)
            plock__call_finish(&collector->call);
        else
            plock__call_cancel(&collector->call, NULL);
        conclude(collector, status);
    }
}

/* Called when the job has ended, when no thread can step it, or when it is the parent's job in a
 * forked child. */
static void destroy(plock_job *job) {
    plock_collector *collector = (plock_collector *)(void *)job;
    plock_node *node = collector->node;
    plock_debts *debts = &node->debts;
    const bool own = collector->generation == plock__generation();
    plock__call_cancel(&collector->call, NULL);
    plock__enter();
    /* A collector that has not ended by itself was cut off. If the node has no other collector,
     * nothing can settle the node's debts, so all of them end with a failure. */
    const bool cut_off = own && !collector->ended;
    if (cut_off) unlink_collector(debts, collector);
    plock_debt *left = cut_off && !debts->collectors ? take_all(debts) : NULL;
    plock_debt *inherited = debts->inherited;
    debts->inherited = NULL;
    plock__leave();
    plock_debt *in_hand = collector->debt;
    if (in_hand) in_hand->settle(in_hand, own ? PLOCK_DISCONNECTED : PLOCK_FORKED);
    settle_all(left, PLOCK_DISCONNECTED);
    settle_all(inherited, PLOCK_FORKED);
    plock__node_release(node);
    plock__free(collector);
}

static void start_collector(plock_node *node) {
    plock_collector *collector = plock__allocate(sizeof *collector);
    plock__enter();
    plock_debts *debts = &node->debts;
    const bool starts = collector && debts->first && debts->collecting < most_collectors(node);
    if (starts) {
        collector->job = (plock_job){.step = step, .destroy = destroy};
        collector->node = node;
        collector->generation = plock__generation();
        node->store->references++;
        link_collector(debts, collector);
    }
    plock_debt *left = !collector && !debts->collectors ? take_all(debts) : NULL;
    plock__leave();
    settle_all(left, PLOCK_NO_MEMORY);
    if (starts)
        plock__worker_submit(&collector->job);
    else
        plock__free(collector);
}

void plock__debt_submit(plock_node *node, plock_debt *debt) {
    plock_debts *debts = &node->debts;
    plock__enter();
    const bool full = debts->count == DEBTS_MAX;
    if (!full) append(debts, debt);
    const bool starts = !full && !debts->collectors;
    plock__leave();
    if (full)
        debt->settle(debt, PLOCK_STORE_FULL);
    else if (starts)
        start_collector(node);
}

void plock__debts_hurry(void) {
    plock__enter();
    for (plock_debts *debts = indebted; debts; debts = debts->next) {
        debts->failures = 0;
        debts->resume_at = 0;
        for (plock_collector *one = debts->collectors; one; one = one->next)
            plock__worker_schedule(&one->job);
    }
    plock__leave();
}

/* In a forked child: the jobs and their debts belong to the parent. */
void plock__debts_in_child(void) {
    for (plock_debts *debts = indebted, *next; debts; debts = next) {
        next = debts->next;
        debts->inherited = take_all(debts);
        debts->collectors = NULL;
        debts->collecting = debts->failures = 0;
        debts->resume_at = 0;
    }
    indebted = NULL;
}
