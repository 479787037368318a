/* Coordinators on a cluster: each listens at one node. When another node serves a slot, the waiters
 * and watches of its keys move to the coordinator of that node. All channels of a store have one
 * id, so what the servers have noted of a waiter or a holder stays true. For a store of one server,
 * these functions look only at the coordinator that they are given. */
#ifndef PLOCK__REROUTE_H
#define PLOCK__REROUTE_H

#include "redis/coordinator.h"

/* Moves what belongs to other nodes by now. Returns when to call this again, if that failed. In the
 * worker thread, not with the lock held. */
plock_ns plock__reroute(plock_coordinator *coordinator, plock_ns now);

/* Chooses a tag for the channel's name if it has none whose slot the node serves. In the worker
 * thread, not with the lock held. */
void plock__reroute_tag(plock_coordinator *coordinator);

/* Finds the waiter of a message that has come by the coordinator's channel. Returns NULL if there
 * is none, or another coordinator hears the message, too. Then *elsewhere says so. With the lock
 * held.
 */
plock_waiter *plock__reroute_find(const plock_coordinator *coordinator,
                                  const plock_message *message, bool *elsewhere);

/* Notifies the watches of a lease that was broken. With the lock held. */
void plock__reroute_break(const plock_coordinator *coordinator, const plock_message *message);

/* Gives the channel of a new coordinator the id of its store, and a tag. With the lock held. */
void plock__reroute_name(plock_coordinator *coordinator);

#endif
