#include "binding.h"

#include <stdatomic.h>

#ifdef HAVE_RUBY_VM_H
#include <ruby/vm.h>
#endif

VALUE binding_plock;

/* How long the end of the process may be held up by a release. */
static const plock_ns FAREWELL = 250 * PLOCK_MILLISECOND;

static atomic_bool ending;
static VALUE main_thread; /* of the process; rb_thread_main() would be that of the Ractor */

/* An at_exit. Minitest's autorun may run all tests after it, so it only says that Ruby will end the other threads at some
 * time from now on, and closes nothing. */
static void at_exit(VALUE unused) {
    (void)unused;
    atomic_store(&ending, true);
}

plock_ns binding_farewell(void) {
    return atomic_load(&ending) && rb_thread_current() != main_thread ? plock_after(plock_now(), FAREWELL) : PLOCK_NEVER;
}

/* Runs after Ruby has freed all objects, leases that were still held among them: what they left to the native thread is
 * finished here. */
static void at_vm_exit(ruby_vm_t *vm) {
    (void)vm;
    plock_drain(plock_after(plock_now(), FAREWELL));
}

RUBY_FUNC_EXPORTED void Init_plock(void) {
#ifdef HAVE_RB_EXT_RACTOR_SAFE
    rb_ext_ractor_safe(true);
#endif
    if (plock_initialize()) rb_memerror();
    binding_plock = rb_define_module("Plock");
    rb_gc_register_mark_object(binding_plock);
    main_thread = rb_thread_main();
    rb_gc_register_mark_object(main_thread);
    binding_init_errors();
    binding_init_digest();
    binding_init_waiting();
    binding_init_store();
    binding_init_lease();
    binding_init_notices();
    binding_init_process();
    binding_init_local();
    rb_set_end_proc(at_exit, Qnil);
    ruby_vm_at_exit(at_vm_exit);
}
