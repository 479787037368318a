/* The start of the extension, the notices for the dispatcher thread, and the end of the process. */
#include "binding.h"

#include <ruby/ractor.h>
#include <ruby/thread.h>
#include <ruby/vm.h>

#include <stdatomic.h>

VALUE binding_plock;

/* --- notices: events of leases that no call is waiting for --- */

/* next_notice -> [:lost, id], [:renewed, id, seconds], [:abandoned, key, fence],
 * [:expired, key, fence], [:unreleased, key, fence], [:lost_before, key, fence], or nil. */
static VALUE next_notice(VALUE self) {
    (void)self;
    plock_notice *notice = plock_notice_next();
    if (!notice) return Qnil;
    const plock_notice copy = *notice;
    const VALUE keyed = copy.kind == PLOCK_ABANDONED     ? ID2SYM(rb_intern("abandoned"))
                        : copy.kind == PLOCK_EXPIRED     ? ID2SYM(rb_intern("expired"))
                        : copy.kind == PLOCK_UNRELEASED  ? ID2SYM(rb_intern("unreleased"))
                        : copy.kind == PLOCK_LOST_BEFORE ? ID2SYM(rb_intern("lost_before"))
                                                         : Qnil;
    VALUE key = !NIL_P(keyed) ? rb_str_new(notice->key, (long)copy.key_length) : Qnil;
    plock_notice_free(notice);
    if (!NIL_P(keyed)) return rb_ary_new_from_args(3, keyed, key, LL2NUM(copy.fence));
    if (copy.kind == PLOCK_RENEWED)
        return rb_ary_new_from_args(3, ID2SYM(rb_intern("renewed")), ULL2NUM(copy.id),
                                    binding_seconds(copy.took));
    return rb_ary_new_from_args(2, ID2SYM(rb_intern("lost")), ULL2NUM(copy.id));
}

/* Waits until there may be a notice. The dispatcher thread, which calls this, has no Fiber
 * scheduler. */
static VALUE await_notices(VALUE self) {
    (void)self;
    const int descriptor = plock_notice_descriptor();
    if (descriptor < 0) rb_sys_fail("waiting for notices");
    (void)rb_thread_wait_fd(descriptor);
    plock_notice_clear();
    return Qnil;
}

static VALUE wake_notices(VALUE self) {
    (void)self;
    plock_notice_wake();
    return Qnil;
}

static VALUE set_notice_renewals(VALUE self, VALUE wanted) {
    (void)self;
    plock_notice_want(PLOCK_RENEWED, RTEST(wanted));
    return wanted;
}

static atomic_bool events_heard;

bool binding_events_heard(void) {
    return atomic_load_explicit(&events_heard, memory_order_relaxed);
}

static VALUE set_notice_events(VALUE self, VALUE wanted) {
    (void)self;
    atomic_store(&events_heard, RTEST(wanted));
    plock_notice_want(PLOCK_EXPIRED, RTEST(wanted));
    return wanted;
}

/* Has a value only in the main Ractor, because leases of other Ractors emit no events. */
static rb_ractor_local_key_t main_ractor;
static VALUE bridge = Qnil;

VALUE binding_event_bridge(void) {
    return NIL_P(bridge) || NIL_P(rb_ractor_local_storage_value(main_ractor)) ? Qnil : bridge;
}

bool binding_bridge_wants(VALUE event) {
    VALUE present = binding_event_bridge();
    return !NIL_P(present) && RTEST(rb_funcallv(present, rb_intern("wants?"), 1, &event));
}

/* event_bridge = an object or nil. The object's method wants?(name) tells whether an event has
 * listeners. */
static VALUE set_event_bridge(VALUE self, VALUE present) {
    (void)self;
    return bridge = present;
}

void binding_start_dispatcher(void) {
    if (plock_notice_awaited()) return;
    (void)rb_funcall(rb_const_get(binding_plock, rb_intern("Dispatcher")), rb_intern("start"), 0);
}

