/* Calls on a cluster: the answers that name another node, and the steps that follow them. */
#ifndef PLOCK__REDIRECT_H
#define PLOCK__REDIRECT_H

#include "net/connection.h"
#include "net/slot_map.h"

typedef struct plock_call plock_call;
typedef struct plock_load plock_load;

typedef struct plock_redirection {
    bool asks;     /* true for ASK: only this request goes to that node; false for MOVED */
    unsigned slot; /* the slot that the answer names; PLOCK__SLOTS: the answer was not understood */
    plock_node_name to; /* an empty host stands for the host of the node that was asked */
} plock_redirection;

/* Reads "MOVED SLOT HOST:PORT" or "ASK SLOT HOST:PORT". */
plock_redirection plock__redirection(const plock_value *answer);

/* Sends ASKING, which must precede the request. */
PLOCK_MUST_USE plock_status plock__redirect_ask(plock_connection *connection, plock_error *error);

/* --- for call.c; the store is on a cluster --- */

/* Chooses the node for a call that begins. */
void plock__redirect_begin(plock_call *call);

/* Makes a call that has just begun wait for a fresh map first. */
void plock__redirect_renew(plock_call *call);

/* A step of a call that is PAUSING or ROUTING. Returns PLOCK_OK if the call is TAKING a connection
 * now. */
PLOCK_MUST_USE plock_status plock__redirect_step(plock_call *call, plock_interest *interest,
                                                 plock_error *error);

/* If the status says that the cluster named another node, or that it does not serve the key at the
 * moment, makes the call continue and returns true. Returns false for any other status, or if the
 * call has no time left. */
bool plock__redirect_follow(plock_call *call, plock_status status);

/* Handles a failed call. Has the map loaded again if the failure may mean that the map is wrong.
 * Returns the status that the caller sees. For one key whose slot is moving, that status allows
 * another attempt. For several keys, the status says that each key needs a request of its own. */
plock_status plock__redirect_failed(const plock_call *call, plock_status status,
                                    plock_error *error);

#endif
