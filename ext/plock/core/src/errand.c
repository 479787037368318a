#include "errand.h"

#include "failure.h"
#include "pause.h"
#include "process.h"

static void attempt(plock_errand *errand, plock_ns now) {
    errand->pausing = false;
    const plock_ns deadline = errand->halves ? now + (errand->deadline - now) / 2 : errand->deadline;
    plock__exchange_begin(&errand->exchange, errand->store, &errand->request, deadline);
}

void plock__errand_begin(plock_errand *errand, plock_store *store, const plock_request *request, plock_ns deadline, bool halves) {
    *errand = (plock_errand){.store = store, .request = *request, .deadline = deadline, .halves = halves};
    attempt(errand, plock_now());
}

/* PLOCK_AGAIN: at once or after a pause; else the end. */
static plock_status failed(plock_errand *errand, plock_status status) {
    errand->doubt = errand->doubt || (plock__exchange_left(&errand->exchange) && plock_status_leaves_doubt(status));
    plock__exchange_cancel(&errand->exchange, NULL);
    const plock_ns now = plock_now();
    if (now >= errand->deadline) return status;
    /* The server closed an idle connection: that is nobody's failure. */
    if (status == PLOCK_DISCONNECTED && errand->exchange.reused && !errand->reconnected) {
        errand->reconnected = true;
        attempt(errand, now);
        return PLOCK_AGAIN;
    }
    if (!plock_status_retries(status)) return status;
    errand->failure = status;
    errand->resume_at = now + plock__pause_before_trying(errand->pauses++);
    errand->pausing = true;
    return PLOCK_AGAIN;
}

plock_status plock__errand_step(plock_errand *errand, plock_want *want, plock_error *error) {
    for (;;) {
        if (errand->pausing) {
            const plock_ns now = plock_now();
            *want = (plock_want){.fd = -1, .deadline = errand->resume_at < errand->deadline ? errand->resume_at : errand->deadline};
            if (now < want->deadline) return PLOCK_AGAIN;
            if (now >= errand->deadline) return error->status == errand->failure ? errand->failure : plock__fail_plainly(error, errand->failure);
            attempt(errand, now);
        }
        const plock_value *answer;
        plock_status status = plock__exchange_step(&errand->exchange, &answer, want, error);
        if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
        if (!status) status = errand->read ? errand->read(errand->context, answer, error) : plock__read_done(errand->request.script, answer, error);
        if (status == PLOCK_OK || status == PLOCK_NOT_OWNER) {
            plock__exchange_finish(&errand->exchange);
            return status;
        }
        if ((status = failed(errand, status)) != PLOCK_AGAIN) return status;
    }
}

void plock__errand_hurry(plock_errand *errand, plock_ns deadline) {
    if (deadline < errand->deadline) errand->deadline = deadline;
    if (deadline < errand->exchange.deadline) errand->exchange.deadline = deadline;
}

void plock__errand_cancel(plock_errand *errand) {
    plock__exchange_cancel(&errand->exchange, NULL);
}
