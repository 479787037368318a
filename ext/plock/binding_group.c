/* Several keys at once: requests to a store on Redis, and the short way of acquire_all for both
 * kinds of stores. */
#include "binding_direct.h"

#include <string.h>

static long at_once(VALUE list) {
    Check_Type(list, T_ARRAY);
    const long count = RARRAY_LEN(list);
    if (count < 1 || count > PLOCK_GROUP_MAX)
        rb_raise(rb_eArgError, "from 1 to %d at a time, not %ld", PLOCK_GROUP_MAX, count);
    return count;
}

VALUE binding_leases_new(const binding_store_kind *kind, VALUE store, VALUE keys) {
    VALUE holds = rb_ary_new_capa(at_once(keys));
    for (long i = 0; i < RARRAY_LEN(keys); i++)
        rb_ary_push(holds, binding_lease_new(kind, store, rb_ary_entry(keys, i)));
    return holds;
}

size_t binding_leases(VALUE holds, plock_lease *leases[PLOCK_GROUP_MAX]) {
    const long count = at_once(holds);
    for (long i = 0; i < count; i++) leases[i] = binding_lease(rb_ary_entry(holds, i));
    return (size_t)count;
}

/* --- requests of a store on Redis --- */

typedef struct several {
    binding_releases of; /* first, because begin_release receives it; for an acquire: only the
                          * leases and the error */
    plock_group *group;
    const plock_acquire_options *patience; /* for an acquire */
    size_t free_ones; /* after PLOCK_REFUSED: the number of free keys before the one that is not */
    plock_status status;
} several;

static void refer_to(several *s) {
    const plock_status status = plock_group_new(&s->group, s->of.leases, s->of.count);
    if (status == PLOCK_MISUSE) rb_raise(rb_eArgError, "leases that do not belong together");
    if (status) binding_raise(status, NULL);
}

static VALUE let_group_go(VALUE argument) {
    plock_group_free(((several *)argument)->group);
    return Qnil;
}

static void fail(several *s, plock_status status) {
    s->status = status;
    if (status) *s->of.error = *plock_group_error(s->group);
}

static VALUE acquire_group(VALUE argument) {
    several *s = (several *)argument;
    refer_to(s);
    plock_status status = plock_group_acquire(s->group, s->patience);
    if (!status) status = binding_carry_on(plock_group_operation(s->group));
    if (status == PLOCK_REFUSED) s->free_ones = plock_group_free_ones(s->group);
    fail(s, status);
    return Qnil;
}

plock_status binding_group_acquire(plock_lease *const *leases, size_t count,
                                   const plock_acquire_options *options, size_t *refused,
                                   plock_error *error) {
    several s = {.of = {.leases = leases, .count = count, .error = error}, .patience = options};
    rb_ensure(acquire_group, (VALUE)&s, let_group_go, (VALUE)&s);
    *refused = s.free_ones;
    return s.status;
}

static plock_status begin_release(void *argument) {
    const several *s = argument;
    return plock_group_release(s->group, s->of.keep);
}

static VALUE release_outcome(const plock_group *group, size_t index) {
    return plock_group_released(group, index)      ? Qtrue
           : plock_group_passed_over(group, index) ? Qnil
                                                   : Qfalse;
}

static void group_released(void *argument, plock_status status) {
    several *s = argument;
    fail(s, status);
    for (size_t i = 0; i < s->of.count; i++)
        s->of.answers[i] = status == PLOCK_IN_USE ? Qtrue : release_outcome(s->group, i);
    if (s->of.told) s->of.told(s->of.context, status);
}

static VALUE release_group(VALUE argument) {
    several *s = (several *)argument;
    refer_to(s);
    (void)binding_release_in_turn(&s->of, begin_release, plock_group_operation(s->group),
                                  group_released, s);
    return Qnil;
}

plock_status binding_group_release(const binding_releases *releases) {
    several s = {.of = *releases};
    rb_ensure(release_group, (VALUE)&s, let_group_go, (VALUE)&s);
    return s.status;
}

/* take_all(keys, ttl, renew, max_hold, label, watch, asking, left, replicas) -> the holds. If a key
 * is not free, it returns the number of free keys before that key. If one request to a cluster
 * cannot serve all keys, it returns nil. */
