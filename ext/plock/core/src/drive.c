#include "plock/lease.h"

plock_status plock_drive(plock_lease *lease, plock_wait wait, void *context) {
    for (;;) {
        plock_want want;
        plock_status status = plock_lease_step(lease, &want);
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
