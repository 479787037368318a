#include "base/process.h"

#include "base/platform.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef PLOCK__GETTID
#include <sys/syscall.h>
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* `steps` counts the steps under way. `forking` is set while a thread forks, or waits for them to
 * end before it forks. A thread that begins a step first counts it, and then reads `forking`. A
 * thread that forks first sets `forking`, and then reads `steps`. So at least one of the two
 * notices the other, and waits for `changed`. */
static atomic_uint steps;
static atomic_bool forking;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static atomic_uint generation = 1;

void plock__enter(void) { (void)pthread_mutex_lock(&lock); }

void plock__leave(void) { (void)pthread_mutex_unlock(&lock); }

bool plock__drop_reference(unsigned *references) {
    plock__enter();
    const bool last = --*references == 0;
    plock__leave();
    return last;
}

unsigned plock__generation(void) { return atomic_load_explicit(&generation, memory_order_relaxed); }

void plock__begin_step(void) {
    for (;;) {
        atomic_fetch_add(&steps, 1);
        if (!atomic_load(&forking)) return;
        plock__end_step();
        plock__enter();
        while (atomic_load(&forking)) (void)pthread_cond_wait(&changed, &lock);
        plock__leave();
    }
}

void plock__end_step(void) {
    if (atomic_fetch_sub(&steps, 1) != 1 || !atomic_load(&forking)) return;
    plock__enter();
    (void)pthread_cond_broadcast(&changed);
    plock__leave();
}

/* --- fork --- */

static plock__child_handler handlers[12]; /* enough for all modules that have a handler */
static unsigned handler_count;

void plock__on_fork(plock__child_handler handler) {
    plock__enter(); /* a fork holds the mutex while it calls the handlers, so it never sees an
                     * incomplete list */
    handlers[handler_count++] = handler;
    plock__leave();
}

/* Takes the mutex. After the fork, in_parent() or in_child() releases the mutex. */
static void before_fork(void) {
    plock__enter();
    atomic_store(&forking, true);
    while (atomic_load(&steps) > 0) (void)pthread_cond_wait(&changed, &lock);
}

static void in_parent(void) {
    atomic_store(&forking, false);
    (void)pthread_cond_broadcast(&changed);
    plock__leave();
}

static void in_child(void) {
    atomic_fetch_add(&generation, 1);
    for (unsigned i = 0; i < handler_count; i++) handlers[i]();
    /* a thread that exists only in the parent may have counted a step just before the fork */
    atomic_store(&steps, 0);
    atomic_store(&forking, false);
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER; /* the threads that waited for `changed`
                                                         * exist only in the parent */
    plock__leave();
}

int plock__watch_forks(void) { return pthread_atfork(before_fork, in_parent, in_child); }

/* --- identity --- */

static uint64_t thread_number(void) {
#if defined(PLOCK__GETTID)
    return (uint64_t)syscall(SYS_gettid);
#elif defined(__APPLE__)
    uint64_t number = 0;
    (void)pthread_threadid_np(NULL, &number);
    return number;
#else
    return (uint64_t)(uintptr_t)pthread_self();
#endif
}

uint64_t plock__thread_number(void) {
    static _Thread_local struct {
        unsigned generation;
        uint64_t number;
    } known;
    if (known.generation != plock__generation()) {
        known.number = thread_number();
        known.generation = plock__generation();
    }
    return known.number;
}

const char *plock__identity(size_t *length) {
    static _Thread_local struct {
        unsigned generation;
        size_t length;
        char text[PLOCK__IDENTITY_MAX];
    } known;
    if (known.generation != plock__generation()) {
        char host[65] = "";
        if (gethostname(host, sizeof host - 1) || !*host) memcpy(host, "unknown", sizeof "unknown");
        for (char *c = host; *c; c++)
            if (*c <= ' ' || *c > '~') *c = '_';
        const int written = snprintf(known.text, sizeof known.text, "%s %ld %llu", host,
                                     (long)getpid(), (unsigned long long)plock__thread_number());
        /* a host of at most 64 bytes, two numbers of at most 20 digits and two blanks always fit */
        known.length = written > 0 ? (size_t)written : 0;
        known.generation = plock__generation();
    }
    *length = known.length;
    return known.text;
}

/* --- native threads --- */

void plock__name_thread(const char *name) {
#if defined(__APPLE__)
    (void)pthread_setname_np(name);
#elif defined(__linux__)
    (void)pthread_setname_np(pthread_self(), name);
#else
    (void)name;
#endif
}

int plock__start_thread(pthread_t *thread, void *(*body)(void *), void *argument) {
    sigset_t all, before;
    (void)sigfillset(&all);
    int failed = pthread_sigmask(SIG_SETMASK, &all, &before); /* a new thread inherits the mask */
    if (failed) return failed;
    failed = pthread_create(thread, NULL, body, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}
