#include "plock/operation.h"

#include <stddef.h>

plock_status plock_carry_on(const plock_operation *operation, plock_wait wait, void *context) {
    for (;;) {
        plock_want want = {.fd = -1};
        plock_status status = operation->step(operation->of, &want);
        if (status != PLOCK_AGAIN) return status;
        status = wait(context, &want);
        if (status) return status;
    }
}

plock_status plock_wait_poll(void *context, const plock_want *want) {
    (void)context;
    (void)plock_await(want, NULL); /* woken early by a signal: the step finds nothing new and says so */
    return PLOCK_OK;
}
