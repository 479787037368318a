/* Plock::Hold and Plock::LocalHold: the lease that a store of the engine hands out. */
#include "binding.h"

/* A lease that is still held was forgotten by its program. */
static void lease_free(void *lease) { plock_lease_abandon(lease); }

static size_t lease_size(const void *lease) {
    return lease ? 1024 : 0; /* an estimate: the engine's struct, key and companion */
}

static const rb_data_type_t LEASE = {
    .wrap_struct_name = "Plock::Hold",
    .function = {.dfree = lease_free, .dsize = lease_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static VALUE lease_class, local_class;
static VALUE mode_read, mode_write;

VALUE binding_lease_named(const binding_store_kind *kind, VALUE store, const char *key,
                          size_t length) {
    VALUE object = TypedData_Wrap_Struct(kind->is_local ? local_class : lease_class, &LEASE, NULL);
    plock_lease *lease = NULL;
    const plock_status status = kind->make(&lease, store, key, length);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the key is empty");
    if (status) binding_raise(status, NULL);
    DATA_PTR(object) = lease;
    return object;
}

VALUE binding_lease_new(const binding_store_kind *kind, VALUE store, VALUE key) {
    StringValue(key);
    VALUE lease = binding_lease_named(kind, store, RSTRING_PTR(key), (size_t)RSTRING_LEN(key));
    RB_GC_GUARD(key);
    return lease;
}

plock_lease *binding_lease(VALUE object) {
    plock_lease *lease = rb_check_typeddata(object, &LEASE);
    if (!lease) rb_raise(rb_eArgError, "uninitialized Plock::Hold");
    return lease;
}

VALUE binding_hand_out(VALUE granted) {
    if (rb_block_given_p()) (void)rb_yield(granted);
    return granted;
}

/* The owner's random id: a UUID, as in the store. */
static VALUE lease_token(VALUE self) {
    size_t length;
    const char *owner = plock_lease_owner(binding_lease(self), &length);
    return rb_usascii_str_new(owner, (long)length);
}

/* The number of this lease, greater than that of every earlier lease of the same key. */
static VALUE lease_fence(VALUE self) { return LL2NUM(plock_lease_fence(binding_lease(self))); }

/* The key in the store. */
static VALUE lease_key(VALUE self) {
    size_t length;
    const char *key = plock_lease_key(binding_lease(self), &length);
    return rb_str_new(key, (long)length);
}

/* The seconds for which the lease was granted. */
static VALUE lease_ttl(VALUE self) { return binding_seconds(plock_lease_ttl(binding_lease(self))); }

/* Seconds since it was acquired, on a clock that runs while the machine is suspended. */
static VALUE lease_held_for(VALUE self) {
    return binding_seconds(plock_now() - plock_lease_acquired_at(binding_lease(self)));
}

/* Held as far as this process can tell without I/O: not released, not expired, not inherited by
 * fork. */
static VALUE lease_valid(VALUE self) {
    return plock_lease_valid(binding_lease(self)) ? Qtrue : Qfalse;
}

/* It was held, and has expired or was taken away. Does no I/O. */
static VALUE lease_lost(VALUE self) {
    return plock_lease_lost(binding_lease(self)) ? Qtrue : Qfalse;
}

/* Acquired by the parent of this process. */
static VALUE lease_inherited(VALUE self) {
    return plock_lease_inherited(binding_lease(self)) ? Qtrue : Qfalse;
}

/* Did another holder have the lock at first, or did others wait before us? */
static VALUE lease_contended(VALUE self) {
    return plock_lease_contended(binding_lease(self)) ? Qtrue : Qfalse;
}

/* Moments are seconds on CLOCK_BOOTTIME if the system has it, else CLOCK_MONOTONIC. */
static VALUE lease_valid_until(VALUE self) {
    return binding_seconds(plock_lease_valid_until(binding_lease(self)));
}

static VALUE lease_acquired_at(VALUE self) {
    return binding_seconds(plock_lease_acquired_at(binding_lease(self)));
}

static VALUE lease_waited(VALUE self) {
    return binding_seconds(plock_lease_waited(binding_lease(self)));
}

/* Unique in this process; notices refer to a lease by it. */
static VALUE lease_id(VALUE self) { return ULL2NUM(plock_lease_id(binding_lease(self))); }

/* The owner in the store's encoding. */
static VALUE lease_value(VALUE self) {
    size_t length;
    const char *value = plock_lease_value(binding_lease(self), &length);
    return rb_str_new(value, (long)length);
}

/* --- operations that may wait for another thread's operation on the same lease --- */

VALUE binding_answer(plock_lease *lease, plock_status status) {
    if (status == PLOCK_OK) return Qtrue;
    if (status == PLOCK_NOT_OWNER) return Qfalse;
    if (status == PLOCK_MISUSE) return plock_lease_lost(lease) ? Qfalse : Qnil;
    binding_raise(status, plock_lease_error(lease));
}

typedef struct asked {
    plock_lease *lease;
    plock_ns span;
} asked;

static plock_lease_use turn_of(asked *a, plock_place_in_turn *place, plock_status (*begin)(void *),
                               bool releases) {
    *place = plock_lease_turn(a->lease);
    return (plock_lease_use){.places = place,
                             .count = 1,
                             .begin = begin,
                             .context = a,
                             .operation = plock_lease_operation(a->lease),
                             .patience = plock_lease_budget(a->lease, releases)};
}

static VALUE in_turn(VALUE self, plock_ns span, plock_status (*begin)(void *)) {
    asked a = {.lease = binding_lease(self), .span = span};
    plock_place_in_turn place;
    plock_lease_use turn = turn_of(&a, &place, begin, false);
    plock_lease_use_take(&turn);
    const plock_status status = binding_carry_on(plock_lease_use_operation(&turn));
    RB_GC_GUARD(self);
    return binding_answer(a.lease, status);
}

static plock_status begin_release(void *context) {
    const asked *a = context;
    return plock_lease_release(a->lease, a->span);
}

static plock_status begin_extension(void *context) {
    const asked *a = context;
    return plock_lease_extend(a->lease, a->span);
}

static plock_status begin_downgrade(void *context) {
    return plock_lease_downgrade(((asked *)context)->lease);
}

static plock_status begin_leaving(void *context) {
    return plock_lease_leave(((asked *)context)->lease);
}

static void let_go(void *context) {
    const asked *a = context;
    plock_lease_let_go(a->lease, a->span);
}

plock_status binding_release(plock_lease *lease, plock_ns keep, binding_told *told, void *context) {
    asked a = {.lease = lease, .span = keep};
    plock_place_in_turn place;
    plock_lease_use turn = turn_of(&a, &place, begin_release, true);
    turn.give_up = let_go;
    plock_lease_use_take(&turn);
    return binding_carry_on_deferring(plock_lease_use_operation(&turn), told, context);
}

/* leave -> as binding_answer. Any process that knows the owner can release the lease. */
static VALUE lease_leave(VALUE self) { return in_turn(self, 0, begin_leaving); }

/* extend(ttl) -> as binding_answer. */
static VALUE lease_extend(VALUE self, VALUE ttl) {
    return in_turn(self, binding_ttl(ttl, PLOCK_SECOND), begin_extension);
}

/* downgrade -> as binding_answer. The lease now only reads, and no other writer came in between. */
static VALUE lease_downgrade(VALUE self) { return in_turn(self, 0, begin_downgrade); }

/* release(keep) -> as binding_answer. The key stays taken for `keep` seconds from now. */
static VALUE lease_release(VALUE self, VALUE keep) {
    plock_lease *lease = binding_lease(self);
    const plock_status status = binding_release(lease, binding_span(keep), NULL, NULL);
    RB_GC_GUARD(self);
    return binding_answer(lease, status);
}

/* :read, :write or nil. */
static VALUE lease_mode(VALUE self) {
    const char mode = plock_lease_mode(binding_lease(self));
    return mode == 'r' ? mode_read : mode == 'w' ? mode_write : Qnil;
}

/* "r", "w" or "sN" if the lock may have several holders; else nil. */
static VALUE lease_share(VALUE self) {
    const char *share = plock_lease_shares(binding_lease(self));
    return *share ? rb_usascii_str_new_cstr(share) : Qnil;
}

/* Omits the token: any code that knows it can release the lock. */
static VALUE lease_inspect(VALUE self) {
    plock_lease *lease = binding_lease(self);
    size_t length;
    const char *key = plock_lease_key(lease, &length);
    VALUE quoted = rb_str_inspect(rb_str_new(key, (long)length));
    return rb_sprintf("#<%" PRIsVALUE " key=%" PRIsVALUE " fence=%lld %s>", rb_obj_class(self),
                      quoted, (long long)plock_lease_fence(lease),
                      plock_lease_valid(lease) ? "valid" : "not valid");
}

void binding_init_lease(void) {
    lease_class = rb_define_class_under(binding_plock, "Hold", rb_cObject);
    rb_gc_register_mark_object(lease_class);
    rb_undef_alloc_func(lease_class);
    rb_undef_method(rb_singleton_class(lease_class), "new");
    mode_read = ID2SYM(rb_intern("read"));
    mode_write = ID2SYM(rb_intern("write"));
    rb_define_method(lease_class, "token", lease_token, 0);
    rb_define_method(lease_class, "fence", lease_fence, 0);
    rb_define_method(lease_class, "key", lease_key, 0);
    rb_define_method(lease_class, "mode", lease_mode, 0);
    rb_define_method(lease_class, "ttl", lease_ttl, 0);
    rb_define_method(lease_class, "held_for", lease_held_for, 0);
    rb_define_method(lease_class, "valid?", lease_valid, 0);
    rb_define_method(lease_class, "lost?", lease_lost, 0);
    rb_define_method(lease_class, "inherited?", lease_inherited, 0);
    rb_define_method(lease_class, "contended?", lease_contended, 0);
    rb_define_method(lease_class, "valid_until", lease_valid_until, 0);
    rb_define_method(lease_class, "acquired_at", lease_acquired_at, 0);
    rb_define_method(lease_class, "waited", lease_waited, 0);
    rb_define_method(lease_class, "id", lease_id, 0);
    rb_define_method(lease_class, "extend", lease_extend, 1);
    rb_define_method(lease_class, "release", lease_release, 1);
    rb_define_method(lease_class, "downgrade", lease_downgrade, 0);
    rb_define_private_method(lease_class, "share", lease_share, 0);
    rb_define_private_method(lease_class, "value", lease_value, 0);
    rb_define_private_method(lease_class, "leave", lease_leave, 0);
    rb_define_method(lease_class, "inspect", lease_inspect, 0);
    local_class = rb_define_class_under(binding_plock, "LocalHold", lease_class);
    rb_gc_register_mark_object(local_class);
    rb_undef_method(local_class, "share");
}
