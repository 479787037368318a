/* The functions that the files of the binding share. The binding turns Ruby values into calls to
 * the engine, and the engine's statuses into exceptions. It decides how Ruby waits, but sets no
 * policy. */
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
VALUE binding_error_class(void); /* Plock::Error */
NORETURN(void binding_raise(plock_status status, const plock_error *error));

static inline VALUE binding_bool(bool is) { return is ? Qtrue : Qfalse; }

/* Converts a number of seconds to a span; raises ArgumentError if it is negative or NaN. */
plock_ns binding_span(VALUE seconds);
VALUE binding_seconds(plock_ns span);

/* Converts a number of units to a TTL; raises ArgumentError outside the engine's bounds. */
plock_ns binding_ttl(VALUE number, plock_ns unit);

/* Encodes the label as one word. Returns `encoded`, or NULL if there is no label. */
const char *binding_label(VALUE label, char encoded[PLOCK_LABEL_MAX + 1]);

/* Writes the store key into `name`: the prefix, and then the digest of the key. If the prefix ends
 * with an opening brace, a closing brace follows the first 8 digits of the digest. Returns the
 * length of the name. Raises ArgumentError if the prefix is too long. */
enum {
    BINDING_PREFIX_MAX = 64,
    BINDING_DIGEST_MAX = PLOCK_DIGEST_HEX + 1,
    BINDING_NAME_MAX = BINDING_PREFIX_MAX + BINDING_DIGEST_MAX
};
size_t binding_name(VALUE prefix, VALUE key, VALUE secret, char name[BINDING_NAME_MAX]);

/* --- binding_waiting.c --- */

/* Drives an operation until it is done. The operation must have begun. Waits without the GVL or
 * through the Fiber scheduler. If an interrupt raises, the operation is cancelled, the engine
 * cleans up on the server, and the exception propagates. */
plock_status binding_carry_on(plock_operation operation);
plock_status binding_drive(plock_lease *lease);
/* Repeats the step until it is done, and waits as binding_carry_on does. An interrupt may raise
 * between two steps, so a step must not leave anything that has to be undone. */
plock_status binding_repeat(plock_status (*step)(void *, plock_interest *), void *of);

/* Drives a release as binding_carry_on does, but raises interrupts only after the release is done
 * and `told` has received its result. `told` may be NULL. */
typedef void binding_told(void *context, plock_status status);
plock_status binding_carry_on_deferring(plock_operation operation, binding_told *told,
                                        void *context);
plock_status binding_drive_deferring(plock_lease *lease);

/* Calls a clean-up function. Interrupts of this thread are deferred, and raised when the function
 * returns. Ruby does not defer an exception from a signal handler. Such an exception ends the call,
 * so the function is called again, and the exception is raised afterwards. The function must
 * therefore be able to start again after an interruption at any point. Under a Fiber scheduler,
 * nothing is deferred. */
VALUE binding_complete(VALUE (*function)(VALUE), VALUE argument);

/* --- plock.c --- */

/* When the process ends, Ruby ends all threads except the main thread. In a thread that Ruby will
 * end, returns the deadline by which a release must be done. Otherwise returns PLOCK_NEVER. Calls
 * no Ruby method, because a method may raise a pending interrupt. */
plock_ns binding_farewell(void);

/* Returns true if the program has subscribed to events with Plock.subscribe. */
bool binding_events_heard(void);

/* binding_event_bridge returns the object that passes events on to another library, or nil.
 * binding_bridge_wants asks this object whether an event has listeners. That runs Ruby code, so an
 * interrupt may raise out of binding_bridge_wants. */
VALUE binding_event_bridge(void);
bool binding_bridge_wants(VALUE event);

/* Starts the dispatcher thread, unless it is running. This thread reads notices of losses and
 * renewals. */
void binding_start_dispatcher(void);

/* --- binding_store.c, binding_local.c --- */

plock_store *binding_store(VALUE object);
plock_local *binding_local_store(VALUE object);

/* Converts the number of replicas, or nil, to `replicas` of plock_acquire_options. */
unsigned binding_replicas(VALUE number);

/* Converts the options of Store#take. renew: true, false, or a Symbol if the renewal is automatic.
 * max_hold: in seconds, or nil. */
plock_acquire_options binding_patience(plock_ns ttl, VALUE renew, VALUE max_hold, VALUE watch);

/* A release of several leases. */
typedef struct binding_releases {
    plock_lease *const *leases;
    size_t count;
    plock_ns keep;
    plock_ns budget;    /* after this span the release continues in the background; 0: no limit but
                         * the store's own */
    VALUE *answers;     /* for each lease: true, false if it was lost, or nil if it was not held */
    binding_told *told; /* called after the answers are written; may be NULL */
    void *context;
    plock_error *error;
} binding_releases;