static VALUE store_take_all(VALUE self, VALUE keys, VALUE ttl, VALUE renew, VALUE max_hold,
                            VALUE label, VALUE watch, VALUE asking, VALUE left, VALUE replicas) {
    char encoded[PLOCK_LABEL_MAX + 1];
    plock_lease *leases[PLOCK_GROUP_MAX];
    plock_error error = {.status = PLOCK_OK};
    VALUE objects = binding_leases_new(&binding_redis_kind, self, keys);
    const size_t count = binding_leases(objects, leases);
    size_t free_ones;
    plock_acquire_options patience =
        binding_patience(binding_ttl(ttl, PLOCK_SECOND), renew, max_hold, watch);
    patience.label = binding_label(label, encoded);
    patience.asking = binding_span(asking);
    patience.wait = binding_span(left);
    patience.replicas = binding_replicas(replicas);
    const plock_status status = binding_group_acquire(leases, count, &patience, &free_ones, &error);
    if (status == PLOCK_REFUSED) return SIZET2NUM(free_ones);
    if (status == PLOCK_CROSSSLOT) return Qnil;
    if (status) binding_raise(status, &error);
    return binding_hand_out(objects);
}

/* release_all(holds, keep, budget) -> an answer for each hold: true if it has now been released,
 * false if it was lost, or nil if it was not held when the call began. budget: in seconds, or nil.
 * A release without an answer within the budget continues in the background and raises nothing. */
VALUE binding_release_all(VALUE self, VALUE holds, VALUE keep, VALUE budget) {
    (void)self;
    plock_lease *leases[PLOCK_GROUP_MAX];
    VALUE answers[PLOCK_GROUP_MAX];
    plock_error error = {.status = PLOCK_OK};
    const size_t count = binding_leases(holds, leases);
    const binding_releases releases = {.leases = leases,
                                       .count = count,
                                       .keep = binding_span(keep),
                                       .budget = NIL_P(budget) ? 0 : binding_span(budget),
                                       .answers = answers,
                                       .error = &error};
    const plock_status status = binding_group_release(&releases);
    RB_GC_GUARD(holds);
    if (status && status != PLOCK_MISUSE && status != PLOCK_IN_USE && !releases.budget)
        binding_raise(status, &error);
    return rb_ary_new_from_values((long)count, answers);
}

/* --- the short way of acquire_all. binding_direct.c has that of acquire. If the first attempt does
 * not acquire all keys, Ruby continues with the result of that attempt. --- */

typedef struct direct_all {
    direct_call call; /* first, because direct_run passes its address */
    VALUE keys, leases;
    /* in the order of the caller's keys, each key once */
    VALUE holds[PLOCK_GROUP_MAX], given[PLOCK_GROUP_MAX];
    /* sorted by the keys' names in the store, because Ruby also acquires keys in that order;
     * places: the index of each handle in `given` */
    plock_lease *handles[PLOCK_GROUP_MAX];
    unsigned char places[PLOCK_GROUP_MAX];
    VALUE ttl_given, wait_given, raises;
    VALUE answers[PLOCK_GROUP_MAX];
    plock_error error;
} direct_all;

static void insert(direct_all *d, size_t at, plock_lease *handle) {
    for (size_t i = d->call.count; i > at; i--) {
        d->handles[i] = d->handles[i - 1];
        d->places[i] = d->places[i - 1];
    }
    d->handles[at] = handle;
    d->places[at] = (unsigned char)d->call.count;
}

/* Adds a key. Returns false if there are too many keys, or if this fiber already holds the key and
 * would wait for itself. */
static bool add(direct_all *d, VALUE key, VALUE bytes) {
    direct_call *call = &d->call;
    char name[BINDING_NAME_MAX];
    const size_t length = binding_name(call->plain->prefix, bytes, call->plain->secret, name);
    RB_GC_GUARD(bytes);
    size_t at = 0, same_length; /* equal to `length`, because all names have the same prefix */
    for (; at < call->count; at++) {
        const int order = memcmp(plock_lease_key(d->handles[at], &same_length), name, length);
        if (order == 0) return true;
        if (order > 0) break;
    }
    if (call->count == PLOCK_GROUP_MAX) return false;
    if (direct_own_in_the_way(call, name, length, Qnil)) return false;
    VALUE hold = binding_lease_named(call->kind, call->store, name, length);
    d->holds[call->count] = hold;
    d->given[call->count] = direct_lease(call, key, hold);
    insert(d, at, binding_lease(hold));
    call->count++;
    return true;
}

/* Adds all keys. Returns false if Ruby must make the call instead. */
static bool add_all(direct_all *d) {
    for (long i = 0; i < RARRAY_LEN(d->keys); i++) {
        VALUE key = RARRAY_AREF(d->keys, i), bytes = direct_bytes_of(key);
        if (NIL_P(bytes) || !add(d, key, bytes)) return false;
    }
    return d->call.count > 0;
}

/* Makes Ruby end the leases after the block. Ruby receives the answers of the release (true, false
 * or nil for each lease), or the exception if the release failed. It receives nil if nothing has
 * been released yet. */
