/* A wake sets a mark (`woken`) and pokes the thread that waits. That thread sleeps at the waker's
 * word, polls the waker's descriptor, or waits for another waker, to which the poke is forwarded.
 *
 * No wake is lost. The waiting thread first records where it sleeps, and then checks the mark. The
 * waking thread first sets the mark, and then looks up where the waiting thread sleeps. A poke that
 * comes late may wake another thread for nothing, which does no harm. */
#include "runtime/waker.h"

#include "base/memory.h"
#include "base/platform.h"
#include "base/process.h"
#include "runtime/waker_ends.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#ifdef PLOCK__FUTEX
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

struct plock_waker {
    _Atomic plock__ends open; /* the waker's descriptor; PLOCK__NO_ENDS if it has none */
    atomic_uint pokers;       /* threads that may be about to write to the descriptor */
    _Atomic uint32_t woken;   /* 0 or 1 */
    _Atomic uint32_t pokes;   /* the thread sleeps at this word */
    atomic_uint sleepers;
    _Atomic(plock_waker *) forward; /* the waker that is poked instead, or NULL */
    bool expects_signals; /* Must the descriptor stay open? Only the waiting thread reads this. */
#ifndef PLOCK__FUTEX
    pthread_mutex_t mutex;
    pthread_cond_t poked;
#endif
    /* Every waker stays in the list `all` for ever, because a late wake may still use it, and a
     * forked child must reset it. */
    plock_waker *next_unused, *next;
};

static plock_waker *all, *unused;

/* --- poking --- */

static void wake_sleepers(plock_waker *waker) {
#ifdef PLOCK__FUTEX
    (void)syscall(SYS_futex, &waker->pokes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#else
    /* without the mutex, this wake could come after the thread has read `pokes`, but before it
     * sleeps */
    (void)pthread_mutex_lock(&waker->mutex);
    (void)pthread_cond_broadcast(&waker->poked);
    (void)pthread_mutex_unlock(&waker->mutex);
#endif
}

static void poke(plock_waker *waker) {
    atomic_fetch_add(&waker->pokes, 1);
    atomic_fetch_add(&waker->pokers, 1);
    const plock__ends open = atomic_load(&waker->open);
    if (open != PLOCK__NO_ENDS) plock__ends_write(open);
    atomic_fetch_sub(&waker->pokers, 1);
    if (atomic_load(&waker->sleepers)) wake_sleepers(waker);
}

void plock_waker_wake(plock_waker *waker) {
    if (atomic_exchange(&waker->woken, 1)) return;
    const int code = errno; /* a signal handler may call this */
    plock_waker *to = atomic_load(&waker->forward);
    poke(to ? to : waker);
    errno = code;
}

bool plock__waker_woken(const plock_waker *waker) { return atomic_load(&waker->woken); }

void plock__waker_forward(plock_waker *waker, plock_waker *to) {
    atomic_store(&waker->forward, to);
}

/* --- a waker's descriptor --- */

int plock_waker_descriptor(plock_waker *waker) {
    plock__ends open = atomic_load(&waker->open);
    if (open != PLOCK__NO_ENDS) return plock__ends_descriptor(open);
    const plock__ends made = plock__ends_take();
    if (made == PLOCK__NO_ENDS) return -1;
    /* another thread has opened a descriptor first */
    if (!atomic_compare_exchange_strong(&waker->open, &open, made)) {
        plock__ends_give(made);
        return plock__ends_descriptor(open);
    }
    /* the thread that woke the waker may not have seen this descriptor */
    if (plock__waker_woken(waker)) plock__ends_write(made);
    return plock__ends_descriptor(made);
}

void plock__waker_drain(plock_waker *waker) {
    const plock__ends open = atomic_load(&waker->open);
    if (open != PLOCK__NO_ENDS) plock__ends_drain(open);
}

/* The descriptor stays open while another thread may write a poke to it. After a close, the
 * descriptor's number may belong to another file. */
void plock__waker_detach(plock_waker *waker) {
    const plock__ends open = atomic_exchange(&waker->open, PLOCK__NO_ENDS);
    if (open == PLOCK__NO_ENDS) return;
    if (atomic_load(&waker->pokers))
        atomic_store(&waker->open, open);
    else
        plock__ends_give(open);
}

/* Drains the descriptor first, and then clears the mark. If a wake comes in between, this call
 * reports it, and its poke may end a later wait for nothing. The next wake finds the mark cleared,
 * and pokes again. So no wake is lost. */
bool plock_waker_clear(plock_waker *waker) {
    plock__waker_drain(waker);
    return atomic_exchange(&waker->woken, 0);
}

void plock__waker_clear_if_woken(plock_waker *waker) {
    if (plock__waker_woken(waker)) (void)plock_waker_clear(waker);
}

void plock_waker_expect_signals(plock_waker *waker) {
#ifdef PLOCK__FUTEX
    (void)waker;
#else
    waker->expects_signals = plock_waker_descriptor(waker) >= 0;
#endif
}

void plock__waker_rest(plock_waker *waker) {
    if (!waker->expects_signals) plock__waker_detach(waker);
}

/* --- sleeping --- */

void plock__nap_begin(plock__nap *nap, plock_waker *waker, plock_waker *interrupt) {
    *nap = (plock__nap){.waker = waker, .interrupt = interrupt};
    nap->sleeper = interrupt ? interrupt : waker;
    atomic_fetch_add(&nap->sleeper->sleepers, 1);
    nap->seen = atomic_load(&nap->sleeper->pokes);
    if (waker && interrupt) plock__waker_forward(waker, interrupt);
}

bool plock__nap_over(const plock__nap *nap) {
    if (nap->waker && plock__waker_woken(nap->waker)) return true;
    return nap->interrupt && plock__waker_woken(nap->interrupt);
}

const _Atomic uint32_t *plock__nap_word(const plock__nap *nap) { return &nap->sleeper->pokes; }

plock_status plock__nap_end(plock__nap *nap) {
    if (nap->waker && nap->interrupt) plock__waker_forward(nap->waker, NULL);
    atomic_fetch_sub(&nap->sleeper->sleepers, 1);
    return nap->interrupt && plock__waker_woken(nap->interrupt) ? PLOCK_INTERRUPTED : PLOCK_OK;
}

static struct timespec time_of(plock_ns span) {
    return (struct timespec){.tv_sec = (time_t)(span / PLOCK_SECOND),
                             .tv_nsec = (long)(span % PLOCK_SECOND)};
}

struct timespec plock__monotonic_after(plock_ns span) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return time_of(plock_after(now.tv_sec * PLOCK_SECOND + now.tv_nsec, span));
}

