/* Plock::LocalStore: the embedded store as an object, and what it tells of its locks. */
#include "binding.h"

#include <unistd.h>

static void store_free(void *store) {
    plock_local_close(store);
}

static const rb_data_type_t STORE = {
    .wrap_struct_name = "Plock::LocalStore",
    .function = {.dfree = store_free},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

plock_local *binding_local(VALUE self) {
    plock_local *store = rb_check_typeddata(self, &STORE);
    if (!store) rb_raise(rb_eArgError, "uninitialized Plock::LocalStore");
    return store;
}

/* Plock::LocalStore.attach(path, keys) -> a store, whose file is there. nil: the default place, and number. */
static VALUE store_attach(VALUE class, VALUE path, VALUE keys) {
    VALUE self = TypedData_Wrap_Struct(class, &STORE, NULL);
    plock_local *store;
    plock_error error = {.status = PLOCK_OK};
    const plock_status status = plock_local_open(&store, NIL_P(path) ? NULL : StringValueCStr(path), NIL_P(keys) ? 0 : NUM2UINT(keys), &error);
    if (status) binding_raise(status, &error);
    DATA_PTR(self) = store;
    return self;
}

/* The file's path. */
static VALUE store_path(VALUE self) {
    return rb_filesystem_str_new_cstr(plock_local_path(binding_local(self)));
}

/* Why it was made anew when it was opened, or nil. */
static VALUE store_remade(VALUE self) {
    const char *why = plock_local_remade(binding_local(self));
    return why ? rb_utf8_str_new_cstr(why) : Qnil;
}

/* The number of a descriptor: a process that inherits it shares this one's liveness. nil: on this system that cannot be. */
static VALUE store_liveness(VALUE self) {
    plock_error error = {.status = PLOCK_OK};
    const int fd = plock_local_liveness(binding_local(self), &error);
    if (error.status) binding_raise(error.status, &error);
    return fd < 0 ? Qnil : INT2NUM(fd);
}

static VALUE store_close(VALUE self) {
    plock_local_disconnect(binding_local(self));
    return Qnil;
}

static VALUE store_closed(VALUE self) {
    return plock_local_disconnected(binding_local(self)) ? Qtrue : Qfalse;
}

/* --- inquiries --- */

typedef struct inquiry {
    plock_local *store;
    const char *key;
    size_t length;
    plock_local_person *people;
    size_t room, count;
    uint32_t cursor;
    char found[PLOCK_LOCAL_KEY_MAX];
    size_t found_length;
    plock_error error;
} inquiry;

static plock_status examine_step(void *of, plock_want *want) {
    inquiry *i = of;
    return plock_local_examine(i->store, i->key, i->length, i->people, i->room, &i->count, want, &i->error);
}

static plock_status next_step(void *of, plock_want *want) {
    inquiry *i = of;
    return plock_local_next_key(i->store, &i->cursor, i->found, &i->found_length, want, &i->error);
}

static plock_status break_step(void *of, plock_want *want) {
    inquiry *i = of;
    return plock_local_break(i->store, i->key, i->length, want, &i->error);
}

static void nothing_to_cancel(void *of) {
    (void)of;
}

static plock_status ask(inquiry *i, plock_status (*step)(void *, plock_want *)) {
    return binding_carry_on((plock_operation){.of = i, .step = step, .cancel = nothing_to_cancel});
}

/* [waits, seconds left, fence, microseconds since 1970, pid, thread, label, mode] */
static VALUE describe(const plock_local_person *person) {
    VALUE label = person->label_length ? rb_utf8_str_new(person->label, (long)person->label_length) : Qnil;
    VALUE mode = person->mode ? rb_usascii_str_new(&person->mode, 1) : Qnil;
    return rb_ary_new_from_args(8, person->waits ? Qtrue : Qfalse, binding_seconds(person->left), LL2NUM(person->fence), LL2NUM(person->since),
                                LL2NUM(person->pid), LL2NUM(person->thread), label, mode);
}

/* ask_people(key) -> who is inside, and who waits, in order. */
static VALUE store_ask_people(VALUE self, VALUE key) {
    enum { AT_FIRST = 16 };
    StringValue(key);
    inquiry i = {.store = binding_local(self), .key = RSTRING_PTR(key), .length = (size_t)RSTRING_LEN(key)};
    VALUE memory = Qnil;
    for (size_t room = AT_FIRST; i.room < i.count || i.room == 0; room = i.count + AT_FIRST) {
        memory = rb_str_buf_new((long)(room * sizeof *i.people)); /* freed whatever is raised */
        i.people = (plock_local_person *)(void *)RSTRING_PTR(memory);
        i.room = room;
        const plock_status status = ask(&i, examine_step);
        if (status) binding_raise(status, &i.error);
    }
    VALUE people = rb_ary_new_capa((long)i.count);
    for (size_t number = 0; number < i.count; number++) rb_ary_push(people, describe(&i.people[number]));
    RB_GC_GUARD(memory);
    RB_GC_GUARD(key);
    return people;
}

/* ask_next_key(cursor) -> [cursor to go on from, key], or nil at the end. */
static VALUE store_ask_next_key(VALUE self, VALUE cursor) {
    inquiry i = {.store = binding_local(self), .cursor = NUM2UINT(cursor)};
    const plock_status status = ask(&i, next_step);
    if (status) binding_raise(status, &i.error);
    if (!i.found_length) return Qnil;
    return rb_ary_new_from_args(2, UINT2NUM(i.cursor), rb_str_new(i.found, (long)i.found_length));
}

/* host_name -> this host's */
static VALUE store_host_name(VALUE self) {
    char name[256] = "";
    (void)self;
    if (gethostname(name, sizeof name - 1)) rb_sys_fail("gethostname");
    return rb_locale_str_new_cstr(name);
}

/* break_hold(key, shared) -> true, or false: nobody held it. */
static VALUE store_break(VALUE self, VALUE key, VALUE shared) {
    (void)shared;
    StringValue(key);
    inquiry i = {.store = binding_local(self), .key = RSTRING_PTR(key), .length = (size_t)RSTRING_LEN(key)};
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
    binding_init_local_hold();
    binding_init_local_take(class);
    binding_init_local_block(class);
    rb_define_private_method(class, "ask_people", store_ask_people, 1);
    rb_define_private_method(class, "ask_next_key", store_ask_next_key, 1);
    rb_define_private_method(class, "break_hold", store_break, 2);
    rb_define_private_method(class, "host_name", store_host_name, 0);
    rb_define_private_method(rb_singleton_class(binding_plock), "host_name", store_host_name, 0);
    rb_define_private_method(class, "remade", store_remade, 0);
    rb_define_private_method(class, "liveness", store_liveness, 0);
    rb_define_method(class, "path", store_path, 0);
    rb_define_method(class, "close", store_close, 0);
    rb_define_method(class, "closed?", store_closed, 0);
}
