/* The fake's server together with the worker thread. Tests do something, and wait until the thread
 * has handled it. Time passes only if the test lets it. */
#ifndef FAKE_NATIVE_H
#define FAKE_NATIVE_H

#include "fake.h"

/* A store whose connections the worker thread can poll. All peers grant and confirm everything,
 * unless `says` answers. */
plock_store *fake_native_store(const char *(*says)(const char *command, unsigned nth));

/* For says: refuses every acquire, with a place in the queue if the acquire asks for one. */
const char *fake_refuses(const char *command, unsigned nth);
/* The same, but the holder does not notify waiters. */
const char *fake_refuses_untold(const char *command, unsigned nth);

/* Returns true if this acquire asks for a place in the queue. */
bool fake_queues(const char *command);

/* Waits until the server has received this many commands with this beginning, and checks that there
 * are no more. */
void fake_await(const char *beginning, unsigned count);

/* Waits until all background releases are done. */
void fake_await_settled(plock_store *store);

/* Runs an operation to its end, without letting time pass. The events that it waits for must come.
 */
plock_status fake_await_end(plock_lease *lease);

/* Steps it while there is something to read. It must wait after that. */
void fake_carry_on(plock_lease *lease);

/* Begins an acquire for 3 s, and runs it until it waits. */
void fake_await_turn(plock_lease *lease, plock_ns wait);

/* Lets the worker thread see the time, and do all that is due. */
void fake_nudge(void);

/* Lets time pass, and lets the worker thread see it. */
void fake_native_pass(plock_ns span);

/* The value, or the whole record, of the n-th acquire that the server received. */
const char *fake_value(unsigned nth, char value[FAKE_COMMAND_ROOM]);
const char *fake_signature(unsigned nth, char signature[FAKE_COMMAND_ROOM]);
/* The ticket of that acquire; "" if it did not queue. */
const char *fake_ticket(unsigned nth, char ticket[FAKE_COMMAND_ROOM]);

/* Publishes "KIND VALUE k" with the value of the n-th acquire. */
void fake_call(const char *kind, unsigned nth);

#endif
