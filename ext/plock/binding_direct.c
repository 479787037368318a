/* Acquiring for a block without options beyond ttl: and wait:, from the arguments to the release,
 * without a call of Ruby code. Whatever is out of the ordinary is left to Ruby's Acquisition: it
 * returns UNDONE before it has asked the store, or calls Ruby at the end. */
#include "binding.h"

/* --- what a store needs for it --- */

/* The prefix and the secret of the keys, and the defaults of a call. `renewed` and `limited` are
 * the AcquireOptions of a lease that is renewed while its block runs, and of one with a ttl:. */
typedef struct plain_calls {
    VALUE prefix, secret, renewed, limited;
    double ttl, wait;
} plain_calls;

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

/* PlainCalls.new(prefix, secret, ttl, wait, renewed, limited), the times in seconds. */
static VALUE plain_new(VALUE class, VALUE prefix, VALUE secret, VALUE ttl, VALUE wait,
                       VALUE renewed, VALUE limited) {
    plain_calls *plain;
    VALUE self = TypedData_Make_Struct(class, plain_calls, &PLAIN, plain);
    StringValue(prefix);
    *plain = (plain_calls){.prefix = rb_str_new_frozen(prefix),
                           .secret = secret,
                           .ttl = NUM2DBL(ttl),
                           .wait = NUM2DBL(wait),
                           .renewed = renewed,
                           .limited = limited};
    return self;
}

/* --- one call --- */

static VALUE lease_class, own_holds, usual, undone;
static ID id_key, id_terms, id_hold, id_own_holds, id_in_the_way, id_raise_timeout, id_finish,
    id_end_of_block;

enum { KEY_BYTES = 1024 };
static const double TTL_LEAST = 0.005, SPAN_MOST = 31622400.0;

typedef struct direct {
    const binding_store_kind *kind;
    const plain_calls *plain;
    VALUE store, key, share, hold, given, own;
    plock_lease *lease;
    binding_request request;
    double wait;
    const char *name; /* in the store */
    size_t length;
} direct;

/* Sets `seconds`, and returns true, if the value is a plain number in the bounds. */
static bool in_seconds(VALUE value, double least, double by_default, double *seconds) {
    if (value == usual)
        *seconds = by_default;
    else if (FIXNUM_P(value))
        *seconds = (double)FIX2LONG(value);
    else if (RB_FLOAT_TYPE_P(value))
        *seconds = RFLOAT_VALUE(value);
    else
        return false;
    return *seconds >= least && *seconds <= SPAN_MOST;
}

/* Returns the bytes of a valid key, or nil. */
static VALUE bytes_of(VALUE key) {
    VALUE text = SYMBOL_P(key) ? rb_sym2str(key) : key;
    if (!RB_TYPE_P(text, T_STRING)) return Qnil;
    return RSTRING_LEN(text) > 0 && RSTRING_LEN(text) <= KEY_BYTES ? text : Qnil;
}

static plock_ns span(double seconds) { return (plock_ns)(seconds * (double)PLOCK_SECOND); }

static VALUE name_of(const direct *d) { return rb_str_new(d->name, (long)d->length); }

/* The Array of OwnHolds: stores and leases in turn, of this fiber. */
static VALUE own_of_fiber(void) {
    VALUE own = rb_thread_local_aref(rb_thread_current(), id_own_holds);
    return NIL_P(own) ? rb_funcall(own_holds, rb_intern("here"), 0) : own;
}

/* Would this fiber wait for itself? */
static bool own_is_in_the_way(const direct *d) {
    if (d->wait <= 0 || RARRAY_LEN(d->own) == 0) return false;
    return RTEST(rb_funcall(own_holds, id_in_the_way, 3, d->store, name_of(d), d->share));
}

/* --- the end of the block --- */

typedef struct ending {
    const direct *of;
    plock_status status;
} ending;

/* Ruby's part of the end, with interrupts deferred: the lease was ended before, was lost, or has
 * another hold now; its release failed; or there is a subscriber now. */