static VALUE end_in_ruby(VALUE argument) {
    direct_all *d = (direct_all *)argument;
    VALUE leases = rb_ary_new_from_values((long)d->call.count, d->given), answer = Qnil;
    if (d->error.status == PLOCK_OK || d->error.status == PLOCK_MISUSE) {
        answer = rb_ary_new_capa((long)d->call.count);
        for (size_t i = 0; i < d->call.count; i++)
            rb_ary_store(answer, d->places[i], d->answers[i]);
    } else if (d->error.status != PLOCK_AGAIN) {
        answer = binding_exception_of(d->error.status, &d->error);
    }
    return rb_funcall(d->call.store, rb_intern("end_group"), 3, leases, d->ttl_given, answer);
}

static void released(void *context, plock_status status) {
    direct_all *d = context;
    size_t ours = 0;
    for (size_t i = 0; i < d->call.count; i++) ours += d->answers[i] == Qtrue;
    if (ours == d->call.count && (!status || status == PLOCK_IN_USE)) return;
    d->error.status = status;
    binding_complete(end_in_ruby, (VALUE)d);
}

static bool all_plain(const direct_all *d) {
    if (binding_events_heard() || d->call.tells) return false;
    for (size_t i = 0; i < d->call.count; i++)
        if (!plock_lease_held(d->handles[i]) || !direct_has(d->given[i], d->holds[i])) return false;
    return true;
}

static VALUE end_leases(VALUE argument) {
    direct_all *d = (direct_all *)argument;
    const binding_releases releases = {.leases = d->handles,
                                       .count = d->call.count,
                                       .answers = d->answers,
                                       .told = released,
                                       .context = d,
                                       .error = &d->error};
    d->error.status = PLOCK_AGAIN;
    if (all_plain(d))
        (void)d->call.kind->release_all(&releases);
    else
        binding_complete(end_in_ruby, argument);
    return Qnil;
}

static VALUE run_block(VALUE argument) {
    const direct_all *d = (const direct_all *)argument;
    if (d->call.tells && binding_bridge_wants(ID2SYM(rb_intern("acquire")))) {
        for (size_t i = 0; i < d->call.count; i++) {
            size_t length;
            const char *name = plock_lease_key(d->handles[i], &length);
            direct_tell_of(&d->call, d->given[d->places[i]], name, length, Qnil);
        }
    }
    return rb_yield(d->leases);
}

/* Hands the call over to Ruby (GroupAcquisition), because the key at index `refused` is not free
 * or the attempt failed. */
static VALUE go_on_in_ruby(const direct_all *d, plock_status status, size_t refused) {
    VALUE answer = status == PLOCK_REFUSED     ? SIZET2NUM(refused)
                   : status == PLOCK_CROSSSLOT ? Qnil
                                               : binding_exception_of(status, &d->error);
    VALUE arguments[] = {
        d->keys, d->ttl_given, d->wait_given, d->raises, binding_seconds(d->call.began), answer};
    return rb_funcall_with_block(d->call.store, rb_intern("go_on_asking"), 6, arguments,
                                 rb_block_proc());
}

static VALUE take_and_run(direct_all *d) {
    size_t refused = 0;
    const plock_status status =
        d->call.kind->acquire_all(d->handles, d->call.count, &d->call.options, &refused, &d->error);
    return status ? go_on_in_ruby(d, status, refused) : direct_run(&d->call);
}

/* acquire_all_directly(plain, keys, ttl, wait, raises) { |leases| } -> the block's value. It
 * returns UNDONE if it has done nothing and Ruby must make the call instead. If another holder kept
 * a key until `wait` was over, it raises TimeoutError, or returns nil if `raises` is false. */
VALUE binding_acquire_all_directly(VALUE store, VALUE calls, VALUE keys, VALUE ttl, VALUE wait,
                                   VALUE raises) {
    direct_all d = {.call = {.given = d.given, .run = run_block, .end = end_leases},
                    .keys = keys,
                    .ttl_given = ttl,
                    .wait_given = wait,
                    .raises = raises};
    direct_call *call = &d.call;
    if (!RB_TYPE_P(keys, T_ARRAY) || !direct_begin(call, store, calls, ttl, wait))
        return direct_undone;
    call->began = plock_now();
    call->options.watched = call->tells && call->options.renews;
    if (!add_all(&d)) return direct_undone;
    if (call->options.watched) binding_start_dispatcher();
    d.leases = rb_ary_new_from_values((long)call->count, d.given);
    VALUE value = take_and_run(&d);
    RB_GC_GUARD(calls);
    RB_GC_GUARD(keys);
    RB_GC_GUARD(d.leases);
    return value == direct_undone ? Qnil : value; /* the block has run, so Ruby must not see
                                                   * UNDONE */
}

void binding_init_group(VALUE store_class) {
    rb_define_private_method(store_class, "take_all", store_take_all, 9);
    rb_define_method(store_class, "release_all", binding_release_all, 3);
}
