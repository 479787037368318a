#include "plock/operation.h"

#include <stddef.h>

plock_status plock_carry_on(const plock_operation *operation, plock_wait wait, void *context) {
    for (;;) {
        plock_interest interest = {.fd = -1};
        plock_status status = operation->step(operation->of, &interest);
        if (status != PLOCK_AGAIN) return status;
        status = wait(context, &interest);
        if (status) return status;
    }
}

plock_status plock_wait_poll(void *context, const plock_interest *interest) {
    (void)context;
    /* a signal may end the wait early, and the next step then finds nothing new */
    (void)plock_await(interest, NULL);
    return PLOCK_OK;
}
