/* Plock::LocalStore: the embedded store as an object, and queries about its locks. */
#include "binding.h"

#include <stdlib.h>
#include <unistd.h>

static void store_free(void *store) { plock_local_close(store); }

static const rb_data_type_t STORE = {
    .wrap_struct_name = "Plock::LocalStore",
    .function = {.dfree = store_free},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static plock_local *local_store(VALUE self) {
    plock_local *store = rb_check_typeddata(self, &STORE);
    if (!store) rb_raise(rb_eArgError, "uninitialized Plock::LocalStore");
    return store;
}

/* Plock::LocalStore.attach(path, keys) -> a store with its file. nil: the default path, number. */
static VALUE store_attach(VALUE class, VALUE path, VALUE keys) {
    VALUE self = TypedData_Wrap_Struct(class, &STORE, NULL);
    plock_local *store;
    plock_error error = {.status = PLOCK_OK};
    const plock_status status = plock_local_open(&store, NIL_P(path) ? NULL : StringValueCStr(path),
                                                 NIL_P(keys) ? 0 : NUM2UINT(keys), &error);
    if (status) binding_raise(status, &error);
    DATA_PTR(self) = store;
    return self;
}

/* The file's path. */
static VALUE store_path(VALUE self) {
    return rb_filesystem_str_new_cstr(plock_local_path(local_store(self)));
}

/* Why the file was made again when the store was opened, or nil. */
static VALUE store_remade(VALUE self) {
    const char *why = plock_local_remade(local_store(self));
    return why ? rb_utf8_str_new_cstr(why) : Qnil;
}

/* The number of a descriptor: a process that inherits it shares this one's liveness. nil: this
 * system cannot do that. */
static VALUE store_liveness(VALUE self) {
    plock_error error = {.status = PLOCK_OK};
    const int fd = plock_local_liveness(local_store(self), &error);
    if (error.status) binding_raise(error.status, &error);
    return fd < 0 ? Qnil : INT2NUM(fd);
}

static VALUE store_close(VALUE self) {
    plock_local_disconnect(local_store(self));
    return Qnil;
}

static VALUE store_closed(VALUE self) {
    return plock_local_disconnected(local_store(self)) ? Qtrue : Qfalse;
}

static plock_status make(plock_lease **lease, VALUE store, const char *key, size_t length) {
    return plock_local_lease_new(lease, local_store(store), key, length);
}

/* The share is "r", "w", "s" and a number, or NULL. */
static bool read_share(const char *share, plock_local_acquire_options *terms) {
    if (!share) return true;
    const bool counts = *share == 's';
    const unsigned long limit = counts ? strtoul(share + 1, NULL, 10) : *share == 'w';
    terms->mode = *share;
    terms->limit = (unsigned)limit;
    return (counts ? limit > 0 : (*share == 'r' || *share == 'w') && !share[1]) &&
           limit <= UINT16_MAX;
}

static plock_status acquire_for_block(plock_lease *lease, const binding_request *request) {
    plock_local_acquire_options terms = {.ttl = request->ttl,
                                         .wait = request->wait,
                                         .renews = request->renewed,
                                         .automatic = request->renewed};
    if (!read_share(request->share, &terms)) return PLOCK_MISUSE;
    return plock_local_lease_acquire(lease, &terms);
}

static const binding_store_kind KIND = {
    .make = make, .acquire = acquire_for_block, .is_local = true};

/* hold(key, ttl_ms, wait, report) { |hold| } -> the block's value. */
static VALUE store_hold(VALUE self, VALUE key, VALUE ttl_ms, VALUE wait, VALUE report) {
    return binding_hold(&KIND, self, key, ttl_ms, wait, report);
}

/* hold_digest(prefix, key, secret, ttl_ms, wait, report) { |token| } -> the block's value, or
 * Plock::Store::UNACQUIRED. */
static VALUE store_hold_digest(VALUE self, VALUE prefix, VALUE key, VALUE secret, VALUE ttl_ms,
                               VALUE wait, VALUE report) {
    return binding_hold_digest(&KIND, self, prefix, key, secret, ttl_ms, wait, report);
}

static VALUE store_acquire_directly(int argc, VALUE *argv, VALUE self) {
    return binding_acquire_directly(&KIND, argc, argv, self);
}

/* --- acquire one or several keys, and adopt from another process --- */

/* The options point to the bytes of the label's String. */
static plock_local_acquire_options terms_of(VALUE ttl, VALUE renew, VALUE max_hold, VALUE label,
                                            VALUE watch, VALUE at_least) {
    plock_local_acquire_options terms = {.ttl = binding_ttl(ttl, PLOCK_SECOND),
                                         .renews = RTEST(renew),
                                         .automatic = SYMBOL_P(renew),
                                         .watched = RTEST(watch),
                                         .max_hold = NIL_P(max_hold) ? 0 : binding_span(max_hold),
                                         .at_least = binding_span(at_least)};
    if (NIL_P(label)) return terms;
    Check_Type(label, T_STRING);
    if (RSTRING_LEN(label) > PLOCK_LOCAL_LABEL_MAX)
        rb_raise(rb_eArgError, "a label of more than %d bytes", PLOCK_LOCAL_LABEL_MAX);
    terms.label = RSTRING_PTR(label);
    terms.label_length = (size_t)RSTRING_LEN(label);
    return terms;
}

/* take_for(key, ttl, wait, renew, max_hold, label, watch, share, at_least) -> a hold, or nil:
 * others held it until `wait` was over. */
static VALUE store_take(VALUE self, VALUE key, VALUE ttl, VALUE wait, VALUE renew, VALUE max_hold,
                        VALUE label, VALUE watch, VALUE share, VALUE at_least) {
    plock_local_acquire_options terms = terms_of(ttl, renew, max_hold, label, watch, at_least);
    terms.wait = binding_span(wait);
    if (!read_share(NIL_P(share) ? NULL : StringValueCStr(share), &terms))
        rb_raise(rb_eArgError, "not a share: %" PRIsVALUE, rb_str_inspect(share));
    VALUE object = binding_lease_new(&KIND, self, key);
    plock_lease *lease = binding_lease(object);
    plock_status status = plock_local_lease_acquire(lease, &terms);
    if (status) binding_raise(status, plock_lease_error(lease));
    status = binding_drive(lease);
    RB_GC_GUARD(label);
    if (status == PLOCK_OK) return binding_hand_out(object);
    if (plock_status_kind(status) != PLOCK_KIND_TIMEOUT)
        binding_raise(status, plock_lease_error(lease));
    RB_GC_GUARD(object);
    return Qnil;
}

typedef struct party {
    plock_lease *leases[PLOCK_LOCAL_AT_ONCE_MAX];
    size_t count, refused;
    plock_local_acquire_options terms;
    plock_error error;
} party;

static plock_status take_step(void *of, plock_interest *interest) {
    party *p = of;
    return plock_local_acquire_all(p->leases, p->count, &p->terms, &p->refused, interest,
                                   &p->error);
}

/* take_all_for(keys, ttl, renew, max_hold, label, watch, at_least) -> holds; or the index of the
 * first key that is held or has waiters. */
static VALUE store_take_all(VALUE self, VALUE keys, VALUE ttl, VALUE renew, VALUE max_hold,
                            VALUE label, VALUE watch, VALUE at_least) {
    party p = {.terms = terms_of(ttl, renew, max_hold, label, watch, at_least)};
    Check_Type(keys, T_ARRAY);
    const long count = RARRAY_LEN(keys);
    if (count < 1 || count > PLOCK_LOCAL_AT_ONCE_MAX)
        rb_raise(rb_eArgError, "from 1 to %d at a time, not %ld", PLOCK_LOCAL_AT_ONCE_MAX, count);
    VALUE objects = rb_ary_new_capa(count);
    for (long i = 0; i < count; i++) {
        rb_ary_push(objects, binding_lease_new(&KIND, self, rb_ary_entry(keys, i)));
        p.leases[p.count++] = binding_lease(rb_ary_entry(objects, i));
    }
    const plock_status status = binding_carry_on(
        (plock_operation){.of = &p, .step = take_step, .cancel = binding_nothing_to_cancel});
    RB_GC_GUARD(label);
    if (status == PLOCK_REFUSED) return SIZET2NUM(p.refused);
    if (status) binding_raise(status, &p.error);
    return binding_hand_out(objects);
}

/* adopt_owner(key, owner, renew, max_hold, watch, heir, ttl) -> a hold, or nil: that owner no
 * longer held it. heir: the new owner; nil: a fresh token. ttl in seconds from now on; nil: the
 * expiry stays the same. */
static VALUE store_adopt(VALUE self, VALUE key, VALUE owner, VALUE renew, VALUE max_hold,
                         VALUE watch, VALUE heir, VALUE ttl) {
    StringValue(owner);
    plock_local_acquire_options terms = {.renews = RTEST(renew),
                                         .automatic = SYMBOL_P(renew),
                                         .watched = RTEST(watch),
                                         .max_hold = NIL_P(max_hold) ? 0 : binding_span(max_hold),
                                         .ttl = NIL_P(ttl) ? 0 : binding_ttl(ttl, PLOCK_SECOND)};
    if (!NIL_P(heir)) {
        terms.owner = StringValuePtr(heir);
        terms.owner_length = (size_t)RSTRING_LEN(heir);
    }
    VALUE object = binding_lease_new(&KIND, self, key);
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

/* lock_acquire(key, owner, ttl) -> true, or false: it is held; ttl in seconds. The end of this
 * process does not release it: any process that names the owner can. */
static VALUE store_lock_acquire(VALUE self, VALUE key, VALUE owner, VALUE ttl) {
    StringValue(owner);
    const plock_local_acquire_options terms = {.ttl = binding_ttl(ttl, PLOCK_SECOND),
                                               .owner = RSTRING_PTR(owner),
                                               .owner_length = (size_t)RSTRING_LEN(owner)};
    VALUE object = binding_lease_new(&KIND, self, key);
    plock_lease *lease = binding_lease(object);
    plock_status status = plock_local_lease_acquire(lease, &terms);
    RB_GC_GUARD(owner);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the owner is empty");
    if (status) binding_raise(status, NULL);
    status = binding_drive(lease);
    if (status == PLOCK_REFUSED) return Qfalse;
    if (status) binding_raise(status, plock_lease_error(lease));
    plock_local_lease_forget(lease); /* the lease object is no longer needed */
    RB_GC_GUARD(object);
    return Qtrue;
}

/* lock_release(key, owner) -> true, or false: that owner no longer held it. */
static VALUE store_lock_release(VALUE self, VALUE key, VALUE owner) {
    StringValue(owner);
    VALUE object = binding_lease_new(&KIND, self, key);
    plock_lease *lease = binding_lease(object);
    plock_status status =
        plock_local_lease_release_owned(lease, RSTRING_PTR(owner), (size_t)RSTRING_LEN(owner));
    RB_GC_GUARD(owner);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the owner is empty");
    if (!status) status = binding_drive_deferring(lease);
    if (status && status != PLOCK_NOT_OWNER) binding_raise(status, plock_lease_error(lease));
    RB_GC_GUARD(object);
    return status ? Qfalse : Qtrue;
}

/* --- queries --- */

typedef struct query {
    plock_local *store;
    const char *key;
    size_t length;
    plock_local_person *people;
    size_t room, count;
    uint32_t cursor;
    char found[PLOCK_LOCAL_KEY_MAX];
    size_t found_length;
    plock_error error;
} query;

static plock_status examine_step(void *of, plock_interest *interest) {
    query *i = of;
    return plock_local_examine(i->store, i->key, i->length, i->people, i->room, &i->count, interest,
                               &i->error);
}

static plock_status next_step(void *of, plock_interest *interest) {
    query *i = of;
    return plock_local_next_key(i->store, &i->cursor, i->found, &i->found_length, interest,
                                &i->error);
}

static plock_status break_step(void *of, plock_interest *interest) {
    query *i = of;
    return plock_local_break(i->store, i->key, i->length, interest, &i->error);
}

static plock_status ask(query *i, plock_status (*step)(void *, plock_interest *)) {
    return binding_carry_on(
        (plock_operation){.of = i, .step = step, .cancel = binding_nothing_to_cancel});
}

/* [waits, seconds left, fence, microseconds since 1970, pid, thread, label, mode] */
static VALUE describe(const plock_local_person *person) {
    VALUE label =
        person->label_length ? rb_utf8_str_new(person->label, (long)person->label_length) : Qnil;
    VALUE mode = person->mode ? rb_usascii_str_new(&person->mode, 1) : Qnil;
    return rb_ary_new_from_args(8, person->waits ? Qtrue : Qfalse, binding_seconds(person->left),
                                LL2NUM(person->fence), LL2NUM(person->since), LL2NUM(person->pid),
                                LL2NUM(person->thread), label, mode);
}

/* ask_people(key) -> the holders, and the waiters, in order. */
static VALUE store_ask_people(VALUE self, VALUE key) {
    enum { AT_FIRST = 16 };
    StringValue(key);
    query i = {
        .store = local_store(self), .key = RSTRING_PTR(key), .length = (size_t)RSTRING_LEN(key)};
    VALUE memory = Qnil;
    for (size_t room = AT_FIRST; i.room < i.count || i.room == 0; room = i.count + AT_FIRST) {
        memory = rb_str_buf_new(
            (long)(room * sizeof *i.people)); /* freed even if an exception is raised */
        i.people = (plock_local_person *)(void *)RSTRING_PTR(memory);
        i.room = room;
        const plock_status status = ask(&i, examine_step);
        if (status) binding_raise(status, &i.error);
    }
    VALUE people = rb_ary_new_capa((long)i.count);
    for (size_t number = 0; number < i.count; number++)
        rb_ary_push(people, describe(&i.people[number]));
    RB_GC_GUARD(memory);
    RB_GC_GUARD(key);
    return people;
}

/* ask_next_key(cursor) -> [cursor to continue from, key], or nil at the end. */
static VALUE store_ask_next_key(VALUE self, VALUE cursor) {
    query i = {.store = local_store(self), .cursor = NUM2UINT(cursor)};
    const plock_status status = ask(&i, next_step);
    if (status) binding_raise(status, &i.error);
    if (!i.found_length) return Qnil;
    return rb_ary_new_from_args(2, UINT2NUM(i.cursor), rb_str_new(i.found, (long)i.found_length));
}

/* host_name -> this host's name */
static VALUE store_host_name(VALUE self) {
    char name[256] = "";
    (void)self;
    if (gethostname(name, sizeof name - 1)) rb_sys_fail("gethostname");
    return rb_locale_str_new_cstr(name);
}

/* break_hold(key, shared) -> true, or false: no process held it. */
static VALUE store_break(VALUE self, VALUE key, VALUE shared) {
    (void)shared;
    StringValue(key);
    query i = {
        .store = local_store(self), .key = RSTRING_PTR(key), .length = (size_t)RSTRING_LEN(key)};
    const plock_status status = ask(&i, break_step);
    RB_GC_GUARD(key);
    if (status && status != PLOCK_NOT_OWNER) binding_raise(status, &i.error);
    return status ? Qfalse : Qtrue;
}

void binding_init_local(void) {
    VALUE class = rb_define_class_under(binding_plock, "LocalStore", rb_cObject);
    rb_undef_alloc_func(class);
    rb_undef_method(rb_singleton_class(class), "new");
    rb_define_private_method(rb_singleton_class(class), "attach", store_attach, 2);
    rb_define_method(class, "hold", store_hold, 4);
    rb_define_method(class, "hold_digest", store_hold_digest, 6);
    rb_define_method(class, "acquire_directly", store_acquire_directly, -1);
    rb_define_private_method(class, "take_for", store_take, 9);
    rb_define_private_method(class, "take_all_for", store_take_all, 7);
    rb_define_private_method(class, "adopt_owner", store_adopt, 7);
    rb_define_method(class, "lock_acquire", store_lock_acquire, 3);
    rb_define_method(class, "lock_release", store_lock_release, 2);
    rb_define_private_method(class, "ask_people", store_ask_people, 1);
    rb_define_private_method(class, "ask_next_key", store_ask_next_key, 1);
    rb_define_private_method(class, "break_hold", store_break, 2);
    rb_define_private_method(class, "host_name", store_host_name, 0);
    rb_define_singleton_method(binding_plock, "host_name", store_host_name, 0);
    rb_define_private_method(class, "remade", store_remade, 0);
    rb_define_method(class, "liveness", store_liveness, 0);
    rb_define_method(class, "path", store_path, 0);
    rb_define_method(class, "close", store_close, 0);
    rb_define_method(class, "closed?", store_closed, 0);
}
