/* What a store says about its locks, as plain Arrays; Ruby makes something of them. */
#include "binding.h"

static void inquiry_free(void *inquiry) {
    plock_inquiry_free(inquiry);
}

static const rb_data_type_t INQUIRY = {
    .wrap_struct_name = "Plock inquiry",
    .function = {.dfree = inquiry_free},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

/* An object only so that it is freed whatever is raised meanwhile. */
static plock_inquiry *about(VALUE *object, VALUE store, VALUE key, bool shared) {
    plock_inquiry *inquiry = NULL;
    *object = TypedData_Wrap_Struct(0, &INQUIRY, NULL);
    StringValue(key);
    const plock_status status = plock_inquiry_new(&inquiry, binding_store(store), RSTRING_PTR(key), (size_t)RSTRING_LEN(key), shared);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "the key is empty");
    if (status) binding_raise(status, NULL);
    DATA_PTR(*object) = inquiry;
    return inquiry;
}

/* The parts of the answer: Strings and Integers. */
static VALUE answer(VALUE object, plock_inquiry *inquiry) {
    const plock_status status = binding_carry_on(plock_inquiry_operation(inquiry));
    if (status) binding_raise(status, plock_inquiry_error(inquiry));
    VALUE parts = rb_ary_new();
    for (size_t i = 0; i < plock_inquiry_parts(inquiry); i++) {
        size_t length;
        const char *text = plock_inquiry_text(inquiry, i, &length);
        rb_ary_push(parts, text ? rb_utf8_str_new(text, (long)length) : LL2NUM(plock_inquiry_number(inquiry, i)));
    }
    RB_GC_GUARD(object);
    return parts;
}

static VALUE ask_status(VALUE self, VALUE key, bool shared, VALUE first, VALUE budget) {
    VALUE object;
    plock_inquiry *inquiry = about(&object, self, key, shared);
    plock_inquiry_status(inquiry, NUM2LL(first));
    if (!NIL_P(budget)) plock_inquiry_hurry(inquiry, plock_after(plock_now(), binding_span(budget)));
    return answer(object, inquiry);
}

/* ask_status(key, first, budget) -> [value, ms left, note, waiters in all, ticket, record, ticket, record …]; within so many
 * seconds, where that is not nil. */
static VALUE store_ask_status(VALUE self, VALUE key, VALUE first, VALUE budget) {
    return ask_status(self, key, false, first, budget);
}

/* ask_shared_status(key, first, budget) -> [holders in all, waiters in all, then of holders, and of waiters, ms left, note … ticket, share and record …] */
static VALUE store_ask_shared_status(VALUE self, VALUE key, VALUE first, VALUE budget) {
    return ask_status(self, key, true, first, budget);
}

/* ask_scan(pattern, cursor) -> [cursor to go on from, key, key …] */
static VALUE store_ask_scan(VALUE self, VALUE pattern, VALUE cursor) {
    VALUE object;
    plock_inquiry *inquiry = about(&object, self, pattern, false);
    plock_inquiry_scan(inquiry, NUM2LL(cursor));
    return answer(object, inquiry);
}

/* break_hold(key, shared) -> true, or false: nobody held it. */
static VALUE store_break(VALUE self, VALUE key, VALUE shared) {
    VALUE object;
    plock_inquiry *inquiry = about(&object, self, key, RTEST(shared));
    plock_inquiry_break(inquiry);
    return NUM2LL(rb_ary_entry(answer(object, inquiry), 0)) ? Qtrue : Qfalse;
}

/* ask_note(key, note, replace) -> the note that is kept under the key, "" where there is none; see plock/inquiry.h. */
static VALUE store_ask_note(VALUE self, VALUE key, VALUE note, VALUE replace) {
    VALUE object;
    StringValue(note);
    plock_inquiry *inquiry = about(&object, self, key, false);
    if (plock_inquiry_note(inquiry, RSTRING_PTR(note), (size_t)RSTRING_LEN(note), RTEST(replace)))
        rb_raise(rb_eArgError, "the note is longer than %d bytes", PLOCK_NOTE_MAX);
    return rb_ary_entry(answer(object, inquiry), 0);
}

