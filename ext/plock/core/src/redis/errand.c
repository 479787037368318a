#include "redis/errand.h"

#include "base/failure.h"
#include "base/pause.h"
#include "base/process.h"

static void be_heard(plock_errand *errand) {
    errand->exchange.leaves = errand->leaves;
    errand->exchange.context = errand->context;
}

static void attempt(plock_errand *errand) {
    errand->pausing = false;
    plock__exchange_begin(&errand->exchange, errand->store, &errand->request, errand->deadline);
    errand->exchange.halves = errand->halves;
    be_heard(errand);
}

void plock__errand_begin(plock_errand *errand, plock_store *store, const plock_request *request, plock_ns deadline, bool halves) {
    *errand = (plock_errand){.store = store, .request = *request, .deadline = deadline, .halves = halves};
    attempt(errand);
}

void plock__errand_heed(plock_errand *errand, plock__errand_reader *read, plock__errand_undoer *undo, plock__leaver *leaves, void *context) {
    errand->read = read;
    errand->undo = undo;
    errand->leaves = leaves;
    errand->context = context;
    be_heard(errand);
}

/* PLOCK_AGAIN: at once or after a pause; else the end. */
static plock_status failed(plock_errand *errand, plock_status status) {
    errand->doubt = errand->doubt || (plock__exchange_left(&errand->exchange) && plock_status_leaves_doubt(status));
    const plock_ns now = plock_now();
    /* The server closed an idle connection: that is nobody's failure. */
    const bool reconnects = status == PLOCK_DISCONNECTED && errand->exchange.reused && !errand->reconnected;
    if (now >= errand->deadline || !(reconnects || plock_status_retries(status))) {
        plock__errand_cancel(errand);
        return status;
    }
    plock__exchange_cancel(&errand->exchange, NULL); /* the next attempt asks for the same */
    if (reconnects) {
        errand->reconnected = true;
        attempt(errand);
        return PLOCK_AGAIN;
    }
    errand->failure = status;
    errand->resume_at = now + plock__pause_before_trying(errand->pauses++);
    errand->pausing = true;
    return PLOCK_AGAIN;
}

/* The server has done a part, and does the next one when it is asked again. False: there is no time left; the rest ends by itself. */
static bool go_on(plock_errand *errand) {
    const plock_ns now = plock_now();
    errand->begun = true;
    if (now >= errand->deadline) return false;
    plock__exchange_finish(&errand->exchange);
    attempt(errand);
    return true;
}

plock_status plock__errand_step(plock_errand *errand, plock_want *want, plock_error *error) {
    for (;;) {
        if (errand->pausing) {
            const plock_ns now = plock_now();
            *want = (plock_want){.fd = -1, .deadline = errand->resume_at < errand->deadline ? errand->resume_at : errand->deadline};
            if (now < want->deadline) return PLOCK_AGAIN;
            if (now >= errand->deadline) return error->status == errand->failure ? errand->failure : plock__fail_plainly(error, errand->failure);
            attempt(errand);
        }
        const plock_value *answer;
        plock_status status = plock__exchange_step(&errand->exchange, &answer, want, error);
        if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
        if (!status) status = errand->read ? errand->read(errand->context, answer, error) : plock__read_done(errand->request.script, answer, error);
        if (status == PLOCK_AGAIN && go_on(errand)) continue;
        if (status == PLOCK_OK || status == PLOCK_NOT_OWNER || status == PLOCK_AGAIN) {
            plock__exchange_finish(&errand->exchange);
            return status == PLOCK_NOT_OWNER && !errand->begun ? PLOCK_NOT_OWNER : PLOCK_OK;
        }
        if ((status = failed(errand, status)) != PLOCK_AGAIN) return status;
    }
}

void plock__errand_hurry(plock_errand *errand, plock_ns deadline) {
    if (deadline < errand->deadline) errand->deadline = deadline;
    if (deadline < errand->exchange.deadline) errand->exchange.deadline = deadline;
}

void plock__errand_cancel(plock_errand *errand) {
    plock_request undo;
    const bool undoes = errand->undo && plock__exchange_left(&errand->exchange) && errand->undo(errand->context, &undo);
    plock__exchange_cancel(&errand->exchange, undoes ? &undo : NULL);
}

bool plock__errand_in_doubt(const plock_errand *errand) {
    return errand->doubt || plock__exchange_left(&errand->exchange);
}
