/* The functions that the files of the binding share. The binding turns Ruby values into calls of
 * the engine and statuses into exceptions, and decides how to wait; it holds no policy. */
#ifndef PLOCK_BINDING_H
#define PLOCK_BINDING_H

#include <ruby.h>
#include <ruby/encoding.h>

#include "plock.h"

extern VALUE binding_plock; /* module Plock */

void binding_init_values(void);
void binding_init_waiting(void);
void binding_init_store(void);
void binding_init_lease(void);
void binding_init_direct(void);
void binding_init_query(VALUE store_class);
void binding_init_group(VALUE store_class);
void binding_init_local_query(VALUE store_class);
void binding_init_process(void);
void binding_init_local(void);

/* --- binding_values.c --- */

/* Returns a new exception of the status's class, with the status as its code. */
VALUE binding_exception(plock_status status, const char *message);
VALUE binding_exception_of(plock_status status, const plock_error *error);
bool binding_is_error(VALUE object); /* is it a Plock::Error? */
NORETURN(void binding_raise(plock_status status, const plock_error *error));

static inline VALUE binding_bool(bool is) { return is ? Qtrue : Qfalse; }

/* Converts a number of seconds to a span; raises ArgumentError if it is negative or NaN. */
plock_ns binding_span(VALUE seconds);
VALUE binding_seconds(plock_ns span);

/* Converts a number of units to a TTL; raises ArgumentError outside the engine's bounds. */
plock_ns binding_ttl(VALUE number, plock_ns unit);

/* Encodes the label as one word. Returns `encoded`, or NULL if there is no label. */
const char *binding_label(VALUE label, char encoded[PLOCK_LABEL_MAX + 1]);

/* Writes the name of a key in the store, the prefix and the digest, into `name`. If the prefix ends
 * with an opening brace, a closing one comes after the first 8 digits. Returns the length. Raises
 * ArgumentError if the prefix is too long. */
enum {
    BINDING_PREFIX_MAX = 64,
    BINDING_DIGEST_MAX = PLOCK_DIGEST_HEX + 1,
    BINDING_NAME_MAX = BINDING_PREFIX_MAX + BINDING_DIGEST_MAX
};
size_t binding_name(VALUE prefix, VALUE key, VALUE secret, char name[BINDING_NAME_MAX]);

/* Writes the PLOCK_DIGEST_HEX digits of the message's digest; raises if it fails. */
void binding_digest(VALUE message, VALUE secret, char *hex);

/* --- binding_waiting.c --- */

/* Drives the operation under way, without the GVL, or through the Fiber scheduler. If an interrupt
 * raises, the operation is cancelled, the engine cleans up on the server, and the exception
 * propagates. */
plock_status binding_carry_on(plock_operation operation);
plock_status binding_drive(plock_lease *lease);
/* The same for a step that is repeated, and leaves nothing to undo. */
plock_status binding_repeat(plock_status (*step)(void *, plock_interest *), void *of);

/* The same for a release. Interrupts are deferred until the release is done and `told` has received
 * its result (NULL: no callback); then they are raised. */
typedef void binding_told(void *context, plock_status status);
plock_status binding_carry_on_deferring(plock_operation operation, binding_told *told,
                                        void *context);
plock_status binding_drive_deferring(plock_lease *lease);

/* Calls the function with interrupts of this thread deferred. Raises those that came when the
 * function returns. */
VALUE binding_masked(rb_block_call_func_t function, VALUE argument);

/* The same for a clean-up. If a signal handler raises meanwhile, which Ruby does not defer, the
 * function is called again, and the exception is raised after it. So the function must be able to
 * begin again after it was cut off anywhere. Under a Fiber scheduler, nothing is deferred. */
VALUE binding_complete(rb_block_call_func_t function, VALUE argument);

/* The scheduler of this fiber, or nil. */
VALUE binding_scheduler(void);

/* Waits until the descriptor is readable, as for an operation. Raises a pending interrupt. */
void binding_wait_readable(int descriptor);

/* --- plock.c --- */

/* Returns the deadline of a release while the process ends and Ruby ends its threads; otherwise
 * PLOCK_NEVER. Calls no Ruby method, since that would raise a pending interrupt. */
plock_ns binding_farewell(void);

/* Returns true if the program has subscribed to events with Plock.subscribe. */
bool binding_events_heard(void);

/* Returns the object that passes events on to another library, or nil. binding_bridge_wants asks it
 * whether an event has listeners. That runs Ruby code, which an interrupt can end. */
VALUE binding_event_bridge(void);
bool binding_bridge_wants(VALUE event);

/* Starts the dispatcher thread, which reads notices of losses and renewals, unless it runs. */
void binding_start_dispatcher(void);

/* --- binding_store.c, binding_local.c --- */

plock_store *binding_store(VALUE object);
plock_local *binding_local_store(VALUE object);

