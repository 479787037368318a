/* Waits for another process with a single system call, futex_waitv. Without it, the wait needs a
 * pipe, its descriptor and a thread that reads the pipe. A hand-off between processes spends most
 * of its time on cache misses, so a shorter path saves time. */
#include "runtime/parking_slot.h"

#include "base/platform.h"
#include "runtime/waker.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#ifdef PLOCK__FUTEX
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#if defined(PLOCK__FUTEX) && defined(SYS_futex_waitv) && defined(FUTEX_32)

enum { WORD, NAP, WORDS };

static atomic_bool missing; /* the kernel lacks futex_waitv, or forbids it */

static _Atomic uint32_t *lower_half(_Atomic uint64_t *word) {
    const uint32_t one = 1;
    return (_Atomic uint32_t *)(void *)word + (*(const unsigned char *)&one ? 0 : 1);
}

static struct futex_waitv until_changed(const void *word, uint32_t value, uint32_t flags) {
    return (struct futex_waitv){
        .val = value, .uaddr = (uint64_t)(uintptr_t)word, .flags = FUTEX_32 | flags};
}

bool plock__parking_slot_await(const plock_interest *interest, plock_waker *interrupt,
                               plock_status *status) {
    const plock__parking_slot *parking_slot = interest->parking_slot;
    if (atomic_load_explicit(&missing, memory_order_relaxed)) return false;
    plock_have_led(); /* this thread will only sleep, so the worker thread must listen instead */
    plock__nap nap;
    struct futex_waitv words[WORDS];
    plock__nap_begin(&nap, parking_slot->waker, interrupt);
    words[WORD] = until_changed(lower_half(parking_slot->word), (uint32_t)parking_slot->value, 0);
    words[NAP] = until_changed(plock__nap_word(&nap), nap.seen, FUTEX_PRIVATE_FLAG);
    const plock_ns left = interest->deadline - plock_now();
    const struct timespec end = plock__monotonic_after(left > 0 ? left : 0);
    atomic_store(parking_slot->asleep, 1);
    long woken = 0;
    if (!plock__nap_over(&nap))
        woken = syscall(SYS_futex_waitv, words, WORDS, 0,
                        interest->deadline == PLOCK_NEVER ? NULL : &end, CLOCK_MONOTONIC);
    const int code = woken < 0 ? errno : 0;
    /* If the word has changed, its writer has just written to the page, so the page exists. After
     * any other sleep, the file may have been truncated. EFAULT means that the file was truncated
     * before this thread could sleep. */
    const bool changed = woken == WORD || code == EAGAIN;
    if (changed || parking_slot->is_there(parking_slot->of)) atomic_store(parking_slot->asleep, 0);
    *status = plock__nap_end(&nap);
    if (code == EINTR) *status = PLOCK_INTERRUPTED;
    if (!code || code == EAGAIN || code == EINTR || code == ETIMEDOUT || code == EFAULT)
        return true;
    atomic_store(&missing, true);
    return false;
}

void plock__parking_slot_wake(_Atomic uint64_t *word) {
    (void)syscall(SYS_futex, lower_half(word), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#ifdef PLOCK_TESTING
bool plock__parking_slot_forbid(bool forbidden) {
    const uint32_t word = 1;
    struct futex_waitv changed = until_changed(&word, 0, FUTEX_PRIVATE_FLAG);
    atomic_store(&missing, forbidden);
    return syscall(SYS_futex_waitv, &changed, 1, 0, NULL, CLOCK_MONOTONIC) < 0 && errno == EAGAIN;
}
#endif

#else

#ifdef PLOCK_TESTING
bool plock__parking_slot_forbid(bool forbidden) {
    (void)forbidden;
    return false;
}
#endif

bool plock__parking_slot_await(const plock_interest *interest, plock_waker *interrupt,
                               plock_status *status) {
    (void)interest, (void)interrupt, (void)status;
    return false;
}

void plock__parking_slot_wake(_Atomic uint64_t *word) { (void)word; }

#endif
