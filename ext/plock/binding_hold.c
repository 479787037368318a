/* Store#hold and Store#hold_digest: acquire, yield, and release on every way out of the block. */
#include "binding.h"

static ID id_call;
static VALUE event_acquire, event_release, event_overrun, unacquired;

typedef struct holding {
    const binding_store_kind *kind;
    plock_lease *lease;
    VALUE object; /* for the block; false with hold_digest: the block gets the token */
    VALUE key, wait, report;
    plock_ns ttl, patience, ended_at;
} holding;

/* --- reports of failures --- */

typedef struct telling {
    VALUE to, exception;
} telling;

static VALUE tell_attempt(VALUE argument) {
    const telling *t = (const telling *)argument;
    return rb_funcall(t->to, id_call, 2, event_acquire, t->exception);
}

/* Reports one failed attempt to the callback. */
static void report_attempt(const holding *h, plock_status status) {
    if (NIL_P(h->report)) return;
    telling t = {h->report, binding_exception(status, plock_lease_error(h->lease)->message)};
    int state = 0;
    (void)rb_protect(tell_attempt, (VALUE)&t, &state);
    RB_GC_GUARD(t.exception);
    if (!state) return;
    plock_lease_cancel(h->lease);
    rb_jump_tag(state);
}

NORETURN(static void raise_timeout(const holding *h, VALUE cause));
static void raise_timeout(const holding *h, VALUE cause) {
    VALUE message = rb_sprintf("could not acquire %" PRIsVALUE " within %" PRIsVALUE "s",
                               rb_str_inspect(h->key), h->wait);
    if (!NIL_P(cause)) message = rb_sprintf("%" PRIsVALUE " (%" PRIsVALUE ")", message, cause);
    VALUE timeout = binding_exception(PLOCK_TIMED_OUT, StringValueCStr(message));
    if (!NIL_P(cause)) rb_ivar_set(timeout, rb_intern("@last_error"), cause);
    rb_exc_raise(timeout);
}

/* A caller with a callback always gets a TimeoutError in the end; a caller without one gets the
 * error of the failure. */
static VALUE fail_to_acquire(const holding *h, plock_status status) {
    const plock_error error = *plock_lease_error(h->lease);
    const bool by_time = plock_status_kind(status) == PLOCK_KIND_TIMEOUT;
    const plock_status cause = by_time ? error.status : status;
    const bool store_failed = plock_status_kind(cause) != PLOCK_KIND_TIMEOUT && cause != PLOCK_OK;
    if (!by_time) report_attempt(h, status);
    if (!h->object && !NIL_P(h->report)) return unacquired;
    if (store_failed && NIL_P(h->report)) binding_raise(cause, &error);
    raise_timeout(h, store_failed ? binding_exception(cause, error.message) : Qnil);
}

/* --- holding --- */

static VALUE token(const plock_lease *lease) {
    size_t length;
    const char *owner = plock_lease_owner(lease, &length);
    return rb_usascii_str_new(owner, (long)length);
}

static VALUE acquire_and_yield(VALUE argument) {
    const holding *h = (const holding *)argument;
    for (;;) {
        const plock_status status = binding_drive(h->lease);
        if (status == PLOCK_OK) return rb_yield(h->object ? h->object : token(h->lease));
        if (status != PLOCK_TRY_FAILED) return fail_to_acquire(h, status);
        report_attempt(h, plock_lease_error(h->lease)->status);
    }
}

static void report_release(void *context, plock_status status) {
    const holding *h = context;
    const plock_ns held = h->ended_at - plock_lease_acquired_at(h->lease),
                   ttl = plock_lease_ttl(h->lease);
    if (NIL_P(h->report)) return;
    if (status && status != PLOCK_NOT_OWNER)
        rb_funcall(h->report, id_call, 2, event_release,
                   binding_exception(status, plock_lease_error(h->lease)->message));
    if (held > ttl)
        rb_funcall(h->report, id_call, 4, event_overrun, h->key, binding_seconds(held),
                   binding_seconds(ttl));
}

/* Does nothing in a child that was forked inside the block: the lease is the parent's. */
static VALUE release(VALUE argument) {
    holding *h = (holding *)argument;
    if (!plock_lease_held(h->lease)) return Qnil;
    h->ended_at = plock_now();
    (void)binding_release(h->lease, 0, report_release, h);
    return Qnil;
}

static VALUE hold(VALUE argument) {
    holding *h = (holding *)argument;
    const binding_request request = {
        .ttl = h->ttl, .wait = h->patience, .digested = !h->object, .reports = !NIL_P(h->report)};
    const plock_status status = h->kind->acquire(h->lease, &request);
    if (status) binding_raise(status, plock_lease_error(h->lease));
    return rb_ensure(acquire_and_yield, argument, release, argument);
}

static holding prepare(const binding_store_kind *kind, VALUE key, VALUE ttl_ms, VALUE wait,
                       VALUE report) {
    rb_need_block();
    return (holding){.kind = kind,
                     .key = key,
                     .wait = wait,
                     .report = report,
                     .ttl = binding_ttl(ttl_ms, PLOCK_MILLISECOND),
                     .patience = binding_span(wait)};
}

VALUE binding_hold(const binding_store_kind *kind, VALUE store, VALUE key, VALUE ttl_ms, VALUE wait,
                   VALUE report) {
    StringValue(key);
    holding h = prepare(kind, key, ttl_ms, wait, report);
    h.object = binding_lease_new(kind, store, key);
    h.lease = binding_lease(h.object);
    return hold((VALUE)&h);
}

static VALUE free_lease(VALUE argument) {
    plock_lease_free(((holding *)argument)->lease);
    return Qnil;
}

/* Creates no String for the store's key and no object for the lease: most of a pair's cost in Ruby
 * is the garbage collection later. */
VALUE binding_hold_digest(const binding_store_kind *kind, VALUE store, VALUE prefix, VALUE key,
                          VALUE secret, VALUE ttl_ms, VALUE wait, VALUE report) {
    char name[BINDING_NAME_MAX];
    const size_t length = binding_name(prefix, key, secret, name);
    holding h = prepare(kind, key, ttl_ms, wait, report);
    const plock_status status = kind->make(&h.lease, store, name, length);
    if (status) binding_raise(status, NULL);
    return rb_ensure(hold, (VALUE)&h, free_lease, (VALUE)&h);
}

static VALUE event(const char *name) {
    return ID2SYM(rb_intern(name)); /* the ID is in the program text, so it is never collected */
}

void binding_init_hold(VALUE store_class) {
    id_call = rb_intern("call");
    event_acquire = event("acquire");
    event_release = event("release");
    event_overrun = event("overrun");
    unacquired = rb_obj_freeze(rb_obj_alloc(rb_cObject));
    rb_define_const(store_class, "UNACQUIRED", unacquired);
    rb_gc_register_mark_object(unacquired);
}
