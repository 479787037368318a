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

/* A call for one key or several. The functions below that take a direct_call do not change it,
 * unless their comments say so. */
typedef struct direct_call {
    const binding_store_kind *kind;
    const plain_calls *plain;
    VALUE store;
    VALUE own; /* the Array in which OwnHolds keeps this fiber's leases; each lease follows its
                * store */
    const VALUE *given; /* the Leases for the block, of which there are `count` */
    size_t count;
    VALUE (*run)(VALUE call); /* reports the acquire and runs the block */
    VALUE (*end)(VALUE call); /* releases the leases */
    plock_acquire_options options;
    double wait;
    plock_ns began;
    bool tells; /* until the block ends: is there an event bridge? after the block: does the bridge
                 * want the release event? */
} direct_call;

/* USUAL stands for the store's own ttl: or wait:. A call that returns UNDONE has done nothing, and
 * Ruby makes the call instead. */
extern VALUE direct_usual, direct_undone;

/* Fills in the call, except for the fields about the block and `began`. `plain` is a PlainCalls
 * object. Returns false if Ruby must make the call. */
bool direct_begin(direct_call *call, VALUE store, VALUE plain, VALUE ttl, VALUE wait);

/* Returns the key's text if the key is a valid String or Symbol; otherwise nil. */
VALUE direct_bytes_of(VALUE key);

/* Returns the name of a key in the store as a String. */
VALUE direct_name(const direct_call *call, const char *name, size_t length);

/* Returns a new Lease on the key, with this hold. */
VALUE direct_lease(const direct_call *call, VALUE key, VALUE hold);

/* Returns true if the lease still has the hold that it was made with. */
bool direct_has(VALUE lease, VALUE hold);

/* Returns true if this fiber already holds the key, and would therefore wait for itself. */
bool direct_own_in_the_way(const direct_call *call, const char *name, size_t length, VALUE share);

/* Makes Ruby emit the events of an acquire or, if `lease` is nil, of a timeout. */
void direct_tell_of(const direct_call *call, VALUE lease, const char *name, size_t length,
                    VALUE share);

/* Runs the block, and then ends the leases. Returns the block's value. Changes `tells`. */
VALUE direct_run(direct_call *call);

#endif