/* Sleeps until the word changes or the deadline has come. May also return earlier for no reason.
 * Returns PLOCK_INTERRUPTED on a signal; without futexes, only if the waker expects signals. */
#ifdef PLOCK__FUTEX
static plock_status sleep_at(const plock__nap *nap, plock_ns deadline) {
    const plock_ns left = deadline - plock_now();
    const struct timespec span = time_of(left > 0 ? left : 0);
    const long woken = syscall(SYS_futex, plock__nap_word(nap), FUTEX_WAIT_PRIVATE, nap->seen,
                               deadline == PLOCK_NEVER ? NULL : &span, NULL, 0);
    return woken < 0 && errno == EINTR ? PLOCK_INTERRUPTED : PLOCK_OK;
}
#else
static plock_status sleep_at_descriptor(plock_waker *waker, int fd, plock_ns span) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    const int ready = poll(&polled, 1, (int)((span + PLOCK_MILLISECOND - 1) / PLOCK_MILLISECOND));
    if (ready > 0) plock__waker_drain(waker);
    return ready < 0 && errno == EINTR ? PLOCK_INTERRUPTED : PLOCK_OK;
}

static plock_status sleep_at(const plock__nap *nap, plock_ns deadline) {
    /* so short that no system's timeout type overflows */
    static const plock_ns ROUND = 10 * PLOCK_SECOND;
    plock_waker *waker = nap->sleeper;
    const plock_ns left = deadline - plock_now(), round = left > ROUND ? ROUND
                                                          : left > 0 ? left
                                                                     : 0;
    const plock__ends open = atomic_load(&waker->open);
    if (waker->expects_signals && open != PLOCK__NO_ENDS)
        return sleep_at_descriptor(waker, plock__ends_descriptor(open), round);
    (void)pthread_mutex_lock(&waker->mutex);
    if (atomic_load(&waker->pokes) == nap->seen) {
#ifdef __APPLE__
        const struct timespec span = time_of(round);
        (void)pthread_cond_timedwait_relative_np(&waker->poked, &waker->mutex, &span);
#else
        const struct timespec until = plock__monotonic_after(round);
        (void)pthread_cond_timedwait(&waker->poked, &waker->mutex, &until);
#endif
    }
    (void)pthread_mutex_unlock(&waker->mutex);
    return PLOCK_OK;
}
#endif