static void init_notices(void) {
    rb_gc_register_address(&bridge);
    main_ractor = rb_ractor_local_storage_value_newkey();
    rb_ractor_local_storage_value_set(main_ractor, Qtrue);
    rb_define_singleton_method(binding_plock, "next_notice", next_notice, 0);
    rb_define_singleton_method(binding_plock, "await_notices", await_notices, 0);
    rb_define_singleton_method(binding_plock, "wake_notices", wake_notices, 0);
    rb_define_singleton_method(binding_plock, "notice_renewals=", set_notice_renewals, 1);
    rb_define_singleton_method(binding_plock, "notice_events=", set_notice_events, 1);
    rb_define_singleton_method(binding_plock, "event_bridge=", set_event_bridge, 1);
}

/* --- the end of the process --- */

/* FAREWELL: how long all releases together may delay the end of the process. MOMENT: how long each
 * release may still delay the end once FAREWELL is over. */
static const plock_ns FAREWELL = 250 * PLOCK_MILLISECOND, MOMENT = 10 * PLOCK_MILLISECOND;

static atomic_bool ending;
/* the deadline that the releases share while the process ends; 0: there has been no release yet */
static _Atomic plock_ns farewell;
static VALUE main_thread; /* kept here, because rb_thread_main() differs in each Ractor */

/* Runs as an at_exit hook. A later hook may still run all tests, as Minitest's autorun does. So
 * this hook closes nothing, and only notes that Ruby will end the other threads. */
static void at_exit(VALUE unused) {
    (void)unused;
    atomic_store(&ending, true);
}

/* Returns the deadline of a release. That is the deadline that all releases share, or `least` from
 * now if that is later. If there is no shared deadline, or if it passed more than FAREWELL ago,
 * returns a new one. */
static plock_ns time_left(plock_ns now, plock_ns least) {
    const plock_ns hurried = atomic_load(&farewell), at_least = plock_after(now, least);
    if (!hurried || now >= plock_after(hurried, FAREWELL)) return plock_after(now, FAREWELL);
    return hurried > at_least ? hurried : at_least;
}

plock_ns binding_farewell(void) {
    if (!atomic_load(&ending) || rb_thread_current() == main_thread) return PLOCK_NEVER;
    const plock_ns now = plock_now(), deadline = time_left(now, MOMENT);
    /* later releases share this deadline */
    if (deadline == plock_after(now, FAREWELL)) atomic_store(&farewell, deadline);
    return deadline;
}

/* Runs after Ruby has freed all objects, even leases that were still held. Waits until the worker
 * thread has released such leases. */
static void at_vm_exit(ruby_vm_t *vm) {
    (void)vm;
    plock_drain(time_left(plock_now(), 0));
}

static void *settle_region(void *unused) {
    plock_settle(plock_after(plock_now(), FAREWELL));
    return unused;
}

/* Daemon.settle: waits for the background releases, but not for longer than FAREWELL. */
static VALUE daemon_settle(VALUE self) {
    (void)rb_thread_call_without_gvl(settle_region, NULL, NULL, NULL);
    return self;
}

RUBY_FUNC_EXPORTED void Init_plock(void) {
    rb_ext_ractor_safe(true);
    if (plock_initialize()) rb_memerror();
    binding_plock = rb_define_module("Plock");
    rb_gc_register_mark_object(binding_plock);
    main_thread = rb_thread_main();
    rb_gc_register_mark_object(main_thread);
    binding_init_values();
    binding_init_waiting();
    binding_init_direct();
    binding_init_store();
    binding_init_lease();
    init_notices();
    binding_init_process();
    binding_init_local();
    rb_define_singleton_method(rb_define_module_under(binding_plock, "Daemon"), "settle",
                               daemon_settle, 0);
    rb_set_end_proc(at_exit, Qnil);
    ruby_vm_at_exit(at_vm_exit);
}
