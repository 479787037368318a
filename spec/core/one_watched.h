/* The setup and the end of the tests of watched leases: a store with one lease. Each of those tests
 * includes this file. */
#ifndef ONE_WATCHED_H
#define ONE_WATCHED_H

#include "fake_watch.h"
#include "test.h"

static plock_store *store;
static plock_lease *lease;
static plock_ns began;

static inline void begin(void) {
    store = fake_watching_store();
    lease = fake_lease(store);
    began = plock_now();
}

static inline void end(void) {
    fake_no_notice();
    fake_end(lease, store);
}

/* Waits until this many renewals have been sent since the test began. */
static inline void renewals(unsigned count) { fake_await("EVALSHA extend", count); }

/* Lets time pass in small steps, so that the worker thread can act after each. */
static inline void pass(plock_ns span, plock_ns by) {
    for (plock_ns passed = 0; passed < span; passed += by) fake_native_pass(by);
}

/* Makes `lease` wait in the queue behind `first`, and frees `first`. Afterwards, the worker thread
 * has acquired `lease`, but the thread that waits for `lease` has not seen the grant yet. */
static inline void grant_unseen(plock_lease *first, const plock_acquire_options *patience) {
    atomic_store(&fake_to_acquire, FAKE_QUEUED);
    CHECK_STATUS(plock_lease_acquire(lease, patience), PLOCK_OK);
    fake_carry_on(lease);
    fake_await("EVALSHA acquire", 2);
    plock_lease_free(first);
    atomic_store(&fake_to_acquire, NULL);
    fake_call("=", 1);
    fake_await("EVALSHA acquire", 3);
}

#endif
