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

/* With hold_digest, which Parse::Lock uses, the caller receives every failure, and older processes
 * poll for the same key. */
static plock_status acquire_for_block(plock_lease *lease, const binding_request *request) {
    const plock_acquire_options patience = {.ttl = request->ttl,
                                            .wait = request->wait,
                                            .renews = request->renewed,
                                            .automatic = request->renewed,
                                            .endures = request->reports,
                                            .insists = request->digested && request->reports,
                                            .shares = request->digested};
    const plock_status status =
        request->share ? plock_lease_share(lease, request->share) : PLOCK_OK;
    return status ? status : plock_lease_acquire(lease, &patience);
}

static const binding_store_kind KIND = {.make = make, .acquire = acquire_for_block};

/* hold(key, ttl_ms, wait, report) { |lease| } -> the block's value. */
static VALUE store_hold(VALUE self, VALUE key, VALUE ttl_ms, VALUE wait, VALUE report) {
    return binding_hold(&KIND, self, key, ttl_ms, wait, report);
}

/* hold_digest(prefix, key, secret, ttl_ms, wait, report) { |token| } -> the block's value, or
 * UNACQUIRED. */
static VALUE store_hold_digest(VALUE self, VALUE prefix, VALUE key, VALUE secret, VALUE ttl_ms,
                               VALUE wait, VALUE report) {
    return binding_hold_digest(&KIND, self, prefix, key, secret, ttl_ms, wait, report);
}

