/* The fake server together with the worker thread. A test does something, and waits until the
 * worker thread has handled it. The clock moves only when the test moves it. */
#ifndef FAKE_NATIVE_H
#define FAKE_NATIVE_H

#include "fake.h"

/* Makes a store whose connections the worker thread can poll. Its peers grant or confirm each
 * command that `says` does not answer. */
plock_store *fake_native_store(const char *(*says)(const char *command, unsigned nth));

/* A function for `says` that refuses every acquire. If the acquire asks for a place in the queue,
 * the refusal gives it one. */
const char *fake_refuses(const char *command, unsigned nth);
/* The same as fake_refuses, but the holder does not notify waiters. */
const char *fake_refuses_untold(const char *command, unsigned nth);

/* Returns true if this acquire asks for a place in the queue. */
bool fake_queues(const char *command);

/* Waits until the server has received `count` commands with this beginning, and checks that no more
 * arrive. */
void fake_await(const char *beginning, unsigned count);

/* Waits until all background releases are done. */
void fake_await_settled(plock_store *store);

/* Drives the lease's operation to its end while the clock stands still. So no deadline can end
 * it. */
plock_status fake_await_end(plock_lease *lease);

/* Steps the lease as long as there is something to read. Afterwards the lease must still be
 * waiting. */
void fake_carry_on(plock_lease *lease);

/* Begins an acquire of a lease of 3 s, and steps it until it waits. */
void fake_await_turn(plock_lease *lease, plock_ns wait);

/* Lets the worker thread read the clock and do all work that is due. */
void fake_nudge(void);

/* Moves the clock, and lets the worker thread do the work that has become due. */
void fake_native_pass(plock_ns span);

/* fake_value returns the token in the n-th acquire that the server received. fake_signature returns
 * the host, pid, thread, channel and label in that acquire. */
const char *fake_value(unsigned nth, char value[FAKE_COMMAND_ROOM]);
const char *fake_signature(unsigned nth, char signature[FAKE_COMMAND_ROOM]);
/* The ticket in the n-th acquire; "" if that acquire did not queue. */
const char *fake_ticket(unsigned nth, char ticket[FAKE_COMMAND_ROOM]);

/* Publishes "KIND TOKEN k" with the token of the n-th acquire. */
void fake_call(const char *kind, unsigned nth);

#endif
