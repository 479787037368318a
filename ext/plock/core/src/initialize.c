/* Puts the engine together: the one file that knows every module with something to forget in a forked child. */
#include "debt.h"
#include "keeper.h"
#include "later.h"
#include "local_map.h"
#include "notice.h"
#include "plock/store.h"
#include "pool.h"
#include "process.h"
#include "waker.h"
#include "worker.h"

static int failure;

static void initialize(void) {
    plock__on_fork(plock__wakers_in_child);
    plock__on_fork(plock__pools_in_child);
    plock__on_fork(plock__worker_in_child);
    plock__on_fork(plock__keepers_in_child);
    plock__on_fork(plock__debts_in_child);
    plock__on_fork(plock__later_in_child);
    plock__on_fork(plock__notices_in_child);
    plock__on_fork(plock__local_in_child);
    failure = plock__watch_forks();
}

plock_status plock_initialize(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, initialize);
    return failure ? PLOCK_NO_MEMORY : PLOCK_OK;
}
