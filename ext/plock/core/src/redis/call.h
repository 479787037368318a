/* A call: runs one script once on one connection of the pool. It waits for a connection, opens one,
 * or loads the script, if that is necessary. */
#ifndef PLOCK__CALL_H
#define PLOCK__CALL_H

#include "redis/request.h"
#include "redis/node.h"

/* Called each time that the request leaves, with the time. */
typedef void plock__leaver(void *context, plock_ns at);

typedef struct plock_call {
    enum { PLOCK__CALL_NONE, PLOCK__TAKING, PLOCK__OPENING, PLOCK__ASKING, PLOCK__LISTENING } state;
    plock_node *node;
    plock_connection *connection;
    plock_request request;
    plock_ns deadline, open_deadline;
    /* when the request left, for the lease's dates; 0: it has not left */
    plock_ns left_at;
    unsigned generation;
    plock_turn turn;       /* while every connection of the pool is in use */
    plock__leaver *leaves; /* may be NULL */
    void *context;
    bool halves; /* with a connection, it may use half of the time that is left */
    /* the connection was used before, so the server may have closed it since */
    bool reused;
    bool loads;                  /* SCRIPT LOAD was sent, too, and its reply comes first */
    plock_status loading_failed; /* the error in that reply, if any */
} plock_call;

void plock__call_begin(plock_call *call, plock_node *node, const plock_request *request,
                       plock_ns deadline);

/* Returns PLOCK_OK and the script's answer in *value. The caller reads it before any other step on
 * the same thread, and calls plock__call_finish. Otherwise returns PLOCK_AGAIN and the interest, or
 * the failure that ends the call. */
PLOCK_MUST_USE plock_status plock__call_step(plock_call *call, const plock_value **value,
                                             plock_interest *interest, plock_error *error);

/* Returns the connection to the pool, after the answer has been read. */
void plock__call_finish(plock_call *call);

/* Cancels the call under way. The connection is closed, because a reply may still come. If the
 * request has left and undo is not NULL, undo is sent behind it on the same connection first. If
 * the server executes the request later, it then undoes it at once. */
void plock__call_cancel(plock_call *call, const plock_request *undo);

/* Returns true if the server may have executed the request. Valid when the call is over, or before
 * it is cancelled. */
bool plock__call_left(const plock_call *call);

#endif