static VALUE end_in_ruby(RB_BLOCK_CALL_FUNC_ARGLIST(unused, argument)) {
    const ending *e = (const ending *)argument;
    (void)unused, (void)argc, (void)argv, (void)blockarg;
    if (e->status == PLOCK_AGAIN) return rb_funcall(e->of->given, id_finish, 0);
    /* with PLOCK_IN_USE, the error is that of another thread's operation */
    const plock_error *error = e->status == PLOCK_IN_USE ? NULL : plock_lease_error(e->of->lease);
    VALUE ours = e->status == PLOCK_NOT_OWNER || e->status == PLOCK_MISUSE
                     ? binding_answer(e->of->lease, e->status)
                     : binding_exception_of(e->status, error);
    return rb_funcall(e->of->given, id_end_of_block, 1, ours);
}

static void leave_to_ruby(const direct *d, plock_status status) {
    ending e = {.of = d, .status = status};
    if (NIL_P(binding_scheduler()))
        binding_masked(end_in_ruby, (VALUE)&e);
    else
        end_in_ruby(Qnil, (VALUE)&e, 0, NULL, Qnil); /* masks belong to threads */
}

static void released(void *context, plock_status status) {
    if (status) leave_to_ruby(context, status);
}

/* Calls no Ruby code: it could be interrupted. */
static void forget_own(const direct *d) {
    for (long i = RARRAY_LEN(d->own) - 1; i > 0; i--) {
        if (RARRAY_AREF(d->own, i) != d->given) continue;
        (void)rb_ary_delete_at(d->own, i);
        (void)rb_ary_delete_at(d->own, i - 1);
        return;
    }
}

static VALUE end_block(VALUE argument) {
    direct *d = (direct *)argument;
    const bool plain = !binding_events_heard() && plock_lease_held(d->lease) &&
                       rb_ivar_get(d->given, id_hold) == d->hold;
    if (!plain)
        leave_to_ruby(d, PLOCK_AGAIN);
    else
        (void)binding_release(d->lease, 0, released, d);
    return Qnil;
}

static VALUE end_and_forget(VALUE argument) {
    forget_own((const direct *)argument);
    return Qnil;
}

static VALUE run_block(VALUE argument) { return rb_yield(((const direct *)argument)->given); }

static VALUE run_and_end(VALUE argument) {
    return rb_ensure(run_block, argument, end_block, argument);
}

/* --- the way in --- */

static VALUE copy_of(VALUE key) {
    if (OBJ_FROZEN(key)) return key;
    const bool plain = rb_obj_class(key) == rb_cString && !FL_TEST(key, FL_EXIVAR);
    return plain ? rb_str_new_frozen(key) : rb_obj_freeze(rb_obj_dup(key));
}

static VALUE new_lease(const direct *d) {
    VALUE lease = rb_obj_alloc(lease_class);
    rb_ivar_set(lease, id_key, copy_of(d->key));
    rb_ivar_set(lease, id_terms, d->request.renewed ? d->plain->renewed : d->plain->limited);
    rb_ivar_set(lease, id_hold, d->hold);
    return lease;
}

/* Others held it until `wait:` ended, or the store failed. */
static VALUE refuse(const direct *d, plock_status status, bool raises) {
    const plock_error *error = plock_lease_error(d->lease);
    if (status == PLOCK_TIMED_OUT && !d->kind->is_local) status = error->status;
    if (plock_status_kind(status) != PLOCK_KIND_TIMEOUT) binding_raise(status, error);
    if (!raises) return Qnil;
    VALUE token = d->kind->is_local ? Qnil : rb_funcall(d->hold, rb_intern("token"), 0);
    return rb_funcall(d->store, id_raise_timeout, 5, rb_inspect(d->key), d->key, name_of(d),
                      DBL2NUM(d->wait), token);
}