/* For `replicas` of plock_acquire_options; number: from 0, or nil. */
unsigned binding_replicas(VALUE number);

/* The options of Store#take. renew: true, false or a Symbol; max_hold: seconds or nil. */
plock_acquire_options binding_patience(VALUE ttl, VALUE renew, VALUE max_hold, VALUE watch);

/* The request of a call with a block. With `reports`, a callback receives failed attempts. With
 * `renewed`, the lease is renewed while the block runs. With `told`, a notice reports its loss, too
 * (plock/notice.h). */
typedef struct binding_request {
    plock_ns ttl, wait;
    bool digested; /* by hold_digest */
    bool reports, renewed, told;
    const char *share; /* as in plock_lease_share; NULL: exclusive */
} binding_request;

/* The points in which the kinds of stores differ: on Redis, and local. */
typedef struct binding_store_kind {
    const VALUE *hold_class; /* the class of its holds in Ruby */
    /* Does a caller wait by requests to a server? Then a wait may end with a failure of the server,
     * and a status names the caller's token among the waiters. */
    bool has_server;
    plock_status (*make)(plock_lease **lease, VALUE store, const char *key, size_t length);
    /* Begins to acquire for a block. */
    plock_status (*acquire)(plock_lease *lease, const binding_request *request);
    /* Makes one attempt to acquire all or none. Returns PLOCK_OK; PLOCK_REFUSED, and *refused is
     * the index of a key that is not free; PLOCK_CROSSSLOT if the keys do not live on one node; or
     * the store's failure in *error. */
    plock_status (*acquire_all)(plock_lease *const *leases, size_t count,
                                const binding_request *request, size_t *refused,
                                plock_error *error);
    /* Releases all in their turns, with interrupts deferred. Writes for each lease true; false: it
     * was lost; or nil: it was not held. Then it calls `told`. */
    plock_status (*release_all)(plock_lease *const *leases, size_t count, VALUE *answers,
                                binding_told *told, void *context, plock_error *error);
} binding_store_kind;

extern const binding_store_kind binding_redis_kind, binding_local_kind;
const binding_store_kind *binding_kind(VALUE store);

/* --- binding_group.c --- */

/* Makes a hold for each of 1 to PLOCK_GROUP_MAX keys, with nothing held; raises ArgumentError for
 * another number. */
VALUE binding_leases_new(const binding_store_kind *kind, VALUE store, VALUE keys);

/* Writes the leases of an Array of holds. Returns their number, from 1 to PLOCK_GROUP_MAX. */
size_t binding_leases(VALUE holds, plock_lease *leases[PLOCK_GROUP_MAX]);

/* The functions of binding_redis_kind for several keys. */
plock_status binding_group_acquire(plock_lease *const *leases, size_t count,
                                   const binding_request *request, size_t *refused,
                                   plock_error *error);
plock_status binding_group_release(plock_lease *const *leases, size_t count, VALUE *answers,
                                   binding_told *told, void *context, plock_error *error);

/* Store#release_all. */
VALUE binding_release_all(VALUE store, VALUE holds, VALUE keep, VALUE budget);

/* --- binding_lease.c --- */

/* Plock::Hold and Plock::LocalHold */
extern VALUE binding_hold_class, binding_local_hold_class;

/* Returns an object of the kind's hold_class for the key, with nothing held. */
VALUE binding_lease_new(const binding_store_kind *kind, VALUE store, VALUE key);
VALUE binding_lease_named(const binding_store_kind *kind, VALUE store, const char *key,
                          size_t length);
plock_lease *binding_lease(VALUE object);

/* The owner's random id: a UUID, as in the store. */
VALUE binding_token(const plock_lease *lease);

/* Passes the granted hold to the block, if there is one, and returns it. Ruby may raise an
 * interrupt as a method in C returns, and then no variable has the returned hold. */
VALUE binding_hand_out(VALUE granted);

/* Returns true if the call succeeded, false if the lease was lost, and nil if it was not held when
 * the call began. Raises for any other status. */
VALUE binding_answer(plock_lease *lease, plock_status status);

/* Releases the lease in its turn, with interrupts deferred. If the turn does not come in time, the
 * worker thread releases it, and the result is PLOCK_IN_USE. */
plock_status binding_release(plock_lease *lease, plock_ns keep, binding_told *told, void *context);

/* Sends the release, and does not wait for the answer: a notice reports a failure or a loss.
 * Returns false if nothing was done: the caller then calls binding_release. */
bool binding_release_trailing(plock_lease *lease, plock_ns keep);

/* Defines the methods that acquire for a block, which the stores of both kinds share. */
void binding_define_acquiring(VALUE class);

/* --- the short ways: binding_direct.c, binding_group.c --- */

VALUE binding_acquire_directly(int argc, VALUE *argv, VALUE store);
VALUE binding_acquire_all_directly(VALUE store, VALUE calls, VALUE keys, VALUE ttl, VALUE wait,
                                   VALUE raises);

#endif
