/* Puts the engine together: the one file that knows every module with something to forget in a forked child. */
#include "plock/store.h"
#include "pool.h"
#include "process.h"
#include "waker.h"
#include "worker.h"

static void initialize(void) {
    plock__on_fork(plock__wakers_in_child);
    plock__on_fork(plock__pools_in_child);
    plock__on_fork(plock__worker_in_child);
    (void)plock__watch_forks(); /* can fail for want of memory only, and then nothing else will work either */
}

void plock_initialize(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, initialize);
}
