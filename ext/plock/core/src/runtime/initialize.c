/* Starts the runtime, and registers its fork handlers. */
#include "base/process.h"
#include "plock/process.h"
#include "runtime/later.h"
#include "runtime/notice.h"
#include "runtime/waker.h"
#include "runtime/worker.h"

static int failure;

static void start(void) {
    plock__on_fork(plock__wakers_in_child);
    plock__on_fork(plock__worker_in_child);
    plock__on_fork(plock__later_in_child);
    plock__on_fork(plock__notices_in_child);
    failure = plock__watch_forks();
}

plock_status plock_initialize(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, start);
    return failure ? PLOCK_NO_MEMORY : PLOCK_OK;
}
