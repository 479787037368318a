/* How Ruby threads and fibers wait for the engine. Under a Fiber scheduler, a fiber waits in
 * rb_io_wait, so that other fibers run. Otherwise a thread waits without the GVL. Thread#kill,
 * Thread#raise, Timeout and signals can interrupt that wait. While the thread waits for the
 * server's answer, it is in plock_await_answer, which Ruby interrupts with a signal, as it
 * interrupts a read. In all other waits the thread is in plock_await, which Ruby interrupts through
 * a waker. */
#include "binding.h"

#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>
#include <ruby/thread.h>

#include <poll.h>

/* The state of one wait loop. */
typedef struct waiting {
    plock_waker *waker; /* NULL: not needed yet, or memory ran out */
    bool deferring;     /* true: an interrupt ends the wait, but stays pending */
    /* The state that rb_protect set because Ruby code raised; 0 if no code raised. Once it is not
     * 0, no Ruby code may run before rb_jump_tag. */
    int raised;
} waiting;

/* Calls a function that may run Ruby code. If the code raises, the wait ends, and finish() raises
 * the exception again. */
static plock_status guarded(waiting *w, VALUE (*function)(VALUE), VALUE argument) {
    (void)rb_protect(function, argument, &w->raised);
    return w->raised ? PLOCK_INTERRUPTED : PLOCK_OK;
}

/* --- without the GVL --- */

typedef struct region {
    const plock_interest *interest;
    plock_waker *waker; /* NULL: Ruby interrupts the region with a signal, and repeats the signal
                         * until the region ends */
    bool interrupted;
} region;

static void *await_region(void *argument) {
    region *r = argument;
    const plock_status status =
        r->waker ? plock_await(r->interest, r->waker) : plock_await_answer(r->interest);
    r->interrupted = status == PLOCK_INTERRUPTED;
    return NULL;
}

static void wake(void *waker) { plock_waker_wake(waker); }

static plock_waker *waker_of(waiting *w) {
    if (!w->waker) w->waker = plock_waker_take();
    if (w->waker && rb_thread_alone()) plock_waker_expect_signals(w->waker);
    return w->waker;
}

static VALUE check_interrupts(VALUE unused) {
    rb_thread_check_ints();
    return unused;
}

/* RB_NOGVL_INTR_FAIL: if an interrupt is pending, the region does not run. Without this flag,
 * rb_nogvl itself raises, and our clean-up does not run.
 *
 * RB_NOGVL_UBF_ASYNC_SAFE: Ruby may run wake() in a signal handler. Without this flag, Ruby may
 * start a thread at every call, only to run wake(). That thread inherits the caller's interrupt
 * mask, so a release that defers interrupts would wait for the thread forever. */
static plock_status wait_without_gvl(waiting *w, const plock_interest *interest) {
    const int flags = RB_NOGVL_INTR_FAIL | RB_NOGVL_UBF_ASYNC_SAFE;
    region r = {.interest = interest, .interrupted = true};
    if (!interest->read_ahead) r.waker = waker_of(w);
    if (r.waker)
        rb_nogvl(await_region, &r, wake, r.waker, flags);
    else
        rb_nogvl(await_region, &r, RUBY_UBF_IO, NULL, RB_NOGVL_INTR_FAIL);
    if (!r.interrupted) return PLOCK_OK;
    if (r.waker) (void)plock_waker_clear(r.waker);
    if (w->deferring) return PLOCK_INTERRUPTED;
    return guarded(w, check_interrupts, Qnil); /* also runs signal handlers */
}

/* --- under a Fiber scheduler --- */

/* The interval at which to poll a waker that has no descriptor. */
static const plock_ns WITHOUT_A_DESCRIPTOR = 5 * PLOCK_MILLISECOND;

static VALUE seconds_of(const plock_interest *interest, bool looks_soon) {
    const plock_ns now = plock_now(), soon = plock_after(now, WITHOUT_A_DESCRIPTOR);
    const plock_ns deadline = looks_soon && soon < interest->deadline ? soon : interest->deadline;
    if (deadline == PLOCK_NEVER) return Qnil;
    return DBL2NUM(deadline > now ? (double)(deadline - now) / (double)PLOCK_SECOND : 0.0);
}

