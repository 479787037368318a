/* A call: runs one script once on one connection of the pool. If necessary, the call waits for a
 * connection, opens one, or loads the script. */
#ifndef PLOCK__CALL_H
#define PLOCK__CALL_H

#include "redis/request.h"
#include "redis/node.h"

/* Called each time right before the request is sent, with the time. */
typedef void plock__leaver(void *context, plock_ns at);

typedef struct plock_call {
    enum { PLOCK__CALL_NONE, PLOCK__TAKING, PLOCK__OPENING, PLOCK__ASKING, PLOCK__LISTENING } state;
    plock_node *node;
    plock_connection *connection;
    plock_request request;
    plock_ns deadline, open_deadline;
    /* when the request was sent last, from which a lease counts; 0: never */
    plock_ns left_at;
    unsigned generation;
    plock_turn turn;       /* the place in the pool's queue */
    plock__leaver *leaves; /* may be NULL */
    void *context;         /* for `leaves` */
    bool halves; /* once it has a connection, it may use only half of the time that is left */
    /* the connection was used before, so the server may have closed it since */
    bool reused;
    bool loads;                  /* SCRIPT LOAD was sent before the request */
    plock_status loading_failed; /* the error in the reply to SCRIPT LOAD, if any */
} plock_call;

void plock__call_begin(plock_call *call, plock_node *node, const plock_request *request,
                       plock_ns deadline);

/* Returns PLOCK_OK and the script's answer in *value: the caller reads it before any other step on
 * the same thread, and then calls plock__call_finish. Otherwise returns PLOCK_AGAIN and the
 * interest, or the failure that ends the call. */
PLOCK_MUST_USE plock_status plock__call_step(plock_call *call, const plock_value **value,
                                             plock_interest *interest, plock_error *error);

/* Returns the connection to the pool, after the answer has been read. */
void plock__call_finish(plock_call *call);

/* Cancels the call under way, and closes its connection, because a reply may still come. If the
 * request has left and undo is not NULL, first sends undo behind the request on the same
 * connection. If the server executes the request later, undo then follows at once. */
void plock__call_cancel(plock_call *call, const plock_request *undo);

/* Returns true if the server may have executed the request. Valid when the call is over, or before
 * it is cancelled. */
bool plock__call_left(const plock_call *call);

#endif
