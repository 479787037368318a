/* What the files of the binding know of one another. It turns Ruby values into calls of the engine
 * and statuses into exceptions, and decides how to wait; it holds no policy. */
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
void binding_init_query(VALUE store_class);
void binding_init_notices(void);
void binding_init_process(void);
void binding_init_local(void);

/* --- binding_errors.c --- */

/* A new exception of the class that the status belongs to, with the status as its code. */
VALUE binding_exception(plock_status status, const char *message);
NORETURN(void binding_raise(plock_status status, const plock_error *error));

/* --- binding_waiting.c --- */

/* Drives the operation under way, without the GVL, or through the Fiber scheduler. Where an
 * interrupt raises, the operation is given up (the engine sees to what it left on the server) and
 * the exception goes on its way. */
plock_status binding_carry_on(plock_operation operation);
plock_status binding_drive(plock_lease *lease);

/* The same for a release: interrupts are deferred until it is done and its end has been told (NULL:
 * to nobody), then raised. */
typedef void binding_told(void *context, plock_status status);
plock_status binding_carry_on_deferring(plock_operation operation, binding_told *told,
                                        void *context);
plock_status binding_drive_deferring(plock_lease *lease);

/* The cancel of an operation that leaves nothing behind between two steps. */
void binding_nothing_to_cancel(void *of);

/* Waits until the descriptor is readable, as for an operation; raises what interrupts. */
void binding_wait_readable(int descriptor);

/* --- plock.c --- */

/* The moment by which a release has to be done because the process ends, and Ruby its threads;
 * PLOCK_NEVER: it does not. Calls no Ruby method: that would raise what is pending. */
plock_ns binding_farewell(void);

/* --- binding_arguments.c --- */

/* A span from a number of seconds, not negative; raises ArgumentError. */
plock_ns binding_span(VALUE seconds);
VALUE binding_seconds(plock_ns span);

/* A time to live from a number of units, within the engine's bounds; raises ArgumentError outside
 * them. */
plock_ns binding_ttl(VALUE number, plock_ns unit);

/* A label as one word, written into the room; NULL: none. */
const char *binding_label(VALUE label, char encoded[PLOCK_LABEL_MAX + 1]);

/* Writes the PLOCK_DIGEST_HEX digits of the message's digest; raises where it cannot. */
void binding_digest(VALUE message, VALUE secret, char *hex);

/* --- binding_store.c, binding_local.c --- */

plock_store *binding_store(VALUE object);

/* What each kind of store does in its own way. */
typedef struct binding_store_kind {
    bool is_local;
    plock_status (*make)(plock_lease **lease, VALUE store, const char *key, size_t length);
    /* Begins to acquire for hold or hold_digest. reports: a callback hears of failed attempts. */
    plock_status (*acquire)(plock_lease *lease, plock_ns ttl, plock_ns wait, bool digested,
                            bool reports);
} binding_store_kind;

/* --- binding_lease.c --- */

/* A Plock::Hold, or a Plock::LocalHold, for the key, with nothing held. */
VALUE binding_lease_new(const binding_store_kind *kind, VALUE store, VALUE key);
plock_lease *binding_lease(VALUE object);

/* Gives the block, where there is one, what has been granted, and returns it: Ruby may raise what
 * interrupts as a method in C returns, and then what it returned is nobody's. */
VALUE binding_hand_out(VALUE granted);

/* True: done; false: it was lost; nil: it was not held any more when it was asked for. Anything
 * else raises. */
VALUE binding_answer(plock_lease *lease, plock_status status);

/* Releases it when it is its turn, interrupts deferred. In the background if that does not come in
 * time: PLOCK_IN_USE. */
plock_status binding_release(plock_lease *lease, plock_ns keep, binding_told *told, void *context);

/* --- binding_hold.c --- */

/* Store#hold and Store#hold_digest of any kind of store. */
VALUE binding_hold(const binding_store_kind *kind, VALUE store, VALUE key, VALUE ttl_ms, VALUE wait,
                   VALUE report);
VALUE binding_hold_digest(const binding_store_kind *kind, VALUE store, VALUE prefix, VALUE key,
                          VALUE secret, VALUE ttl_ms, VALUE wait, VALUE report);

#endif
