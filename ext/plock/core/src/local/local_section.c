#include "local/local_map.h"

#include "base/failure.h"
#include "base/platform.h"

#include <stddef.h>
#include <time.h>
#include <unistd.h>

#ifdef PLOCK__FUTEX
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

/* A process leaves the critical section after a few hundred instructions, unless the system
 * interrupts its thread. A process that has waited for longer checks whether the process inside is
 * alive. */
enum {
    SPINS = 60,
    PLACE_BITS = 11,
    TAG_BITS = 20,
    PLACE = (1 << PLACE_BITS) - 1,
    TAG = (1 << TAG_BITS) - 1
};
static const uint32_t OTHERS_WAIT = UINT32_C(1) << (PLACE_BITS + TAG_BITS);
_Static_assert((int)PLOCK__LOCAL_PROCESSES < (int)PLACE, "a place and one has room");
static const plock_ns NAP = PLOCK_MILLISECOND, PATIENCE = 3 * PLOCK_MILLISECOND;

static void nap(_Atomic uint32_t *word, uint32_t value) {
    const struct timespec span = {.tv_nsec = NAP};
#ifdef PLOCK__FUTEX
    (void)syscall(SYS_futex, word, FUTEX_WAIT, value, &span, NULL, 0);
#else
    (void)word, (void)value;
    const struct timespec shorter = {.tv_nsec = span.tv_nsec / 10};
    (void)nanosleep(&shorter, NULL);
#endif
}

