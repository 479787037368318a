#include "redis/retry.h"

#include "base/failure.h"
#include "base/pause.h"
#include "base/process.h"

static void be_heard(plock_retry *retry) {
    retry->call.leaves = retry->leaves;
    retry->call.context = retry->context;
}

static void attempt(plock_retry *retry) {
    retry->pausing = false;
    plock__call_begin(&retry->call, retry->node, &retry->request, retry->deadline);
    retry->call.halves = retry->halves;
    be_heard(retry);
}

void plock__retry_begin(plock_retry *retry, plock_node *node, const plock_request *request,
                        plock_ns deadline, bool halves) {
    *retry =
        (plock_retry){.node = node, .request = *request, .deadline = deadline, .halves = halves};
    attempt(retry);
}

void plock__retry_heed(plock_retry *retry, plock__retry_reader *read, plock__retry_undoer *undo,
                       plock__leaver *leaves, void *context) {
    retry->read = read;
    retry->undo = undo;
    retry->leaves = leaves;
    retry->context = context;
    be_heard(retry);
}

/* Returns the final status after a failed attempt. The last attempt may have had too little time
 * for an answer. If too few replicas had confirmed the attempt before the last one, returns that
 * earlier failure, which says more. */
static plock_status final(const plock_retry *retry, plock_status status, plock_error *error) {
    if (status != PLOCK_SILENT || retry->failure != PLOCK_UNREPLICATED) return status;
    return plock__fail_plainly(error, PLOCK_UNREPLICATED);
}

/* Handles a failed attempt. Returns PLOCK_AGAIN if another attempt follows, at once or after a
 * pause. Otherwise returns the final status. */
static plock_status failed(plock_retry *retry, plock_status status, plock_error *error) {
    retry->doubt =
        retry->doubt || (plock__call_left(&retry->call) && plock_status_leaves_doubt(status));
    const plock_ns now = plock_now();
    /* A closed idle connection does not count as a failure. */
    const bool reconnects =
        status == PLOCK_DISCONNECTED && retry->call.reused && !retry->reconnected;
    if (now >= retry->deadline || !(reconnects || plock_status_retries(status))) {
        plock__retry_cancel(retry);
        return final(retry, status, error);
    }
    /* no undo, because the next attempt sends the same request */
    plock__call_cancel(&retry->call, NULL);
    if (reconnects) {
        retry->reconnected = true;
        attempt(retry);
        return PLOCK_AGAIN;
    }
    retry->failure = status;
    retry->resume_at = now + plock__pause_before_trying(retry->pauses++);
    retry->pausing = true;
    return PLOCK_AGAIN;
}

/* Asks again, because the server has executed only a part of the request. Returns false if no time
 * is left. The lock still becomes free, because the script has made its key expire within a second
 * (parts/pass.lua). */
static bool go_on(plock_retry *retry) {
    const plock_ns now = plock_now();
    retry->begun = true;
    if (now >= retry->deadline) return false;
    plock__call_finish(&retry->call);
    attempt(retry);
    return true;
}

plock_status plock__retry_step(plock_retry *retry, plock_interest *interest, plock_error *error) {
    for (;;) {
        if (retry->pausing) {
            const plock_ns now = plock_now();
            *interest =
                (plock_interest){.fd = -1,
                                 .deadline = retry->resume_at < retry->deadline ? retry->resume_at
                                                                                : retry->deadline};
            if (now < interest->deadline) return PLOCK_AGAIN;
            if (now >= retry->deadline)
                return error->status == retry->failure ? retry->failure
                                                       : plock__fail_plainly(error, retry->failure);
            attempt(retry);
        }
        const plock_value *answer;
        plock_status status = plock__call_step(&retry->call, &answer, interest, error);
        if (status == PLOCK_AGAIN) return PLOCK_AGAIN;
        if (!status)
            status = retry->read ? retry->read(retry->context, answer, error)
                                 : plock__read_done(retry->request.script, answer, error);
        if (status == PLOCK_AGAIN && go_on(retry)) continue;
        if (status == PLOCK_OK || status == PLOCK_NOT_OWNER || status == PLOCK_AGAIN) {
            plock__call_finish(&retry->call);
            return status == PLOCK_NOT_OWNER && !retry->begun ? PLOCK_NOT_OWNER : PLOCK_OK;
        }
        if ((status = failed(retry, status, error)) != PLOCK_AGAIN) return status;
    }
}

void plock__retry_hurry(plock_retry *retry, plock_ns deadline) {
    if (deadline < retry->deadline) retry->deadline = deadline;
    if (deadline < retry->call.deadline) retry->call.deadline = deadline;
}

void plock__retry_cancel(plock_retry *retry) {
    plock_request undo;
    const bool undoes =
        retry->undo && plock__call_left(&retry->call) && retry->undo(retry->context, &undo);
    plock__call_cancel(&retry->call, undoes ? &undo : NULL);
}

bool plock__retry_in_doubt(const plock_retry *retry) {
    return retry->doubt || plock__call_left(&retry->call);
}