/* --- plain commands to the server, for plock doctor --- */

static void conversation_free(void *conversation) {
    plock_conversation_free(conversation);
}

static const rb_data_type_t CONVERSATION = {
    .wrap_struct_name = "Plock::Store::Conversation",
    .function = {.dfree = conversation_free},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static VALUE conversation_class;

/* converse -> a Conversation */
static VALUE store_converse(VALUE self) {
    VALUE object = TypedData_Wrap_Struct(conversation_class, &CONVERSATION, NULL);
    plock_conversation *conversation = NULL;
    const plock_status status = plock_conversation_new(&conversation, binding_store(self));
    if (status) binding_raise(status, NULL);
    DATA_PTR(object) = conversation;
    return object;
}

/* The part at *place and what is in it: nil, Integer, String or Array. The engine bounds how deep it goes. */
static VALUE part(const plock_conversation *conversation, size_t *place) {
    const plock_part read = plock_conversation_part(conversation, (*place)++);
    switch (read.kind) {
    case PLOCK_PART_NUMBER: return LL2NUM(read.number);
    case PLOCK_PART_TEXT: return rb_utf8_str_new(read.text, (long)read.length);
    case PLOCK_PART_NOTHING: return Qnil;
    case PLOCK_PART_LIST: break;
    }
    VALUE list = rb_ary_new();
    for (size_t i = 0; i < read.length; i++) rb_ary_push(list, part(conversation, place));
    return list;
}

/* ask(words) -> what the server answers; what it calls an error is raised. */
static VALUE conversation_ask(VALUE self, VALUE texts) {
    plock_conversation *conversation = rb_check_typeddata(self, &CONVERSATION);
    Check_Type(texts, T_ARRAY);
    const long count = RARRAY_LEN(texts);
    if (count < 1 || count > PLOCK_QUESTION_WORDS) rb_raise(rb_eArgError, "1 to %d words are a question", PLOCK_QUESTION_WORDS);
    plock_word words[PLOCK_QUESTION_WORDS];
    VALUE kept = rb_ary_new(); /* whatever happens to texts meanwhile */
    for (long i = 0; i < count; i++) {
        VALUE word = rb_str_new_frozen(rb_String(rb_ary_entry(texts, i)));
        rb_ary_push(kept, word);
        words[i] = (plock_word){RSTRING_PTR(word), (size_t)RSTRING_LEN(word)};
    }
    plock_status status = plock_conversation_ask(conversation, (unsigned)count, words);
    if (!status) status = binding_carry_on(plock_conversation_operation(conversation));
    RB_GC_GUARD(kept);
    if (status) binding_raise(status, plock_conversation_error(conversation));
    size_t place = 0;
    return part(conversation, &place);
}

/* close -> nil. The next question opens it again. */
static VALUE conversation_close(VALUE self) {
    const plock_operation operation = plock_conversation_operation(rb_check_typeddata(self, &CONVERSATION));
    operation.cancel(operation.of);
    return Qnil;
}

void binding_init_query(VALUE store_class) {
    rb_define_private_method(store_class, "ask_status", store_ask_status, 3);
    rb_define_private_method(store_class, "ask_shared_status", store_ask_shared_status, 3);
    rb_define_private_method(store_class, "ask_scan", store_ask_scan, 2);
    rb_define_private_method(store_class, "ask_note", store_ask_note, 3);
    rb_define_private_method(store_class, "break_hold", store_break, 2);
    conversation_class = rb_define_class_under(store_class, "Conversation", rb_cObject);
    rb_gc_register_mark_object(conversation_class);
    rb_undef_alloc_func(conversation_class);
    rb_undef_method(rb_singleton_class(conversation_class), "new");
    rb_define_method(conversation_class, "ask", conversation_ask, 1);
    rb_define_method(conversation_class, "close", conversation_close, 0);
    rb_define_private_method(store_class, "converse", store_converse, 0);
}
