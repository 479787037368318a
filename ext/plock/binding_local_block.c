/* LocalStore#hold and LocalStore#hold_digest: acquire, yield, release on every way out of the block. As those of Plock::Store. */
#include "binding.h"

enum { PREFIX_MAX = 64 };

static ID id_call;
static VALUE event_acquire, event_release, event_overrun, unacquired;

typedef struct holding {
    plock_local_lease *lease;
    VALUE object; /* for the block; false: it gets the token */
    VALUE key, wait, report;
    plock_local_terms terms;
    plock_ns ended_at;
} holding;

NORETURN(static void raise_timeout(const holding *h));
static void raise_timeout(const holding *h) {
    VALUE message = rb_sprintf("could not acquire %" PRIsVALUE " within %" PRIsVALUE "s", rb_str_inspect(h->key), h->wait);
    rb_exc_raise(binding_exception(PLOCK_TIMED_OUT, StringValueCStr(message)));
}

/* Who hears of failures gets a TimeoutError in the end, whatever went wrong; who does not gets what went wrong. */
static VALUE fail_to_acquire(const holding *h, plock_status status) {
    const bool failed = plock_status_kind(status) != PLOCK_KIND_TIMEOUT;
    if (failed && NIL_P(h->report)) binding_raise(status, plock_local_lease_error(h->lease));
    if (failed) rb_funcall(h->report, id_call, 2, event_acquire, binding_exception(status, plock_local_lease_error(h->lease)->message));
    if (!h->object && !NIL_P(h->report)) return unacquired;
    raise_timeout(h);
}

static VALUE acquire_and_yield(VALUE argument) {
    const holding *h = (const holding *)argument;
    size_t length;
    const plock_status status = binding_carry_on(plock_local_lease_operation(h->lease));
    if (status) return fail_to_acquire(h, status);
    if (h->object) return rb_yield(h->object);
    const char *owner = plock_local_lease_owner(h->lease, &length);
    return rb_yield(rb_usascii_str_new(owner, (long)length));
}

static void report_release(void *context, plock_status status) {
    const holding *h = context;
    if (NIL_P(h->report)) return;
    const plock_ns held = h->ended_at - plock_local_lease_acquired_at(h->lease), ttl = plock_local_lease_ttl(h->lease);
    if (status && status != PLOCK_NOT_OWNER)
        rb_funcall(h->report, id_call, 2, event_release, binding_exception(status, plock_local_lease_error(h->lease)->message));
    if (held > ttl) rb_funcall(h->report, id_call, 4, event_overrun, h->key, binding_seconds(held), binding_seconds(ttl));
}

/* In the child of a fork inside the block this does nothing: the lease is the parent's. */
static VALUE release(VALUE argument) {
    holding *h = (holding *)argument;
    if (!plock_local_lease_held(h->lease)) return Qnil;
    h->ended_at = plock_now();
    (void)binding_local_release(h->lease, 0, report_release, h);
    return Qnil;
}

static VALUE hold(VALUE argument) {
    holding *h = (holding *)argument;
    const plock_status status = plock_local_lease_acquire(h->lease, &h->terms);
    if (status) binding_raise(status, plock_local_lease_error(h->lease));
    return rb_ensure(acquire_and_yield, argument, release, argument);
}

static holding prepare(VALUE key, VALUE ttl_ms, VALUE wait, VALUE report) {
    rb_need_block();
    return (holding){.key = key, .wait = wait, .report = report, .terms = {.ttl = binding_ttl(ttl_ms, PLOCK_MILLISECOND), .wait = binding_span(wait)}};
}

/* hold(key, ttl_ms, wait, report) { |hold| } -> the block's value. */
static VALUE store_hold(VALUE self, VALUE key, VALUE ttl_ms, VALUE wait, VALUE report) {
    StringValue(key);
    holding h = prepare(key, ttl_ms, wait, report);
    h.object = binding_local_hold_new(binding_local(self), key);
    h.lease = binding_local_lease(h.object);
    return hold((VALUE)&h);
}

static VALUE free_lease(VALUE argument) {
    plock_local_lease_free(((holding *)argument)->lease);
    return Qnil;
}

/* hold_digest(prefix, key, secret, ttl_ms, wait, report) { |token| } -> the block's value, or Plock::Store::UNACQUIRED. */
static VALUE store_hold_digest(VALUE self, VALUE prefix, VALUE key, VALUE secret, VALUE ttl_ms, VALUE wait, VALUE report) {
    StringValue(prefix);
    const size_t length = (size_t)RSTRING_LEN(prefix);
    if (length > PREFIX_MAX) rb_raise(rb_eArgError, "a prefix of more than %d bytes", PREFIX_MAX);
    char name[PREFIX_MAX + PLOCK_DIGEST_HEX];
    memcpy(name, RSTRING_PTR(prefix), length);
    binding_digest(key, secret, name + length);
    holding h = prepare(key, ttl_ms, wait, report);
    const plock_status status = plock_local_lease_new(&h.lease, binding_local(self), name, length + PLOCK_DIGEST_HEX);
    if (status) binding_raise(status, NULL);
    return rb_ensure(hold, (VALUE)&h, free_lease, (VALUE)&h);
}

static VALUE event(const char *name) {
    return ID2SYM(rb_intern(name)); /* of an ID that the program text has: it is never collected */
}

void binding_init_local_block(VALUE store_class) {
    id_call = rb_intern("call");
    event_acquire = event("acquire");
    event_release = event("release");
    event_overrun = event("overrun");
    unacquired = rb_const_get(rb_const_get(binding_plock, rb_intern("Store")), rb_intern("UNACQUIRED"));
    rb_define_method(store_class, "hold", store_hold, 4);
    rb_define_method(store_class, "hold_digest", store_hold_digest, 6);
}
