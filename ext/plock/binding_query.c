/* Queries about locks and servers. The answers are plain Arrays, which Ruby code turns into
 * objects. */
#include "binding.h"

/* --- the locks of a store on Redis --- */

static void query_free(void *query) { plock_query_free(query); }

static const rb_data_type_t QUERY = {
    .wrap_struct_name = "Plock inquiry",
    .function = {.dfree = query_free},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

/* Makes a query about the key. The Ruby object frees the query, even if an exception is raised. */
static plock_query *about(VALUE *object, VALUE store, VALUE key, bool shared) {
    plock_query *query = NULL;
    *object = TypedData_Wrap_Struct(0, &QUERY, NULL);
    StringValue(key);
    const plock_status status = plock_query_new(&query, binding_store(store), RSTRING_PTR(key),
                                                (size_t)RSTRING_LEN(key), shared);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the key is empty");
    if (status) binding_raise(status, NULL);
    DATA_PTR(*object) = query;
    return query;
}

/* Runs the query. Returns the parts of the answer, which are Strings and Integers. */
static VALUE answer(VALUE object, plock_query *query) {
    const plock_status status = binding_carry_on(plock_query_operation(query));
    if (status) binding_raise(status, plock_query_error(query));
    VALUE parts = rb_ary_new();
    for (size_t i = 0; i < plock_query_parts(query); i++) {
        size_t length;
        const char *text = plock_query_text(query, i, &length);
        rb_ary_push(parts, text ? rb_utf8_str_new(text, (long)length)
                                : LL2NUM(plock_query_number(query, i)));
    }
    RB_GC_GUARD(object);
    return parts;
}

/* ask_status(key, shared, first, budget) -> the parts of plock_query_status's answer. budget: in
 * seconds, or nil for the store's timeouts. */
static VALUE store_ask_status(VALUE self, VALUE key, VALUE shared, VALUE first, VALUE budget) {
    VALUE object;
    plock_query *query = about(&object, self, key, RTEST(shared));
    plock_query_status(query, NUM2LL(first));
    if (!NIL_P(budget)) plock_query_hurry(query, plock_after(plock_now(), binding_span(budget)));
    return answer(object, query);
}

/* ask_scan(pattern, cursor) -> [cursor to continue from, key, key …] */
static VALUE store_ask_scan(VALUE self, VALUE pattern, VALUE cursor) {
    VALUE object;
    plock_query *query = about(&object, self, pattern, false);
    plock_query_scan(query, NUM2LL(cursor));
    return answer(object, query);
}

/* ask_break(key, shared, fences) -> true, or false if no lease with one of the fences held the key.
 * fences: as in plock_query_break_only; "" means all. */
static VALUE store_ask_break(VALUE self, VALUE key, VALUE shared, VALUE fences) {
    VALUE object;
    VALUE only = rb_str_new_frozen(rb_String(fences)); /* other code cannot change this copy */
    plock_query *query = about(&object, self, key, RTEST(shared));
    plock_query_break_only(query, RSTRING_PTR(only), (size_t)RSTRING_LEN(only));
    VALUE parts = answer(object, query);
    RB_GC_GUARD(only);
    return binding_bool(NUM2LL(rb_ary_entry(parts, 0)));
}

/* ask_note(key, note, replace) -> the note that the key has afterwards, or "" if it has none. It
 * stores `note` if the key had none or `replace` is true. */
static VALUE store_ask_note(VALUE self, VALUE key, VALUE note, VALUE replace) {
    VALUE object;
    StringValue(note);
    plock_query *query = about(&object, self, key, false);
    if (plock_query_note(query, RSTRING_PTR(note), (size_t)RSTRING_LEN(note), RTEST(replace)))
        rb_raise(rb_eArgError, "the note is longer than %d bytes", PLOCK_NOTE_MAX);
    return rb_ary_entry(answer(object, query), 0);
}

/* --- the locks of a local store --- */

typedef struct local_query {
    plock_local *store;
    const char *key;
    size_t length;
    plock_local_person *people;
    size_t room, count;
    uint32_t cursor;
    const int64_t *only; /* the fences to break; NULL: all */
    size_t only_count;
    char found[PLOCK_LOCAL_KEY_MAX];
    size_t found_length;
    plock_ns deadline;
    plock_error error;
} local_query;

static plock_status examine_step(void *of, plock_interest *interest) {
    local_query *i = of;
    return plock_local_examine(i->store, i->key, i->length, i->people, i->room, &i->count,
                               i->deadline, interest, &i->error);
}

static plock_status next_step(void *of, plock_interest *interest) {
    local_query *i = of;
    return plock_local_next_key(i->store, &i->cursor, i->found, &i->found_length, i->deadline,
                                interest, &i->error);
}

static plock_status break_step(void *of, plock_interest *interest) {
    local_query *i = of;
    return plock_local_break(i->store, i->key, i->length, i->only, i->only_count, i->deadline,
                             interest, &i->error);
}

static plock_status repeat(plock_status (*step)(void *, plock_interest *), local_query *query) {
    query->deadline = plock_after(plock_now(), PLOCK_LOCAL_PATIENCE);
    return binding_repeat(step, query);
}

/* Returns [true for a waiter, seconds left, fence, microseconds since 1970, pid, thread, label,
 * mode]. The label and the mode may be nil. */
static VALUE describe(const plock_local_person *person) {
    VALUE label =
        person->label_length ? rb_utf8_str_new(person->label, (long)person->label_length) : Qnil;
    VALUE mode = person->mode ? rb_usascii_str_new(&person->mode, 1) : Qnil;
    return rb_ary_new_from_args(8, person->waits ? Qtrue : Qfalse, binding_seconds(person->left),
                                LL2NUM(person->fence), LL2NUM(person->since), LL2NUM(person->pid),
                                LL2NUM(person->thread), label, mode);
}

/* ask_people(key) -> the holders, and then the waiters in the queue's order. */
static VALUE local_ask_people(VALUE self, VALUE key) {
    enum { AT_FIRST = 16 };
    StringValue(key);
    local_query i = {.store = binding_local_store(self),
                     .key = RSTRING_PTR(key),
                     .length = (size_t)RSTRING_LEN(key)};
    VALUE memory = Qnil;
    for (size_t room = AT_FIRST; i.room < i.count || i.room == 0; room = i.count + AT_FIRST) {
        memory = rb_str_buf_new(
            (long)(room * sizeof *i.people)); /* freed even if an exception is raised */
        i.people = (plock_local_person *)(void *)RSTRING_PTR(memory);
        i.room = room;
        const plock_status status = repeat(examine_step, &i);
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
static VALUE local_ask_next_key(VALUE self, VALUE cursor) {
    local_query i = {.store = binding_local_store(self), .cursor = NUM2UINT(cursor)};
    const plock_status status = repeat(next_step, &i);
    if (status) binding_raise(status, &i.error);
    if (!i.found_length) return Qnil;
    return rb_ary_new_from_args(2, UINT2NUM(i.cursor), rb_str_new(i.found, (long)i.found_length));
}

/* ask_break(key, fences) -> true, or false if no lease with one of the fences held the key. fences:
 * nil means all. */
static VALUE local_ask_break(VALUE self, VALUE key, VALUE fences) {
    StringValue(key);
    local_query i = {.store = binding_local_store(self),
                     .key = RSTRING_PTR(key),
                     .length = (size_t)RSTRING_LEN(key)};
    VALUE memory = Qnil;
    if (!NIL_P(fences)) {
        Check_Type(fences, T_ARRAY);
        i.only_count = (size_t)RARRAY_LEN(fences);
        memory = rb_str_buf_new((long)(i.only_count * sizeof *i.only));
        int64_t *only = (int64_t *)(void *)RSTRING_PTR(memory);
        for (size_t at = 0; at < i.only_count; at++)
            only[at] = NUM2LL(rb_ary_entry(fences, (long)at));
        i.only = only;
    }
    const plock_status status = repeat(break_step, &i);
    RB_GC_GUARD(memory);
    RB_GC_GUARD(key);
    if (status && status != PLOCK_NOT_OWNER) binding_raise(status, &i.error);
    return binding_bool(!status);
}

/* --- plain commands to the server, for plock doctor --- */

static void admin_session_free(void *admin_session) { plock_admin_session_free(admin_session); }

static const rb_data_type_t ADMIN_SESSION = {
    .wrap_struct_name = "Plock::Store::Conversation",
    .function = {.dfree = admin_session_free},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static VALUE admin_session_class;

static plock_status converse_with(plock_admin_session **out, plock_store *store, VALUE place) {
    if (NIL_P(place)) return plock_admin_session_new(out, store);
    if (!RB_TYPE_P(place, T_ARRAY))
        return plock_admin_session_to_sentinel(out, store, NUM2UINT(place));
    VALUE host = rb_ary_entry(place, 0), port = rb_ary_entry(place, 1);
    return plock_admin_session_to_node(out, store, StringValueCStr(host), StringValueCStr(port));
}

/* converse(place = nil) -> an admin session with the server, a sentinel or a node. place: the index
 * of a sentinel in the URL, or the [host, port] of a cluster's node; nil for the server. */
static VALUE store_converse(int argc, VALUE *argv, VALUE self) {
    VALUE place;
    rb_scan_args(argc, argv, "01", &place);
    VALUE object = TypedData_Wrap_Struct(admin_session_class, &ADMIN_SESSION, NULL);
    plock_admin_session *admin_session = NULL;
    const plock_status status = converse_with(&admin_session, binding_store(self), place);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "there is no such sentinel or node");
    if (status) binding_raise(status, NULL);
    DATA_PTR(object) = admin_session;
    return object;
}

static VALUE address(const char *host, const char *port) {
    return rb_ary_new_from_args(2, rb_utf8_str_new_cstr(host), rb_utf8_str_new_cstr(port));
}

/* primaries -> [[host, port], …] of the known primaries of a cluster; empty without a cluster */
static VALUE store_primaries(VALUE self) {
    VALUE list = rb_ary_new();
    const char *host, *port;
    for (unsigned number = 0; plock_store_primary(binding_store(self), &number, &host, &port);)
        rb_ary_push(list, address(host, port));
    return list;
}

/* node_of(key) -> [host, port], or nil if the store is not on a cluster, or knows no node for the
 * key */
static VALUE store_node_of(VALUE self, VALUE key) {
    const char *host, *port;
    StringValue(key);
    if (!plock_store_node_of(binding_store(self), RSTRING_PTR(key), (size_t)RSTRING_LEN(key), &host,
                             &port))
        return Qnil;
    return address(host, port);
}

/* sentinels -> [[host, port], …] in the order of the URL; empty if the URL names a server */
static VALUE store_sentinels(VALUE self) {
    const plock_config *config = plock_store_config(binding_store(self));
    VALUE list = rb_ary_new();
    const char *host, *port;
    for (unsigned i = 0; plock_config_sentinel(config, i, &host, &port); i++)
        rb_ary_push(list, address(host, port));
    return list;
}

/* primary_name -> the name under which the sentinels know the primary, or nil if the URL names a
 * server */
static VALUE store_primary_name(VALUE self) {
    const char *name = plock_config_primary_name(plock_store_config(binding_store(self)));
    return name ? rb_utf8_str_new_cstr(name) : Qnil;
}

/* Returns the part at *place, and moves *place past it. A part is nil, an Integer, a String, or an
 * Array of parts. The engine limits how deeply Arrays are nested. */
static VALUE part(const plock_admin_session *admin_session, size_t *place) {
    const plock_part read = plock_admin_session_part(admin_session, (*place)++);
    switch (read.kind) {
    case PLOCK_PART_NUMBER: return LL2NUM(read.number);
    case PLOCK_PART_TEXT: return rb_utf8_str_new(read.text, (long)read.length);
    case PLOCK_PART_NOTHING: return Qnil;
    case PLOCK_PART_LIST: break;
    }
    VALUE list = rb_ary_new();
    for (size_t i = 0; i < read.length; i++) rb_ary_push(list, part(admin_session, place));
    return list;
}

/* ask(words) -> the server's answer. Raises if the answer is an error. */
static VALUE admin_session_ask(VALUE self, VALUE texts) {
    plock_admin_session *admin_session = rb_check_typeddata(self, &ADMIN_SESSION);
    Check_Type(texts, T_ARRAY);
    const long count = RARRAY_LEN(texts);
    if (count < 1 || count > PLOCK_QUESTION_WORDS)
        rb_raise(rb_eArgError, "1 to %d words are a question", PLOCK_QUESTION_WORDS);
    plock_word words[PLOCK_QUESTION_WORDS];
    VALUE kept = rb_ary_new(); /* keeps the Strings alive, even if other code changes `texts` */
    for (long i = 0; i < count; i++) {
        VALUE word = rb_str_new_frozen(rb_String(rb_ary_entry(texts, i)));
        rb_ary_push(kept, word);
        words[i] = (plock_word){RSTRING_PTR(word), (size_t)RSTRING_LEN(word)};
    }
    plock_status status = plock_admin_session_ask(admin_session, (unsigned)count, words);
    if (!status) status = binding_carry_on(plock_admin_session_operation(admin_session));
    RB_GC_GUARD(kept);
    if (status) binding_raise(status, plock_admin_session_error(admin_session));
    size_t place = 0;
    return part(admin_session, &place);
}

/* close -> nil. The next question opens the session again. */
static VALUE admin_session_close(VALUE self) {
    const plock_operation operation =
        plock_admin_session_operation(rb_check_typeddata(self, &ADMIN_SESSION));
    operation.cancel(operation.of);
    return Qnil;
}

void binding_init_query(VALUE store_class) {
    rb_define_private_method(store_class, "ask_status", store_ask_status, 4);
    rb_define_private_method(store_class, "ask_scan", store_ask_scan, 2);
    rb_define_private_method(store_class, "ask_note", store_ask_note, 3);
    rb_define_private_method(store_class, "ask_break", store_ask_break, 3);
    admin_session_class = rb_define_class_under(store_class, "Conversation", rb_cObject);
    rb_gc_register_mark_object(admin_session_class);
    rb_undef_alloc_func(admin_session_class);
    rb_undef_method(rb_singleton_class(admin_session_class), "new");
    rb_define_method(admin_session_class, "ask", admin_session_ask, 1);
    rb_define_method(admin_session_class, "close", admin_session_close, 0);
    rb_define_method(store_class, "converse", store_converse, -1);
    rb_define_method(store_class, "sentinels", store_sentinels, 0);
    rb_define_method(store_class, "primary_name", store_primary_name, 0);
    rb_define_method(store_class, "primaries", store_primaries, 0);
    rb_define_method(store_class, "node_of", store_node_of, 1);
}

void binding_init_local_query(VALUE store_class) {
    rb_define_private_method(store_class, "ask_people", local_ask_people, 1);
    rb_define_private_method(store_class, "ask_next_key", local_ask_next_key, 1);
    rb_define_private_method(store_class, "ask_break", local_ask_break, 2);
}
