/* The fake's functions for leases and stores: running operations, reading commands, and ending a
 * test. */
#include "fake.h"

#include "base/memory.h"
#include "runtime/waker.h"
#include "test.h"

#include <string.h>

_Thread_local unsigned fake_failed_tries;

plock_lease *fake_lease(plock_store *store) {
    plock_lease *lease;
    return plock_lease_new(&lease, store, "k", 1) ? NULL : lease;
}

plock_status fake_finish(plock_lease *lease) {
    plock_status status;
    fake_failed_tries = 0;
    while ((status = plock_drive(lease, fake_wait, NULL)) == PLOCK_TRY_FAILED) fake_failed_tries++;
    return status;
}

plock_status fake_acquire(plock_lease *lease, plock_ns wait) {
    const plock_status status =
        plock_lease_acquire(lease, &(plock_acquire_options){.ttl = 3 * PLOCK_SECOND, .wait = wait});
    return status ? status : fake_finish(lease);
}

plock_status fake_release(plock_lease *lease) {
    const plock_status status = plock_lease_release(lease, PLOCK_KEEP_AT_LEAST);
    return status ? status : fake_finish(lease);
}

void fake_leave(plock_lease *lease) {
    if (!plock_lease_leave(lease)) CHECK_STATUS(fake_finish(lease), PLOCK_OK);
}

/* --- looking at commands --- */

const char *fake_word(const char *command, unsigned place, char word[FAKE_COMMAND_ROOM]) {
    for (; place > 0 && *command; place--) {
        command += strcspn(command, " ");
        command += *command == ' ';
    }
    const size_t length = strcspn(command, " ");
    memcpy(word, command, length);
    word[length] = 0;
    return word;
}

/* --- the end of a test --- */

void fake_drop_notices(void) {
    for (plock_notice *notice; (notice = plock_notice_next()) != NULL;) plock_notice_free(notice);
}

void fake_end(plock_lease *lease, plock_store *store) {
    plock_lease_free(lease);
    fake_clock_stop();
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    plock_store_close(store);
    plock__forget_wakers();
    CHECK_INT(plock__live_allocations(), 0);
}

void fake_settle(void) {
    unsigned rounds = 0;
    while (plock__live_allocations() > plock__unused_wakers() && test_patient(&rounds)) continue;
    plock__forget_wakers();
    CHECK_INT(plock__live_allocations(), 0);
}
