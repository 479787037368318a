/* Plock::LocalHold: what a local store hands out for a lease. */
#include "binding.h"

/* One that is still held was forgotten by its program. */
static void hold_free(void *lease) {
    plock_local_lease_abandon(lease);
}

static size_t hold_size(const void *lease) {
    return lease ? 768 : 0; /* about: the engine's struct and key */
}

static const rb_data_type_t HOLD = {
    .wrap_struct_name = "Plock::LocalHold",
    .function = {.dfree = hold_free, .dsize = hold_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static VALUE hold_class;
static VALUE mode_read, mode_write;

VALUE binding_local_hold_new(plock_local *store, VALUE key) {
    VALUE object = TypedData_Wrap_Struct(hold_class, &HOLD, NULL);
    StringValue(key);
    plock_local_lease *lease = NULL;
    const plock_status status = plock_local_lease_new(&lease, store, RSTRING_PTR(key), (size_t)RSTRING_LEN(key));
    RB_GC_GUARD(key);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the key is empty");
    if (status) binding_raise(status, NULL);
    DATA_PTR(object) = lease;
    return object;
}

plock_local_lease *binding_local_lease(VALUE object) {
    plock_local_lease *lease = rb_check_typeddata(object, &HOLD);
    if (!lease) rb_raise(rb_eArgError, "uninitialized Plock::LocalHold");
    return lease;
}

/* The owner's random id. */
static VALUE hold_token(VALUE self) {
    size_t length;
    const char *owner = plock_local_lease_owner(binding_local_lease(self), &length);
    return rb_usascii_str_new(owner, (long)length);
}

/* The number of this lease: greater than that of every earlier lease of the store. */
static VALUE hold_fence(VALUE self) {
    return LL2NUM(plock_local_lease_fence(binding_local_lease(self)));
}

/* The key as it stands in the store. */
static VALUE hold_key(VALUE self) {
    size_t length;
    const char *key = plock_local_lease_key(binding_local_lease(self), &length);
    return rb_str_new(key, (long)length);
}

/* :read, :write or nil. */
static VALUE hold_mode(VALUE self) {
    const char mode = plock_local_lease_mode(binding_local_lease(self));
    return mode == 'r' ? mode_read : mode == 'w' ? mode_write : Qnil;
}

static VALUE hold_ttl(VALUE self) {
    return binding_seconds(plock_local_lease_ttl(binding_local_lease(self)));
}

static VALUE hold_held_for(VALUE self) {
    return binding_seconds(plock_now() - plock_local_lease_acquired_at(binding_local_lease(self)));
}

static VALUE hold_valid(VALUE self) {
    return plock_local_lease_valid(binding_local_lease(self)) ? Qtrue : Qfalse;
}

static VALUE hold_lost(VALUE self) {
    return plock_local_lease_lost(binding_local_lease(self)) ? Qtrue : Qfalse;
}

static VALUE hold_inherited(VALUE self) {
    return plock_local_lease_inherited(binding_local_lease(self)) ? Qtrue : Qfalse;
}

static VALUE hold_contended(VALUE self) {
    return plock_local_lease_contended(binding_local_lease(self)) ? Qtrue : Qfalse;
}

/* Moments are seconds on CLOCK_BOOTTIME where the system has it, else CLOCK_MONOTONIC. */
static VALUE hold_valid_until(VALUE self) {
    return binding_seconds(plock_local_lease_valid_until(binding_local_lease(self)));
}

static VALUE hold_acquired_at(VALUE self) {
    return binding_seconds(plock_local_lease_acquired_at(binding_local_lease(self)));
}

static VALUE hold_waited(VALUE self) {
    return binding_seconds(plock_local_lease_waited(binding_local_lease(self)));
}

static VALUE hold_id(VALUE self) {
    return ULL2NUM(plock_local_lease_id(binding_local_lease(self)));
}

/* --- what may have to wait for another thread's operation on the same lease; answers as binding_answer's --- */

static VALUE answer(plock_local_lease *lease, plock_status status) {
    if (status == PLOCK_OK) return Qtrue;
    if (status == PLOCK_NOT_OWNER) return Qfalse;
    if (status == PLOCK_MISUSE) return plock_local_lease_lost(lease) ? Qfalse : Qnil;
    binding_raise(status, plock_local_lease_error(lease));
}

typedef struct asked {
    plock_local_lease *lease;
    plock_ns span;
} asked;

static plock_lease_use turn_of(asked *a, plock_place_in_turn *place, plock_status (*begin)(void *)) {
    *place = plock_local_lease_turn(a->lease);
    return (plock_lease_use){.places = place, .count = 1, .begin = begin, .context = a, .operation = plock_local_lease_operation(a->lease),
                        .patience = PLOCK_LOCAL_PATIENCE};
}

static VALUE in_turn(VALUE self, plock_ns span, plock_status (*begin)(void *)) {
    asked a = {.lease = binding_local_lease(self), .span = span};
    plock_place_in_turn place;
    plock_lease_use turn = turn_of(&a, &place, begin);
    plock_lease_use_take(&turn);
    const plock_status status = binding_carry_on(plock_lease_use_operation(&turn));
    RB_GC_GUARD(self);
    return answer(a.lease, status);
}

static plock_status begin_extension(void *context) {
    const asked *a = context;
    return plock_local_lease_extend(a->lease, a->span);
}

static plock_status begin_downgrade(void *context) {
    return plock_local_lease_downgrade(((asked *)context)->lease);
}

static plock_status begin_leaving(void *context) {
    return plock_local_lease_leave(((asked *)context)->lease);
}

static plock_status begin_release(void *context) {
    const asked *a = context;
    return plock_local_lease_release(a->lease, a->span);
}

static void let_go(void *context) {
    const asked *a = context;
    plock_local_lease_let_go(a->lease, a->span > 0);
}

plock_status binding_local_release(plock_local_lease *lease, plock_ns keep, binding_told *told, void *context) {
    asked a = {.lease = lease, .span = keep};
    plock_place_in_turn place;
    plock_lease_use turn = turn_of(&a, &place, begin_release);
    turn.give_up = let_go;
    plock_lease_use_take(&turn);
    return binding_carry_on_deferring(plock_lease_use_operation(&turn), told, context);
}

/* extend(ttl) */
static VALUE hold_extend(VALUE self, VALUE ttl) {
    return in_turn(self, binding_ttl(ttl, PLOCK_SECOND), begin_extension);
}

/* downgrade */
static VALUE hold_downgrade(VALUE self) {
    return in_turn(self, 0, begin_downgrade);
}

/* leave. Leaves it to whoever knows the token. */
static VALUE hold_leave(VALUE self) {
    return in_turn(self, 0, begin_leaving);
}

/* release(keep). The key stays taken for `keep` seconds from now. */
static VALUE hold_release(VALUE self, VALUE keep) {
    plock_local_lease *lease = binding_local_lease(self);
    const plock_status status = binding_local_release(lease, binding_span(keep), NULL, NULL);
    RB_GC_GUARD(self);
    return answer(lease, status);
}

/* Without the token: whoever knows it can release the lock. */
static VALUE hold_inspect(VALUE self) {
    plock_local_lease *lease = binding_local_lease(self);
    VALUE key = rb_str_inspect(hold_key(self));
    return rb_sprintf("#<Plock::LocalHold key=%" PRIsVALUE " fence=%lld %s>", key, (long long)plock_local_lease_fence(lease),
                      plock_local_lease_valid(lease) ? "valid" : "not valid");
}

void binding_init_local_hold(void) {
    hold_class = rb_define_class_under(binding_plock, "LocalHold", rb_cObject);
    rb_gc_register_mark_object(hold_class);
    rb_undef_alloc_func(hold_class);
    rb_undef_method(rb_singleton_class(hold_class), "new");
    mode_read = ID2SYM(rb_intern("read"));
    mode_write = ID2SYM(rb_intern("write"));
    rb_define_method(hold_class, "token", hold_token, 0);
    rb_define_method(hold_class, "fence", hold_fence, 0);
    rb_define_method(hold_class, "key", hold_key, 0);
    rb_define_method(hold_class, "mode", hold_mode, 0);
    rb_define_method(hold_class, "ttl", hold_ttl, 0);
    rb_define_method(hold_class, "held_for", hold_held_for, 0);
    rb_define_method(hold_class, "valid?", hold_valid, 0);
    rb_define_method(hold_class, "lost?", hold_lost, 0);
    rb_define_method(hold_class, "inherited?", hold_inherited, 0);
    rb_define_method(hold_class, "contended?", hold_contended, 0);
    rb_define_method(hold_class, "valid_until", hold_valid_until, 0);
    rb_define_method(hold_class, "acquired_at", hold_acquired_at, 0);
    rb_define_method(hold_class, "waited", hold_waited, 0);
    rb_define_method(hold_class, "id", hold_id, 0);
    rb_define_method(hold_class, "extend", hold_extend, 1);
    rb_define_method(hold_class, "release", hold_release, 1);
    rb_define_method(hold_class, "downgrade", hold_downgrade, 0);
    rb_define_private_method(hold_class, "leave", hold_leave, 0);
    rb_define_method(hold_class, "inspect", hold_inspect, 0);
}