static VALUE take_and_run(direct *d, bool raises) {
    d->hold = binding_lease_named(d->kind, d->store, d->name, d->length);
    d->lease = binding_lease(d->hold);
    d->given = new_lease(d);
    plock_status status = d->kind->acquire(d->lease, &d->request);
    if (status) binding_raise(status, plock_lease_error(d->lease));
    do status = binding_drive(d->lease);
    while (status == PLOCK_TRY_FAILED);
    if (status) return refuse(d, status, raises);
    (void)rb_ary_push(d->own, d->store);
    (void)rb_ary_push(d->own, d->given);
    return rb_ensure(run_and_end, (VALUE)d, end_and_forget, (VALUE)d);
}

/* acquire_directly(plain, key, name, share, ttl, wait, renews, raises) { |lease| } -> the block's
 * value; UNDONE: Ruby has to do it, and nothing has been done. If others held the key until `wait`
 * was over, it raises TimeoutError, or returns nil. name: of the key in the store; nil: the digest.
 * share: a Share, or nil. renews: even with a ttl of the caller's. */
VALUE binding_acquire_directly(const binding_store_kind *kind, int argc, const VALUE *argv,
                               VALUE store) {
    rb_check_arity(argc, 8, 8);
    VALUE calls = argv[0], key = argv[1], bytes = bytes_of(key), name = argv[2], text = Qnil;
    const plain_calls *plain = rb_check_typeddata(calls, &PLAIN);
    direct d = {.kind = kind, .plain = plain, .store = store, .key = key, .share = argv[3]};
    double ttl;
    if (binding_events_heard() || NIL_P(bytes) || !rb_block_given_p() ||
        !in_seconds(argv[4], TTL_LEAST, plain->ttl, &ttl) ||
        !in_seconds(argv[5], 0, plain->wait, &d.wait))
        return undone;
    char digested[BINDING_NAME_MAX];
    if (NIL_P(name)) {
        d.length = binding_name(plain->prefix, bytes, plain->secret, digested);
        d.name = digested;
    } else {
        StringValue(name);
        d.name = RSTRING_PTR(name);
        d.length = (size_t)RSTRING_LEN(name);
    }
    d.own = own_of_fiber();
    if (own_is_in_the_way(&d)) return undone;
    if (!NIL_P(d.share)) text = rb_convert_type(d.share, T_STRING, "String", "to_str");
    d.request = (binding_request){.ttl = span(ttl),
                                  .wait = span(d.wait),
                                  .renewed = argv[4] == usual || RTEST(argv[6]),
                                  .share = NIL_P(text) ? NULL : StringValueCStr(text)};
    VALUE value = take_and_run(&d, RTEST(argv[7]));
    RB_GC_GUARD(calls);
    RB_GC_GUARD(bytes);
    RB_GC_GUARD(name);
    RB_GC_GUARD(text);
    RB_GC_GUARD(d.hold);
    RB_GC_GUARD(d.given);
    return value == undone ? Qnil : value; /* the block has run */
}

/* --- Lease --- */

/* first_loss? -> true at the first call only, whichever thread makes it. */
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
    rb_define_singleton_method(plain, "new", plain_new, 6);
    lease_class = rb_define_class_under(binding_plock, "Lease", rb_cObject);
    rb_define_private_method(lease_class, "first_loss?", lease_first_loss, 0);
    own_holds = rb_define_module_under(locking, "OwnHolds");
    usual = rb_obj_freeze(rb_obj_alloc(rb_cObject));
    rb_define_const(locking, "USUAL", usual);
    undone = rb_obj_freeze(rb_obj_alloc(rb_cObject));
    rb_define_const(plain, "UNDONE", undone);
    VALUE *kept[] = {&lease_class, &own_holds, &usual, &undone};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) rb_gc_register_mark_object(*kept[i]);
    id_key = rb_intern("@key");
    id_terms = rb_intern("@terms");
    id_hold = rb_intern("@hold");
    id_own_holds = rb_intern("plock_own_holds");
    id_in_the_way = rb_intern("in_the_way?");
    id_raise_timeout = rb_intern("raise_timeout");
    id_finish = rb_intern("finish");
    id_end_of_block = rb_intern("end_of_block");
}
