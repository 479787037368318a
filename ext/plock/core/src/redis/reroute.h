/* Coordinators on a cluster: each listens on one node. When another node takes over a slot, the
 * waiters and watches for its keys move to that node's coordinator. All channels of a store have
 * the same id, so the records of waiters and holders on the servers stay valid. On a store of one
 * server, these functions look only at the given coordinator. */
#ifndef PLOCK__REROUTE_H
#define PLOCK__REROUTE_H

#include "redis/coordinator.h"

/* Moves the waiters and watches that belong to other nodes now. Returns PLOCK_NEVER, or after a
 * failure the time to try again. Call in the worker thread, without the mutex. */
plock_ns plock__reroute(plock_coordinator *coordinator, plock_ns now);

/* Chooses a new tag for the channel's name if the node does not serve the slot of the present tag.
 * Call in the worker thread, without the mutex. */
void plock__reroute_tag(plock_coordinator *coordinator);

/* Finds the waiter that a message on the coordinator's channel is for. Returns NULL if this process
 * has no such waiter. Also returns NULL if the waiter's own coordinator receives the same message,
 * so that only that coordinator acts on it. Sets *elsewhere to true if another coordinator has the
 * waiter, or may have it. Call with the mutex held. */
plock_waiter *plock__reroute_find(const plock_coordinator *coordinator,
                                  const plock_message *message, bool *elsewhere);

/* Notifies the watches of a lease that was broken. Call with the mutex held. */
void plock__reroute_break(const plock_coordinator *coordinator, const plock_message *message);

/* Gives the channel of a new coordinator the id of its store, and a tag. Call with the mutex held.
 */
void plock__reroute_name(plock_coordinator *coordinator);

#endif
