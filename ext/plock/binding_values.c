/* Conversions between Ruby and the engine: numbers, labels, names of keys, and errors. */
#include "binding.h"

#include <math.h>
#include <string.h>

/* --- errors --- */

/* The exception class for each plock_kind. lib/plock/errors.rb documents the classes. */
static VALUE classes[PLOCK_KIND_MISUSE + 1];

VALUE binding_exception(plock_status status, const char *message) {
    const plock_kind kind = plock_status_kind(status);
    if (kind == PLOCK_KIND_MEMORY) return rb_exc_new_cstr(rb_eNoMemError, message);
    VALUE exception = rb_exc_new_str(classes[kind], rb_utf8_str_new_cstr(message));
    rb_ivar_set(exception, rb_intern("@code"), ID2SYM(rb_intern(plock_status_name(status))));
    return exception;
}

VALUE binding_exception_of(plock_status status, const plock_error *error) {
    const bool told = error && error->status == status && *error->message;
    return binding_exception(status, told ? error->message : plock_status_text(status));
}

void binding_raise(plock_status status, const plock_error *error) {
    rb_exc_raise(binding_exception_of(status, error));
}

/* --- arguments --- */

plock_ns binding_span(VALUE seconds) {
    const double number = NUM2DBL(seconds);
    if (isnan(number) || number < 0)
        rb_raise(rb_eArgError, "not a number of seconds: %" PRIsVALUE, seconds);
    return number >= (double)(PLOCK_NEVER / PLOCK_SECOND / 2)
               ? PLOCK_NEVER / 2
               : (plock_ns)(number * (double)PLOCK_SECOND);
}

VALUE binding_seconds(plock_ns span) { return DBL2NUM((double)span / (double)PLOCK_SECOND); }

plock_ns binding_ttl(VALUE number, plock_ns unit) {
    const double span = NUM2DBL(number) * (double)unit;
    if (!(span >= (double)PLOCK_TTL_MIN && span <= (double)PLOCK_TTL_MAX))
        rb_raise(rb_eArgError, "not a time to live from 5 ms to 366 days: %" PRIsVALUE, number);
    return (plock_ns)span;
}

/* Blanks and unprintable bytes are percent-encoded, because a label must be one word of the owner's
 * record. */
const char *binding_label(VALUE label, char encoded[PLOCK_LABEL_MAX + 1]) {
    static const char DIGITS[] = "0123456789ABCDEF";
    if (NIL_P(label)) return NULL;
    StringValue(label);
    size_t length = 0;
    for (long i = 0; i < RSTRING_LEN(label); i++) {
        const unsigned char c = (unsigned char)RSTRING_PTR(label)[i];
        const bool plain = c > ' ' && c != '%' && c != 0x7f;
        if (length + (plain ? 1 : 3) > PLOCK_LABEL_MAX)
            rb_raise(rb_eArgError, "a label of more than %d bytes, a blank being three",
                     PLOCK_LABEL_MAX);
        if (!plain) encoded[length++] = '%';
        if (!plain) encoded[length++] = DIGITS[c >> 4];
        encoded[length++] = plain ? (char)c : DIGITS[c & 15];
    }
    encoded[length] = 0;
    if (!strcmp(encoded, "-")) (void)strcpy(encoded, "%2D"); /* a dash means no label */
    return *encoded ? encoded : NULL;
}

/* Writes the message's digest as PLOCK_DIGEST_HEX hexadecimal digits. */
static void hash(VALUE message, VALUE secret, char *hex) {
    StringValue(message);
    if (!NIL_P(secret)) StringValue(secret);
    const plock_status status = plock_digest(RSTRING_PTR(message), (size_t)RSTRING_LEN(message),
                                             NIL_P(secret) ? NULL : RSTRING_PTR(secret),
                                             NIL_P(secret) ? 0 : (size_t)RSTRING_LEN(secret), hex);
    RB_GC_GUARD(message);
    RB_GC_GUARD(secret);
    if (status) binding_raise(status, NULL);
}

/* Writes the digest after the prefix. If the prefix ends with an opening brace, the first digits
 * and a closing brace complete a hash tag. A Redis Cluster then computes the slot from these digits
 * alone. */
