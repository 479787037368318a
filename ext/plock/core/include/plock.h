/* plock: distributed mutual exclusion. The engine, in plain C.
 *
 * The life of a lease:
 *
 *   plock_config *config;                                  // 1. where the store is, and how
 * patient we are plock_config_new(&config, "redis://127.0.0.1:6379", &error); plock_store *store;
 *   plock_store_open(&store, config, &error);              // 2. no I/O yet; the store takes the
 * config over plock_lease *lease; plock_lease_new(&lease, store, "plock:v1:abc", 12);    // 3. a
 * wish for one key; nothing is held plock_lease_acquire(lease, &(plock_acquire_options){.ttl = 3 *
 * PLOCK_SECOND, .wait = 2 * PLOCK_SECOND}); status = plock_drive(lease, plock_wait_poll, NULL);
 * // 4. the only loop that waits; PLOCK_OK: held
 *   ... plock_lease_fence(lease), plock_lease_valid_until(lease) ...
 *   plock_lease_release(lease);                            // 5. give it back: compare-and-delete,
 * never somebody else's status = plock_drive(lease, plock_wait_poll, NULL);
 *   plock_lease_free(lease);                               // 6. a lease that is still held is
 * released in the background plock_store_close(store);
 *
 * Nothing in here waits by itself. plock_lease_step() advances an operation as far as it goes and
 * answers PLOCK_AGAIN with a plock_interest: call again when this descriptor is ready, or this
 * moment has come. Whoever embeds the engine decides how to wait (plock_drive takes a function for
 * it), so the same engine serves a thread, a fiber or a test.
 *
 * Who is refused and has patience gets in line: a place in a queue on the server, by order of
 * arrival. One native thread in the process listens for all who wait, claims for whoever is called,
 * renews leases and notices their loss; where a waiting thread uses plock_await it does that work
 * itself meanwhile. What happened to leases while nobody asked is told by notices (plock/notice.h).
 *
 * A store may be shared by all threads. A lease does one operation at a time, and is used under one
 * lock of the program's; where several threads use one, plock/turn.h has them take turns. After
 * fork() the child's copies hold nothing: their connections are closed without a word on the wire
 * and a lease of the parent's is never released by the child. */
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
