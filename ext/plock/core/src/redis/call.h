/* A call: runs one script once on one connection of the pool. If necessary, the call waits for a
 * connection, opens one, or loads the script.
 *
 * If replicas must confirm a grant, the call sends WAIT after the script's answer. WAIT counts only
 * the writes of its own connection, and a script must not call it. So the call itself sends WAIT,
 * on the same connection. If too few replicas confirm, the call ends with PLOCK_UNREPLICATED, and
 * the caller takes back the grant. */
#ifndef PLOCK__CALL_H
#define PLOCK__CALL_H

#include "redis/request.h"
#include "redis/node.h"
#include "redis/redirect.h"

/* Called every time the request is about to be sent. at: the current time. */
typedef void plock__leaver(void *context, plock_ns at);

typedef struct plock_call {
    /* PAUSING: the cluster does not serve the key at the moment; ROUTING: the store waits for the
     * map of the cluster; CONFIRMING: the script has granted the lease, and replicas must confirm
     * it */
    enum {
        PLOCK__CALL_NONE,
        PLOCK__PAUSING,
        PLOCK__ROUTING,
        PLOCK__TAKING,
        PLOCK__OPENING,
        PLOCK__ASKING,
        PLOCK__LISTENING,
        PLOCK__CONFIRMING
    } state;
    plock_node *node;
    plock_connection *connection;
    plock_request request;
    plock_ns deadline, open_deadline;
    /* when the request was last sent, which is when a lease that it grants begins; 0: never */
    plock_ns left_at;
    unsigned generation;
    plock_turn turn;       /* the place in the pool's queue */
    plock__leaver *leaves; /* may be NULL */
    void *context;         /* for `leaves` */
    bool halves; /* Once the call has a connection, it may use only half of the remaining time. */
    /* The connection was used before, so the server may have closed it since. */
    bool reused;
    bool unfit; /* The server refused WAIT, so it may no longer be a primary. */
    /* Calls Redis functions (FCALL), because the Redis user may not call scripts. */
    bool functions;
    bool loads;                  /* SCRIPT LOAD or FUNCTION LOAD was sent before the request. */
    plock_status loading_failed; /* the error in the reply to this LOAD, if any */
    plock_value *granted; /* while CONFIRMING, a copy of the script's answer; otherwise NULL */

    /* Used only on a cluster. */
    plock_load *load; /* while ROUTING, the map that the call waits for; otherwise NULL */
    plock_redirection redirection;
    /* hops: how many times a node has named another node since the last pause */
    unsigned hops, pauses;
    bool asking;        /* The node serves the request only after ASKING. */
    bool crowded;       /* A node named another node, for which the store has no room. */
    plock_ns resume_at; /* while PAUSING, when the call continues */
} plock_call;

/* On a cluster, the call goes to the node that serves the key, whatever `node` is. If that node
 * names another node, the call goes there. While the cluster does not serve the key, the call tries
 * again until its deadline. */
void plock__call_begin(plock_call *call, plock_node *node, const plock_request *request,
                       plock_ns deadline);

/* Returns PLOCK_OK, and the script's answer in *value. The caller must read the answer before any
 * other step on the same thread, and then call plock__call_finish. Otherwise returns PLOCK_AGAIN
 * and the interest, or the failure that ends the call. */
PLOCK_MUST_USE plock_status plock__call_step(plock_call *call, const plock_value **value,
                                             plock_interest *interest, plock_error *error);

/* Sends a request on a connection of the node, as a call does. Returns PLOCK_OK (even if some bytes
 * remain), DISCONNECTED, TLS, NO_MEMORY or CRYPTO. */
PLOCK_MUST_USE plock_status plock__call_send(const plock_node *node, plock_connection *connection,
                                             const plock_request *request, plock_error *error);

/* Ends the call. Gives back the connection, or gives up the place in the pool's queue. */
void plock__call_let_go(plock_call *call, bool usable);

/* Ends a call whose answer has been read, and gives the connection back to the pool. */
void plock__call_finish(plock_call *call);

/* Cancels the call, and closes its connection, because a reply may still come. If the request has
 * been sent and undo is not NULL, first sends undo behind the request on the same connection.
 * However late the server executes the request, it executes undo right after the request. */
void plock__call_cancel(plock_call *call, const plock_request *undo);

/* Returns true if the server owes an answer, to the request or to WAIT. */
bool plock__call_unanswered(const plock_call *call);

/* Returns true if the server may have executed the request. Valid when the call is over, or before
 * it is cancelled. */
bool plock__call_left(const plock_call *call);

/* Returns the connection on which the call has reached a server. Returns NULL if the call has
 * reached none, or is over. */
const plock_connection *plock__call_reached(const plock_call *call);

#endif