static size_t add_digest(char *name, size_t length, VALUE key, VALUE secret) {
    enum { TAG = 8 }; /* fewer digits would not spread evenly over the slots */
    char *const hex = name + length;
    hash(key, secret, hex);
    if (!length || name[length - 1] != '{') return length + PLOCK_DIGEST_HEX;
    memmove(hex + TAG + 1, hex + TAG, PLOCK_DIGEST_HEX - TAG);
    hex[TAG] = '}';
    return length + PLOCK_DIGEST_HEX + 1;
}

size_t binding_name(VALUE prefix, VALUE key, VALUE secret, char name[BINDING_NAME_MAX]) {
    StringValue(prefix);
    const size_t length = (size_t)RSTRING_LEN(prefix);
    if (length > BINDING_PREFIX_MAX)
        rb_raise(rb_eArgError, "a prefix of more than %d bytes", BINDING_PREFIX_MAX);
    memcpy(name, RSTRING_PTR(prefix), length);
    RB_GC_GUARD(prefix);
    return add_digest(name, length, key, secret);
}

/* Plock.digest(message, secret = nil) -> 64 hexadecimal digits of HMAC-SHA256(secret, message), or
 * of SHA-256(message) if secret is nil. Hashes the bytes of the Strings in any encoding. */
static VALUE digest(int argc, VALUE *argv, VALUE self) {
    (void)self;
    VALUE message, secret;
    rb_scan_args(argc, argv, "11", &message, &secret);
    char hex[PLOCK_DIGEST_HEX];
    hash(message, secret, hex);
    return rb_usascii_str_new(hex, sizeof hex);
}

/* Plock.store_key(prefix, key, secret = nil) -> prefix + digest(key, secret), in one String. */
static VALUE store_key(int argc, VALUE *argv, VALUE self) {
    (void)self;
    VALUE prefix, key, secret;
    rb_scan_args(argc, argv, "21", &prefix, &key, &secret);
    StringValue(prefix);
    const size_t length = (size_t)RSTRING_LEN(prefix);
    VALUE name = rb_enc_str_new(NULL, (long)(length + BINDING_DIGEST_MAX), rb_enc_get(prefix));
    memcpy(RSTRING_PTR(name), RSTRING_PTR(prefix), length);
    rb_str_set_len(name, (long)add_digest(RSTRING_PTR(name), length, key, secret));
    RB_GC_GUARD(prefix);
    return name;
}

VALUE binding_error_class(void) { return classes[PLOCK_KIND_NONE]; }

/* Plock.token -> a random UUID, version 4. */
static VALUE token(VALUE self) {
    (void)self;
    char text[PLOCK_TOKEN_LENGTH];
    const plock_status status = plock_token(text);
    if (status) binding_raise(status, NULL);
    return rb_usascii_str_new(text, sizeof text);
}

void binding_init_values(void) {
    static const char *const NAMES[] = {
        [PLOCK_KIND_NONE] = "Error",
        [PLOCK_KIND_TIMEOUT] = "TimeoutError",
        [PLOCK_KIND_LOST] = "LeaseLost",
        [PLOCK_KIND_UNAVAILABLE] = "UnavailableError",
        [PLOCK_KIND_FULL] = "StoreFullError",
        [PLOCK_KIND_AUTHENTICATION] = "AuthenticationError",
        [PLOCK_KIND_PERMISSION] = "PermissionError",
        [PLOCK_KIND_PROTOCOL] = "ProtocolError",
        [PLOCK_KIND_CONFIGURATION] = "ConfigurationError",
        [PLOCK_KIND_UNSUPPORTED] = "UnsupportedError",
        [PLOCK_KIND_MEMORY] = "Error",
        [PLOCK_KIND_MISUSE] = "Error",
    };
    rb_require("plock/errors");
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        classes[i] = rb_const_get(binding_plock, rb_intern(NAMES[i]));
        rb_gc_register_mark_object(classes[i]);
    }
    rb_define_singleton_method(binding_plock, "digest", digest, -1);
    rb_define_singleton_method(binding_plock, "store_key", store_key, -1);
    rb_define_singleton_method(binding_plock, "token", token, 0);
}
