#include "waker.h"

#include "descriptor.h"
#include "memory.h"
#include "platform.h"
#include "process.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#ifdef PLOCK__EVENTFD
#include <sys/eventfd.h>
#endif
#ifdef PLOCK__FUTEX
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

struct plock_waker {
    int out, in; /* with an eventfd both are the same; -1: not open */
    _Atomic uint32_t rung; /* 0 or 1 */
    atomic_uint sleepers;  /* who are to be woken besides */
    plock_waker *next_unused, *next; /* every waker stays in the list of all, for the child of a fork */
};

static plock_waker *all, *unused;

static bool open_descriptors(plock_waker *waker) {
#ifdef PLOCK__EVENTFD
    waker->out = waker->in = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return waker->out >= 0;
#else
    int ends[2];
    if (pipe(ends)) return false;
    for (int i = 0; i < 2; i++)
        if (plock__prepare_descriptor(ends[i])) {
            const int code = errno;
            (void)close(ends[0]);
            (void)close(ends[1]);
            errno = code;
            return false;
        }
    waker->out = ends[0];
    waker->in = ends[1];
    return true;
#endif
}

static void close_descriptors(plock_waker *waker) {
    if (waker->in != waker->out) (void)close(waker->in);
    if (waker->out >= 0) (void)close(waker->out);
    waker->in = waker->out = -1;
}

plock_waker *plock_waker_take(void) {
    plock__enter();
    plock_waker *waker = unused;
    if (waker) unused = waker->next_unused;
    plock__leave();
    if (!waker) {
        waker = plock__allocate(sizeof *waker);
        if (!waker) {
            errno = ENOMEM;
            return NULL;
        }
        waker->in = waker->out = -1;
        plock__enter();
        waker->next = all;
        all = waker;
        plock__leave();
    }
    if (waker->out < 0 && !open_descriptors(waker)) {
        const int code = errno;
        plock_waker_give(waker);
        errno = code;
        return NULL;
    }
    return waker;
}

void plock__waker_hush_if_rung(plock_waker *waker) {
    if (atomic_load(&waker->rung)) (void)plock_waker_hush(waker);
}

void plock_waker_give(plock_waker *waker) {
    if (!waker) return;
    plock__waker_hush_if_rung(waker);
    plock__enter();
    plock__waker_put_back(waker);
    plock__leave();
}

void plock__waker_put_back(plock_waker *waker) {
    waker->next_unused = unused;
    unused = waker;
}

int plock_waker_descriptor(const plock_waker *waker) {
    return waker->out;
}

static void wake_sleepers(plock_waker *waker) {
#ifdef PLOCK__FUTEX
    (void)syscall(SYS_futex, &waker->rung, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#else
    (void)waker;
#endif
}

void plock_waker_ring(plock_waker *waker) {
    if (atomic_exchange(&waker->rung, 1)) return;
    const int code = errno; /* it may ring in a signal handler */
    const uint64_t one = 1;
    ssize_t written;
    do written = write(waker->in, &one, sizeof one);
    while (written < 0 && errno == EINTR); /* EAGAIN: it is ringing already */
    if (atomic_load(&waker->sleepers)) wake_sleepers(waker);
    errno = code;
}

const _Atomic uint32_t *plock__waker_lie_down(plock_waker *waker) {
    atomic_fetch_add(&waker->sleepers, 1);
    return &waker->rung;
}

bool plock__waker_get_up(plock_waker *waker) {
    atomic_fetch_sub(&waker->sleepers, 1);
    return atomic_load(&waker->rung);
}

/* The mark goes last: a ring in between writes nothing, but is part of what is reported here, and the next one writes again. */
bool plock_waker_hush(plock_waker *waker) {
    uint64_t drained[8];
    ssize_t got;
    do got = read(waker->out, drained, sizeof drained);
    while ((got > 0 && waker->in != waker->out) || (got < 0 && errno == EINTR)); /* an eventfd is empty after one */
    return atomic_exchange(&waker->rung, 0);
}

void plock__wakers_in_child(void) {
    for (plock_waker *waker = all; waker; waker = waker->next) {
        close_descriptors(waker);
        atomic_store(&waker->rung, 0);
        atomic_store(&waker->sleepers, 0);
    }
}

#ifdef PLOCK_TESTING
void plock__forget_wakers(void) {
    plock__enter();
    while (all) {
        plock_waker *waker = all;
        all = waker->next;
        close_descriptors(waker);
        plock__free(waker);
    }
    unused = NULL;
    plock__leave();
}
#endif
