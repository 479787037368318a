/* The fake's server together with the native thread: tests do something and wait until the thread
 * has come to it. Time passes only where the test lets it. */
#ifndef FAKE_NATIVE_H
#define FAKE_NATIVE_H

#include "fake.h"

/* A store whose connections the native thread can poll; all peers oblige, but for what `says` says
 * to whom. */
plock_store *fake_native_store(const char *(*says)(const char *command, unsigned nth));

/* For says: refuses whoever wants the lock, with a place in the queue where he asked for one. */
const char *fake_refuses(const char *command, unsigned nth);
/* The same, but the holder is one who will not tell. */
const char *fake_refuses_untold(const char *command, unsigned nth);

/* Does this acquire ask for a place in the queue? */
bool fake_queues(const char *command);

/* Waits until the server has got as many commands like this, and checks that there are no more. */
void fake_await(const char *beginning, unsigned count);

/* Waits until all that is released in the background is done. */
void fake_await_settled(plock_store *store);

/* Carries an operation on until it ends, without letting time pass. What it waits for has to come.
 */
plock_status fake_await_end(plock_lease *lease);

/* Steps it for as long as there is something to read; it has to wait then. */
void fake_carry_on(plock_lease *lease);

/* Begins an acquire for 3 s and carries it on until it waits. */
void fake_await_turn(plock_lease *lease, plock_ns wait);

/* Lets the native thread see what time it is, and do all that there is to do. */
void fake_nudge(void);

/* Lets time pass, and the native thread see it. */
void fake_native_pass(plock_ns span);

/* The value, and the whole record, of the n-th acquire that the server got. */
const char *fake_value(unsigned nth, char value[FAKE_COMMAND_ROOM]);
const char *fake_record(unsigned nth, char record[FAKE_COMMAND_ROOM]);
/* The ticket that it came with; "" where it did not queue. */
const char *fake_ticket(unsigned nth, char ticket[FAKE_COMMAND_ROOM]);

/* Publishes "KIND VALUE k" with the value of the n-th acquire. */
void fake_call(const char *kind, unsigned nth);

#endif
