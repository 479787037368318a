/* The fields of plock_store, and its internal functions. */
#ifndef PLOCK__STORE_H
#define PLOCK__STORE_H

#include "net/config.h"
#include "net/pool.h"
#include "net/resolver.h"
#include "plock/store.h"
#include "redis/debt.h"

typedef struct plock_coordinator plock_coordinator;

enum { PLOCK__LOOKING_SLOTS = 256 };

struct plock_store {
    unsigned references; /* under the lock */
    plock_config *config;
    plock_resolver resolver;
    plock_pool pool;
    plock_debts debts;                        /* under the lock */
    struct ssl_ctx_st *tls;                   /* made at the first connection */
    _Atomic(plock_coordinator *) coordinator; /* while there are waiters; changed under the lock */
    /* hashes of keys that have an unanswered acquire of this process; 0: none */
    _Atomic uint64_t looking[PLOCK__LOOKING_SLOTS];
    /* when a lock was last held by a process that does not notify waiters; 0: never */
    _Atomic plock_ns older_seen_at;
    _Atomic plock_ns reached_at; /* when the last answered request left; 0: never */
#ifdef PLOCK_TESTING
    plock_transport *(*make_transport)(plock_store *); /* NULL: as the config says */
#endif
};

/* Returns for how long at the start of each second a lock is left to processes that poll, if it is
 * shared with them. The window is longer if one of them has held a lock lately. */
plock_ns plock__store_window(const plock_store *store, bool shares);
void plock__store_saw_older(plock_store *store, plock_ns now);

/* Notes that the server has answered a request that left at this moment. */
void plock__store_reached(plock_store *store, plock_ns moment);

/* Count the references. Outside a step, callers use plock_store_close instead of
 * plock__store_release. */
plock_store *plock__store_retain(plock_store *store);
void plock__store_release(plock_store *store);

/* Makes a connection that is not open yet, and adds it to the pool. It uses the room that
 * plock__pool_take granted; a failure gives the room back. Returns PLOCK_OK, PLOCK_BAD_CONFIG (TLS
 * files) or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__store_connect(plock_store *store, plock_connection **connection,
                                                 plock_error *error);

/* The same for a connection beyond the pool's limit. It needs no room, and never becomes idle. */
PLOCK_MUST_USE plock_status plock__store_connect_beside(plock_store *store,
                                                        plock_connection **connection,
                                                        plock_error *error);

#endif
