/* Queries about a store's locks, answered with plain Arrays, which Ruby code turns into objects. */
#include "binding.h"

static void query_free(void *query) { plock_query_free(query); }

static const rb_data_type_t QUERY = {
    .wrap_struct_name = "Plock inquiry",
    .function = {.dfree = query_free},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

/* An object frees the query even if an exception is raised. */
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

/* The parts of the answer: Strings and Integers. */
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

static VALUE ask_status(VALUE self, VALUE key, bool shared, VALUE first, VALUE budget) {
    VALUE object;
    plock_query *query = about(&object, self, key, shared);
    plock_query_status(query, NUM2LL(first));
    if (!NIL_P(budget)) plock_query_hurry(query, plock_after(plock_now(), binding_span(budget)));
    return answer(object, query);
}

/* ask_status(key, first, budget) -> [value, ms left, note, number of waiters, ticket, record,
 * ticket, record …]. budget: in seconds, or nil: the store's timeouts. */
static VALUE store_ask_status(VALUE self, VALUE key, VALUE first, VALUE budget) {
    return ask_status(self, key, false, first, budget);
}

/* ask_shared_status(key, first, budget) -> [number of holders, number of waiters, then of holders
 * ms left and note …, and of waiters ticket, share and record …] */
static VALUE store_ask_shared_status(VALUE self, VALUE key, VALUE first, VALUE budget) {
    return ask_status(self, key, true, first, budget);
}

/* ask_scan(pattern, cursor) -> [cursor to continue from, key, key …] */
static VALUE store_ask_scan(VALUE self, VALUE pattern, VALUE cursor) {
    VALUE object;
    plock_query *query = about(&object, self, pattern, false);
    plock_query_scan(query, NUM2LL(cursor));
    return answer(object, query);
}

/* break_hold(key, shared) -> true, or false: no process held it. */
static VALUE store_break(VALUE self, VALUE key, VALUE shared) {
    VALUE object;
    plock_query *query = about(&object, self, key, RTEST(shared));
    plock_query_break(query);
    return NUM2LL(rb_ary_entry(answer(object, query), 0)) ? Qtrue : Qfalse;
}

/* ask_note(key, note, replace) -> the note under the key, "" if there is none (plock/query.h). */
static VALUE store_ask_note(VALUE self, VALUE key, VALUE note, VALUE replace) {
    VALUE object;
    StringValue(note);
    plock_query *query = about(&object, self, key, false);
    if (plock_query_note(query, RSTRING_PTR(note), (size_t)RSTRING_LEN(note), RTEST(replace)))
        rb_raise(rb_eArgError, "the note is longer than %d bytes", PLOCK_NOTE_MAX);
    return rb_ary_entry(answer(object, query), 0);
}

/* --- plain commands to the server, for plock doctor --- */

static void admin_session_free(void *admin_session) { plock_admin_session_free(admin_session); }

static const rb_data_type_t ADMIN_SESSION = {
    .wrap_struct_name = "Plock::Store::Conversation",
    .function = {.dfree = admin_session_free},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static VALUE admin_session_class;

/* converse -> an admin session */
static VALUE store_converse(VALUE self) {
    VALUE object = TypedData_Wrap_Struct(admin_session_class, &ADMIN_SESSION, NULL);
    plock_admin_session *admin_session = NULL;
    const plock_status status = plock_admin_session_new(&admin_session, binding_store(self));
    if (status) binding_raise(status, NULL);
    DATA_PTR(object) = admin_session;
    return object;
}

/* The part at *place: nil, Integer, String or Array with its elements. The engine bounds the
 * depth. */
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

/* ask(words) -> the server's answer; raises if that is an error. */
static VALUE admin_session_ask(VALUE self, VALUE texts) {
    plock_admin_session *admin_session = rb_check_typeddata(self, &ADMIN_SESSION);
    Check_Type(texts, T_ARRAY);
    const long count = RARRAY_LEN(texts);
    if (count < 1 || count > PLOCK_QUESTION_WORDS)
        rb_raise(rb_eArgError, "1 to %d words are a question", PLOCK_QUESTION_WORDS);
    plock_word words[PLOCK_QUESTION_WORDS];
    VALUE kept = rb_ary_new(); /* keeps the Strings alive, whatever other code does to texts */
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

/* close -> nil. The next question opens it again. */
static VALUE admin_session_close(VALUE self) {
    const plock_operation operation =
        plock_admin_session_operation(rb_check_typeddata(self, &ADMIN_SESSION));
    operation.cancel(operation.of);
    return Qnil;
}

void binding_init_query(VALUE store_class) {
    rb_define_private_method(store_class, "ask_status", store_ask_status, 3);
    rb_define_private_method(store_class, "ask_shared_status", store_ask_shared_status, 3);
    rb_define_private_method(store_class, "ask_scan", store_ask_scan, 2);
    rb_define_private_method(store_class, "ask_note", store_ask_note, 3);
    rb_define_private_method(store_class, "break_hold", store_break, 2);
    admin_session_class = rb_define_class_under(store_class, "Conversation", rb_cObject);
    rb_gc_register_mark_object(admin_session_class);
    rb_undef_alloc_func(admin_session_class);
    rb_undef_method(rb_singleton_class(admin_session_class), "new");
    rb_define_method(admin_session_class, "ask", admin_session_ask, 1);
    rb_define_method(admin_session_class, "close", admin_session_close, 0);
    rb_define_method(store_class, "converse", store_converse, 0);
}
