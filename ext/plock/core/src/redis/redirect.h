/* Calls on a cluster: the answers that send a request elsewhere, and the steps that follow them. */
#ifndef PLOCK__REDIRECT_H
#define PLOCK__REDIRECT_H

#include "net/connection.h"
#include "net/slot_map.h"

typedef struct plock_call plock_call;
typedef struct plock_load plock_load;

typedef struct plock_redirection {
    bool asks;          /* ASK: only this request goes there; else MOVED: the slot has moved */
    unsigned slot;      /* PLOCK__SLOTS: the answer was not understood */
    plock_node_name to; /* its host is empty if that is the one that was asked */
} plock_redirection;

/* Reads "MOVED SLOT HOST:PORT" or "ASK SLOT HOST:PORT". */
plock_redirection plock__redirection(const plock_value *answer);

/* Says ASKING before a request. */
PLOCK_MUST_USE plock_status plock__redirect_ask(plock_connection *connection, plock_error *error);

/* --- for call.c; the store is on a cluster --- */

/* Chooses the node of a call that begins. */
void plock__redirect_begin(plock_call *call);

/* Has a call that begins wait for a fresh map first. */
void plock__redirect_renew(plock_call *call);

/* A step of a call that is PAUSING or ROUTING. Returns PLOCK_OK if it is TAKING a connection now.
 */
PLOCK_MUST_USE plock_status plock__redirect_step(plock_call *call, plock_interest *interest,
                                                 plock_error *error);

/* Has the cluster sent the request elsewhere, or does it not serve the key at the moment? Then the
 * call goes on as far as its time allows, and this returns true. */
bool plock__redirect_follow(plock_call *call, plock_status status);

/* Notes that a call has failed: the map may be wrong. Returns the status: for a key that is moving,
 * it is one that another attempt may cure; for several, it says that they must be asked for one by
 * one. */
plock_status plock__redirect_failed(const plock_call *call, plock_status status,
                                    plock_error *error);

#endif
