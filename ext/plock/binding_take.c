/* Leases as objects: acquired, and adopted from another process. */
#include "binding.h"

#include <string.h>

/* Blanks and what cannot be shown are percent-encoded: a label is one word of the owner's record. */
const char *binding_label(VALUE label, char encoded[PLOCK_LABEL_MAX + 1]) {
    static const char DIGITS[] = "0123456789ABCDEF";
    if (NIL_P(label)) return NULL;
    StringValue(label);
    size_t length = 0;
    for (long i = 0; i < RSTRING_LEN(label); i++) {
        const unsigned char c = (unsigned char)RSTRING_PTR(label)[i];
        const bool plain = c > ' ' && c != '%' && c != 0x7f;
        if (length + (plain ? 1 : 3) > PLOCK_LABEL_MAX)
            rb_raise(rb_eArgError, "a label of more than %d bytes, a blank being three", PLOCK_LABEL_MAX);
        if (!plain) encoded[length++] = '%';
        if (!plain) encoded[length++] = DIGITS[c >> 4];
        encoded[length++] = plain ? (char)c : DIGITS[c & 15];
    }
    encoded[length] = 0;
    if (!strcmp(encoded, "-")) (void)strcpy(encoded, "%2D"); /* a dash stands for none */
    return *encoded ? encoded : NULL;
}

plock_patience binding_patience(VALUE ttl, VALUE renew, VALUE max_hold, VALUE watch) {
    return (plock_patience){.ttl = binding_ttl(ttl, PLOCK_SECOND), .renews = RTEST(renew), .automatic = SYMBOL_P(renew), .watched = RTEST(watch),
                            .max_hold = NIL_P(max_hold) ? 0 : binding_span(max_hold)};
}

VALUE binding_hand_out(VALUE granted) {
    if (rb_block_given_p()) (void)rb_yield(granted);
    return granted;
}

static VALUE new_lease(VALUE self, VALUE key, VALUE share) {
    VALUE object = binding_lease_new(binding_store(self), key);
    if (!NIL_P(share) && plock_lease_share(binding_lease(object), StringValueCStr(share)))
        rb_raise(rb_eArgError, "not a share: %" PRIsVALUE, rb_str_inspect(share));
    return object;
}

/* take(key, ttl, wait, renew, max_hold, label, watch, share, asking) -> a hold. Where others held it until the wait was over, the token that it
 * waited with: where the server is slow that may be in the queue still. share: as in plock_lease_share, or nil. */
static VALUE store_take(VALUE self, VALUE key, VALUE ttl, VALUE wait, VALUE renew, VALUE max_hold, VALUE label, VALUE watch, VALUE share,
                        VALUE asking) {
    char encoded[PLOCK_LABEL_MAX + 1];
    plock_patience patience = binding_patience(ttl, renew, max_hold, watch);
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
    if (status == PLOCK_TIMED_OUT) status = error->status; /* a refusal, or how the last attempt failed */
    if (plock_status_kind(status) != PLOCK_KIND_TIMEOUT) binding_raise(status, error);
    VALUE token = rb_funcall(object, rb_intern("token"), 0);
    RB_GC_GUARD(object);
    return token;
}

/* adopt_owner(key, value, ttl, renew, max_hold, watch, share, heir) -> a hold, or nil: it was not that owner's any more. heir: the
 * owner that it is to have from now on, as it is written in the store; nil: a fresh token. */
static VALUE store_adopt(VALUE self, VALUE key, VALUE value, VALUE ttl, VALUE renew, VALUE max_hold, VALUE watch, VALUE share, VALUE heir) {
    const plock_patience patience = binding_patience(ttl, renew, max_hold, watch);
    VALUE object = new_lease(self, key, share);
    plock_lease *lease = binding_lease(object);
    StringValue(value);
    plock_status status = PLOCK_OK;
    if (!NIL_P(heir)) status = plock_lease_own(lease, StringValuePtr(heir), (size_t)RSTRING_LEN(heir));
    if (!status) status = plock_lease_adopt(lease, RSTRING_PTR(value), (size_t)RSTRING_LEN(value), &patience);
    RB_GC_GUARD(value);
    RB_GC_GUARD(heir);
    if (!status) status = binding_drive(lease);
    if (status && status != PLOCK_NOT_OWNER) binding_raise(status, plock_lease_error(lease));
    return status ? Qnil : binding_hand_out(object);
}

void binding_init_take(VALUE store_class) {
    rb_define_private_method(store_class, "take", store_take, 9);
    rb_define_private_method(store_class, "adopt_owner", store_adopt, 8);
}
