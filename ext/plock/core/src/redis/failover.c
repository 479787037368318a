#include "redis/failover.h"

#include "base/memory.h"
#include "base/pause.h"
#include "base/process.h"
#include "net/dial.h"
#include "net/sentinel.h"
#include "redis/coordinator.h"
#include "redis/store.h"

#include <string.h>

static const char CHANNEL[] = "+switch-master";

struct plock_failover {
    plock_job job; /* first, so that the job has the address of plock_failover */
    plock_node *node;

    /* Protected by the mutex. */
    unsigned references; /* one for the coordinator, and one for a submitted job */
    bool submitted, over;

    /* Only the worker thread uses these fields. */
    enum { CLOSED, CONNECTING, SUBSCRIBING, OPEN } state;
    plock_connection *connection;
    plock_resolver resolver; /* finds the address of the sentinel */
    unsigned sentinel;       /* the index of the sentinel to listen to */
    unsigned failures;
    plock_ns deadline, retry_at;
    plock_ns turn_at;  /* when to listen to the next sentinel */
    plock_ns asked_at; /* when all sentinels were last asked; 0: never */
};

/* How long the job listens to one sentinel before it turns to the next one. The sentinel may be
 * silent or cut off from the others. */
static const plock_ns TURN = 2 * PLOCK_SECOND;

/* How long the job listens to a sentinel that has named another primary. Most sentinels may not
 * know that primary yet. So the job soon turns to the next sentinel. If the next one also names
 * another primary, the job asks all sentinels again. */
static const plock_ns SHORT_TURN = PLOCK_SECOND / 4;

/* The shortest time between two requests to all sentinels. Without it, a sentinel that keeps naming
 * other primaries would keep all sentinels busy. */
static const plock_ns ASKS_EVERY = PLOCK_SECOND / 10;

static const plock_sentinels *sentinels_of(const plock_failover *failover) {
    return failover->node->config->sentinels;
}

/* --- one sentinel --- */

static void hang_up(plock_failover *failover) {
    if (failover->connection) plock__pool_give(&failover->node->pool, failover->connection, false);
    failover->connection = NULL;
    plock__resolver_clear(&failover->resolver);
    failover->state = CLOSED;
}

static plock_status begin(plock_failover *failover, plock_error *error) {
    const plock_sentinels *sentinels = sentinels_of(failover);
    const plock_endpoint *place = &sentinels->places.list[failover->sentinel];
    failover->resolver = (plock_resolver){.host = place->host, .port = place->port};
    const plock_status status =
        plock__dial_beside(&failover->connection, sentinels->config, &failover->resolver,
                           &failover->node->pool, error);
    if (status) return status;
    failover->state = CONNECTING;
    failover->deadline = plock_after(plock_now(), sentinels->config->connect_timeout);
    return PLOCK_OK;
}

/* Asks for the primary's address, in case a failover has already happened. Then subscribes to the
 * reports of failovers. The sentinel answers both commands before it reports a later failover. */
static plock_status subscribe(plock_failover *failover, plock_error *error) {
    const plock_text words[] = {plock__text_of("SUBSCRIBE"),
                                plock__text(CHANNEL, sizeof CHANNEL - 1)};
    failover->state = SUBSCRIBING;
    failover->deadline = plock_after(plock_now(), sentinels_of(failover)->config->command_timeout);
    const plock_status status =
        plock__sentinel_ask(failover->connection, sentinels_of(failover)->primary, error);
    return status ? status : plock__connection_send(failover->connection, 2, words, error);
}

/* --- what a sentinel reports --- */

/* Makes the resolver ask all sentinels. If most of them name another server, the resolver moves the
 * node to that server. */
static void ask_all(plock_node *node) {
    plock_lookup *lookup = NULL;
    plock_addresses unused;
    plock_interest interest;
    plock_error ignored;
    const plock_status status =
        plock__resolve(&node->resolver, &lookup, &unused, &interest, &ignored);
    plock__abandon_lookup(&lookup);
    if (status == PLOCK_AGAIN) return;
    /* The resolver could not ask. So the node makes its connections again, and each new connection
     * asks the sentinels. */
    plock__node_moved(node);
}

static void is_at(plock_failover *failover, const plock_addresses *primary) {
    const plock_ns now = plock_now();
    plock__enter();
    const plock_addresses *known = &failover->node->resolver.found;
    const bool moved = *known->host && !plock__same_server(known, primary);
    plock__leave();
    failover->turn_at = now + (moved ? SHORT_TURN : TURN);
    if (!moved || (failover->asked_at && now - failover->asked_at < ASKS_EVERY)) return;
    failover->asked_at = now;
    ask_all(failover->node);
}

static bool next_word(plock_text *rest, char *to, size_t room) {
    const plock_text word = plock__cut_word(rest);
    if (word.length == 0 || word.length >= room) return false;
    memcpy(to, word.bytes, word.length);
    to[word.length] = 0;
    return true;
}

