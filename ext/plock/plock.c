#include "binding.h"

#include <ruby/thread.h>

#include <stdatomic.h>

#ifdef HAVE_RUBY_VM_H
#include <ruby/vm.h>
#endif

VALUE binding_plock;

/* How long releases may delay the end of the process, and the time of one release after the others
 * have used that up. */
static const plock_ns FAREWELL = 250 * PLOCK_MILLISECOND, MOMENT = 10 * PLOCK_MILLISECOND;

static atomic_bool ending;
/* the deadline of the releases that the process hurries as it ends; 0: there were none */
static _Atomic plock_ns farewell;
static VALUE main_thread; /* rb_thread_main() would be that of the Ractor */

/* An at_exit. The autorun of Minitest may run all tests after it. So it only notes that Ruby will
 * end the other threads at some time, and closes nothing. */
static void at_exit(VALUE unused) {
    (void)unused;
    atomic_store(&ending, true);
}

/* The time left after the releases that were hurried before. */
static plock_ns time_left(plock_ns now, plock_ns least) {
    const plock_ns hurried = atomic_load(&farewell), at_least = plock_after(now, least);
    if (!hurried || now >= plock_after(hurried, FAREWELL)) return plock_after(now, FAREWELL);
    return hurried > at_least ? hurried : at_least;
}

plock_ns binding_farewell(void) {
    if (!atomic_load(&ending) || rb_thread_current() == main_thread) return PLOCK_NEVER;
    const plock_ns now = plock_now(), deadline = time_left(now, MOMENT);
    /* all of them share it */
    if (deadline == plock_after(now, FAREWELL)) atomic_store(&farewell, deadline);
    return deadline;
}

/* Runs after Ruby has freed all objects, even leases that were still held. It waits for the
 * releases that these left to the worker thread. */
static void at_vm_exit(ruby_vm_t *vm) {
    (void)vm;
    plock_drain(time_left(plock_now(), 0));
}

static void *settle_region(void *unused) {
    plock_settle(plock_after(plock_now(), FAREWELL));
    return unused;
}

/* Daemon.settle: gives the background releases as much time as at the end of a process. */
static VALUE daemon_settle(VALUE self) {
    (void)rb_thread_call_without_gvl(settle_region, NULL, NULL, NULL);
    return self;
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
    binding_init_arguments();
    binding_init_waiting();
    binding_init_direct();
    binding_init_store();
    binding_init_lease();
    binding_init_notices();
    binding_init_process();
    binding_init_local();
    rb_define_singleton_method(rb_define_module_under(binding_plock, "Daemon"), "settle",
                               daemon_settle, 0);
    rb_set_end_proc(at_exit, Qnil);
    ruby_vm_at_exit(at_vm_exit);
}
