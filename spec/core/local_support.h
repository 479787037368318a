/* Support for the tests of the local store: a store in a folder of the test, and calls that wait
 * until they are done. */
#ifndef LOCAL_SUPPORT_H
#define LOCAL_SUPPORT_H

#include "test.h"

#include <sys/types.h>

/* A fresh folder, and the path of a store's file in it. */
void local_begin(void);
void local_end(void); /* removes what is in it */
const char *local_path(void);
const char *local_folder(void);

/* Opened there; a failure fails the test. */
plock_local *local_open(void);
plock_local *local_open_keys(unsigned keys);

plock_lease *local_lease(plock_local *store, const char *key);

/* Acquires and waits, or fails as the status says. */
plock_status local_acquire(plock_lease *lease, plock_ns ttl, plock_ns wait);
plock_status local_acquire_as(plock_lease *lease, const plock_local_acquire_options *terms);
plock_status local_finish(plock_lease *lease);
plock_status local_release(plock_lease *lease);
plock_status local_extend(plock_lease *lease, plock_ns ttl);
plock_status local_break(plock_local *store, const char *key);

/* The number of holders or waiters of the key; -1: the store failed. */
int local_holders(plock_local *store, const char *key);
int local_waiters(plock_local *store, const char *key);
bool local_await_waiters(plock_local *store, const char *key, int count);

/* Starts a child that runs the body, and waits for its end. */
pid_t local_child(void (*body)(void *), void *context);
int local_status_of(pid_t child);

#endif
