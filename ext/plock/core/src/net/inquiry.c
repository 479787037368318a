#include "net/inquiry.h"

#include "base/failure.h"
#include "base/process.h"
#include "net/dial.h"

#include <poll.h>

plock_status plock__inquiry_start(plock_inquiry *inquiry, plock_error *error) {
    plock_config *config = inquiry->config;
    struct ssl_ctx_st *tls;
    inquiry->deadline = plock_after(plock_now(), config->connect_timeout);
    if (config->scheme == PLOCK_TLS_OVER_TCP) {
        const plock_status status = plock__tls_context(&tls, config, error);
        if (status) return status;
    }
    plock__pool_start(&inquiry->pool, PLOCK__ASKED_MAX);
    inquiry->started = true;
    return PLOCK_OK;
}

void plock__inquiry_add(plock_inquiry *inquiry, const char *host, const char *port) {
    if (inquiry->count == PLOCK__ASKED_MAX) return;
    inquiry->list[inquiry->count++].resolver = (plock_resolver){.host = host, .port = port};
}

/* --- one question --- */

static plock_status connect_to(plock_inquiry *inquiry, plock_question *q) {
    const plock_status status = plock__dial_beside(&q->connection, inquiry->config, &q->resolver,
                                                   &inquiry->pool, &q->error);
    if (!status && inquiry->large && plock__connection_enlarge(q->connection))
        return plock__fail_plainly(&q->error, PLOCK_NO_MEMORY);
    return status;
}

static plock_status advance(plock_inquiry *inquiry, plock_question *q) {
    plock_status status = q->connection ? PLOCK_OK : connect_to(inquiry, q);
    if (!status && q->state == PLOCK__QUESTION_OPENS) {
        status = plock__connection_open(q->connection, inquiry->deadline, &q->interest, &q->error);
        if (!status && !inquiry->ask) return PLOCK_OK;
        if (!status) q->state = PLOCK__QUESTION_LISTENS;
        if (!status) status = inquiry->ask(inquiry, q);
    }
    if (status) return status;
    const plock_value *answer;
    status = plock__connection_receive(q->connection, &answer, &q->interest, &q->error);
    return status ? status : inquiry->read(inquiry, q, answer);
}

void plock__inquiry_step(plock_inquiry *inquiry, plock_question *question) {
    if (question->state == PLOCK__QUESTION_ENDED) return;
    question->interest = (plock_interest){.fd = -1, .deadline = inquiry->deadline};
    const plock_status status = advance(inquiry, question);
    if (status == PLOCK_AGAIN) return;
    question->state = PLOCK__QUESTION_ENDED;
    question->error.status = status;
}

/* --- all questions --- */

void plock__inquiry_await(const plock_inquiry *inquiry, plock_ns deadline) {
    struct pollfd fds[PLOCK__ASKED_MAX];
    nfds_t count = 0;
    for (unsigned i = 0; i < inquiry->asked; i++) {
        const plock_question *q = &inquiry->list[i];
        if (q->state == PLOCK__QUESTION_ENDED) continue;
        if (q->interest.deadline < deadline) deadline = q->interest.deadline;
        if (q->interest.fd >= 0)
            fds[count++] = (struct pollfd){.fd = q->interest.fd, .events = q->interest.events};
    }
    (void)poll(fds, count, plock_poll_timeout(deadline));
}

unsigned plock__inquiry_under_way(const plock_inquiry *inquiry) {
    unsigned count = 0;
    for (unsigned i = 0; i < inquiry->asked; i++)
        count += inquiry->list[i].state != PLOCK__QUESTION_ENDED;
    return count;
}

static bool is_final(const plock_question *q) {
    const plock_status status = q->error.status;
    return q->state == PLOCK__QUESTION_ENDED && status && status != PLOCK_REFUSED &&
           !plock_status_retries(status);
}

/* Is the outcome settled, so that servers that are still silent cannot change it? */
static bool is_settled(const plock_inquiry *inquiry) {
    unsigned final = 0;
    for (unsigned i = 0; i < inquiry->asked; i++) final += is_final(&inquiry->list[i]);
    const bool ended = inquiry->asked == inquiry->count && !plock__inquiry_under_way(inquiry);
    return ended || final * 2 >= inquiry->count;
}

static const plock_question *failed(const plock_inquiry *inquiry, bool settled) {
    const plock_question *first = NULL;
    for (unsigned i = 0; i < inquiry->asked; i++) {
        const plock_question *q = &inquiry->list[i];
        const plock_status status = q->error.status;
        if (q->state != PLOCK__QUESTION_ENDED || !status || status == PLOCK_REFUSED) continue;
        if (settled && is_final(q)) return q;
        if (!first) first = q;
    }
    return first;
}

plock_status plock__inquiry_failure(const plock_inquiry *inquiry, const char *what,
                                    plock_error *error) {
    const bool settled = is_settled(inquiry);
    const plock_question *q = failed(inquiry, settled);
    if (!q)
        return plock__fail(error, PLOCK_SILENT,
                           "none of the %ss that were asked answered in time%s", what,
                           plock__config_tls_question(inquiry->config));
    const plock_error *said = &q->error;
    const bool counts = settled || plock_status_retries(said->status);
    return plock__fail(error, counts ? said->status : PLOCK_SILENT, "the %s %.64s:%s: %.128s", what,
                       q->resolver.host, q->resolver.port,
                       *said->message ? said->message : plock_status_text(said->status));
}

void plock__inquiry_publish(const plock_inquiry *inquiry, const plock_error *error) {
    if (!inquiry->so_far) return;
    plock__enter();
    *inquiry->so_far = *error;
    plock__leave();
}

void plock__inquiry_end(plock_inquiry *inquiry) {
    for (unsigned i = 0; i < inquiry->count; i++) {
        plock_question *q = &inquiry->list[i];
        if (q->connection) plock__pool_give(&inquiry->pool, q->connection, false);
        plock__resolver_clear(&q->resolver);
    }
    if (inquiry->started) plock__pool_clear(&inquiry->pool);
}