/* Reads a message "NAME OLD_HOST OLD_PORT HOST PORT". */
static void hear(plock_failover *failover, const plock_value *pushed) {
    const plock_value *payload = plock__element(pushed, 2, PLOCK__STRING);
    if (!payload) return;
    plock_text rest = plock__text(payload->text, payload->length);
    char name[PLOCK__HOST_MAX];
    plock_addresses before = {0}, now = {0};
    if (next_word(&rest, name, sizeof name) && !strcmp(name, sentinels_of(failover)->primary) &&
        next_word(&rest, before.host, sizeof before.host) &&
        next_word(&rest, before.port, sizeof before.port) &&
        next_word(&rest, now.host, sizeof now.host) && next_word(&rest, now.port, sizeof now.port))
        is_at(failover, &now);
}

static plock_status confirm(plock_failover *failover, const plock_value *answer,
                            plock_error *error) {
    plock_addresses primary = {0};
    if (answer->type == PLOCK__ERROR) return plock__server_error(answer, error);
    if (plock__element(answer, 2, PLOCK__INTEGER)) { /* the answer to SUBSCRIBE */
        failover->state = OPEN;
        failover->failures = 0;
        return PLOCK_OK;
    }
    const plock_status status = plock__sentinel_read(answer, &primary, error);
    if (!status) is_at(failover, &primary);
    return status;
}

static plock_status listen_on(plock_failover *failover, plock_interest *interest,
                              plock_error *error) {
    for (;;) {
        const plock_value *answer;
        plock_status status =
            failover->state == OPEN
                ? plock__connection_hear(failover->connection, true, &answer, interest, error)
                : plock__connection_receive(failover->connection, &answer, interest, error);
        if (!status && failover->state == OPEN)
            hear(failover, answer);
        else if (!status)
            status = confirm(failover, answer, error);
        if (status) return status;
    }
}

static plock_status advance(plock_failover *failover, plock_interest *interest) {
    plock_error error = {.status = PLOCK_OK};
    plock_status status = PLOCK_OK;
    if (failover->state == CLOSED) status = begin(failover, &error);
    if (!status && failover->state == CONNECTING) {
        status = plock__connection_open(failover->connection, failover->deadline, interest, &error);
        if (!status) status = subscribe(failover, &error);
    }
    if (!status) status = listen_on(failover, interest, &error);
    if (status != PLOCK_AGAIN || failover->state == OPEN) return status;
    if (interest->deadline > failover->deadline) interest->deadline = failover->deadline;
    return plock_now() >= failover->deadline ? PLOCK_SILENT : PLOCK_AGAIN;
}

/* --- the job --- */

static void listen_to_next(plock_failover *failover) {
    hang_up(failover);
    failover->sentinel = (failover->sentinel + 1) % sentinels_of(failover)->places.count;
}

static plock_status step(plock_job *job, plock_interest *interest) {
    plock_failover *failover = (plock_failover *)(void *)job;
    *interest = (plock_interest){.fd = -1, .deadline = PLOCK_NEVER};
    plock__enter();
    const bool over = failover->over;
    plock__leave();
    if (over) return PLOCK_OK;
    if (failover->state == CLOSED && plock_now() < failover->retry_at) {
        interest->deadline = failover->retry_at;
        return PLOCK_AGAIN;
    }
    if (failover->state == OPEN && plock_now() >= failover->turn_at) listen_to_next(failover);
    if (advance(failover, interest) == PLOCK_AGAIN) {
        if (failover->state == OPEN) interest->deadline = failover->turn_at;
        return PLOCK_AGAIN;
    }
    listen_to_next(failover);
    failover->retry_at = plock_now() + plock__pause_before_trying(failover->failures++);
    *interest = (plock_interest){.fd = -1, .deadline = failover->retry_at};
    return PLOCK_AGAIN;
}

/* Returns how long a sentinel's message may wait for the job. While the message waits, the old
 * primary may still grant locks. */
static plock_ns idle(const plock_job *job) {
    const plock_failover *failover = (const plock_failover *)(const void *)job;
    return failover->state == OPEN ? 50 * PLOCK_MILLISECOND : 0;
}

/* --- lifecycle --- */

static void let_go(plock_failover *failover) {
    if (!plock__drop_reference(&failover->references)) return;
    plock__store_unattend(failover->node);
    plock__free(failover);
}

static void destroy(plock_job *job) {
    plock_failover *failover = (plock_failover *)(void *)job;
    hang_up(failover);
    plock__enter();
    failover->submitted = false;
    plock__leave();
    let_go(failover);
}

plock_failover *plock__failover_new(plock_node *node) {
    plock_failover *failover = node->config->sentinels ? plock__allocate(sizeof *failover) : NULL;
    if (!failover) return NULL;
    failover->job = (plock_job){.step = step, .destroy = destroy, .idle = idle, .lingers = true};
    failover->references = 1;
    failover->node = plock__store_attend(node);
    return failover;
}

void plock__failover_start(plock_failover *failover) {
    if (!failover) return;
    plock__enter();
    failover->references++;
    failover->submitted = true;
    plock__leave();
    plock__worker_submit(&failover->job);
}

void plock__failover_end(plock_failover *failover) {
    if (!failover) return;
    plock__enter();
    failover->over = true;
    if (failover->submitted && failover->job.generation == plock__generation())
        plock__worker_schedule(&failover->job);
    plock__leave();
    let_go(failover);
}
