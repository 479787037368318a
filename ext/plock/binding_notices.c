/* Notices of the engine for Ruby: events of leases that no call is waiting for. */
#include "binding.h"

#include <stdatomic.h>

static VALUE lost, renewed, abandoned, unreleased;

/* next_notice -> [:lost, id], [:renewed, id, seconds], [:abandoned, key, fence],
 * [:unreleased, key, fence], or nil. */
static VALUE next_notice(VALUE self) {
    (void)self;
    plock_notice *notice = plock_notice_next();
    if (!notice) return Qnil;
    const plock_notice copy = *notice;
    const bool keyed = copy.kind == PLOCK_ABANDONED || copy.kind == PLOCK_UNRELEASED;
    VALUE key = keyed ? rb_str_new(notice->key, (long)copy.key_length) : Qnil;
    plock_notice_free(notice);
    if (keyed)
        return rb_ary_new_from_args(3, copy.kind == PLOCK_ABANDONED ? abandoned : unreleased, key,
                                    LL2NUM(copy.fence));
    if (copy.kind == PLOCK_RENEWED)
        return rb_ary_new_from_args(3, renewed, ULL2NUM(copy.id), binding_seconds(copy.took));
    return rb_ary_new_from_args(2, lost, ULL2NUM(copy.id));
}

/* Waits until there may be a notice. */
static VALUE await_notices(VALUE self) {
    (void)self;
    const int descriptor = plock_notice_descriptor();
    if (descriptor < 0) rb_sys_fail("waiting for notices");
    binding_wait_readable(descriptor);
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
    plock_notice_renewals(RTEST(wanted));
    return wanted;
}

static atomic_bool events_heard;

bool binding_events_heard(void) {
    return atomic_load_explicit(&events_heard, memory_order_relaxed);
}

static VALUE set_notice_events(VALUE self, VALUE wanted) {
    (void)self;
    atomic_store(&events_heard, RTEST(wanted));
    return wanted;
}

void binding_init_notices(void) {
    lost = ID2SYM(rb_intern("lost"));
    renewed = ID2SYM(rb_intern("renewed"));
    abandoned = ID2SYM(rb_intern("abandoned"));
    unreleased = ID2SYM(rb_intern("unreleased"));
    rb_define_singleton_method(binding_plock, "next_notice", next_notice, 0);
    rb_define_singleton_method(binding_plock, "await_notices", await_notices, 0);
    rb_define_singleton_method(binding_plock, "wake_notices", wake_notices, 0);
    rb_define_singleton_method(binding_plock, "notice_renewals=", set_notice_renewals, 1);
    rb_define_singleton_method(binding_plock, "notice_events=", set_notice_events, 1);
}
