#include "binding.h"

static ID id_code;

/* By plock_kind; lib/plock/errors.rb documents each class. */
static VALUE classes[PLOCK_KIND_MISUSE + 1];

VALUE binding_exception(plock_status status, const char *message) {
    const plock_kind kind = plock_status_kind(status);
    if (kind == PLOCK_KIND_MEMORY) return rb_exc_new_cstr(rb_eNoMemError, message);
    VALUE exception = rb_exc_new_str(classes[kind], rb_utf8_str_new_cstr(message));
    rb_ivar_set(exception, id_code, ID2SYM(rb_intern(plock_status_name(status))));
    return exception;
}

VALUE binding_exception_of(plock_status status, const plock_error *error) {
    const bool told = error && error->status == status && *error->message;
    return binding_exception(status, told ? error->message : plock_status_text(status));
}

void binding_raise(plock_status status, const plock_error *error) {
    rb_exc_raise(binding_exception_of(status, error));
}

void binding_init_errors(void) {
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
    id_code = rb_intern("@code");
}
