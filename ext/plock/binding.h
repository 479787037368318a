/* The functions that the files of the binding share. The binding turns Ruby values into calls of
 * the engine and statuses into exceptions, and decides how to wait; it holds no policy. */
#ifndef PLOCK_BINDING_H
#define PLOCK_BINDING_H

#include <ruby.h>
#include <ruby/encoding.h>

#include "plock.h"

extern VALUE binding_plock; /* module Plock */

void binding_init_errors(void);
void binding_init_arguments(void);
void binding_init_waiting(void);
void binding_init_store(void);
void binding_init_lease(void);
void binding_init_hold(VALUE store_class);
void binding_init_direct(void);
void binding_init_query(VALUE store_class);
void binding_init_notices(void);
void binding_init_process(void);
void binding_init_local(void);

/* --- binding_errors.c --- */

/* Returns a new exception of the status's class, with the status as its code. */
VALUE binding_exception(plock_status status, const char *message);
VALUE binding_exception_of(plock_status status, const plock_error *error);
NORETURN(void binding_raise(plock_status status, const plock_error *error));

/* --- binding_waiting.c --- */

/* Drives the operation under way, without the GVL, or through the Fiber scheduler. If an interrupt
 * raises, the operation is cancelled, the engine cleans up on the server, and the exception
 * propagates. */
plock_status binding_carry_on(plock_operation operation);
plock_status binding_drive(plock_lease *lease);

/* The same for a release: interrupts are deferred until it is done and `told` has its result (NULL:
 * no callback), then raised. */
typedef void binding_told(void *context, plock_status status);
plock_status binding_carry_on_deferring(plock_operation operation, binding_told *told,
                                        void *context);
plock_status binding_drive_deferring(plock_lease *lease);

/* The cancel of an operation that leaves nothing behind between two steps. */
void binding_nothing_to_cancel(void *of);

/* Calls the function with this argument, with the interrupts of this thread deferred. Those that
 * came meanwhile are raised at its end. */
VALUE binding_masked(rb_block_call_func_t function, VALUE argument);

/* The scheduler of this fiber, or nil. */
VALUE binding_scheduler(void);

/* Waits until the descriptor is readable, as for an operation. Raises a pending interrupt. */
void binding_wait_readable(int descriptor);

/* --- plock.c --- */

/* Returns the deadline of a release while the process ends, and Ruby ends its threads; else
 * PLOCK_NEVER. Calls no Ruby method, which would raise a pending interrupt. */
plock_ns binding_farewell(void);

/* --- binding_arguments.c --- */

/* Converts a number of seconds, not negative, to a span; else raises ArgumentError. */
plock_ns binding_span(VALUE seconds);
VALUE binding_seconds(plock_ns span);

/* Converts a number of units to a TTL; raises ArgumentError outside the engine's bounds. */
plock_ns binding_ttl(VALUE number, plock_ns unit);

/* Writes a label as one word into `encoded`; NULL: none. */
const char *binding_label(VALUE label, char encoded[PLOCK_LABEL_MAX + 1]);

/* Writes the name of a key in the store, the prefix and the digest, into `name`. Returns its
 * length. Raises ArgumentError if the prefix is too long. */
enum { BINDING_PREFIX_MAX = 64, BINDING_NAME_MAX = BINDING_PREFIX_MAX + PLOCK_DIGEST_HEX };
size_t binding_name(VALUE prefix, VALUE key, VALUE secret, char name[BINDING_NAME_MAX]);

/* Writes the PLOCK_DIGEST_HEX digits of the message's digest; raises if it fails. */
void binding_digest(VALUE message, VALUE secret, char *hex);

/* --- binding_notices.c --- */

/* Has anybody subscribed to the events of leases? */
bool binding_events_heard(void);

/* --- binding_store.c, binding_local.c --- */

plock_store *binding_store(VALUE object);

/* A request for a key: for how long, with how much patience. digested: of hold_digest; reports: a
 * callback receives failed attempts; renewed: while the block runs. share: as in
 * plock_lease_share; NULL: for itself. */
typedef struct binding_request {
    plock_ns ttl, wait;
    bool digested, reports, renewed;
    const char *share;
} binding_request;

/* The functions in which the kinds of stores differ. */
typedef struct binding_store_kind {
    bool is_local;
    plock_status (*make)(plock_lease **lease, VALUE store, const char *key, size_t length);
    /* Begins to acquire for a block. */
    plock_status (*acquire)(plock_lease *lease, const binding_request *request);
} binding_store_kind;

/* --- binding_lease.c --- */

/* Returns a Plock::Hold, or a Plock::LocalHold, for the key, with nothing held. */
VALUE binding_lease_new(const binding_store_kind *kind, VALUE store, VALUE key);
VALUE binding_lease_named(const binding_store_kind *kind, VALUE store, const char *key,
                          size_t length);
plock_lease *binding_lease(VALUE object);

/* Passes the granted hold to the block, if there is one, and returns it. Ruby may raise an
 * interrupt as a method in C returns, and then no variable has the returned hold. */
VALUE binding_hand_out(VALUE granted);

/* Returns true: done; false: the lease was lost; nil: it was not held when the call began. Any
 * other status raises. */
VALUE binding_answer(plock_lease *lease, plock_status status);

/* Releases it in its turn, with interrupts deferred. If the turn does not come in time, the worker
 * thread releases it: PLOCK_IN_USE. */
plock_status binding_release(plock_lease *lease, plock_ns keep, binding_told *told, void *context);

/* --- binding_hold.c --- */

/* Store#hold and Store#hold_digest of any kind of store. */
VALUE binding_hold(const binding_store_kind *kind, VALUE store, VALUE key, VALUE ttl_ms, VALUE wait,
                   VALUE report);
VALUE binding_hold_digest(const binding_store_kind *kind, VALUE store, VALUE prefix, VALUE key,
                          VALUE secret, VALUE ttl_ms, VALUE wait, VALUE report);

/* --- binding_direct.c --- */

/* Store#acquire_directly of any kind of store. */
VALUE binding_acquire_directly(const binding_store_kind *kind, int argc, const VALUE *argv,
                               VALUE store);

#endif
