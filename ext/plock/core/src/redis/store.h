/* What plock_store holds; used by the call. */
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
    _Atomic(plock_coordinator *) coordinator; /* while anybody waits; changed under the lock */
    /* keys that somebody of this process has just asked for, by their hash; 0: none */
    _Atomic uint64_t looking[PLOCK__LOOKING_SLOTS];
    /* when a lock was last seen to be held by a process that does not notify; 0: never */
    _Atomic plock_ns older_seen_at;
    _Atomic plock_ns reached_at; /* when the server was last known to answer; 0: never yet */
#ifdef PLOCK_TESTING
    plock_transport *(*make_transport)(plock_store *); /* NULL: what the config says */
#endif
};

/* For how long at the beginning of each second a lock is left to those who poll for it, where it is
 * shared with such; longer where one was lately seen to hold a lock here. */
plock_ns plock__store_window(const plock_store *store, bool shares);
void plock__store_saw_older(plock_store *store, plock_ns now);

/* The server has answered what was sent at that moment. */
void plock__store_reached(plock_store *store, plock_ns moment);

/* Counting who refers to it; plock_store_close is the release for those outside, and not for within
 * a step. */
plock_store *plock__store_retain(plock_store *store);
void plock__store_release(plock_store *store);

/* A connection that has not been opened yet, in the pool's list. Takes the room that
 * plock__pool_take granted, or gives it back. PLOCK_OK, PLOCK_BAD_CONFIG (TLS files) or
 * PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__store_connect(plock_store *store, plock_connection **connection,
                                                 plock_error *error);

/* The same for one that is beyond the pool's bound, needs no room and does not become idle. */
PLOCK_MUST_USE plock_status plock__store_connect_beside(plock_store *store,
                                                        plock_connection **connection,
                                                        plock_error *error);

#endif