static void wake_one(_Atomic uint32_t *word) {
#ifdef PLOCK__FUTEX
    (void)syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
#else
    (void)word;
#endif
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static bool take(_Atomic uint32_t *word, uint32_t seen, uint32_t mine) {
    return atomic_compare_exchange_strong_explicit(word, &seen, mine, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Returns the mark that this process writes into `section`: its place, and random bits that tell it
 * from a later process that gets the same place. */
static uint32_t mark_of(const plock__local_map *map) {
    return (map->slot + 1) | (map->tag & TAG) << PLACE_BITS;
}

/* Is the process inside dead? A place has one process at a time. So if the mark has our place, but
 * is not our mark, the process that wrote it must be dead. */
static bool dead(const plock__local_map *map, uint32_t seen) {
    const uint32_t slot = (seen & PLACE) - 1;
    if (slot == map->slot) return (seen & ~OTHERS_WAIT) != mark_of(map);
    return slot >= PLOCK__LOCAL_PROCESSES || !plock__local_place_alive(map, slot);
}

/* Waits for the critical section. Returns true if this process is inside now, and sets *orphaned if
 * another process died inside. Returns false if another process is still inside, or if the file was
 * lost. */
static bool wait_for_it(plock__local_map *map, uint32_t mine, bool *orphaned) {
    _Atomic uint32_t *word = &map->header->section;
    for (int i = 0; i < SPINS; i++) {
        if (!atomic_load_explicit(word, memory_order_relaxed) && take(word, 0, mine)) return true;
        relax();
    }
    const plock_ns deadline = plock_after(plock_now(), PATIENCE);
    for (bool napped = false;;) {
        const uint32_t seen = atomic_load(word);
        if (!seen) {
            if (take(word, 0, mine | OTHERS_WAIT)) return true;
        } else if ((napped || (seen & PLACE) == (mine & PLACE)) && dead(map, seen)) {
            *orphaned = take(word, seen, mine | OTHERS_WAIT);
            if (*orphaned) return true;
        } else {
            if (napped && plock_now() >= deadline) return false;
            const uint32_t marked = seen | OTHERS_WAIT;
            if (seen == marked || take(word, seen, marked)) nap(word, marked);
            napped = true;
            plock__local_make_readable(map);
            if (plock__local_lost(map)) return false;
        }
    }
}

plock_status plock__local_enter(plock__local_map *map, plock_ns now, plock_error *error) {
    const uint32_t mine = mark_of(map);
    bool orphaned = false;
    const plock_status checked = plock__local_check_size(map, now, error);
    if (checked) return checked;
    if (!take(&map->header->section, 0, mine) && !wait_for_it(map, mine, &orphaned))
        return plock__local_lost(map) ? plock__local_loss_of(map, error) : PLOCK_AGAIN;
    map->asked_about = map->process;
    map->lives = true;
    if (orphaned) plock__local_repair(map);
    if (!atomic_load_explicit(&map->header->damaged, memory_order_relaxed)) return PLOCK_OK;
    const plock_status left = plock__local_leave(map, error);
    if (left) return left;
    plock__local_lose(map, PLOCK__LOCAL_DAMAGED);
    return plock__local_loss_of(map, error);
}

/* Handles a file that was lost while this process was inside. A file that was moved away still says
 * that we are inside, and may have only some of our changes. If it is put back, other processes
 * would wait for us forever. So we write a mark that counts as that of a dead process, and the next
 * process that enters repairs the file. */
static void leave_to_others(const plock__local_map *map) {
    static const uint32_t NOBODY = PLACE;
    static const off_t WHERE = offsetof(plock__local_header, section);
    uint32_t seen;
    const bool ours = pread(map->fd, &seen, sizeof seen, WHERE) == sizeof seen &&
                      (seen & ~OTHERS_WAIT) == mark_of(map);
    /* If this write fails, the file still says that we are inside. No process can then use the file
     * as long as this process has its place in it. */
    if (ours) (void)(pwrite(map->fd, &NOBODY, sizeof NOBODY, WHERE) == sizeof NOBODY);
}

plock_status plock__local_leave(plock__local_map *map, plock_error *error) {
    const bool damaged = map->damaged;
    if (damaged) atomic_store(&map->header->damaged, 1);
    PLOCK__FAULT();
    const uint32_t left = atomic_exchange_explicit(&map->header->section, 0, memory_order_release);
    const bool stayed = (left & ~OTHERS_WAIT) == mark_of(map);
    if (left & OTHERS_WAIT) wake_one(&map->header->section);
    if (stayed && !damaged) return PLOCK_OK;
    if (!stayed) leave_to_others(map);
    if (damaged) plock__local_lose(map, PLOCK__LOCAL_ABSURD);
    return plock__local_loss_of(map, error);
}

uint32_t plock__local_place_inside(uint32_t section) { return (section & PLACE) - 1; }

plock_status plock__local_occupied(const plock__local_map *map, plock_error *error) {
    const uint32_t slot = plock__local_place_inside(atomic_load(&map->header->section));
    return plock__fail(
        error, PLOCK_SILENT,
        "process %d does not leave the critical section of the local store %.120s: continue or "
        "end it",
        slot < PLOCK__LOCAL_PROCESSES ? map->processes[slot].pid : 0, map->path);
}

#ifdef PLOCK_TESTING
#include <signal.h>

static atomic_ulong faults, fails_at;
static atomic_int by;

static unsigned long fail_at(unsigned long n, int signal_number) {
    atomic_store(&fails_at, n);
    atomic_store(&by, signal_number);
    return atomic_exchange(&faults, 0);
}

unsigned long plock__local_die_at(unsigned long n) { return fail_at(n, SIGKILL); }

unsigned long plock__local_stop_at(unsigned long n) { return fail_at(n, SIGSTOP); }

unsigned long plock__local_signal_at(unsigned long n) { return fail_at(n, SIGUSR1); }

static _Atomic(void (*)(void)) before[PLOCK__MOMENTS];

void plock__local_before(enum plock__local_moment moment, void (*happens)(void)) {
    atomic_store(&before[moment], happens);
}

void plock__local_happens(enum plock__local_moment moment) {
    void (*const happens)(void) = atomic_exchange(&before[moment], NULL);
    if (happens) happens();
}

void plock__local_fault(void) {
    if (atomic_fetch_add(&faults, 1) + 1 == atomic_load(&fails_at))
        (void)kill(getpid(), atomic_load(&by));
}
#endif