static VALUE wait_in_scheduler(VALUE argument) {
    const plock_interest *interest = (const plock_interest *)argument;
    const int descriptor = interest->waker ? plock_waker_descriptor(interest->waker) : interest->fd;
    VALUE seconds = seconds_of(interest, interest->waker && descriptor < 0);
    if (descriptor < 0)
        return rb_fiber_scheduler_kernel_sleep(rb_fiber_scheduler_current(), seconds);
    VALUE options = rb_hash_new();
    rb_hash_aset(options, ID2SYM(rb_intern("autoclose")), Qfalse);
    VALUE arguments[] = {INT2NUM(descriptor), options};
    VALUE io = rb_funcallv_kw(rb_cIO, rb_intern("for_fd"), 2, arguments, RB_PASS_KEYWORDS);
    const bool writes = !interest->waker && interest->events & POLLOUT;
    rb_io_wait(io, INT2NUM(writes ? RUBY_IO_WRITABLE : RUBY_IO_READABLE), seconds);
    RB_GC_GUARD(io);
    if (interest->waker) (void)plock_waker_clear(interest->waker);
    return Qnil;
}

static plock_status binding_wait(void *context, const plock_interest *interest) {
    waiting *w = context;
    if (NIL_P(rb_fiber_scheduler_current())) return wait_without_gvl(w, interest);
    if (interest->helps) plock_have_led();
    return guarded(w, wait_in_scheduler, (VALUE)interest);
}

/* --- driving --- */

/* If Ruby code raised an exception, cancels the operation and raises the exception again. The
 * worker thread then cleans up on the server. */
static void finish(const plock_operation *operation, waiting *w) {
    plock_waker_give(w->waker);
    w->waker = NULL;
    if (!w->raised) return;
    operation->cancel(operation->of);
    rb_jump_tag(w->raised);
}

plock_status binding_carry_on(plock_operation operation) {
    waiting w = {0};
    const plock_status status = plock_carry_on(&operation, binding_wait, &w);
    finish(&operation, &w);
    return status;
}

static void nothing_to_cancel(void *of) { (void)of; }

plock_status binding_repeat(plock_status (*step)(void *, plock_interest *), void *of) {
    return binding_carry_on((plock_operation){.of = of, .step = step, .cancel = nothing_to_cancel});
}

plock_status binding_drive(plock_lease *lease) {
    return binding_carry_on(plock_lease_operation(lease));
}

/* --- with interrupts deferred --- */

static VALUE never; /* `Object => :never`, for Thread.handle_interrupt */

typedef struct callback {
    VALUE (*function)(VALUE);
    VALUE argument;
} callback;

static VALUE call_back(RB_BLOCK_CALL_FUNC_ARGLIST(unused, argument)) {
    const callback *c = (const callback *)argument;
    (void)unused, (void)argc, (void)argv, (void)blockarg;
    return c->function(c->argument);
}

/* Calls the function. Interrupts of this thread are deferred, and raised when the function
 * returns. */
static VALUE call_deferring(VALUE (*function)(VALUE), VALUE argument) {
    callback c = {function, argument};
    return rb_block_call(rb_cThread, rb_intern("handle_interrupt"), 1, &never, call_back,
                         (VALUE)&c);
}

typedef struct masked {
    plock_operation operation;
    plock_status status;
    binding_told *told;
    void *context;
} masked;

static void drive_to_its_end(masked *m, bool deferring) {
    waiting w = {.deferring = deferring};
    /* While the process is ending, binding_farewell returns an early deadline, because Ruby will
     * soon end this thread. */
    m->operation.hurry(m->operation.of, binding_farewell());
    m->status = plock_carry_on(&m->operation, binding_wait, &w);
    finish(&m->operation, &w);
    if (m->status != PLOCK_INTERRUPTED && m->told) m->told(m->context, m->status);
}

static VALUE drive_masked(VALUE argument) {
    drive_to_its_end((masked *)argument, false);
    return Qnil;
}

/* Most releases are not interrupted, so a release calls handle_interrupt only after its first
 * interrupt. Ruby raises pending interrupts when the block of handle_interrupt ends. */
static VALUE mask_and_drive(VALUE argument) { return call_deferring(drive_masked, argument); }

/* If mask_and_drive did not finish the release, lets the worker thread finish it. */
static VALUE give_up(VALUE argument) {
    const masked *m = (const masked *)argument;
    if (m->status == PLOCK_INTERRUPTED) m->operation.cancel(m->operation.of);
    return Qnil;
}