plock_status plock__waker_sleep(plock_waker *waker, plock_waker *interrupt, plock_ns deadline) {
    plock__nap nap;
    plock__nap_begin(&nap, waker, interrupt);
    const plock_status status = plock__nap_over(&nap) ? PLOCK_OK : sleep_at(&nap, deadline);
    const plock_status ended = plock__nap_end(&nap);
    return ended ? ended : status;
}

/* --- life --- */

/* Without futexes, makes the mutex and the condition variable. A child makes them again, because
 * the threads that used them belong to the parent. */
static void prepare_to_sleep(plock_waker *waker) {
#ifdef PLOCK__FUTEX
    (void)waker;
#else
    (void)pthread_mutex_init(&waker->mutex, NULL);
#ifdef __APPLE__
    (void)pthread_cond_init(&waker->poked, NULL);
#else
    pthread_condattr_t steady;
    (void)pthread_condattr_init(&steady);
    (void)pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&waker->poked, &steady);
    (void)pthread_condattr_destroy(&steady);
#endif
#endif
}

static plock_waker *new_waker(void) {
    plock_waker *waker = plock__allocate(sizeof *waker);
    if (!waker) {
        errno = ENOMEM;
        return NULL;
    }
    prepare_to_sleep(waker);
    plock__enter();
    waker->next = all;
    all = waker;
    plock__leave();
    return waker;
}

plock_waker *plock_waker_take(void) {
    plock__enter();
    plock_waker *waker = unused;
    if (waker) unused = waker->next_unused;
    plock__leave();
    return waker ? waker : new_waker();
}

plock_waker *plock__waker_take_open(void) {
    plock_waker *waker = plock_waker_take();
    if (!waker || plock_waker_descriptor(waker) >= 0) return waker;
    const int code = errno;
    plock_waker_give(waker);
    errno = code;
    return NULL;
}

void plock_waker_give(plock_waker *waker) {
    if (!waker) return;
    plock__waker_clear_if_woken(waker);
    plock__waker_detach(waker);
    waker->expects_signals = false;
    plock__enter();
    plock__waker_put_back(waker);
    plock__leave();
}

void plock__waker_put_back(plock_waker *waker) {
    waker->next_unused = unused;
    unused = waker;
}

static void close_own(plock_waker *waker) {
    const plock__ends open = atomic_exchange(&waker->open, PLOCK__NO_ENDS);
    if (open != PLOCK__NO_ENDS) plock__ends_close(open);
}

void plock__wakers_in_child(void) {
    plock__ends_close_kept();
    for (plock_waker *waker = all; waker; waker = waker->next) {
        close_own(waker);
        atomic_store(&waker->woken, 0);
        atomic_store(&waker->sleepers, 0);
        atomic_store(&waker->pokers, 0);
        atomic_store(&waker->forward, NULL);
        prepare_to_sleep(waker);
    }
}

#ifdef PLOCK_TESTING
long plock__unused_wakers(void) {
    long count = 0;
    plock__enter();
    for (const plock_waker *waker = unused; waker; waker = waker->next_unused) count++;
    plock__leave();
    return count;
}

void plock__forget_wakers(void) {
    plock__enter();
    plock__ends_close_kept();
    while (all) {
        plock_waker *waker = all;
        all = waker->next;
        close_own(waker);
#ifndef PLOCK__FUTEX
        (void)pthread_cond_destroy(&waker->poked);
        (void)pthread_mutex_destroy(&waker->mutex);
#endif
        plock__free(waker);
    }
    unused = NULL;
    plock__leave();
}
#endif
