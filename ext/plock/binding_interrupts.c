/* Interrupts.finally: an ensure that no interrupt can come before. */
#include "binding.h"

/* { Object => :never }, for Thread.handle_interrupt */
static VALUE never;
static ID id_call, id_handle_interrupt;

static VALUE call(RB_BLOCK_CALL_FUNC_ARGLIST(unused, cleanup)) {
    (void)unused, (void)argc, (void)argv, (void)blockarg;
    return rb_funcall(cleanup, id_call, 0);
}

/* Ruby looks for interrupts between two lines of an ensure clause. It does not between the end of
 * the block and this function, nor before handle_interrupt has set the mask. */
static VALUE clean_up(VALUE cleanup) {
    return rb_block_call(rb_cThread, id_handle_interrupt, 1, &never, call, cleanup);
}

/* finally(cleanup) { … } -> the block's value. */
static VALUE finally(VALUE self, VALUE cleanup) {
    (void)self;
    rb_need_block();
    return rb_ensure(rb_yield, Qnil, clean_up, cleanup);
}

void binding_init_interrupts(void) {
    id_call = rb_intern("call");
    id_handle_interrupt = rb_intern("handle_interrupt");
    never = rb_hash_new();
    rb_hash_aset(never, rb_cObject, ID2SYM(rb_intern("never")));
    rb_obj_freeze(never);
    rb_gc_register_mark_object(never);
    VALUE module = rb_define_module_under(binding_plock, "Interrupts");
    rb_define_module_function(module, "finally", finally, 1);
}
