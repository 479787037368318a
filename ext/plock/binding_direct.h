/* The common parts of the short ways for one key and for several: binding_direct.c and
 * binding_group.c. */
#ifndef PLOCK_BINDING_DIRECT_H
#define PLOCK_BINDING_DIRECT_H

#include "binding.h"

/* The prefix and the secret of the keys, and the defaults of a call. `renewed` and `limited` are
 * the AcquireOptions of a lease that is renewed while its block runs, and of one with a ttl:. */
typedef struct plain_calls {
    VALUE prefix, secret, renewed, limited;
    double ttl, wait;
    bool trailing; /* a release waits for no answer */
} plain_calls;

/* Of a PlainCalls; raises TypeError for other objects. */
const plain_calls *direct_plain(VALUE object);

/* USUAL stands for the store's own ttl: or wait:. UNDONE is the answer of a call that has done
 * nothing, and that Ruby begins again. */
extern VALUE direct_usual, direct_undone;

/* Writes the request of a call with these options, and its `wait` in seconds. Returns false if a
 * value is not an Integer or a Float within its bounds. */
bool direct_read_options(const plain_calls *plain, VALUE ttl, VALUE wait, binding_request *request,
                         double *seconds);

/* Returns the text of a valid key, a String or a Symbol, or nil. */
VALUE direct_bytes_of(VALUE key);

/* Returns the name of a key in the store as a String. */
VALUE direct_name(const plain_calls *plain, const char *name, size_t length);

/* Returns a new Lease on the key, with this hold. */
VALUE direct_lease(const plain_calls *plain, const binding_request *request, VALUE key, VALUE hold);

/* Returns true if the lease still has the hold that it was made with. */
bool direct_has(VALUE lease, VALUE hold);

/* Returns the Array of OwnHolds of this fiber, in which each lease follows its store. */
VALUE direct_own(void);

/* Returns true if this fiber holds the key, and would wait for itself. */
bool direct_own_in_the_way(VALUE own, VALUE store, VALUE name, VALUE share, double wait);

/* Removes a lease and its store. Calls no Ruby code, since an interrupt could end that. */
void direct_forget_own(VALUE own, VALUE lease);

/* Has Ruby emit the events of an acquire or, if `lease` is nil, of a timeout. */
void direct_tell_of(VALUE store, VALUE lease, VALUE name, VALUE share, double wait, plock_ns began);

/* Sets *heard to whether the release has listeners, and then calls `end`. If an interrupt ends the
 * question, *heard stays true: Ruby asks again. */
void direct_ask_and_end(bool *heard, VALUE (*end)(VALUE), VALUE argument);

#endif
