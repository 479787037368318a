/* The engine of plock, which provides distributed locks. It is written in plain C.
 *
 * The life of a lease:
 *
 *   plock_config *config;                // 1. the address of the store, and its timeouts
 *   plock_config_new(&config, "redis://127.0.0.1:6379", &error);
 *   plock_store *store;                  // 2. takes ownership of the config; no I/O yet
 *   plock_store_open(&store, config, &error);
 *   plock_lease *lease;                  // 3. a lease of one key, not held yet
 *   plock_lease_new(&lease, store, "plock:v1:abc", 12);
 *   plock_lease_acquire(lease, &(plock_acquire_options){.ttl = 3 * PLOCK_SECOND});
 *   status = plock_drive(lease, plock_wait_poll, NULL);  // 4. the loop that waits
 *   ... plock_lease_fence(lease), plock_lease_valid_until(lease) ...
 *   plock_lease_release(lease, 0);       // 5. deletes the lock only if this lease still holds it
 *   status = plock_drive(lease, plock_wait_poll, NULL);
 *   plock_lease_free(lease);             // 6. a held lease is released in the background
 *   plock_store_close(store);
 *
 * The engine never waits. plock_lease_step() advances an operation as far as it can, and returns
 * PLOCK_AGAIN with a plock_interest. The caller steps again when the interest's descriptor is ready
 * or its deadline has come. The embedding program decides how to wait (plock_drive takes a function
 * for it), so the same engine serves a thread, a fiber or a test.
 *
 * If an acquire is refused and may wait, it becomes a waiter in a FIFO queue on the server. Each
 * process has one worker thread, which listens for all waiters and claims their turns. It also
 * renews leases and notices their loss. A thread that waits in plock_await can do this work itself.
 * Notices report events that no call returns, such as the loss of a lease (plock/notice.h).
 *
 * All threads may share a store. A lease does one operation at a time, and the program must protect
 * the lease with a mutex or an interpreter's lock. If several threads share a lease, plock/turn.h
 * makes them take turns.
 *
 * After fork(), a lease of the parent is not held in the child, and the child never releases it.
 * The child closes its copies of the connections without sending a byte. */
#ifndef PLOCK_H
#define PLOCK_H

#include "plock/admin_session.h"
#include "plock/clock.h"
#include "plock/config.h"
#include "plock/digest.h"
#include "plock/group.h"
#include "plock/lease.h"
#include "plock/local.h"
#include "plock/notice.h"
#include "plock/process.h"
#include "plock/query.h"
#include "plock/redis.h"
#include "plock/status.h"
#include "plock/store.h"
#include "plock/turn.h"
#include "plock/waker.h"

#endif
