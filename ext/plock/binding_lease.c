#include "binding.h"

static void lease_free(void *lease) {
    plock_lease_free(lease);
}

static size_t lease_size(const void *lease) {
    return lease ? 1024 : 0; /* about: the engine's struct, key and companion */
}

static const rb_data_type_t LEASE = {
    .wrap_struct_name = "Plock::Lease",
    .function = {.dfree = lease_free, .dsize = lease_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static VALUE lease_class;

VALUE binding_lease_new(plock_store *store, VALUE key) {
    VALUE object = TypedData_Wrap_Struct(lease_class, &LEASE, NULL);
    StringValue(key);
    plock_lease *lease = NULL;
    const plock_status status = plock_lease_new(&lease, store, RSTRING_PTR(key), (size_t)RSTRING_LEN(key));
    RB_GC_GUARD(key);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the key is empty");
    if (status) binding_raise(status, NULL);
    DATA_PTR(object) = lease;
    return object;
}

plock_lease *binding_lease(VALUE object) {
    plock_lease *lease = rb_check_typeddata(object, &LEASE);
    if (!lease) rb_raise(rb_eArgError, "uninitialized Plock::Lease");
    return lease;
}

/* The owner's random id: a UUID, as it stands in the store. */
static VALUE lease_token(VALUE self) {
    size_t length;
    const char *owner = plock_lease_owner(binding_lease(self), &length);
    return rb_usascii_str_new(owner, (long)length);
}

/* The number of this lease: greater than that of every earlier lease of the same key. */
static VALUE lease_fence(VALUE self) {
    return LL2NUM(plock_lease_fence(binding_lease(self)));
}

/* The key as it stands in the store. */
static VALUE lease_key(VALUE self) {
    size_t length;
    const char *key = plock_lease_key(binding_lease(self), &length);
    return rb_str_new(key, (long)length);
}

VALUE binding_seconds(plock_ns span) {
    return DBL2NUM((double)span / (double)PLOCK_SECOND);
}

/* Seconds for which the lease was granted. */
static VALUE lease_ttl(VALUE self) {
    return binding_seconds(plock_lease_ttl(binding_lease(self)));
}

/* Seconds since it was acquired, on a clock that goes on while the machine is suspended. */
static VALUE lease_held_for(VALUE self) {
    return binding_seconds(plock_now() - plock_lease_acquired_at(binding_lease(self)));
}

/* Held as far as this process can tell without asking the store: not released, not expired, not inherited by fork. */
static VALUE lease_valid(VALUE self) {
    return plock_lease_valid(binding_lease(self)) ? Qtrue : Qfalse;
}

/* Without the token: whoever knows it can release the lock. */
static VALUE lease_inspect(VALUE self) {
    plock_lease *lease = binding_lease(self);
    size_t length;
    const char *key = plock_lease_key(lease, &length);
    VALUE quoted = rb_str_inspect(rb_str_new(key, (long)length));
    return rb_sprintf("#<Plock::Lease key=%" PRIsVALUE " fence=%lld %s>", quoted, (long long)plock_lease_fence(lease),
                      plock_lease_valid(lease) ? "valid" : "not valid");
}

void binding_init_lease(void) {
    lease_class = rb_define_class_under(binding_plock, "Lease", rb_cObject);
    rb_gc_register_mark_object(lease_class);
    rb_undef_alloc_func(lease_class);
    rb_undef_method(rb_singleton_class(lease_class), "new");
    rb_define_method(lease_class, "token", lease_token, 0);
    rb_define_method(lease_class, "fence", lease_fence, 0);
    rb_define_method(lease_class, "key", lease_key, 0);
    rb_define_method(lease_class, "ttl", lease_ttl, 0);
    rb_define_method(lease_class, "held_for", lease_held_for, 0);
    rb_define_method(lease_class, "valid?", lease_valid, 0);
    rb_define_method(lease_class, "inspect", lease_inspect, 0);
}
