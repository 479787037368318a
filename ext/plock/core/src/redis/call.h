/* A call: one script called once on one connection of the pool, whatever that takes: waiting for a
 * connection, opening one, loading the script where the server does not know it. */
#ifndef PLOCK__CALL_H
#define PLOCK__CALL_H

#include "redis/request.h"
#include "redis/store.h"

/* The request leaves at this moment. */
typedef void plock__leaver(void *context, plock_ns at);

typedef struct plock_call {
    enum { PLOCK__CALL_NONE, PLOCK__TAKING, PLOCK__OPENING, PLOCK__ASKING, PLOCK__LISTENING } state;
    plock_store *store;
    plock_connection *connection;
    plock_request request;
    plock_ns deadline, open_deadline;
    /* when the request left for the server, for the lease's arithmetic; 0: it has not */
    plock_ns left_at;
    unsigned generation;
    plock_turn turn;       /* while every connection of the pool is in use */
    plock__leaver *leaves; /* NULL, or told each time that it does */
    void *context;
    bool halves; /* once it has a connection, half of the time that is left is its own */
    /* the connection had been used before, so the server may have closed it since */
    bool reused;
    bool loads;                  /* SCRIPT LOAD was sent along: its reply comes first */
    plock_status loading_failed; /* what the server said to that, if it was an error */
} plock_call;

void plock__call_begin(plock_call *call, plock_store *store, const plock_request *request,
                       plock_ns deadline);

/* PLOCK_OK: *value is the script's answer, good until the next step of anything on the same thread;
 * the caller reads it and calls plock__call_finish. PLOCK_AGAIN with interest. Else the failure;
 * the call is over. */
PLOCK_MUST_USE plock_status plock__call_step(plock_call *call, const plock_value **value,
                                             plock_interest *interest, plock_error *error);

/* The answer has been read: the connection goes back to the pool. */
void plock__call_finish(plock_call *call);

/* Gives up a call under way; the connection is closed, for a reply may still come. Where the
 * request has left and undo is given, undo is sent after it on the same connection first: should
 * the server come to it later, it undoes it at once. */
void plock__call_cancel(plock_call *call, const plock_request *undo);

/* May the server have carried out the request, as far as is known when the call is over or before
 * it is cancelled? */
bool plock__call_left(const plock_call *call);

#endif
