/* Plock::Hold and Plock::LocalHold, the leases of the engine's stores as Ruby objects. Also
 * Store#hold and Store#hold_digest, which acquire a lease for a block. */
#include "binding.h"

/* Ruby calls this function when it frees the object of a lease. The program may have forgotten to
 * release that lease, so the engine releases a lease that is still held. */
static void lease_free(void *lease) { plock_lease_abandon(lease); }

static size_t lease_size(const void *lease) {
    return lease ? 1024 : 0; /* an estimate for the engine's struct and the names of its keys */
}

static const rb_data_type_t LEASE = {
    .wrap_struct_name = "Plock::Hold",
    .function = {.dfree = lease_free, .dsize = lease_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

VALUE binding_hold_class, binding_local_hold_class;

VALUE binding_lease_named(const binding_store_kind *kind, VALUE store, const char *key,
                          size_t length) {
    VALUE object = TypedData_Wrap_Struct(*kind->hold_class, &LEASE, NULL);
    plock_lease *lease = NULL;
    const plock_status status = kind->make(&lease, store, key, length);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the key is empty");
    if (status) binding_raise(status, NULL);
    DATA_PTR(object) = lease;
    return object;
}

VALUE binding_lease_new(const binding_store_kind *kind, VALUE store, VALUE key) {
    StringValue(key);
    VALUE lease = binding_lease_named(kind, store, RSTRING_PTR(key), (size_t)RSTRING_LEN(key));
    RB_GC_GUARD(key);
    return lease;
}

plock_lease *binding_lease(VALUE object) {
    plock_lease *lease = rb_check_typeddata(object, &LEASE);
    if (!lease) rb_raise(rb_eArgError, "uninitialized Plock::Hold");
    return lease;
}

VALUE binding_hand_out(VALUE granted) {
    if (rb_block_given_p()) (void)rb_yield(granted);
    return granted;
}

VALUE binding_token(const plock_lease *lease) {
    size_t length;
    const char *owner = plock_lease_owner(lease, &length);
    return rb_usascii_str_new(owner, (long)length);
}

static VALUE lease_token(VALUE self) { return binding_token(binding_lease(self)); }

/* Methods that return what this process knows about the lease, without I/O. */
#define READER(name, convert)                                                                      \
    static VALUE lease_##name(VALUE self) {                                                        \
        return convert(plock_lease_##name(binding_lease(self)));                                   \
    }

READER(valid, binding_bool)
READER(lost, binding_bool)
READER(inherited, binding_bool)
READER(contended, binding_bool)
READER(fence, LL2NUM)
READER(id, ULL2NUM)
READER(ttl, binding_seconds)
READER(waited, binding_seconds)
/* times on CLOCK_BOOTTIME or, if the system lacks that clock, on CLOCK_MONOTONIC */
READER(acquired_at, binding_seconds)
READER(valid_until, binding_seconds)

/* Returns the seconds since the lease was acquired, including the time for which the machine was
 * suspended. */
static VALUE lease_held_for(VALUE self) {
    return binding_seconds(plock_now() - plock_lease_acquired_at(binding_lease(self)));
}

static VALUE text_of(VALUE self, const char *(*read)(const plock_lease *, size_t *)) {
    size_t length;
    const char *text = read(binding_lease(self), &length);
    return rb_str_new(text, (long)length);
}

static VALUE lease_key(VALUE self) { return text_of(self, plock_lease_key); }

static VALUE lease_value(VALUE self) { return text_of(self, plock_lease_value); }

/* --- operations that may wait for another thread's operation on the same lease --- */

VALUE binding_answer(plock_lease *lease, plock_status status) {
    if (status == PLOCK_OK) return Qtrue;
    if (status == PLOCK_NOT_OWNER) return Qfalse;
    if (status == PLOCK_MISUSE) return plock_lease_lost(lease) ? Qfalse : Qnil;
    binding_raise(status, plock_lease_error(lease));
}

typedef struct asked {
    plock_lease *lease;
    plock_status (*change)(plock_lease *lease); /* NULL: extends the lease */
    plock_ns ttl;
} asked;

static plock_status begin_change(void *context) {
    const asked *a = context;
    return a->change ? a->change(a->lease) : plock_lease_extend(a->lease, a->ttl);
}

static VALUE in_turn(VALUE self, plock_status (*change)(plock_lease *), plock_ns ttl) {
    asked a = {.lease = binding_lease(self), .change = change, .ttl = ttl};
    plock_place_in_turn place = plock_lease_turn(a.lease);
    plock_lease_use turn = {.places = &place,
                            .count = 1,
                            .begin = begin_change,
                            .context = &a,
                            .operation = plock_lease_operation(a.lease),
                            .patience = plock_lease_budget(a.lease, false)};
    plock_lease_use_take(&turn);
    const plock_status status = binding_carry_on(plock_lease_use_operation(&turn));
    RB_GC_GUARD(self);
    return binding_answer(a.lease, status);
}

static void let_go(void *context) {
    const binding_releases *r = context;
    for (size_t i = 0; i < r->count; i++) plock_lease_let_go(r->leases[i], r->keep);
}

plock_status binding_release_in_turn(binding_releases *r, plock_status (*begin)(void *),
                                     plock_operation operation, binding_told *told, void *context) {
    plock_place_in_turn places[PLOCK_GROUP_MAX];
    for (size_t i = 0; i < r->count; i++) places[i] = plock_lease_turn(r->leases[i]);
    plock_lease_use turn = {.places = places,
                            .count = r->count,
                            .begin = begin,
                            .give_up = let_go,
                            .context = r,
                            .operation = operation,
                            .patience = plock_lease_budget(r->leases[0], true)};
    plock_lease_use_take(&turn);
    operation = plock_lease_use_operation(&turn);
    if (r->budget) operation.hurry(operation.of, plock_after(plock_now(), r->budget));
    return binding_carry_on_deferring(operation, told, context);
}

static plock_status begin_release(void *context) {
    const binding_releases *r = context;
    return plock_lease_release(r->leases[0], r->keep);
}

plock_status binding_release(plock_lease *lease, plock_ns keep, binding_told *told, void *context) {
    binding_releases r = {.leases = &lease, .count = 1, .keep = keep};
    return binding_release_in_turn(&r, begin_release, plock_lease_operation(lease), told, context);
}

bool binding_release_trailing(plock_lease *lease, plock_ns keep) {
    if (plock_lease_release_trailing(lease, keep)) return false;
    binding_start_dispatcher();
    return true;
}

/* leave -> the result of binding_answer. This process then neither renews nor releases the lease,
 * but any process that knows its owner can release it. */
static VALUE lease_leave(VALUE self) { return in_turn(self, plock_lease_leave, 0); }

/* extend(ttl) -> the result of binding_answer. */
static VALUE lease_extend(VALUE self, VALUE ttl) {
    return in_turn(self, NULL, binding_ttl(ttl, PLOCK_SECOND));
}

/* downgrade -> the result of binding_answer. Turns a write lease into a read lease. No other writer
 * can acquire the lock in between. */
static VALUE lease_downgrade(VALUE self) { return in_turn(self, plock_lease_downgrade, 0); }

/* release(keep) -> the result of binding_answer. The key stays taken for `keep` seconds from
 * now. */
static VALUE lease_release(VALUE self, VALUE keep) {
    plock_lease *lease = binding_lease(self);
    const plock_status status = binding_release(lease, binding_span(keep), NULL, NULL);
    RB_GC_GUARD(self);
    return binding_answer(lease, status);
}

/* release_trailing(keep) -> was the release sent? Does not wait for the answer. */
static VALUE lease_release_trailing(VALUE self, VALUE keep) {
    const bool sent = binding_release_trailing(binding_lease(self), binding_span(keep));
    RB_GC_GUARD(self);
    return binding_bool(sent);
}

/* mode -> :read, :write, or nil if the lock is neither a read lock nor a write lock. */
static VALUE lease_mode(VALUE self) {
    const char mode = plock_lease_mode(binding_lease(self));
    return mode == 'r'   ? ID2SYM(rb_intern("read"))
           : mode == 'w' ? ID2SYM(rb_intern("write"))
                         : Qnil;
}

/* share -> "r", "w" or "sN" (at most N holders) if the lock may have several holders; otherwise
 * nil. */
static VALUE lease_share(VALUE self) {
    const char *share = plock_lease_shares(binding_lease(self));
    return *share ? rb_usascii_str_new_cstr(share) : Qnil;
}

/* Omits the token, because any code that knows it can release the lock. */
static VALUE lease_inspect(VALUE self) {
    const plock_lease *lease = binding_lease(self);
    return rb_sprintf("#<%" PRIsVALUE " key=%" PRIsVALUE " fence=%lld %s>", rb_obj_class(self),
                      rb_str_inspect(lease_key(self)), (long long)plock_lease_fence(lease),
                      plock_lease_valid(lease) ? "valid" : "not valid");
}

/* --- for a block: acquire, yield, and release however the block ends --- */

static VALUE unacquired;

typedef struct holding {
    const binding_store_kind *kind;
    plock_lease *lease;
    VALUE object; /* passed to the block; false for hold_digest, which passes the token */
    VALUE key, wait, report;
    plock_acquire_options options;
    bool acquired;
    plock_ns ended_at;
} holding;

/* Reports a failed attempt ("acquire") or release ("release") to the callback. */
static void tell(const holding *h, const char *event, plock_status status) {
    if (NIL_P(h->report)) return;
    rb_funcall(h->report, rb_intern("call"), 2, ID2SYM(rb_intern(event)),
               binding_exception(status, plock_lease_error(h->lease)->message));
}

NORETURN(static void raise_timeout(const holding *h, VALUE cause));
static void raise_timeout(const holding *h, VALUE cause) {
    VALUE message = rb_sprintf("could not acquire %" PRIsVALUE " within %" PRIsVALUE "s",
                               rb_str_inspect(h->key), h->wait);
    if (!NIL_P(cause)) message = rb_sprintf("%" PRIsVALUE " (%" PRIsVALUE ")", message, cause);
    VALUE timeout = binding_exception(PLOCK_TIMED_OUT, StringValueCStr(message));
    if (!NIL_P(cause)) rb_ivar_set(timeout, rb_intern("@last_error"), cause);
    rb_exc_raise(timeout);
}

/* Reports that the acquire failed. If the store failed, a caller without a callback gets the
 * store's error. A callback has already received every failure. So a caller with a callback gets
 * only a TimeoutError or, from hold_digest, UNACQUIRED. */
static VALUE fail_to_acquire(const holding *h, plock_status status) {
    const plock_error error = *plock_lease_error(h->lease);
    const bool by_time = plock_status_kind(status) == PLOCK_KIND_TIMEOUT;
    const plock_status cause = by_time ? error.status : status;
    const bool store_failed = plock_status_kind(cause) != PLOCK_KIND_TIMEOUT && cause != PLOCK_OK;
    if (!by_time) tell(h, "acquire", status);
    if (!h->object && !NIL_P(h->report)) return unacquired;
    if (store_failed && NIL_P(h->report)) binding_raise(cause, &error);
    raise_timeout(h, store_failed ? binding_exception(cause, error.message) : Qnil);
}

static VALUE acquire_and_yield(VALUE argument) {
    holding *h = (holding *)argument;
    plock_status status;
    while ((status = binding_drive(h->lease)) == PLOCK_TRY_FAILED)
        tell(h, "acquire", plock_lease_error(h->lease)->status);
    h->acquired = status == PLOCK_OK;
    if (!h->acquired) return fail_to_acquire(h, status);
    return rb_yield(h->object ? h->object : binding_token(h->lease));
}

static void report_release(void *context, plock_status status) {
    const holding *h = context;
    const plock_ns held = h->ended_at - plock_lease_acquired_at(h->lease),
                   ttl = plock_lease_ttl(h->lease);
    if (NIL_P(h->report)) return;
    if (status && status != PLOCK_NOT_OWNER) tell(h, "release", status);
    if (held > ttl)
        rb_funcall(h->report, rb_intern("call"), 4, ID2SYM(rb_intern("overrun")), h->key,
                   binding_seconds(held), binding_seconds(ttl));
}

/* Releases the lease after the block. Does nothing in a child that was forked inside the block,
 * because the lease is the parent's. If the report of an attempt raised, gives the acquire up. */
static VALUE release(VALUE argument) {
    holding *h = (holding *)argument;
    if (!h->acquired) plock_lease_cancel(h->lease);
    if (!plock_lease_held(h->lease)) return Qnil;
    h->ended_at = plock_now();
    (void)binding_release(h->lease, 0, report_release, h);
    return Qnil;
}

static VALUE hold(VALUE argument) {
    holding *h = (holding *)argument;
    const plock_status status = h->kind->acquire(h->lease, &h->options, NULL);
    if (status) binding_raise(status, plock_lease_error(h->lease));
    return rb_ensure(acquire_and_yield, argument, release, argument);
}

/* If the caller passes a `report`, the acquire does not give up after a failure. */
static holding prepare(VALUE store, VALUE key, VALUE ttl_ms, VALUE wait, VALUE report) {
    rb_need_block();
    return (holding){.kind = binding_kind(store),
                     .key = key,
                     .wait = wait,
                     .report = report,
                     .options = {.ttl = binding_ttl(ttl_ms, PLOCK_MILLISECOND),
                                 .wait = binding_span(wait),
                                 .endures = !NIL_P(report)}};
}

/* hold(key, ttl_ms, wait, report) { |hold| } -> the block's value. */
static VALUE store_hold(VALUE self, VALUE key, VALUE ttl_ms, VALUE wait, VALUE report) {
    StringValue(key);
    holding h = prepare(self, key, ttl_ms, wait, report);
    h.object = binding_lease_new(h.kind, self, key);
    h.lease = binding_lease(h.object);
    return hold((VALUE)&h);
}

static VALUE free_lease(VALUE argument) {
    plock_lease_free(((holding *)argument)->lease);
    return Qnil;
}

/* hold_digest(prefix, key, secret, ttl_ms, wait, report) { |token| } -> the block's value, or
 * UNACQUIRED. Creates no String for the key's name and no object for the lease. Otherwise,
 * collecting them as garbage would be most of what an acquire and its release cost in Ruby. */
static VALUE store_hold_digest(VALUE self, VALUE prefix, VALUE key, VALUE secret, VALUE ttl_ms,
                               VALUE wait, VALUE report) {
    char name[BINDING_NAME_MAX];
    const size_t length = binding_name(prefix, key, secret, name);
    holding h = prepare(self, key, ttl_ms, wait, report);
    /* Parse::Lock shares its keys with processes of the older implementation */
    h.options.shares = true;
    h.options.insists = h.options.endures;
    const plock_status status = h.kind->make(&h.lease, self, name, length);
    if (status) binding_raise(status, NULL);
    return rb_ensure(hold, (VALUE)&h, free_lease, (VALUE)&h);
}

void binding_define_acquiring(VALUE class) {
    rb_define_method(class, "hold", store_hold, 4);
    rb_define_method(class, "hold_digest", store_hold_digest, 6);
    rb_define_method(class, "acquire_directly", binding_acquire_directly, -1);
    rb_define_private_method(class, "acquire_all_directly", binding_acquire_all_directly, 5);
}

void binding_init_lease(void) {
    VALUE lease_class = rb_define_class_under(binding_plock, "Hold", rb_cObject);
    binding_hold_class = lease_class;
    rb_gc_register_mark_object(lease_class);
    rb_undef_alloc_func(lease_class);
    rb_undef_method(rb_singleton_class(lease_class), "new");
    rb_define_method(lease_class, "token", lease_token, 0);
    rb_define_method(lease_class, "fence", lease_fence, 0);
    rb_define_method(lease_class, "key", lease_key, 0);
    rb_define_method(lease_class, "mode", lease_mode, 0);
    rb_define_method(lease_class, "ttl", lease_ttl, 0);
    rb_define_method(lease_class, "held_for", lease_held_for, 0);
    rb_define_method(lease_class, "valid?", lease_valid, 0);
    rb_define_method(lease_class, "lost?", lease_lost, 0);
    rb_define_method(lease_class, "inherited?", lease_inherited, 0);
    rb_define_method(lease_class, "contended?", lease_contended, 0);
    rb_define_method(lease_class, "valid_until", lease_valid_until, 0);
    rb_define_method(lease_class, "acquired_at", lease_acquired_at, 0);
    rb_define_method(lease_class, "waited", lease_waited, 0);
    rb_define_method(lease_class, "id", lease_id, 0);
    rb_define_method(lease_class, "extend", lease_extend, 1);
    rb_define_method(lease_class, "release", lease_release, 1);
    rb_define_method(lease_class, "release_trailing", lease_release_trailing, 1);
    rb_define_method(lease_class, "downgrade", lease_downgrade, 0);
    rb_define_private_method(lease_class, "share", lease_share, 0);
    rb_define_private_method(lease_class, "value", lease_value, 0);
    rb_define_method(lease_class, "leave", lease_leave, 0);
    rb_define_method(lease_class, "inspect", lease_inspect, 0);
    binding_local_hold_class = rb_define_class_under(binding_plock, "LocalHold", lease_class);
    rb_gc_register_mark_object(binding_local_hold_class);
    rb_undef_method(binding_local_hold_class, "share");
    unacquired = rb_obj_freeze(rb_obj_alloc(rb_cObject));
    rb_gc_register_mark_object(unacquired);
    rb_define_const(rb_const_get(binding_plock, rb_intern("Store")), "UNACQUIRED", unacquired);
}