plock_status binding_carry_on_deferring(plock_operation operation, binding_told *told,
                                        void *context) {
    masked m = {.operation = operation, .told = told, .context = context};
    drive_to_its_end(&m, true);
    if (m.status == PLOCK_INTERRUPTED) rb_ensure(mask_and_drive, (VALUE)&m, give_up, (VALUE)&m);
    return m.status;
}

plock_status binding_drive_deferring(plock_lease *lease) {
    return binding_carry_on_deferring(plock_lease_operation(lease), NULL, NULL);
}

/* --- Plock::Interrupts: clean-up that interrupts cannot cut short --- */

enum { RUNS_MOST = 16 };

typedef struct completion {
    VALUE (*function)(VALUE);
    VALUE argument, value;
    bool done;
    int runs;
} completion;

/* Under a Fiber scheduler, defers nothing, because that would apply to all fibers of the thread. */
static VALUE call_deferring_here(VALUE (*function)(VALUE), VALUE argument) {
    return NIL_P(rb_fiber_scheduler_current()) ? call_deferring(function, argument)
                                               : function(argument);
}

/* Sets `done` while interrupts are still deferred. Ruby raises a deferred interrupt only
 * afterwards, so such an interrupt does not make run_again call the function again. */
static VALUE run_once(VALUE argument) {
    completion *c = (completion *)argument;
    c->value = c->function(c->argument);
    c->done = true;
    return Qnil;
}

static VALUE run(VALUE argument) {
    ((completion *)argument)->runs++;
    return call_deferring_here(run_once, argument);
}

static VALUE run_again(VALUE argument);

static VALUE run_to_the_end(VALUE argument) {
    return rb_ensure(run, argument, run_again, argument);
}

static VALUE drop(VALUE unused, VALUE error) {
    (void)unused, (void)error;
    return Qnil;
}

/* If a signal handler has raised, runs the function again. The mask does not defer signal handlers,
 * so a handler may raise even before the function has done anything. A Plock::Error was raised by
 * the function itself, so the function is not run again. A Plock::Error of a later run is dropped,
 * because it must not replace the handler's exception, which may be meant to end the process. */
static VALUE run_again(VALUE argument) {
    const completion *c = (const completion *)argument;
    if (c->done || c->runs >= RUNS_MOST) return Qnil;
    if (RTEST(rb_obj_is_kind_of(rb_errinfo(), binding_error_class()))) return Qnil;
    return rb_rescue2(run_to_the_end, argument, drop, Qnil, binding_error_class(), (VALUE)0);
}

VALUE binding_complete(VALUE (*function)(VALUE), VALUE argument) {
    completion c = {.function = function, .argument = argument, .value = Qnil};
    (void)run_to_the_end((VALUE)&c);
    return c.value;
}

static VALUE call(VALUE callable) { return rb_funcall(callable, rb_intern("call"), 0); }

/* defer { … } -> the block's value. */
static VALUE defer(VALUE self) {
    (void)self;
    return call_deferring_here(call, rb_block_proc());
}

/* complete { … } -> the block's value. */
static VALUE complete(VALUE self) {
    (void)self;
    return binding_complete(call, rb_block_proc());
}

/* Runs the clean-up of `finally`. An ensure clause in Ruby could be interrupted before it has
 * deferred interrupts. This function cannot, because Ruby does not check for interrupts between
 * the end of the block and the moment at which handle_interrupt sets the mask. */
static VALUE clean_up(VALUE cleanup) { return binding_complete(call, cleanup); }

/* finally(cleanup) { … } -> the block's value. */
static VALUE finally(VALUE self, VALUE cleanup) {
    (void)self;
    rb_need_block();
    return rb_ensure(rb_yield, Qnil, clean_up, cleanup);
}

void binding_init_waiting(void) {
    never = rb_hash_new();
    rb_hash_aset(never, rb_cObject, ID2SYM(rb_intern("never")));
    rb_obj_freeze(never);
    rb_gc_register_mark_object(never);
    VALUE interrupts = rb_define_module_under(binding_plock, "Interrupts");
    rb_define_module_function(interrupts, "complete", complete, 0);
    rb_define_module_function(interrupts, "defer", defer, 0);
    rb_define_module_function(interrupts, "finally", finally, 1);
}
