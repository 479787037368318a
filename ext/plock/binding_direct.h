/* What binding_direct.c and binding_group.c share. They make a plain acquire with a block, of one
 * key and of several keys, without running plock's Ruby code. */
#ifndef PLOCK_BINDING_DIRECT_H
#define PLOCK_BINDING_DIRECT_H

#include "binding.h"

/* The prefix and the secret of the keys, and the defaults of a call. `renewed` has the
 * AcquireOptions of a lease that is renewed while its block runs. `limited` has those of a lease
 * with a ttl:. */
typedef struct plain_calls {
    VALUE prefix, secret, renewed, limited;
    double ttl, wait;
    bool trailing; /* a release does not wait for an answer */
} plain_calls;

/* Returns the struct of a PlainCalls object. Raises TypeError for other objects. */
const plain_calls *direct_plain(VALUE object);

/* USUAL stands for the store's own ttl: or wait:. A call that returns UNDONE has done nothing, and
 * Ruby makes the call instead. */
extern VALUE direct_usual, direct_undone;

/* Fills in `options` for these options, and sets *seconds to the time to wait. Returns false if a
 * value is not an Integer or a Float within its bounds. */
bool direct_read_options(const plain_calls *plain, VALUE ttl, VALUE wait,
                         plock_acquire_options *options, double *seconds);

/* Returns the key's text if the key is a valid String or Symbol; otherwise nil. */
VALUE direct_bytes_of(VALUE key);

/* Returns the name of a key in the store as a String. */
VALUE direct_name(const plain_calls *plain, const char *name, size_t length);

/* Returns a new Lease on the key, with this hold. */
VALUE direct_lease(const plain_calls *plain, const plock_acquire_options *options, VALUE key,
                   VALUE hold);

/* Returns true if the lease still has the hold that it was made with. */
bool direct_has(VALUE lease, VALUE hold);

/* Returns the Array in which OwnHolds keeps this fiber's leases. In the Array, each lease follows
 * its store. */
VALUE direct_own(void);

/* Returns true if this fiber already holds the key, and would therefore wait for itself. */
bool direct_own_in_the_way(VALUE own, VALUE store, VALUE name, VALUE share, double wait);

/* Removes a lease and its store from the Array. Calls no Ruby code, because an interrupt could end
 * such code. */
void direct_forget_own(VALUE own, VALUE lease);

/* Makes Ruby emit the events of an acquire or, if `lease` is nil, of a timeout. */
void direct_tell_of(VALUE store, VALUE lease, VALUE name, VALUE share, double wait, plock_ns began);

/* Sets *heard to whether the release has listeners, and then calls `end`. If an interrupt ends this
 * check, *heard stays true, so that Ruby checks again. */
void direct_ask_and_end(bool *heard, VALUE (*end)(VALUE), VALUE argument);

#endif
