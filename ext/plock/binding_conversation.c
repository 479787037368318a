/* Plain commands to a store's server, for plock doctor: Store#converse gives an object with ask(words) and close. */
#include "binding.h"

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

void binding_init_conversation(VALUE store_class) {
    conversation_class = rb_define_class_under(store_class, "Conversation", rb_cObject);
    rb_gc_register_mark_object(conversation_class);
    rb_undef_alloc_func(conversation_class);
    rb_undef_method(rb_singleton_class(conversation_class), "new");
    rb_define_method(conversation_class, "ask", conversation_ask, 1);
    rb_define_method(conversation_class, "close", conversation_close, 0);
    rb_define_private_method(store_class, "converse", store_converse, 0);
}