static VALUE store_acquire_directly(int argc, VALUE *argv, VALUE self) {
    return binding_acquire_directly(&KIND, argc, argv, self);
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

/* Plock::Store.connect(url, options) -> a store; no I/O yet. Options by name, as in the query of a
 * URL; Store.open in Ruby checks and documents them. */
static VALUE store_connect(VALUE class, VALUE url, VALUE options) {
    Check_Type(options, T_HASH);
    VALUE self = TypedData_Wrap_Struct(class, &STORE, NULL);
    opening o = {.options = options};
    StringValue(url);
    if (memchr(RSTRING_PTR(url), 0, (size_t)RSTRING_LEN(url)))
        rb_exc_raise(binding_exception(PLOCK_BAD_CONFIG, "the store's URL: has a NUL byte"));
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
    VALUE object = binding_lease_new(&KIND, self, key);
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

/* lock_acquire(key, owner, ttl) -> true, or false: it is held; ttl in seconds. */
static VALUE store_lock_acquire(VALUE self, VALUE key, VALUE owner, VALUE ttl) {
    VALUE object = lease_of_owner(self, key, owner);
    plock_lease *lease = binding_lease(object);
    plock_status status = plock_lease_acquire(
        lease, &(plock_acquire_options){.ttl = binding_ttl(ttl, PLOCK_SECOND), .wait = 0});
    if (!status) status = binding_drive(lease);
    if (status && status != PLOCK_REFUSED) binding_raise(status, plock_lease_error(lease));
    /* the caller knows the owner, and releases by it */
    if (!status) status = plock_lease_leave(lease);
    RB_GC_GUARD(object);
    return status ? Qfalse : Qtrue;
}

/* lock_release(key, owner) -> true, or false: that owner no longer held it. */
static VALUE store_lock_release(VALUE self, VALUE key, VALUE owner) {
    VALUE object = lease_of_owner(self, key, owner);
    plock_lease *lease = binding_lease(object);
    plock_status status = plock_lease_release_owned(lease);
    if (!status) status = binding_drive_deferring(lease);
    if (status && status != PLOCK_NOT_OWNER) binding_raise(status, plock_lease_error(lease));
    RB_GC_GUARD(object);
    return status ? Qfalse : Qtrue;
}

/* --- acquire, and adopt from another process --- */

static plock_acquire_options patience_of(VALUE ttl, VALUE renew, VALUE max_hold, VALUE watch) {
    return (plock_acquire_options){.ttl = binding_ttl(ttl, PLOCK_SECOND),
                                   .renews = RTEST(renew),
                                   .automatic = SYMBOL_P(renew),
                                   .watched = RTEST(watch),
                                   .max_hold = NIL_P(max_hold) ? 0 : binding_span(max_hold)};
}

static VALUE new_lease(VALUE self, VALUE key, VALUE share) {
    VALUE object = binding_lease_new(&KIND, self, key);
    if (!NIL_P(share) && plock_lease_share(binding_lease(object), StringValueCStr(share)))
        rb_raise(rb_eArgError, "not a share: %" PRIsVALUE, rb_str_inspect(share));
    return object;
}

/* take(key, ttl, wait, renew, max_hold, label, watch, share, asking) -> a hold. If others held the
 * lock until `wait` was over: the token that it waited with, which a slow server may still have in
 * the queue. share: as in plock_lease_share, or nil. */
static VALUE store_take(VALUE self, VALUE key, VALUE ttl, VALUE wait, VALUE renew, VALUE max_hold,
                        VALUE label, VALUE watch, VALUE share, VALUE asking) {
    char encoded[PLOCK_LABEL_MAX + 1];
    plock_acquire_options patience = patience_of(ttl, renew, max_hold, watch);
    patience.wait = binding_span(wait);
    patience.asking = binding_span(asking);
    patience.label = binding_label(label, encoded);
    VALUE object = new_lease(self, key, share);
    plock_lease *lease = binding_lease(object);
    plock_status status = plock_lease_acquire(lease, &patience);
    if (status) binding_raise(status, plock_lease_error(lease));
    do status = binding_drive(lease);
    while (status == PLOCK_TRY_FAILED);
    if (status == PLOCK_OK) return binding_hand_out(object);
    const plock_error *error = plock_lease_error(lease);
    /* a refusal, or the last attempt's failure */
    if (status == PLOCK_TIMED_OUT) status = error->status;
    if (plock_status_kind(status) != PLOCK_KIND_TIMEOUT) binding_raise(status, error);
    VALUE token = rb_funcall(object, rb_intern("token"), 0);
    RB_GC_GUARD(object);
    return token;
}

/* adopt_owner(key, value, ttl, renew, max_hold, watch, share, heir) -> a hold, or nil: that owner
 * no longer held it. heir: the new owner in the store's encoding; nil: a fresh token. */
static VALUE store_adopt(VALUE self, VALUE key, VALUE value, VALUE ttl, VALUE renew, VALUE max_hold,
                         VALUE watch, VALUE share, VALUE heir) {
    const plock_acquire_options patience = patience_of(ttl, renew, max_hold, watch);
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

/* --- several keys in one request --- */

typedef struct several {
    VALUE objects; /* Array of Plock::Hold */
    plock_group *group;
    plock_acquire_options patience;
    plock_ns keep, budget;
} several;

static void refer_to(several *s) {
    plock_lease *leases[PLOCK_GROUP_MAX];
    const long count = RARRAY_LEN(s->objects);
    if (count < 1 || count > PLOCK_GROUP_MAX)
        rb_raise(rb_eArgError, "from 1 to %d at a time, not %ld", PLOCK_GROUP_MAX, count);
    for (long i = 0; i < count; i++) leases[i] = binding_lease(rb_ary_entry(s->objects, i));
    const plock_status status = plock_group_new(&s->group, leases, (size_t)count);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "leases that do not belong together");
    if (status) binding_raise(status, NULL);
}

static VALUE release_group(VALUE argument) {
    plock_group_free(((several *)argument)->group);
    return Qnil;
}

static VALUE acquire(VALUE argument) {
    several *s = (several *)argument;
    refer_to(s);
    plock_status status = plock_group_acquire(s->group, &s->patience);
    if (!status) status = binding_carry_on(plock_group_operation(s->group));
    if (status == PLOCK_REFUSED) return SIZET2NUM(plock_group_free_ones(s->group));
    if (status == PLOCK_CROSSSLOT) return Qnil;
    if (status) binding_raise(status, plock_group_error(s->group));
    return s->objects;
}

/* take_all(keys, ttl, renew, max_hold, label, watch, asking, left) -> holds; or the number of free
 * keys before the first that is not free; or nil: the keys do not live on one node. */
static VALUE store_take_all(VALUE self, VALUE keys, VALUE ttl, VALUE renew, VALUE max_hold,
                            VALUE label, VALUE watch, VALUE asking, VALUE left) {
    char encoded[PLOCK_LABEL_MAX + 1];
    Check_Type(keys, T_ARRAY);
    several s = {.objects = rb_ary_new(), .patience = patience_of(ttl, renew, max_hold, watch)};
    s.patience.label = binding_label(label, encoded);
    s.patience.asking = binding_span(asking);
    s.patience.wait = binding_span(left);
    for (long i = 0; i < RARRAY_LEN(keys); i++)
        rb_ary_push(s.objects, binding_lease_new(&KIND, self, rb_ary_entry(keys, i)));
    VALUE result = rb_ensure(acquire, (VALUE)&s, release_group, (VALUE)&s);
    RB_GC_GUARD(s.objects);
    return RB_TYPE_P(result, T_ARRAY) ? binding_hand_out(result) : result;
}

static plock_status begin_release(void *argument) {
    const several *s = argument;
    return plock_group_release(s->group, s->keep);
}

/* The turns of the leases did not all come in time. */
static void let_all_go(void *argument) {
    const several *s = argument;
    for (long i = 0; i < RARRAY_LEN(s->objects); i++) {
        plock_lease_let_go(binding_lease(rb_ary_entry(s->objects, i)), s->keep);
    }
}

static plock_status release_in_turn(several *s) {
    plock_place_in_turn places[PLOCK_GROUP_MAX];
    const size_t count = (size_t)RARRAY_LEN(s->objects);
    for (size_t i = 0; i < count; i++)
        places[i] = plock_lease_turn(binding_lease(rb_ary_entry(s->objects, (long)i)));
    plock_lease_use turn = {
        .places = places,
        .count = count,
        .begin = begin_release,
        .give_up = let_all_go,
        .context = s,
        .operation = plock_group_operation(s->group),
        .patience = plock_lease_budget(binding_lease(rb_ary_entry(s->objects, 0)), true)};
    plock_lease_use_take(&turn);
    const plock_operation operation = plock_lease_use_operation(&turn);
    if (s->budget) operation.hurry(operation.of, plock_after(plock_now(), s->budget));
    return binding_carry_on_deferring(operation, NULL, NULL);
}

static VALUE release_outcome(const plock_group *group, size_t index) {
    return plock_group_released(group, index)      ? Qtrue
           : plock_group_passed_over(group, index) ? Qnil
                                                   : Qfalse;
}

static VALUE release(VALUE argument) {
    several *s = (several *)argument;
    refer_to(s);
    VALUE released = rb_ary_new();
    const plock_status status = release_in_turn(s);
    if (status && status != PLOCK_MISUSE && !s->budget)
        binding_raise(status, plock_group_error(s->group));
    for (long i = 0; i < RARRAY_LEN(s->objects); i++)
        rb_ary_push(released,
                    status == PLOCK_IN_USE ? Qtrue : release_outcome(s->group, (size_t)i));
    return released;
}

/* release_all(holds, keep, budget) -> for each true; false: it was lost; nil: it had been released,
 * or left. budget: in seconds, or nil. Releases without an answer by then go on in the background,
 * and raise nothing. */
static VALUE store_release_all(VALUE self, VALUE holds, VALUE keep, VALUE budget) {
    (void)self;
    Check_Type(holds, T_ARRAY);
    several s = {.objects = holds,
                 .keep = binding_span(keep),
                 .budget = NIL_P(budget) ? 0 : binding_span(budget)};
    VALUE result = rb_ensure(release, (VALUE)&s, release_group, (VALUE)&s);
    RB_GC_GUARD(s.objects);
    return result;
}

/* lock_release_with(key, owner, hold) -> the same for a lock with a named owner and a lease. */
static VALUE store_lock_release_with(VALUE self, VALUE key, VALUE owner, VALUE hold) {
    VALUE named = lease_of_owner(self, key, owner);
    return store_release_all(self, rb_ary_new_from_args(2, named, hold), INT2FIX(0), Qnil);
}

/* --- the rest --- */

/* The store's URL without user, password and options. */
static VALUE store_url(VALUE self) {
    return rb_utf8_str_new_cstr(plock_config_display(plock_store_config(binding_store(self))));
}

/* Is it TLS without verification of the certificate? */
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
    return rb_sprintf("#<Plock::Store %s>",
                      plock_config_display(plock_store_config(binding_store(self))));
}

void binding_init_store(void) {
    VALUE class = rb_define_class_under(binding_plock, "Store", rb_cObject);
    rb_undef_alloc_func(class);
    rb_undef_method(rb_singleton_class(class), "new");
    rb_define_private_method(rb_singleton_class(class), "connect", store_connect, 2);
    binding_init_hold(class);
    binding_init_query(class);
    rb_define_method(class, "hold", store_hold, 4);
    rb_define_method(class, "hold_digest", store_hold_digest, 6);
    rb_define_method(class, "acquire_directly", store_acquire_directly, -1);
    rb_define_private_method(class, "take", store_take, 9);
    rb_define_private_method(class, "adopt_owner", store_adopt, 8);
    rb_define_private_method(class, "take_all", store_take_all, 8);
    rb_define_method(class, "release_all", store_release_all, 3);
    rb_define_method(class, "lock_release_with", store_lock_release_with, 3);
    rb_define_method(class, "lock_acquire", store_lock_acquire, 3);
    rb_define_method(class, "lock_release", store_lock_release, 2);
    rb_define_method(class, "url", store_url, 0);
    rb_define_method(class, "unverified?", store_unverified, 0);
    rb_define_method(class, "close", store_close, 0);
    rb_define_method(class, "closed?", store_closed, 0);
    rb_define_method(class, "inspect", store_inspect, 0);
}
