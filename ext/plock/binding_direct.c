/* The short way of a call with a block and no options but ttl: and wait:. From the arguments to the
 * release, it runs no Ruby code. It leaves special cases to Ruby. If it finds one before it asks
 * the store, it returns UNDONE, and Ruby's Acquisition begins the call again. If it finds one after
 * the block, it calls Ruby to end the lease. */
#include "binding_direct.h"

/* --- PlainCalls: the prefix, the secret and the defaults of a store's calls --- */

static void plain_mark(void *data) {
    const plain_calls *plain = data;
    rb_gc_mark(plain->prefix);
    rb_gc_mark(plain->secret);
    rb_gc_mark(plain->renewed);
    rb_gc_mark(plain->limited);
}

static const rb_data_type_t PLAIN = {
    .wrap_struct_name = "Plock::Locking::PlainCalls",
    .function = {.dmark = plain_mark, .dfree = RUBY_DEFAULT_FREE},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

/* PlainCalls.new(prefix, secret, ttl, wait, renewed, limited, trailing). The times are in seconds.
 * trailing: true if a release does not wait for an answer. */
static VALUE plain_new(VALUE class, VALUE prefix, VALUE secret, VALUE ttl, VALUE wait,
                       VALUE renewed, VALUE limited, VALUE trailing) {
    plain_calls *plain;
    VALUE self = TypedData_Make_Struct(class, plain_calls, &PLAIN, plain);
    StringValue(prefix);
    *plain = (plain_calls){.prefix = rb_str_new_frozen(prefix),
                           .secret = secret,
                           .ttl = NUM2DBL(ttl),
                           .wait = NUM2DBL(wait),
                           .renewed = renewed,
                           .limited = limited,
                           .trailing = RTEST(trailing)};
    return self;
}

/* --- for one key or several --- */

VALUE direct_usual, direct_undone;

static VALUE lease_class, own_holds;

enum { KEY_BYTES = 1024 };
static const double TTL_LEAST = 0.005, SPAN_MOST = 31622400.0;

/* Converts an Integer, a Float or USUAL. Returns false for other objects, and for a number out of
 * bounds. */
static bool in_seconds(VALUE value, double least, double by_default, double *seconds) {
    if (value == direct_usual)
        *seconds = by_default;
    else if (FIXNUM_P(value))
        *seconds = (double)FIX2LONG(value);
    else if (RB_FLOAT_TYPE_P(value))
        *seconds = RFLOAT_VALUE(value);
    else
        return false;
    return *seconds >= least && *seconds <= SPAN_MOST;
}

static plock_ns span(double seconds) { return (plock_ns)(seconds * (double)PLOCK_SECOND); }

static VALUE own_leases(void) {
    VALUE own = rb_thread_local_aref(rb_thread_current(), rb_intern("plock_own_holds"));
    return NIL_P(own) ? rb_funcall(own_holds, rb_intern("here"), 0) : own;
}

bool direct_begin(direct_call *call, VALUE store, VALUE plain, VALUE ttl, VALUE wait) {
    double lasts;
    call->kind = binding_kind(store);
    call->plain = rb_check_typeddata(plain, &PLAIN);
    call->store = store;
    call->tells = !NIL_P(binding_event_bridge());
    if (binding_events_heard() || !rb_block_given_p() ||
        !in_seconds(ttl, TTL_LEAST, call->plain->ttl, &lasts) ||
        !in_seconds(wait, 0, call->plain->wait, &call->wait))
        return false;
    const bool renews = ttl == direct_usual;
    call->options = (plock_acquire_options){
        .ttl = span(lasts), .wait = span(call->wait), .renews = renews, .automatic = renews};
    call->own = own_leases();
    return true;
}

VALUE direct_bytes_of(VALUE key) {
    VALUE text = SYMBOL_P(key) ? rb_sym2str(key) : key;
    if (!RB_TYPE_P(text, T_STRING)) return Qnil;
    return RSTRING_LEN(text) > 0 && RSTRING_LEN(text) <= KEY_BYTES ? text : Qnil;
}

VALUE direct_name(const direct_call *call, const char *name, size_t length) {
    return rb_enc_str_new(name, (long)length, rb_enc_get(call->plain->prefix));
}

static VALUE copy_of(VALUE key) {
    if (OBJ_FROZEN(key)) return key;
    const bool plain = rb_obj_class(key) == rb_cString && !FL_TEST(key, FL_EXIVAR);
    return plain ? rb_str_new_frozen(key) : rb_obj_freeze(rb_obj_dup(key));
}

VALUE direct_lease(const direct_call *call, VALUE key, VALUE hold) {
    const plain_calls *plain = call->plain;
    VALUE lease = rb_obj_alloc(lease_class);
    rb_ivar_set(lease, rb_intern("@key"), copy_of(key));
    rb_ivar_set(lease, rb_intern("@options"),
                call->options.renews ? plain->renewed : plain->limited);
    rb_ivar_set(lease, rb_intern("@hold"), hold);
    return lease;
}

bool direct_has(VALUE lease, VALUE hold) { return rb_ivar_get(lease, rb_intern("@hold")) == hold; }

bool direct_own_in_the_way(const direct_call *call, const char *name, size_t length, VALUE share) {
    if (call->wait <= 0 || RARRAY_LEN(call->own) == 0) return false;
    return RTEST(rb_funcall(own_holds, rb_intern("in_the_way?"), 3, call->store,
                            direct_name(call, name, length), share));
}

void direct_tell_of(const direct_call *call, VALUE lease, const char *name, size_t length,
                    VALUE share) {
    (void)rb_funcall(call->store, rb_intern("tell_of"), 6, lease, direct_name(call, name, length),
                     share, Qnil, DBL2NUM(call->wait), binding_seconds(plock_now() - call->began));
}

/* --- the block and its end --- */

/* Removes a lease and its store from the Array. */
static void forget_own(VALUE own, VALUE lease) {
    for (long i = RARRAY_LEN(own) - 1; i > 0; i--) {
        if (RARRAY_AREF(own, i) != lease) continue;
        (void)rb_ary_delete_at(own, i);
        (void)rb_ary_delete_at(own, i - 1);
        return;
    }
}

/* Calls no Ruby code, because an interrupt could end such code. */
static VALUE forget_all_own(VALUE argument) {
    const direct_call *call = (const direct_call *)argument;
    for (size_t i = call->count; i-- > 0;) forget_own(call->own, call->given[i]);
    return Qnil;
}

static VALUE ask_for_listeners(VALUE argument) {
    ((direct_call *)argument)->tells = binding_bridge_wants(ID2SYM(rb_intern("release")));
    return Qnil;
}

/* If an interrupt ends the check for listeners, `tells` stays true, so that Ruby checks again. */
static VALUE ask_and_end(VALUE argument) {
    direct_call *call = (direct_call *)argument;
    call->tells = !NIL_P(binding_event_bridge());
    return call->tells ? rb_ensure(ask_for_listeners, argument, call->end, argument)
                       : call->end(argument);
}

static VALUE run_and_end(VALUE argument) {
    return rb_ensure(((direct_call *)argument)->run, argument, ask_and_end, argument);
}

VALUE direct_run(direct_call *call) {
    for (size_t i = 0; i < call->count; i++) {
        (void)rb_ary_push(call->own, call->store);
        (void)rb_ary_push(call->own, call->given[i]);
    }
    return rb_ensure(run_and_end, (VALUE)call, forget_all_own, (VALUE)call);
}

/* --- one key --- */

typedef struct direct {
    direct_call call; /* first, because direct_run passes its address */
    VALUE key, share, hold, given;
    plock_lease *lease;
    const char *name; /* the key's name in the store */
    size_t length;
    plock_status released; /* PLOCK_AGAIN: not yet released */
} direct;

/* Makes Ruby end the lease, with interrupts deferred. This is needed if the lease was already
 * ended, was lost, or has another hold now. It is also needed if the release failed, or if the
 * program has subscribed to events. */
static VALUE end_in_ruby(VALUE argument) {
    const direct *d = (const direct *)argument;
    const plock_status status = d->released;
    if (status == PLOCK_AGAIN) return rb_funcall(d->given, rb_intern("finish"), 0);
    /* after PLOCK_IN_USE, the lease has the error of another thread's operation */
    const plock_error *error = status == PLOCK_IN_USE ? NULL : plock_lease_error(d->lease);
    VALUE ours = status == PLOCK_NOT_OWNER || status == PLOCK_MISUSE
                     ? binding_answer(d->lease, status)
                     : binding_exception_of(status, error);
    return rb_funcall(d->given, rb_intern("end_of_block"), 1, ours);
}

static void leave_to_ruby(direct *d, plock_status status) {
    d->released = status;
    binding_complete(end_in_ruby, (VALUE)d);
}

static void released(void *context, plock_status status) {
    if (status) leave_to_ruby(context, status);
}

static VALUE end_lease(VALUE argument) {
    direct *d = (direct *)argument;
    const bool plain = !binding_events_heard() && !d->call.tells && plock_lease_held(d->lease) &&
                       direct_has(d->given, d->hold);
    if (!plain)
        leave_to_ruby(d, PLOCK_AGAIN);
    else if (!(d->call.plain->trailing && binding_release_trailing(d->lease, 0)))
        (void)binding_release(d->lease, 0, released, d);
    return Qnil;
}

static VALUE run_block(VALUE argument) {
    const direct *d = (const direct *)argument;
    if (d->call.tells &&
        (plock_lease_contended(d->lease) || binding_bridge_wants(ID2SYM(rb_intern("acquire")))))
        direct_tell_of(&d->call, d->given, d->name, d->length, d->share);
    return rb_yield(d->given);
}

/* Reports that another holder kept the key until `wait` was over, or that the store failed. */
static VALUE refuse(const direct *d, plock_status status, bool raises) {
    const plock_error *error = plock_lease_error(d->lease);
    if (status == PLOCK_TIMED_OUT && d->call.kind->has_server) status = error->status;
    if (plock_status_kind(status) != PLOCK_KIND_TIMEOUT) binding_raise(status, error);
    if (d->call.tells) direct_tell_of(&d->call, Qnil, d->name, d->length, d->share);
    if (!raises) return Qnil;
    VALUE token = d->call.kind->has_server ? rb_funcall(d->hold, rb_intern("token"), 0) : Qnil;
    return rb_funcall(d->call.store, rb_intern("raise_timeout"), 5, rb_inspect(d->key), d->key,
                      direct_name(&d->call, d->name, d->length), DBL2NUM(d->call.wait), token);
}

static VALUE take_and_run(direct *d, const char *share, bool raises) {
    direct_call *call = &d->call;
    d->hold = binding_lease_named(call->kind, call->store, d->name, d->length);
    d->lease = binding_lease(d->hold);
    d->given = direct_lease(call, d->key, d->hold);
    plock_status status = call->kind->acquire(d->lease, &call->options, share);
    if (status) binding_raise(status, plock_lease_error(d->lease));
    do status = binding_drive(d->lease);
    while (status == PLOCK_TRY_FAILED);
    if (status) return refuse(d, status, raises);
    return direct_run(call);
}

/* acquire_directly(plain, key, name, share, ttl, wait, renews, raises) { |lease| } -> the block's
 * value. It returns UNDONE if it has done nothing and Ruby must make the call instead. If another
 * holder kept the key until `wait` was over, it raises TimeoutError, or returns nil if `raises` is
 * false.
 *
 * name: the key's name in the store; if it is nil, the name is made from the key's digest. share: a
 * Share, or nil. renews: true to renew the lease even if the caller passes a ttl. */
VALUE binding_acquire_directly(int argc, VALUE *argv, VALUE store) {
    rb_check_arity(argc, 8, 8);
    VALUE calls = argv[0], key = argv[1], bytes = direct_bytes_of(key), name = argv[2], text = Qnil;
    direct d = {.call = {.given = &d.given, .count = 1, .run = run_block, .end = end_lease},
                .key = key,
                .share = argv[3]};
    direct_call *call = &d.call;
    if (NIL_P(bytes) || !direct_begin(call, store, calls, argv[4], argv[5])) return direct_undone;
    if (call->tells) call->began = plock_now();
    char digested[BINDING_NAME_MAX];
    if (NIL_P(name)) {
        d.length = binding_name(call->plain->prefix, bytes, call->plain->secret, digested);
        d.name = digested;
    } else {
        StringValue(name);
        d.name = RSTRING_PTR(name);
        d.length = (size_t)RSTRING_LEN(name);
    }
    if (direct_own_in_the_way(call, d.name, d.length, d.share)) return direct_undone;
    if (!NIL_P(d.share)) text = rb_convert_type(d.share, T_STRING, "String", "to_str");
    const char *share = NIL_P(text) ? NULL : StringValueCStr(text);
    if (RTEST(argv[6])) call->options.renews = call->options.automatic = true;
    call->options.watched = call->tells && call->options.renews;
    if (call->options.watched) binding_start_dispatcher();
    VALUE value = take_and_run(&d, share, RTEST(argv[7]));
    RB_GC_GUARD(calls);
    RB_GC_GUARD(bytes);
    RB_GC_GUARD(name);
    RB_GC_GUARD(text);
    RB_GC_GUARD(d.hold);
    RB_GC_GUARD(d.given);
    return value == direct_undone ? Qnil : value; /* the block has run, so Ruby must not see
                                                   * UNDONE */
}

/* --- Lease --- */

/* first_loss? -> true at the first call, and false at all later calls, in any thread. */
static VALUE lease_first_loss(VALUE self) {
    const ID told = rb_intern("@told");
    if (RTEST(rb_ivar_get(self, told))) return Qfalse;
    rb_ivar_set(self, told, Qtrue);
    return Qtrue;
}

void binding_init_direct(void) {
    VALUE locking = rb_define_module_under(binding_plock, "Locking");
    VALUE plain = rb_define_class_under(locking, "PlainCalls", rb_cObject);
    rb_undef_alloc_func(plain);
    rb_define_singleton_method(plain, "new", plain_new, 7);
    lease_class = rb_define_class_under(binding_plock, "Lease", rb_cObject);
    rb_define_private_method(lease_class, "first_loss?", lease_first_loss, 0);
    own_holds = rb_define_module_under(locking, "OwnHolds");
    direct_usual = rb_obj_freeze(rb_obj_alloc(rb_cObject));
    rb_define_const(locking, "USUAL", direct_usual);
    direct_undone = rb_obj_freeze(rb_obj_alloc(rb_cObject));
    rb_define_const(plain, "UNDONE", direct_undone);
    VALUE *kept[] = {&lease_class, &own_holds, &direct_usual, &direct_undone};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) rb_gc_register_mark_object(*kept[i]);
}