/* The differences between stores on Redis and local stores. */
typedef struct binding_store_kind {
    const VALUE *hold_class; /* the Ruby class of the store's holds */
    /* Does a caller wait by sending requests to a server? If so, a wait may end with a failure of
     * the server, and a status may list the caller's token among the waiters. */
    bool has_server;
    plock_status (*make)(plock_lease **lease, VALUE store, const char *key, size_t length);
    /* Begins to acquire a lease for a block. share: as in plock_lease_share; NULL: exclusive. */
    plock_status (*acquire)(plock_lease *lease, const plock_acquire_options *options,
                            const char *share);
    /* Makes one attempt to acquire all leases or none. Returns PLOCK_OK, PLOCK_REFUSED or the
     * store's failure, which *error describes. Returns PLOCK_CROSSSLOT if one request to a cluster
     * cannot serve all keys. After PLOCK_REFUSED, *refused is the index of a key that is not
     * free. */
    plock_status (*acquire_all)(plock_lease *const *leases, size_t count,
                                const plock_acquire_options *options, size_t *refused,
                                plock_error *error);
    /* Releases the leases as binding_release_in_turn does, and writes the answers. */
    plock_status (*release_all)(const binding_releases *releases);
} binding_store_kind;

extern const binding_store_kind binding_redis_kind, binding_local_kind;
const binding_store_kind *binding_kind(VALUE store);

/* --- binding_group.c --- */

/* Makes a hold for each key. The holds are not acquired yet. Raises ArgumentError unless there are
 * 1 to PLOCK_GROUP_MAX keys. */
VALUE binding_leases_new(const binding_store_kind *kind, VALUE store, VALUE keys);

/* Writes the leases of an Array of holds into `leases`. Returns their number, from 1 to
 * PLOCK_GROUP_MAX. */
size_t binding_leases(VALUE holds, plock_lease *leases[PLOCK_GROUP_MAX]);

/* The functions of binding_redis_kind for several keys. */
plock_status binding_group_acquire(plock_lease *const *leases, size_t count,
                                   const plock_acquire_options *options, size_t *refused,
                                   plock_error *error);
plock_status binding_group_release(const binding_releases *releases);

/* The method Store#release_all. */
VALUE binding_release_all(VALUE store, VALUE holds, VALUE keep, VALUE budget);

/* --- binding_lease.c --- */

/* Plock::Hold and Plock::LocalHold */
extern VALUE binding_hold_class, binding_local_hold_class;

/* Returns a new object of the kind's hold_class for the key. The hold is not acquired yet. */
VALUE binding_lease_new(const binding_store_kind *kind, VALUE store, VALUE key);
VALUE binding_lease_named(const binding_store_kind *kind, VALUE store, const char *key,
                          size_t length);
plock_lease *binding_lease(VALUE object);

/* Returns the lease's owner: the owner that the caller named, or else a random UUID. */
VALUE binding_token(const plock_lease *lease);

/* Passes the granted hold to the block, if there is one, and returns the hold. The block is needed
 * because Ruby may raise an interrupt just as a C method returns. The returned hold would then be
 * lost. */
VALUE binding_hand_out(VALUE granted);

/* Returns true if the call succeeded, false if the lease was lost, and nil if it was not held when
 * the call began. Raises for any other status. */
VALUE binding_answer(plock_lease *lease, plock_status status);

/* Waits until no other thread uses the lease (plock/turn.h), and then releases it, with interrupts
 * deferred. If another thread uses the lease for too long, the worker thread releases the lease,
 * and the result is PLOCK_IN_USE. */
plock_status binding_release(plock_lease *lease, plock_ns keep, binding_told *told, void *context);

/* Does the same with several leases: begins with `begin`, which receives the releases, and then
 * carries the operation out. Uses only the leases, `keep` and `budget` of the releases. */
plock_status binding_release_in_turn(binding_releases *releases, plock_status (*begin)(void *),
                                     plock_operation operation, binding_told *told, void *context);

/* Sends the release, and does not wait for the answer. A notice reports a failure or a loss. If the
 * function cannot send the release, it does nothing and returns false. The caller must then call
 * binding_release. */
bool binding_release_trailing(plock_lease *lease, plock_ns keep);

/* Defines the methods that acquire a lease for a block. Both kinds of stores have these methods. */
void binding_define_acquiring(VALUE class);

/* --- the short ways: binding_direct.c, binding_group.c --- */

VALUE binding_acquire_directly(int argc, VALUE *argv, VALUE store);
VALUE binding_acquire_all_directly(VALUE store, VALUE calls, VALUE keys, VALUE ttl, VALUE wait,
                                   VALUE raises);

#endif
