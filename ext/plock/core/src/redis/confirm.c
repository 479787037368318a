#include "redis/confirm.h"

#include "base/failure.h"

#include <stdio.h>

/* Returns the timeout of WAIT, in ms. WAIT must end before the call does, because only the answer
 * to WAIT tells how many replicas have confirmed. An idle server notices up to 100 ms late ("hz
 * 10") that a WAIT has timed out. So the timeout ends LATE before the call's deadline. */
static long long time_to_confirm(const plock_call *call) {
    static const plock_ns LATE = 110 * PLOCK_MILLISECOND;
    const plock_ns left = call->deadline - plock_now(),
                   wait = left > 2 * LATE ? left - LATE : left / 2;
    return wait > PLOCK_MILLISECOND ? wait / PLOCK_MILLISECOND : 1; /* 0 would mean no timeout */
}

plock_status plock__confirm_ask(plock_call *call, const plock_value *answer, plock_error *error) {
    char replicas[12], ms[24];
    call->reused = false; /* the server has answered, so it had not closed the connection */
    call->granted = plock__value_copy(answer);
    if (!call->granted) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    call->state = PLOCK__CONFIRMING;
    const plock_text words[] = {
        plock__text_of("WAIT"),
        plock__text(replicas,
                    (size_t)snprintf(replicas, sizeof replicas, "%u", call->request.replicas)),
        plock__text(ms, (size_t)snprintf(ms, sizeof ms, "%lld", time_to_confirm(call)))};
    return plock__connection_send(call->connection, 3, words, error);
}

/* The server refused WAIT. Its error is about WAIT and not about the script, so the lease stays
 * granted until the caller takes it back. */
static plock_status not_asked(plock_call *call, const plock_value *answer, plock_error *error) {
    plock_error said;
    const plock_status status = plock__server_error(answer, &said);
    if (status == PLOCK_NOPERM) return *error = said, status;
    call->unfit = true;
    return plock__fail(error, PLOCK_UNREPLICATED, "replicas could not be asked to confirm: %.180s",
                       said.message);
}

plock_status plock__confirm_hear(plock_call *call, const plock_value **value,
                                 plock_interest *interest, plock_error *error) {
    const plock_value *answer;
    const plock_status status =
        plock__connection_receive(call->connection, &answer, interest, error);
    if (status) return status;
    if (answer->type == PLOCK__ERROR) return not_asked(call, answer, error);
    if (answer->type != PLOCK__INTEGER || answer->integer < 0) return plock__not_our_answer(error);
    if (answer->integer < (int64_t)call->request.replicas)
        return plock__fail(error, PLOCK_UNREPLICATED, "%lld of %u replicas confirmed the lease",
                           (long long)answer->integer, call->request.replicas);
    *value = call->granted;
    return PLOCK_OK;
}
