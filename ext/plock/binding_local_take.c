/* Leases of a local store as objects: acquired, one or several, and adopted from another process. */
#include "binding.h"

#include <math.h>

/* The share is "r", "w", "s" and a number, or nil. */
static void read_share(VALUE share, plock_local_terms *terms) {
    if (NIL_P(share)) return;
    const char *text = StringValueCStr(share);
    terms->mode = *text;
    terms->limit = *text == 's' ? (unsigned)NUM2UINT(rb_str_to_inum(rb_str_new_cstr(text + 1), 10, 1)) : *text == 'w';
    if ((*text != 'r' && *text != 'w' && *text != 's') || (*text != 's' && text[1]) || terms->limit > UINT16_MAX)
        rb_raise(rb_eArgError, "not a share: %" PRIsVALUE, rb_str_inspect(share));
}

/* The label's bytes are the String's. */
static plock_local_terms terms_of(VALUE ttl, VALUE renew, VALUE max_hold, VALUE label, VALUE watch, VALUE at_least) {
    plock_local_terms terms = {.ttl = binding_ttl(ttl, PLOCK_SECOND), .renews = RTEST(renew), .automatic = SYMBOL_P(renew), .watched = RTEST(watch),
                               .max_hold = NIL_P(max_hold) ? 0 : binding_span(max_hold), .at_least = binding_span(at_least)};
    if (NIL_P(label)) return terms;
    Check_Type(label, T_STRING);
    if (RSTRING_LEN(label) > PLOCK_LOCAL_LABEL_MAX) rb_raise(rb_eArgError, "a label of more than %d bytes", PLOCK_LOCAL_LABEL_MAX);
    terms.label = RSTRING_PTR(label);
    terms.label_length = (size_t)RSTRING_LEN(label);
    return terms;
}

/* take_for(key, ttl, wait, renew, max_hold, label, watch, share, at_least) -> a hold, or nil: others held it until the wait was over. */
static VALUE store_take(VALUE self, VALUE key, VALUE ttl, VALUE wait, VALUE renew, VALUE max_hold, VALUE label, VALUE watch, VALUE share, VALUE at_least) {
    plock_local_terms terms = terms_of(ttl, renew, max_hold, label, watch, at_least);
    terms.wait = binding_span(wait);
    read_share(share, &terms);
    VALUE object = binding_local_hold_new(binding_local(self), key);
    plock_local_lease *lease = binding_local_lease(object);
    plock_status status = plock_local_lease_acquire(lease, &terms);
    if (status) binding_raise(status, plock_local_lease_error(lease));
    status = binding_carry_on(plock_local_lease_operation(lease));
    RB_GC_GUARD(label);
    if (status == PLOCK_OK && rb_block_given_p()) rb_yield(object);
    if (status == PLOCK_OK) return object;
    if (plock_status_kind(status) != PLOCK_KIND_TIMEOUT) binding_raise(status, plock_local_lease_error(lease));
    RB_GC_GUARD(object);
    return Qnil;
}

typedef struct party {
    plock_local_lease *leases[PLOCK_LOCAL_AT_ONCE_MAX];
    size_t count, refused;
    plock_local_terms terms;
    plock_error error;
} party;

static plock_status take_step(void *of, plock_want *want) {
    party *p = of;
    return plock_local_acquire_all(p->leases, p->count, &p->terms, &p->refused, want, &p->error);
}

static void take_no_more(void *of) {
    (void)of; /* nothing is left between two attempts */
}

/* take_all_for(keys, ttl, renew, max_hold, label, watch, at_least) -> holds; or the index of the first that is held or waited for. */
static VALUE store_take_all(VALUE self, VALUE keys, VALUE ttl, VALUE renew, VALUE max_hold, VALUE label, VALUE watch, VALUE at_least) {
    party p = {.terms = terms_of(ttl, renew, max_hold, label, watch, at_least)};
    Check_Type(keys, T_ARRAY);
    const long count = RARRAY_LEN(keys);
    if (count < 1 || count > PLOCK_LOCAL_AT_ONCE_MAX) rb_raise(rb_eArgError, "from 1 to %d at a time, not %ld", PLOCK_LOCAL_AT_ONCE_MAX, count);
    VALUE objects = rb_ary_new_capa(count);
    for (long i = 0; i < count; i++) {
        rb_ary_push(objects, binding_local_hold_new(binding_local(self), rb_ary_entry(keys, i)));
        p.leases[p.count++] = binding_local_lease(rb_ary_entry(objects, i));
    }
    const plock_status status = binding_carry_on((plock_operation){.of = &p, .step = take_step, .cancel = take_no_more});
    RB_GC_GUARD(label);
    if (status == PLOCK_REFUSED) return SIZET2NUM(p.refused);
    if (status) binding_raise(status, &p.error);
    if (rb_block_given_p()) rb_yield(objects);
    RB_GC_GUARD(objects);
    return objects;
}

