/* Plock::LocalStore: the local store as a Ruby object. */
#include "binding.h"

#include <ruby/thread.h>
#include <stdlib.h>
#include <unistd.h>

static void store_free(void *store) { plock_local_close(store); }

static const rb_data_type_t STORE = {
    .wrap_struct_name = "Plock::LocalStore",
    .function = {.dfree = store_free},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

plock_local *binding_local_store(VALUE self) {
    plock_local *store = rb_check_typeddata(self, &STORE);
    if (!store) rb_raise(rb_eArgError, "uninitialized Plock::LocalStore");
    return store;
}

typedef struct opening {
    VALUE self;
    const char *path;
    unsigned keys;
    plock_status status;
    plock_error error;
} opening;

/* The object owns the store at once, because Ruby may raise an interrupt right after this. */
static void *open_region(void *argument) {
    opening *o = argument;
    plock_local *store;
    o->status = plock_local_open(&store, o->path, o->keys, &o->error);
    DATA_PTR(o->self) = store;
    return NULL;
}

/* Plock::LocalStore.attach(path, keys) -> a store with an open file. path: nil for the default
 * path. keys: the number of keys that the file has room for; nil for the default. Another process
 * that is making the file can delay this by a second, so other Ruby threads may run meanwhile. */
static VALUE store_attach(VALUE class, VALUE path, VALUE keys) {
    opening o = {
        .self = TypedData_Wrap_Struct(class, &STORE, NULL),
        .path = NIL_P(path) ? NULL : StringValueCStr(path),
        .keys = NIL_P(keys) ? 0 : NUM2UINT(keys),
    };
    (void)rb_thread_call_without_gvl(open_region, &o, NULL, NULL);
    RB_GC_GUARD(path);
    if (o.status) binding_raise(o.status, &o.error);
    return o.self;
}

static VALUE store_path(VALUE self) {
    return rb_filesystem_str_new_cstr(plock_local_path(binding_local_store(self)));
}

/* Returns why the store replaced an earlier file, or nil. */
static VALUE store_remade(VALUE self) {
    const char *why = plock_local_remade(binding_local_store(self));
    return why ? rb_utf8_str_new_cstr(why) : Qnil;
}

/* Returns the number of a descriptor. This process counts as alive while any process that has
 * inherited the descriptor is alive. Returns nil on a system where that is impossible. */
static VALUE store_liveness(VALUE self) {
    plock_error error = {.status = PLOCK_OK};
    const int fd = plock_local_liveness(binding_local_store(self), &error);
    if (error.status) binding_raise(error.status, &error);
    return fd < 0 ? Qnil : INT2NUM(fd);
}

static VALUE store_close(VALUE self) {
    plock_local_disconnect(binding_local_store(self));
    return Qnil;
}

static VALUE store_closed(VALUE self) {
    return binding_bool(plock_local_disconnected(binding_local_store(self)));
}

static plock_status make(plock_lease **lease, VALUE store, const char *key, size_t length) {
    return plock_local_lease_new(lease, binding_local_store(store), key, length);
}

/* Reads a share: "r", "w" or "sN", or NULL for an exclusive lock. Returns false for any other
 * text. */
static bool read_share(const char *share, plock_local_acquire_options *terms) {
    if (!share) return true;
    const bool counts = *share == 's';
    const unsigned long limit = counts ? strtoul(share + 1, NULL, 10) : *share == 'w';
    terms->mode = *share;
    terms->limit = (unsigned)limit;
    return (counts ? limit > 0 : (*share == 'r' || *share == 'w') && !share[1]) &&
           limit <= UINT16_MAX;
}

/* Leaves out what has no meaning without a server. */
static plock_local_acquire_options terms_of(plock_acquire_options options) {
    return (plock_local_acquire_options){.ttl = options.ttl,
                                         .wait = options.wait,
                                         .renews = options.renews,
                                         .automatic = options.automatic,
                                         .watched = options.watched,
                                         .max_hold = options.max_hold};
}

static plock_status acquire_for_block(plock_lease *lease, const plock_acquire_options *options,
                                      const char *share) {
    plock_local_acquire_options terms = terms_of(*options);
    if (!read_share(share, &terms)) return PLOCK_MISUSE;
    return plock_local_lease_acquire(lease, &terms);
}

/* --- several keys at once --- */

_Static_assert(PLOCK_GROUP_MAX <= PLOCK_LOCAL_AT_ONCE_MAX, "");

typedef struct party {
    plock_lease *const *leases;
    size_t count, refused;
    plock_local_acquire_options terms;
    plock_error *error;
} party;

static plock_status take_step(void *of, plock_interest *interest) {
    party *p = of;
    return plock_local_acquire_all(p->leases, p->count, &p->terms, &p->refused, interest, p->error);
}

static plock_status acquire_all(plock_lease *const *leases, size_t count,
                                const plock_acquire_options *options, size_t *refused,
                                plock_error *error) {
    party p = {.leases = leases, .count = count, .terms = terms_of(*options), .error = error};
    const plock_status status = binding_repeat(take_step, &p);
    *refused = p.refused;
    return status;
}

/* Releases of several leases, one after another. */
typedef struct releases {
    binding_releases of; /* first, because begin_releases receives it */
    size_t at;
    plock_status begun[PLOCK_GROUP_MAX]; /* for each lease: the status when its release began, and
                                          * later the release's result */
    plock_status status;
} releases;

static plock_status begin_releases(void *of) {
    releases *r = of;
    for (size_t i = 0; i < r->of.count; i++)
        r->begun[i] = plock_lease_release(r->of.leases[i], r->of.keep);
    return PLOCK_OK;
}

static plock_status release_step(void *of, plock_interest *interest) {
    releases *r = of;
    for (; r->at < r->of.count; r->at++) {
        if (r->begun[r->at]) continue;
        const plock_status status = plock_lease_step(r->of.leases[r->at], interest);
        if (status == PLOCK_AGAIN) return status;
        r->begun[r->at] = status;
    }
    return PLOCK_OK;
}

static void cancel_releases(void *of) {
    const releases *r = of;
    for (size_t i = r->at; i < r->of.count; i++)
        if (!r->begun[i]) plock_lease_cancel(r->of.leases[i]);
}

static void hurry_releases(void *of, plock_ns deadline) {
    const releases *r = of;
    for (size_t i = r->at; i < r->of.count; i++) plock_lease_hurry(r->of.leases[i], deadline);
}

static void released(void *of, plock_status status) {
    releases *r = of;
    r->status = status;
    for (size_t i = 0; i < r->of.count; i++) {
        const plock_status one = status == PLOCK_IN_USE ? PLOCK_OK : r->begun[i];
        const bool lost =
            one == PLOCK_NOT_OWNER || (one == PLOCK_MISUSE && plock_lease_lost(r->of.leases[i]));
        r->of.answers[i] = !one ? Qtrue : lost ? Qfalse : Qnil;
        if (!one || one == PLOCK_NOT_OWNER || one == PLOCK_MISUSE) continue;
        r->status = one;
        *r->of.error = *plock_lease_error(r->of.leases[i]);
    }
    r->of.told(r->of.context, r->status);
}

static plock_status release_all(const binding_releases *of) {
    releases r = {.of = *of};
    const plock_operation operation = {
        .of = &r, .step = release_step, .cancel = cancel_releases, .hurry = hurry_releases};
    (void)binding_release_in_turn(&r.of, begin_releases, operation, released, &r);
    return r.status;
}

const binding_store_kind binding_local_kind = {.hold_class = &binding_local_hold_class,
                                               .make = make,
                                               .acquire = acquire_for_block,
                                               .acquire_all = acquire_all,
                                               .release_all = release_all};

/* --- acquire one or several keys, and adopt a lease from another process --- */

/* The result points to the bytes of the label, so the caller must keep that String alive. */
static plock_local_acquire_options take_terms(VALUE ttl, VALUE renew, VALUE max_hold, VALUE label,
                                              VALUE watch, VALUE at_least) {
    plock_local_acquire_options terms =
        terms_of(binding_patience(binding_ttl(ttl, PLOCK_SECOND), renew, max_hold, watch));
    terms.at_least = binding_span(at_least);
    if (NIL_P(label)) return terms;
    Check_Type(label, T_STRING);
    if (RSTRING_LEN(label) > PLOCK_LOCAL_LABEL_MAX)
        rb_raise(rb_eArgError, "a label of more than %d bytes", PLOCK_LOCAL_LABEL_MAX);
    terms.label = RSTRING_PTR(label);
    terms.label_length = (size_t)RSTRING_LEN(label);
    return terms;
}

/* take_for(key, ttl, wait, renew, max_hold, label, watch, share, at_least) -> a hold, or nil if
 * another holder kept the key until `wait` was over. */
static VALUE store_take(VALUE self, VALUE key, VALUE ttl, VALUE wait, VALUE renew, VALUE max_hold,
                        VALUE label, VALUE watch, VALUE share, VALUE at_least) {
    plock_local_acquire_options terms = take_terms(ttl, renew, max_hold, label, watch, at_least);
    terms.wait = binding_span(wait);
    if (!read_share(NIL_P(share) ? NULL : StringValueCStr(share), &terms))
        rb_raise(rb_eArgError, "not a share: %" PRIsVALUE, rb_str_inspect(share));
    VALUE object = binding_lease_new(&binding_local_kind, self, key);
    plock_lease *lease = binding_lease(object);
    plock_status status = plock_local_lease_acquire(lease, &terms);
    if (!status) status = binding_drive(lease);
    RB_GC_GUARD(label);
    if (status == PLOCK_OK) return binding_hand_out(object);
    if (plock_status_kind(status) != PLOCK_KIND_TIMEOUT)
        binding_raise(status, plock_lease_error(lease));
    RB_GC_GUARD(object);
    return Qnil;
}

/* take_all_for(keys, ttl, wait, renew, max_hold, label, watch, at_least) -> the holds, or the index
 * of the first key that is held or has waiters. */
static VALUE store_take_all(VALUE self, VALUE keys, VALUE ttl, VALUE wait, VALUE renew,
                            VALUE max_hold, VALUE label, VALUE watch, VALUE at_least) {
    plock_lease *leases[PLOCK_GROUP_MAX];
    plock_error error = {.status = PLOCK_OK};
    party p = {.leases = leases,
               .terms = take_terms(ttl, renew, max_hold, label, watch, at_least),
               .error = &error};
    p.terms.wait = binding_span(wait);
    VALUE objects = binding_leases_new(&binding_local_kind, self, keys);
    p.count = binding_leases(objects, leases);
    const plock_status status = binding_repeat(take_step, &p);
    RB_GC_GUARD(label);
    if (status == PLOCK_REFUSED) return SIZET2NUM(p.refused);
    if (status) binding_raise(status, &error);
    return binding_hand_out(objects);
}

/* adopt_owner(key, owner, renew, max_hold, watch, heir, ttl) -> a hold, or nil if `owner` no longer
 * held the key. heir: the new owner, or nil for a fresh token. ttl: in seconds from now, or nil to
 * keep the expiry. */
static VALUE store_adopt(VALUE self, VALUE key, VALUE owner, VALUE renew, VALUE max_hold,
                         VALUE watch, VALUE heir, VALUE ttl) {
    StringValue(owner);
    plock_local_acquire_options terms = terms_of(
        binding_patience(NIL_P(ttl) ? 0 : binding_ttl(ttl, PLOCK_SECOND), renew, max_hold, watch));
    if (!NIL_P(heir)) {
        terms.owner = StringValuePtr(heir);
        terms.owner_length = (size_t)RSTRING_LEN(heir);
    }
    VALUE object = binding_lease_new(&binding_local_kind, self, key);
    plock_lease *lease = binding_lease(object);
    plock_status status =
        plock_local_lease_adopt(lease, RSTRING_PTR(owner), (size_t)RSTRING_LEN(owner), &terms);
    RB_GC_GUARD(owner);
    RB_GC_GUARD(heir);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the owner is empty");
    if (!status) status = binding_drive(lease);
    if (status && status != PLOCK_NOT_OWNER) binding_raise(status, plock_lease_error(lease));
    RB_GC_GUARD(object);
    return status ? Qnil : binding_hand_out(object);
}

/* --- one attempt, with an owner that the caller names --- */

/* lock_acquire(key, owner, ttl) -> true, or false if the key is held. ttl: in seconds. Any process
 * that names the owner can release the lock. If this process ends first, the lock ends with it. */
static VALUE store_lock_acquire(VALUE self, VALUE key, VALUE owner, VALUE ttl) {
    StringValue(owner);
    const plock_local_acquire_options terms = {.ttl = binding_ttl(ttl, PLOCK_SECOND),
                                               .owner = RSTRING_PTR(owner),
                                               .owner_length = (size_t)RSTRING_LEN(owner)};
    VALUE object = binding_lease_new(&binding_local_kind, self, key);
    plock_lease *lease = binding_lease(object);
    plock_status status = plock_local_lease_acquire(lease, &terms);
    RB_GC_GUARD(owner);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the owner is empty");
    if (status) binding_raise(status, NULL);
    status = binding_drive(lease);
    if (status == PLOCK_REFUSED) return Qfalse;
    if (status) binding_raise(status, plock_lease_error(lease));
    plock_local_lease_forget(lease); /* otherwise freeing the object would release the lock */
    RB_GC_GUARD(object);
    return Qtrue;
}

/* lock_release(key, owner) -> true, or false if `owner` no longer held the key. */
static VALUE store_lock_release(VALUE self, VALUE key, VALUE owner) {
    StringValue(owner);
    VALUE object = binding_lease_new(&binding_local_kind, self, key);
    plock_lease *lease = binding_lease(object);
    plock_status status =
        plock_local_lease_release_owned(lease, RSTRING_PTR(owner), (size_t)RSTRING_LEN(owner));
    RB_GC_GUARD(owner);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the owner is empty");
    if (!status) status = binding_drive_deferring(lease);
    if (status && status != PLOCK_NOT_OWNER) binding_raise(status, plock_lease_error(lease));
    RB_GC_GUARD(object);
    return binding_bool(!status);
}

static VALUE store_host_name(VALUE self) {
    char name[256] = "";
    (void)self;
    if (gethostname(name, sizeof name - 1)) rb_sys_fail("gethostname");
    return rb_locale_str_new_cstr(name);
}

void binding_init_local(void) {
    VALUE class = rb_define_class_under(binding_plock, "LocalStore", rb_cObject);
    rb_undef_alloc_func(class);
    rb_undef_method(rb_singleton_class(class), "new");
    rb_define_private_method(rb_singleton_class(class), "attach", store_attach, 2);
    binding_define_acquiring(class);
    binding_init_local_query(class);
    rb_define_private_method(class, "take_for", store_take, 9);
    rb_define_private_method(class, "take_all_for", store_take_all, 8);
    rb_define_private_method(class, "adopt_owner", store_adopt, 7);
    rb_define_method(class, "lock_acquire", store_lock_acquire, 3);
    rb_define_method(class, "lock_release", store_lock_release, 2);
    rb_define_private_method(class, "host_name", store_host_name, 0);
    rb_define_singleton_method(binding_plock, "host_name", store_host_name, 0);
    rb_define_private_method(class, "remade", store_remade, 0);
    rb_define_method(class, "liveness", store_liveness, 0);
    rb_define_method(class, "path", store_path, 0);
    rb_define_method(class, "close", store_close, 0);
    rb_define_method(class, "closed?", store_closed, 0);
}
