/* Support for the tests of the local store: a store in a folder of the test, and calls that wait
 * until they are done. */
#ifndef LOCAL_SUPPORT_H
#define LOCAL_SUPPORT_H

#include "test.h"

#include <sys/types.h>

/* Makes a fresh folder, and the path of a store's file in it. */
void local_begin(void);
void local_end(void); /* removes the folder and its contents */
const char *local_path(void);
const char *local_folder(void);

/* Opens a store at that path. A failure fails the test. */
plock_local *local_open(void);
plock_local *local_open_keys(unsigned keys);

/* Retains the map of the store's file. The caller must release it. */
struct plock__local_map *local_map_of(plock_local *store);

plock_lease *local_lease(plock_local *store, const char *key);

/* Acquires the key, and waits for it no longer than `wait`. Returns the status at the end. */
plock_status local_acquire(plock_lease *lease, plock_ns ttl, plock_ns wait);
plock_status local_acquire_as(plock_lease *lease, const plock_local_acquire_options *terms);
plock_status local_finish(plock_lease *lease);
plock_status local_release(plock_lease *lease);
plock_status local_extend(plock_lease *lease, plock_ns ttl);
plock_status local_break(plock_local *store, const char *key);

/* Returns the usual deadline of a query that begins now. */
plock_ns local_soon(void);

/* Returns the number of the key's holders or waiters, or -1 if the store failed. */
int local_holders(plock_local *store, const char *key);
int local_waiters(plock_local *store, const char *key);
bool local_await_waiters(plock_local *store, const char *key, int count);

/* local_child starts a child that runs the body. local_status_of waits for the end of a child, and
 * returns its status. */
pid_t local_child(void (*body)(void *), void *context);
int local_status_of(pid_t child);

#endif
