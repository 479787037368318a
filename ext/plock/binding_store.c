#include "binding.h"

#include <math.h>

/* --- Plock::Store as an object --- */

static void store_free(void *store) {
    plock_store_close(store);
}

static const rb_data_type_t STORE = {
    .wrap_struct_name = "Plock::Store",
    .function = {.dfree = store_free},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static plock_store *store_of(VALUE self) {
    plock_store *store = rb_check_typeddata(self, &STORE);
    if (!store) rb_raise(rb_eArgError, "uninitialized Plock::Store");
    return store;
}


/* --- opening --- */

typedef struct option_setting {
    plock_config *config;
    plock_error error;
    plock_status status;
} option_setting;

static int set_option(VALUE name, VALUE value, VALUE argument) {
    option_setting *setting = (option_setting *)argument;
    if (NIL_P(value)) return ST_CONTINUE;
    name = rb_String(name);
    value = RB_FLOAT_TYPE_P(value) ? rb_sprintf("%.9f", RFLOAT_VALUE(value)) : rb_String(value);
    setting->status = plock_config_set(setting->config, StringValueCStr(name), StringValueCStr(value), &setting->error);
    return setting->status ? ST_STOP : ST_CONTINUE;
}

typedef struct opening {
    VALUE options;
    option_setting setting;
} opening;

static VALUE set_options(VALUE argument) {
    opening *o = (opening *)argument;
    rb_hash_foreach(o->options, set_option, (VALUE)&o->setting);
    return Qnil;
}

/* Plock::Store.connect(url, options) -> a store; no I/O yet. Options by name, as in the query of a URL; Ruby's Store.open
 * checks and documents them. */
static VALUE store_connect(VALUE class, VALUE url, VALUE options) {
    Check_Type(options, T_HASH);
    VALUE self = TypedData_Wrap_Struct(class, &STORE, NULL);
    opening o = {.options = options};
    StringValue(url);
    if (memchr(RSTRING_PTR(url), 0, (size_t)RSTRING_LEN(url)))
        rb_exc_raise(binding_exception(PLOCK_BAD_CONFIG, "the store's URL: has a NUL byte"));
    plock_status status = plock_config_new(&o.setting.config, StringValueCStr(url), &o.setting.error);
    if (status) binding_raise(status, &o.setting.error);
    int state = 0;
    (void)rb_protect(set_options, (VALUE)&o, &state);
    if (state || o.setting.status) plock_config_free(o.setting.config);
    if (state) rb_jump_tag(state);
    if (o.setting.status) binding_raise(o.setting.status, &o.setting.error);
    plock_store *store;
    status = plock_store_open(&store, o.setting.config, &o.setting.error);
    if (status) binding_raise(status, &o.setting.error);
    DATA_PTR(self) = store;
    return self;
}

/* --- holding --- */

static plock_ns nanoseconds(VALUE seconds) {
    const double number = NUM2DBL(seconds);
    if (isnan(number) || number < 0) rb_raise(rb_eArgError, "not a number of seconds: %" PRIsVALUE, seconds);
    return number >= (double)(PLOCK_NEVER / PLOCK_SECOND / 2) ? PLOCK_NEVER / 2 : (plock_ns)(number * (double)PLOCK_SECOND);
}

static plock_ns ttl_in(VALUE number, plock_ns unit) {
    const double span = NUM2DBL(number) * (double)unit;
    if (!(span >= (double)PLOCK_TTL_MIN && span <= (double)PLOCK_TTL_MAX))
        rb_raise(rb_eArgError, "not a time to live from 5 ms to 366 days: %" PRIsVALUE, number);
    return (plock_ns)span;
}

static ID id_call, id_acquire, id_release;

typedef struct report {
    VALUE to, phase, exception;
} report;

static VALUE call_report(VALUE argument) {
    const report *r = (const report *)argument;
    return rb_funcall(r->to, id_call, 2, r->phase, r->exception);
}

/* One failed attempt, told to whoever wants to hear it. */
static void report_attempt(VALUE to, plock_lease *lease, plock_status status) {
    const plock_error *error = plock_lease_error(lease);
    report r = {to, ID2SYM(id_acquire), binding_exception(status, error->message)};
    int state = 0;
    (void)rb_protect(call_report, (VALUE)&r, &state);
    RB_GC_GUARD(r.exception);
    if (!state) return;
    plock_lease_cancel(lease);
    rb_jump_tag(state);
}

NORETURN(static void raise_timeout(VALUE key, VALUE wait, VALUE cause));
static void raise_timeout(VALUE key, VALUE wait, VALUE cause) {
    VALUE message = rb_sprintf("could not acquire %" PRIsVALUE " within %" PRIsVALUE "s", rb_str_inspect(key), wait);
    if (!NIL_P(cause)) message = rb_sprintf("%" PRIsVALUE " (%" PRIsVALUE ")", message, cause);
    VALUE timeout = binding_exception(PLOCK_TIMED_OUT, StringValueCStr(message));
    if (!NIL_P(cause)) rb_ivar_set(timeout, rb_intern("@last_error"), cause);
    rb_exc_raise(timeout);
}

/* Who reports failures gets a TimeoutError in the end, whatever went wrong; who does not gets what went wrong. */
NORETURN(static void raise_unacquired(plock_lease *lease, plock_status status, VALUE key, VALUE wait, VALUE to));
static void raise_unacquired(plock_lease *lease, plock_status status, VALUE key, VALUE wait, VALUE to) {
    const plock_error error = *plock_lease_error(lease);
    const bool by_time = plock_status_kind(status) == PLOCK_KIND_TIMEOUT;
    const plock_status cause = by_time ? error.status : status;
    const bool store_failed = plock_status_kind(cause) != PLOCK_KIND_TIMEOUT && cause != PLOCK_OK;
    if (!NIL_P(to) && !by_time) report_attempt(to, lease, status);
    if (store_failed && NIL_P(to)) binding_raise(cause, &error);
    raise_timeout(key, wait, store_failed ? binding_exception(cause, error.message) : Qnil);
}

static void acquire(plock_lease *lease, VALUE key, VALUE wait, VALUE to) {
    for (;;) {
        const plock_status status = binding_drive(lease);
        if (status == PLOCK_OK) return;
        if (status != PLOCK_TRY_FAILED) raise_unacquired(lease, status, key, wait, to);
        if (!NIL_P(to)) report_attempt(to, lease, plock_lease_error(lease)->status);
    }
}

typedef struct holding {
    VALUE lease, report;
} holding;

static VALUE yield_lease(VALUE lease) {
    return rb_yield(lease);
}

static void report_release(void *context, plock_status status) {
    const holding *h = context;
    if (!status || status == PLOCK_NOT_OWNER || NIL_P(h->report)) return;
    VALUE exception = binding_exception(status, plock_lease_error(binding_lease(h->lease))->message);
    rb_funcall(h->report, id_call, 2, ID2SYM(id_release), exception);
}

/* In the child of a fork inside the block this does nothing: the lease is the parent's. */
static VALUE release(VALUE argument) {
    holding *h = (holding *)argument;
    plock_lease *lease = binding_lease(h->lease);
    if (!plock_lease_release(lease)) (void)binding_drive_deferring(lease, report_release, h);
    return Qnil;
}

/* hold(key, ttl_ms, wait, report) { |lease| } -> the block's value. Nothing that could raise stands between the moment the
 * lease is held and rb_ensure, which sees to its release. */
static VALUE store_hold(VALUE self, VALUE key, VALUE ttl_ms, VALUE wait, VALUE to) {
    rb_need_block();
    StringValue(key);
    const plock_patience patience = {.ttl = ttl_in(ttl_ms, PLOCK_MILLISECOND), .wait = nanoseconds(wait)};
    holding h = {.lease = binding_lease_new(store_of(self), key), .report = to};
    plock_lease *lease = binding_lease(h.lease);
    const plock_status status = plock_lease_acquire(lease, &patience);
    if (status) binding_raise(status, plock_lease_error(lease));
    acquire(lease, key, wait, to);
    return rb_ensure(yield_lease, h.lease, release, (VALUE)&h);
}

/* --- one attempt, by an owner that the caller names --- */

static VALUE lease_of_owner(VALUE self, VALUE key, VALUE owner) {
    VALUE object = binding_lease_new(store_of(self), key);
    if (plock_config_marshals(plock_store_config(store_of(self)))) owner = rb_marshal_dump(owner, Qnil);
    StringValue(owner);
    const plock_status status = plock_lease_own(binding_lease(object), RSTRING_PTR(owner), (size_t)RSTRING_LEN(owner));
    RB_GC_GUARD(owner);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the owner is empty");
    if (status) binding_raise(status, NULL);
    return object;
}

/* lock_acquire(key, owner, ttl) -> true, or false where somebody holds it; ttl in seconds. */
static VALUE store_lock_acquire(VALUE self, VALUE key, VALUE owner, VALUE ttl) {
    VALUE object = lease_of_owner(self, key, owner);
    plock_lease *lease = binding_lease(object);
    plock_status status = plock_lease_acquire(lease, &(plock_patience){.ttl = ttl_in(ttl, PLOCK_SECOND), .wait = 0});
    if (!status) status = binding_drive(lease);
    if (status && status != PLOCK_REFUSED) binding_raise(status, plock_lease_error(lease));
    plock_lease_leave(lease); /* the caller knows the owner, and releases by it */
    RB_GC_GUARD(object);
    return status ? Qfalse : Qtrue;
}

/* lock_release(key, owner) -> true, or false where it was not the owner's any more. */
static VALUE store_lock_release(VALUE self, VALUE key, VALUE owner) {
    VALUE object = lease_of_owner(self, key, owner);
    plock_lease *lease = binding_lease(object);
    plock_status status = plock_lease_release_owned(lease);
    if (!status) status = binding_drive_deferring(lease, NULL, NULL);
    if (status && status != PLOCK_NOT_OWNER) binding_raise(status, plock_lease_error(lease));
    RB_GC_GUARD(object);
    return status ? Qfalse : Qtrue;
}

/* --- the rest --- */

/* The store's URL without user, password and options. */
static VALUE store_url(VALUE self) {
    return rb_utf8_str_new_cstr(plock_config_display(plock_store_config(store_of(self))));
}

/* Is it TLS whose certificate is not verified? */
static VALUE store_unverified(VALUE self) {
    return plock_config_unverified(plock_store_config(store_of(self))) ? Qtrue : Qfalse;
}

static VALUE store_close(VALUE self) {
    plock_store_disconnect(store_of(self));
    return Qnil;
}

static VALUE store_closed(VALUE self) {
    return plock_store_disconnected(store_of(self)) ? Qtrue : Qfalse;
}

static VALUE store_inspect(VALUE self) {
    return rb_sprintf("#<Plock::Store %s>", plock_config_display(plock_store_config(store_of(self))));
}

void binding_init_store(void) {
    id_call = rb_intern("call");
    id_acquire = rb_intern("acquire");
    id_release = rb_intern("release");
    VALUE class = rb_define_class_under(binding_plock, "Store", rb_cObject);
    rb_undef_alloc_func(class);
    rb_undef_method(rb_singleton_class(class), "new");
    rb_define_private_method(rb_singleton_class(class), "connect", store_connect, 2);
    rb_define_method(class, "hold", store_hold, 4);
    rb_define_method(class, "lock_acquire", store_lock_acquire, 3);
    rb_define_method(class, "lock_release", store_lock_release, 2);
    rb_define_method(class, "url", store_url, 0);
    rb_define_method(class, "unverified?", store_unverified, 0);
    rb_define_method(class, "close", store_close, 0);
    rb_define_method(class, "closed?", store_closed, 0);
    rb_define_method(class, "inspect", store_inspect, 0);
}
