#include "binding.h"

void binding_digest(VALUE message, VALUE secret, char *hex) {
    StringValue(message);
    if (!NIL_P(secret)) StringValue(secret);
    const plock_status status = plock_digest(RSTRING_PTR(message), (size_t)RSTRING_LEN(message), NIL_P(secret) ? NULL : RSTRING_PTR(secret),
                                             NIL_P(secret) ? 0 : (size_t)RSTRING_LEN(secret), hex);
    RB_GC_GUARD(message);
    RB_GC_GUARD(secret);
    if (status) binding_raise(status, NULL);
}

/* Plock.digest(message, secret = nil) -> 64 hexadecimal digits of HMAC-SHA256(secret, message), or of SHA-256(message)
 * where secret is nil. Raw bytes count, not encodings. */
static VALUE digest(int argc, VALUE *argv, VALUE self) {
    (void)self;
    VALUE message, secret;
    rb_scan_args(argc, argv, "11", &message, &secret);
    char hex[PLOCK_DIGEST_HEX];
    binding_digest(message, secret, hex);
    return rb_usascii_str_new(hex, sizeof hex);
}

/* Plock.store_key(prefix, key, secret = nil) -> prefix + digest(key, secret), in one String. */
static VALUE store_key(int argc, VALUE *argv, VALUE self) {
    (void)self;
    VALUE prefix, key, secret;
    rb_scan_args(argc, argv, "21", &prefix, &key, &secret);
    StringValue(prefix);
    char hex[PLOCK_DIGEST_HEX];
    binding_digest(key, secret, hex);
    const long length = RSTRING_LEN(prefix);
    VALUE joined = rb_enc_str_new(NULL, length + PLOCK_DIGEST_HEX, rb_enc_get(prefix));
    memcpy(RSTRING_PTR(joined), RSTRING_PTR(prefix), (size_t)length);
    memcpy(RSTRING_PTR(joined) + length, hex, sizeof hex);
    RB_GC_GUARD(prefix);
    return joined;
}

/* Plock.token -> a random UUID, version 4. */
static VALUE token(VALUE self) {
    (void)self;
    char text[PLOCK_TOKEN_LENGTH];
    const plock_status status = plock_token(text);
    if (status) binding_raise(status, NULL);
    return rb_usascii_str_new(text, sizeof text);
}

void binding_init_digest(void) {
    rb_define_singleton_method(binding_plock, "digest", digest, -1);
    rb_define_singleton_method(binding_plock, "store_key", store_key, -1);
    rb_define_singleton_method(binding_plock, "token", token, 0);
}
