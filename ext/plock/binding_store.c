#include "binding.h"

/* --- Plock::Store as an object --- */

static void store_free(void *store) {
    plock_store_close(store);
}

static const rb_data_type_t STORE = {
    .wrap_struct_name = "Plock::Store",
    .function = {.dfree = store_free},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

plock_store *binding_store(VALUE self) {
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

/* --- one attempt, by an owner that the caller names --- */

VALUE binding_lease_of_owner(VALUE self, VALUE key, VALUE owner) {
    VALUE object = binding_lease_new(binding_store(self), key);
    if (plock_config_marshals(plock_store_config(binding_store(self)))) owner = rb_marshal_dump(owner, Qnil);
    StringValue(owner);
    const plock_status status = plock_lease_own(binding_lease(object), RSTRING_PTR(owner), (size_t)RSTRING_LEN(owner));
    RB_GC_GUARD(owner);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the owner is empty");
    if (status) binding_raise(status, NULL);
    return object;
}

/* lock_acquire(key, owner, ttl) -> true, or false where somebody holds it; ttl in seconds. */
static VALUE store_lock_acquire(VALUE self, VALUE key, VALUE owner, VALUE ttl) {
    VALUE object = binding_lease_of_owner(self, key, owner);
    plock_lease *lease = binding_lease(object);
    plock_status status = plock_lease_acquire(lease, &(plock_patience){.ttl = binding_ttl(ttl, PLOCK_SECOND), .wait = 0});
    if (!status) status = binding_drive(lease);
    if (status && status != PLOCK_REFUSED) binding_raise(status, plock_lease_error(lease));
    plock_lease_leave(lease); /* the caller knows the owner, and releases by it */
    RB_GC_GUARD(object);
    return status ? Qfalse : Qtrue;
}

/* lock_release(key, owner) -> true, or false where it was not the owner's any more. */
static VALUE store_lock_release(VALUE self, VALUE key, VALUE owner) {
    VALUE object = binding_lease_of_owner(self, key, owner);
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
    return rb_utf8_str_new_cstr(plock_config_display(plock_store_config(binding_store(self))));
}

/* Is it TLS whose certificate is not verified? */
static VALUE store_unverified(VALUE self) {
    return plock_config_unverified(plock_store_config(binding_store(self))) ? Qtrue : Qfalse;
}

static VALUE store_close(VALUE self) {
    plock_store_disconnect(binding_store(self));
    return Qnil;
}

static VALUE store_closed(VALUE self) {
    return plock_store_disconnected(binding_store(self)) ? Qtrue : Qfalse;
}

static VALUE store_inspect(VALUE self) {
    return rb_sprintf("#<Plock::Store %s>", plock_config_display(plock_store_config(binding_store(self))));
}

void binding_init_store(void) {
    VALUE class = rb_define_class_under(binding_plock, "Store", rb_cObject);
    rb_undef_alloc_func(class);
    rb_undef_method(rb_singleton_class(class), "new");
    rb_define_private_method(rb_singleton_class(class), "connect", store_connect, 2);
    binding_init_hold(class);
    binding_init_take(class);
    binding_init_group(class);
    binding_init_inquiry(class);
    binding_init_conversation(class);
    rb_define_method(class, "lock_acquire", store_lock_acquire, 3);
    rb_define_method(class, "lock_release", store_lock_release, 2);
    rb_define_method(class, "url", store_url, 0);
    rb_define_method(class, "unverified?", store_unverified, 0);
    rb_define_method(class, "close", store_close, 0);
    rb_define_method(class, "closed?", store_closed, 0);
    rb_define_method(class, "inspect", store_inspect, 0);
}