/* adopt_owner(key, owner, renew, max_hold, watch, heir, ttl) -> a hold, or nil: it was not that owner's any more. heir: the
 * owner that it is to have from now on; nil: a fresh token. ttl in seconds from now on, or nil: its end stays the same. */
static VALUE store_adopt(VALUE self, VALUE key, VALUE owner, VALUE renew, VALUE max_hold, VALUE watch, VALUE heir, VALUE ttl) {
    StringValue(owner);
    plock_local_terms terms = {.renews = RTEST(renew), .automatic = SYMBOL_P(renew), .watched = RTEST(watch), .max_hold = NIL_P(max_hold) ? 0 : binding_span(max_hold),
                               .ttl = NIL_P(ttl) ? 0 : binding_ttl(ttl, PLOCK_SECOND)};
    if (!NIL_P(heir)) {
        terms.owner = StringValuePtr(heir);
        terms.owner_length = (size_t)RSTRING_LEN(heir);
    }
    VALUE object = binding_local_hold_new(binding_local(self), key);
    plock_local_lease *lease = binding_local_lease(object);
    plock_status status = plock_local_lease_adopt(lease, RSTRING_PTR(owner), (size_t)RSTRING_LEN(owner), &terms);
    RB_GC_GUARD(owner);
    RB_GC_GUARD(heir);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the owner is empty");
    if (!status) status = binding_carry_on(plock_local_lease_operation(lease));
    if (status && status != PLOCK_NOT_OWNER) binding_raise(status, plock_local_lease_error(lease));
    if (!status && rb_block_given_p()) rb_yield(object);
    RB_GC_GUARD(object);
    return status ? Qnil : object;
}

/* --- one attempt, by an owner that the caller names --- */

/* lock_acquire(key, owner, ttl) -> true, or false where somebody holds it; ttl in seconds. It is not given back when this process ends
 * before: whoever names the owner can release it. */
static VALUE store_lock_acquire(VALUE self, VALUE key, VALUE owner, VALUE ttl) {
    StringValue(owner);
    const plock_local_terms terms = {.ttl = binding_ttl(ttl, PLOCK_SECOND), .owner = RSTRING_PTR(owner), .owner_length = (size_t)RSTRING_LEN(owner)};
    VALUE object = binding_local_hold_new(binding_local(self), key);
    plock_local_lease *lease = binding_local_lease(object);
    plock_status status = plock_local_lease_acquire(lease, &terms);
    RB_GC_GUARD(owner);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the owner is empty");
    if (status) binding_raise(status, NULL);
    status = binding_carry_on(plock_local_lease_operation(lease));
    if (status == PLOCK_REFUSED) return Qfalse;
    if (status) binding_raise(status, plock_local_lease_error(lease));
    plock_local_lease_forget(lease); /* it has done its duty */
    RB_GC_GUARD(object);
    return Qtrue;
}

/* lock_release(key, owner) -> true, or false where it was not the owner's any more. */
static VALUE store_lock_release(VALUE self, VALUE key, VALUE owner) {
    StringValue(owner);
    VALUE object = binding_local_hold_new(binding_local(self), key);
    plock_local_lease *lease = binding_local_lease(object);
    plock_status status = plock_local_lease_release_owned(lease, RSTRING_PTR(owner), (size_t)RSTRING_LEN(owner));
    RB_GC_GUARD(owner);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the owner is empty");
    if (!status) status = binding_carry_on_deferring(plock_local_lease_operation(lease), NULL, NULL);
    if (status && status != PLOCK_NOT_OWNER) binding_raise(status, plock_local_lease_error(lease));
    RB_GC_GUARD(object);
    return status ? Qfalse : Qtrue;
}

void binding_init_local_take(VALUE store_class) {
    rb_define_private_method(store_class, "take_for", store_take, 9);
    rb_define_private_method(store_class, "take_all_for", store_take_all, 7);
    rb_define_private_method(store_class, "adopt_owner", store_adopt, 7);
    rb_define_method(store_class, "lock_acquire", store_lock_acquire, 3);
    rb_define_method(store_class, "lock_release", store_lock_release, 2);
}
