/* Several leases at once. */
#include "binding.h"

typedef struct several {
    VALUE objects; /* Array of Plock::Hold */
    plock_group *group;
    plock_patience patience;
    plock_ns keep, budget;
} several;

static void refer_to(several *s) {
    plock_lease *leases[PLOCK_GROUP_MAX];
    const long count = RARRAY_LEN(s->objects);
    if (count < 1 || count > PLOCK_GROUP_MAX) rb_raise(rb_eArgError, "from 1 to %d at a time, not %ld", PLOCK_GROUP_MAX, count);
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

/* take_all(keys, ttl, renew, max_hold, label, watch, asking, left) -> holds; or how many are free before the first that is not; or nil:
 * the keys do not live on one node. */
static VALUE store_take_all(VALUE self, VALUE keys, VALUE ttl, VALUE renew, VALUE max_hold, VALUE label, VALUE watch, VALUE asking,
                            VALUE left) {
    char encoded[PLOCK_LABEL_MAX + 1];
    Check_Type(keys, T_ARRAY);
    several s = {.objects = rb_ary_new(), .patience = binding_patience(ttl, renew, max_hold, watch)};
    s.patience.label = binding_label(label, encoded);
    s.patience.asking = binding_span(asking);
    s.patience.wait = binding_span(left);
    for (long i = 0; i < RARRAY_LEN(keys); i++) rb_ary_push(s.objects, binding_lease_new(binding_store(self), rb_ary_entry(keys, i)));
    VALUE result = rb_ensure(acquire, (VALUE)&s, release_group, (VALUE)&s);
    RB_GC_GUARD(s.objects);
    return RB_TYPE_P(result, T_ARRAY) ? binding_hand_out(result) : result;
}

static plock_status begin_release(void *argument) {
    const several *s = argument;
    return plock_group_release(s->group, s->keep);
}

/* It is not the turn of all of them in time. */
static void let_all_go(void *argument) {
    const several *s = argument;
    for (long i = 0; i < RARRAY_LEN(s->objects); i++) {
        plock_lease *lease = binding_lease(rb_ary_entry(s->objects, i));
        plock_lease_keep_taken(lease, s->keep);
        plock_lease_let_go(lease);
    }
}

static plock_status release_in_turn(several *s) {
    plock_place_in_turn places[PLOCK_GROUP_MAX];
    const size_t count = (size_t)RARRAY_LEN(s->objects);
    for (size_t i = 0; i < count; i++) places[i] = plock_lease_turn(binding_lease(rb_ary_entry(s->objects, (long)i)));
    plock_lease_use turn = {.places = places, .count = count, .begin = begin_release, .give_up = let_all_go, .context = s,
                       .operation = plock_group_operation(s->group), .patience = plock_lease_budget(binding_lease(rb_ary_entry(s->objects, 0)), true)};
    plock_lease_use_take(&turn);
    const plock_operation operation = plock_lease_use_operation(&turn);
    if (s->budget) operation.hurry(operation.of, plock_after(plock_now(), s->budget));
    return binding_carry_on_deferring(operation, NULL, NULL);
}

static VALUE release_outcome(const plock_group *group, size_t index) {
    return plock_group_released(group, index) ? Qtrue : plock_group_passed_over(group, index) ? Qnil : Qfalse;
}

static VALUE release(VALUE argument) {
    several *s = (several *)argument;
    refer_to(s);
    VALUE released = rb_ary_new();
    const plock_status status = release_in_turn(s);
    if (status && status != PLOCK_MISUSE && !s->budget) binding_raise(status, plock_group_error(s->group));
    for (long i = 0; i < RARRAY_LEN(s->objects); i++) rb_ary_push(released, status == PLOCK_IN_USE ? Qtrue : release_outcome(s->group, (size_t)i));
    return released;
}

/* release_all(holds, keep, budget) -> for each true; false: it was not ours any more; nil: it had been released, or left. Within so many seconds, where that is not nil;
 * what has not been heard of by then goes on in the background, and raises nothing. */
static VALUE store_release_all(VALUE self, VALUE holds, VALUE keep, VALUE budget) {
    (void)self;
    Check_Type(holds, T_ARRAY);
    several s = {.objects = holds, .keep = binding_span(keep), .budget = NIL_P(budget) ? 0 : binding_span(budget)};
    VALUE result = rb_ensure(release, (VALUE)&s, release_group, (VALUE)&s);
    RB_GC_GUARD(s.objects);
    return result;
}

/* lock_release_with(key, owner, hold) -> the same for a lock of an owner who is named, and for a lease. */
static VALUE store_lock_release_with(VALUE self, VALUE key, VALUE owner, VALUE hold) {
    VALUE named = binding_lease_of_owner(self, key, owner);
    return store_release_all(self, rb_ary_new_from_args(2, named, hold), INT2FIX(0), Qnil);
}

void binding_init_group(VALUE store_class) {
    rb_define_private_method(store_class, "take_all", store_take_all, 8);
    rb_define_private_method(store_class, "release_all", store_release_all, 3);
    rb_define_private_method(store_class, "lock_release_with", store_lock_release_with, 3);
}
