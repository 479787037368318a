/* Plock::Store: a store on Redis. */
#include "binding.h"

#include <string.h>

/* --- Plock::Store as an object --- */

static void store_free(void *store) { plock_store_close(store); }

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

static plock_status make(plock_lease **lease, VALUE store, const char *key, size_t length) {
    return plock_lease_new(lease, binding_store(store), key, length);
}

static plock_status acquire_for_block(plock_lease *lease, const plock_acquire_options *options,
                                      const char *share) {
    const plock_status status = share ? plock_lease_share(lease, share) : PLOCK_OK;
    return status ? status : plock_lease_acquire(lease, options);
}

const binding_store_kind binding_redis_kind = {.hold_class = &binding_hold_class,
                                               .has_server = true,
                                               .make = make,
                                               .acquire = acquire_for_block,
                                               .acquire_all = binding_group_acquire,
                                               .release_all = binding_group_release};

const binding_store_kind *binding_kind(VALUE store) {
    return rb_typeddata_is_kind_of(store, &STORE) ? &binding_redis_kind : &binding_local_kind;
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
    setting->status = plock_config_set(setting->config, StringValueCStr(name),
                                       StringValueCStr(value), &setting->error);
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

/* Plock::Store.connect(url, options) -> a store. It does no I/O yet. Each option has the same name
 * as in the query of a URL. Store.open in Ruby checks and documents the options. */
static VALUE store_connect(VALUE class, VALUE url, VALUE options) {
    Check_Type(options, T_HASH);
    VALUE self = TypedData_Wrap_Struct(class, &STORE, NULL);
    opening o = {.options = options};
    StringValue(url);
    if (memchr(RSTRING_PTR(url), 0, (size_t)RSTRING_LEN(url)))
        rb_exc_raise(binding_exception(PLOCK_BAD_CONFIG, "the store's URL has a NUL byte"));
    plock_status status =
        plock_config_new(&o.setting.config, StringValueCStr(url), &o.setting.error);
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

/* --- one attempt, with an owner that the caller names --- */

static VALUE lease_of_owner(VALUE self, VALUE key, VALUE owner) {
    VALUE object = binding_lease_new(&binding_redis_kind, self, key);
    if (plock_config_marshals(plock_store_config(binding_store(self))))
        owner = rb_marshal_dump(owner, Qnil);
    StringValue(owner);
    const plock_status status =
        plock_lease_own(binding_lease(object), RSTRING_PTR(owner), (size_t)RSTRING_LEN(owner));
    RB_GC_GUARD(owner);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the owner is empty");
    if (status) binding_raise(status, NULL);
    return object;
}

/* lock_acquire(key, owner, ttl) -> true, or false if the key is held. ttl: in seconds. */
static VALUE store_lock_acquire(VALUE self, VALUE key, VALUE owner, VALUE ttl) {
    VALUE object = lease_of_owner(self, key, owner);
    plock_lease *lease = binding_lease(object);
    plock_status status = plock_lease_acquire(
        lease, &(plock_acquire_options){.ttl = binding_ttl(ttl, PLOCK_SECOND), .wait = 0});
    if (!status) status = binding_drive(lease);
    if (status && status != PLOCK_REFUSED) binding_raise(status, plock_lease_error(lease));
    /* this process lets go of the lease, because the caller will release the lock by naming the
     * owner */
    if (!status) status = plock_lease_leave(lease);
    RB_GC_GUARD(object);
    return binding_bool(!status);
}

/* lock_release(key, owner) -> true, or false if `owner` no longer held the key. */
static VALUE store_lock_release(VALUE self, VALUE key, VALUE owner) {
    VALUE object = lease_of_owner(self, key, owner);
    plock_lease *lease = binding_lease(object);
    plock_status status = plock_lease_release_owned(lease);
    if (!status) status = binding_drive_deferring(lease);
    if (status && status != PLOCK_NOT_OWNER) binding_raise(status, plock_lease_error(lease));
    RB_GC_GUARD(object);
    return binding_bool(!status);
}

/* lock_release_with(key, owner, hold) -> the answers of release_all. Releases the lock that `owner`
 * holds and, together with it, the lease of `hold`. If the server does not answer, only the release
 * of the lease continues in the background. */
static VALUE store_lock_release_with(VALUE self, VALUE key, VALUE owner, VALUE hold) {
    VALUE named = lease_of_owner(self, key, owner);
    return binding_release_all(self, rb_ary_new_from_args(2, named, hold), INT2FIX(0), Qnil);
}

/* --- acquire, and adopt a lease from another process --- */

plock_acquire_options binding_patience(plock_ns ttl, VALUE renew, VALUE max_hold, VALUE watch) {
    return (plock_acquire_options){.ttl = ttl,
                                   .renews = RTEST(renew),
                                   .automatic = SYMBOL_P(renew),
                                   .watched = RTEST(watch),
                                   .max_hold = NIL_P(max_hold) ? 0 : binding_span(max_hold)};
}

unsigned binding_replicas(VALUE number) {
    if (NIL_P(number)) return 0;
    return FIX2UINT(number) ? FIX2UINT(number) : PLOCK_NO_REPLICAS;
}

static VALUE new_lease(VALUE self, VALUE key, VALUE share) {
    VALUE object = binding_lease_new(&binding_redis_kind, self, key);
    if (!NIL_P(share) && plock_lease_share(binding_lease(object), StringValueCStr(share)))
        rb_raise(rb_eArgError, "not a share: %" PRIsVALUE, rb_str_inspect(share));
    return object;
}

/* take(key, ttl, wait, renew, max_hold, label, watch, share, asking, replicas) -> a hold. If
 * another holder kept the lock until `wait` was over, it returns the waiter's token. A slow server
 * may still list this token in the queue, and the caller recognizes its own entry by the token.
 * share: as in plock_lease_share, or nil. */
static VALUE store_take(VALUE self, VALUE key, VALUE ttl, VALUE wait, VALUE renew, VALUE max_hold,
                        VALUE label, VALUE watch, VALUE share, VALUE asking, VALUE replicas) {
    char encoded[PLOCK_LABEL_MAX + 1];
    plock_acquire_options patience =
        binding_patience(binding_ttl(ttl, PLOCK_SECOND), renew, max_hold, watch);
    patience.wait = binding_span(wait);
    patience.asking = binding_span(asking);
    patience.label = binding_label(label, encoded);
    patience.replicas = binding_replicas(replicas);
    VALUE object = new_lease(self, key, share);
    plock_lease *lease = binding_lease(object);
    plock_status status = plock_lease_acquire(lease, &patience);
    if (status) binding_raise(status, plock_lease_error(lease));
    do status = binding_drive(lease);
    while (status == PLOCK_TRY_FAILED);
    if (status == PLOCK_OK) return binding_hand_out(object);
    const plock_error *error = plock_lease_error(lease);
    /* the status of the last attempt, which was refused or failed */
    if (status == PLOCK_TIMED_OUT) status = error->status;
    if (plock_status_kind(status) != PLOCK_KIND_TIMEOUT) binding_raise(status, error);
    VALUE token = binding_token(lease);
    RB_GC_GUARD(object);
    return token;
}

/* adopt_owner(key, value, ttl, renew, max_hold, watch, share, heir, replicas) -> a hold, or nil if
 * the owner `value` no longer held the key. heir: the new owner in the store's encoding, or nil for
 * a fresh token. */
static VALUE store_adopt(VALUE self, VALUE key, VALUE value, VALUE ttl, VALUE renew, VALUE max_hold,
                         VALUE watch, VALUE share, VALUE heir, VALUE replicas) {
    plock_acquire_options patience =
        binding_patience(binding_ttl(ttl, PLOCK_SECOND), renew, max_hold, watch);
    patience.replicas = binding_replicas(replicas);
    VALUE object = new_lease(self, key, share);
    plock_lease *lease = binding_lease(object);
    StringValue(value);
    plock_status status = PLOCK_OK;
    if (!NIL_P(heir))
        status = plock_lease_own(lease, StringValuePtr(heir), (size_t)RSTRING_LEN(heir));
    if (!status)
        status =
            plock_lease_adopt(lease, RSTRING_PTR(value), (size_t)RSTRING_LEN(value), &patience);
    RB_GC_GUARD(value);
    RB_GC_GUARD(heir);
    if (!status) status = binding_drive(lease);
    if (status && status != PLOCK_NOT_OWNER) binding_raise(status, plock_lease_error(lease));
    return status ? Qnil : binding_hand_out(object);
}

/* --- other methods --- */

/* Methods that return values of the store's configuration (plock/config.h). */
#define READER(name, convert)                                                                      \
    static VALUE store_##name(VALUE self) {                                                        \
        return convert(plock_config_##name(plock_store_config(binding_store(self))));              \
    }

READER(display, rb_utf8_str_new_cstr)
READER(unverified_servers, binding_bool)
READER(unverified_sentinels, binding_bool)
READER(selects, binding_bool)
READER(sentinel_tls, binding_bool)
READER(replicas, UINT2NUM)

/* pool_counts -> [size, used, idle, waiting, waits], as in plock_pool_status */
static VALUE store_pool_counts(VALUE self) {
    const plock_pool_status status = plock_store_pool_status(binding_store(self));
    return rb_ary_new_from_args(5, UINT2NUM(status.size), UINT2NUM(status.used),
                                UINT2NUM(status.idle), UINT2NUM(status.waiting),
                                ULL2NUM(status.waits));
}

static VALUE store_close(VALUE self) {
    plock_store_disconnect(binding_store(self));
    return Qnil;
}

static VALUE store_closed(VALUE self) {
    return binding_bool(plock_store_disconnected(binding_store(self)));
}

static VALUE store_inspect(VALUE self) {
    return rb_sprintf("#<Plock::Store %s>",
                      plock_config_display(plock_store_config(binding_store(self))));
}

void binding_init_store(void) {
    VALUE class = rb_define_class_under(binding_plock, "Store", rb_cObject);
    rb_undef_alloc_func(class);
    rb_undef_method(rb_singleton_class(class), "new");
    rb_define_private_method(rb_singleton_class(class), "connect", store_connect, 2);
    binding_define_acquiring(class);
    binding_init_query(class);
    binding_init_group(class);
    rb_define_private_method(class, "take", store_take, 10);
    rb_define_private_method(class, "adopt_owner", store_adopt, 9);
    rb_define_method(class, "lock_release_with", store_lock_release_with, 3);
    rb_define_method(class, "lock_acquire", store_lock_acquire, 3);
    rb_define_method(class, "lock_release", store_lock_release, 2);
    rb_define_method(class, "url", store_display, 0);
    rb_define_method(class, "unverified_servers?", store_unverified_servers, 0);
    rb_define_method(class, "unverified_sentinels?", store_unverified_sentinels, 0);
    rb_define_method(class, "selects?", store_selects, 0);
    rb_define_method(class, "sentinel_tls?", store_sentinel_tls, 0);
    rb_define_method(class, "replicas", store_replicas, 0);
    rb_define_private_method(class, "pool_counts", store_pool_counts, 0);
    rb_define_method(class, "close", store_close, 0);
    rb_define_method(class, "closed?", store_closed, 0);
    rb_define_method(class, "inspect", store_inspect, 0);
}
