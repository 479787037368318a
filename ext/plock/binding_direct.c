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

static size_t plain_size(const void *data) {
    (void)data;
    return sizeof(plain_calls);
}

static const rb_data_type_t PLAIN = {
    .wrap_struct_name = "Plock::Locking::PlainCalls",
    .function = {.dmark = plain_mark, .dfree = RUBY_DEFAULT_FREE, .dsize = plain_size},
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

const plain_calls *direct_plain(VALUE object) { return rb_check_typeddata(object, &PLAIN); }

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

bool direct_read_options(const plain_calls *plain, VALUE ttl, VALUE wait,
                         plock_acquire_options *options, double *seconds) {
    double lasts;
    if (!in_seconds(ttl, TTL_LEAST, plain->ttl, &lasts) ||
        !in_seconds(wait, 0, plain->wait, seconds))
        return false;
    const bool renews = ttl == direct_usual;
    *options = (plock_acquire_options){
        .ttl = span(lasts), .wait = span(*seconds), .renews = renews, .automatic = renews};
    return true;
}

VALUE direct_bytes_of(VALUE key) {
    VALUE text = SYMBOL_P(key) ? rb_sym2str(key) : key;
    if (!RB_TYPE_P(text, T_STRING)) return Qnil;
    return RSTRING_LEN(text) > 0 && RSTRING_LEN(text) <= KEY_BYTES ? text : Qnil;
}

VALUE direct_name(const plain_calls *plain, const char *name, size_t length) {
    return rb_enc_str_new(name, (long)length, rb_enc_get(plain->prefix));
}

static VALUE copy_of(VALUE key) {
    if (OBJ_FROZEN(key)) return key;
    const bool plain = rb_obj_class(key) == rb_cString && !FL_TEST(key, FL_EXIVAR);
    return plain ? rb_str_new_frozen(key) : rb_obj_freeze(rb_obj_dup(key));
}

VALUE direct_lease(const plain_calls *plain, const plock_acquire_options *options, VALUE key,
                   VALUE hold) {
    VALUE lease = rb_obj_alloc(lease_class);
    rb_ivar_set(lease, rb_intern("@key"), copy_of(key));
    rb_ivar_set(lease, rb_intern("@options"), options->renews ? plain->renewed : plain->limited);
    rb_ivar_set(lease, rb_intern("@hold"), hold);
    return lease;
}

bool direct_has(VALUE lease, VALUE hold) { return rb_ivar_get(lease, rb_intern("@hold")) == hold; }

VALUE direct_own(void) {
    VALUE own = rb_thread_local_aref(rb_thread_current(), rb_intern("plock_own_holds"));
    return NIL_P(own) ? rb_funcall(own_holds, rb_intern("here"), 0) : own;
}

bool direct_own_in_the_way(VALUE own, VALUE store, VALUE name, VALUE share, double wait) {
    if (wait <= 0 || RARRAY_LEN(own) == 0) return false;
    return RTEST(rb_funcall(own_holds, rb_intern("in_the_way?"), 3, store, name, share));
}

void direct_forget_own(VALUE own, VALUE lease) {
    for (long i = RARRAY_LEN(own) - 1; i > 0; i--) {
        if (RARRAY_AREF(own, i) != lease) continue;
        (void)rb_ary_delete_at(own, i);
        (void)rb_ary_delete_at(own, i - 1);
        return;
    }
}

void direct_tell_of(VALUE store, VALUE lease, VALUE name, VALUE share, double wait,
                    plock_ns began) {
    (void)rb_funcall(store, rb_intern("tell_of"), 6, lease, name, share, Qnil, DBL2NUM(wait),
                     binding_seconds(plock_now() - began));
}

static VALUE ask_for_listeners(VALUE heard) {
    *(bool *)heard = binding_bridge_wants(ID2SYM(rb_intern("release")));
    return Qnil;
}

void direct_ask_and_end(bool *heard, VALUE (*end)(VALUE), VALUE argument) {
    *heard = !NIL_P(binding_event_bridge());
    if (*heard)
        rb_ensure(ask_for_listeners, (VALUE)heard, end, argument);
    else
        end(argument);
}

/* --- one call --- */

typedef struct direct {
    const binding_store_kind *kind;
    const plain_calls *plain;
    VALUE store, key, share, hold, given, own;
    plock_lease *lease;
    plock_acquire_options options;
    double wait;
    const char *name; /* the key's name in the store */
    size_t length;
    bool tells; /* until the block ends: is there an event bridge? after the block: does the bridge
                 * want the release event? */
    plock_ns began;
} direct;

static VALUE name_of(const direct *d) { return direct_name(d->plain, d->name, d->length); }

static void tell_of(const direct *d, VALUE lease) {
    direct_tell_of(d->store, lease, name_of(d), d->share, d->wait, d->began);
}

/* --- the end of the block --- */

typedef struct ending {
    const direct *of;
    plock_status status;
} ending;

/* Makes Ruby end the lease, with interrupts deferred. This is needed if the lease was already
 * ended, was lost, or has another hold now. It is also needed if the release failed, or if the
 * program has subscribed to events. */
static VALUE end_in_ruby(RB_BLOCK_CALL_FUNC_ARGLIST(unused, argument)) {
    const ending *e = (const ending *)argument;
    (void)unused, (void)argc, (void)argv, (void)blockarg;
    if (e->status == PLOCK_AGAIN) return rb_funcall(e->of->given, rb_intern("finish"), 0);
    /* after PLOCK_IN_USE, the lease has the error of another thread's operation */
    const plock_error *error = e->status == PLOCK_IN_USE ? NULL : plock_lease_error(e->of->lease);
    VALUE ours = e->status == PLOCK_NOT_OWNER || e->status == PLOCK_MISUSE
                     ? binding_answer(e->of->lease, e->status)
                     : binding_exception_of(e->status, error);
    return rb_funcall(e->of->given, rb_intern("end_of_block"), 1, ours);
}

static void leave_to_ruby(const direct *d, plock_status status) {
    ending e = {.of = d, .status = status};
    binding_complete(end_in_ruby, (VALUE)&e);
}

static void released(void *context, plock_status status) {
    if (status) leave_to_ruby(context, status);
}

static VALUE end_lease(VALUE argument) {
    direct *d = (direct *)argument;
    const bool plain = !binding_events_heard() && !d->tells && plock_lease_held(d->lease) &&
                       direct_has(d->given, d->hold);
    if (!plain)
        leave_to_ruby(d, PLOCK_AGAIN);
    else if (!(d->plain->trailing && binding_release_trailing(d->lease, 0)))
        (void)binding_release(d->lease, 0, released, d);
    return Qnil;
}

static VALUE end_block(VALUE argument) {
    direct_ask_and_end(&((direct *)argument)->tells, end_lease, argument);
    return Qnil;
}

static VALUE end_and_forget(VALUE argument) {
    const direct *d = (const direct *)argument;
    direct_forget_own(d->own, d->given);
    return Qnil;
}

static VALUE run_block(VALUE argument) {
    const direct *d = (const direct *)argument;
    if (d->tells &&
        (plock_lease_contended(d->lease) || binding_bridge_wants(ID2SYM(rb_intern("acquire")))))
        tell_of(d, d->given);
    return rb_yield(d->given);
}

static VALUE run_and_end(VALUE argument) {
    return rb_ensure(run_block, argument, end_block, argument);
}

/* --- the way in --- */

/* Reports that another holder kept the key until `wait` was over, or that the store failed. */
static VALUE refuse(const direct *d, plock_status status, bool raises) {
    const plock_error *error = plock_lease_error(d->lease);
    if (status == PLOCK_TIMED_OUT && d->kind->has_server) status = error->status;
    if (plock_status_kind(status) != PLOCK_KIND_TIMEOUT) binding_raise(status, error);
    if (d->tells) tell_of(d, Qnil);
    if (!raises) return Qnil;
    VALUE token = d->kind->has_server ? rb_funcall(d->hold, rb_intern("token"), 0) : Qnil;
    return rb_funcall(d->store, rb_intern("raise_timeout"), 5, rb_inspect(d->key), d->key,
                      name_of(d), DBL2NUM(d->wait), token);
}

static VALUE take_and_run(direct *d, const char *share, bool raises) {
    d->hold = binding_lease_named(d->kind, d->store, d->name, d->length);
    d->lease = binding_lease(d->hold);
    d->given = direct_lease(d->plain, &d->options, d->key, d->hold);
    plock_status status = d->kind->acquire(d->lease, &d->options, share);
    if (status) binding_raise(status, plock_lease_error(d->lease));
    do status = binding_drive(d->lease);
    while (status == PLOCK_TRY_FAILED);
    if (status) return refuse(d, status, raises);
    (void)rb_ary_push(d->own, d->store);
    (void)rb_ary_push(d->own, d->given);
    return rb_ensure(run_and_end, (VALUE)d, end_and_forget, (VALUE)d);
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
    const plain_calls *plain = direct_plain(calls);
    direct d = {.kind = binding_kind(store),
                .plain = plain,
                .store = store,
                .key = key,
                .share = argv[3],
                .tells = !NIL_P(binding_event_bridge())};
    if (binding_events_heard() || NIL_P(bytes) || !rb_block_given_p() ||
        !direct_read_options(plain, argv[4], argv[5], &d.options, &d.wait))
        return direct_undone;
    if (d.tells) d.began = plock_now();
    char digested[BINDING_NAME_MAX];
    if (NIL_P(name)) {
        d.length = binding_name(plain->prefix, bytes, plain->secret, digested);
        d.name = digested;
    } else {
        StringValue(name);
        d.name = RSTRING_PTR(name);
        d.length = (size_t)RSTRING_LEN(name);
    }
    d.own = direct_own();
    if (RARRAY_LEN(d.own) > 0 && direct_own_in_the_way(d.own, store, name_of(&d), d.share, d.wait))
        return direct_undone;
    if (!NIL_P(d.share)) text = rb_convert_type(d.share, T_STRING, "String", "to_str");
    const char *share = NIL_P(text) ? NULL : StringValueCStr(text);
    if (RTEST(argv[6])) d.options.renews = d.options.automatic = true;
    d.options.watched = d.tells && d.options.renews;
    if (d.options.watched) binding_start_dispatcher();
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
