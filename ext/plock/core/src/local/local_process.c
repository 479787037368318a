#include "local/local_map.h"

#include "base/descriptor.h"
#include "base/failure.h"
#include "base/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef PLOCK__PIDFD
#include <sys/syscall.h>
#endif
#ifdef PLOCK__INOTIFY
#include <sys/inotify.h>
#endif

enum {
    /* the offset of the first place's byte; processes only lock these bytes, so their contents do
     * not matter */
    FIRST_BYTE = 4096,
    SLOTS = PLOCK__LOCAL_PROCESSES,
    WAKERS_MAX = 256,
    PATH_ROOM = 1100
};

/* --- liveness ---
 *
 * A process is alive as long as it holds the lock on the byte of its place. The kernel releases the
 * lock when the last descriptor of its open file is closed, however the process ends. On a system
 * without such locks, plock uses POSIX locks, which end with the process. */

#ifdef PLOCK__OFD
enum { SET = F_OFD_SETLK, GET = F_OFD_GETLK, SHARED = 1 };
#else
enum { SET = F_SETLK, GET = F_GETLK, SHARED = 0 };
#endif

bool plock__local_life_is_shared(void) { return SHARED; }

static struct flock bytes(off_t first, off_t length) {
    return (struct flock){
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = FIRST_BYTE + first, .l_len = length};
}

bool plock__local_used(int fd, uint32_t first, uint32_t count) {
    struct flock lock = bytes(first, count);
    /* if the kernel does not tell whether the lock is held, the process counts as alive */
    return fcntl(fd, GET, &lock) || lock.l_type != F_UNLCK;
}

void plock__local_leave_place(const plock__local_map *map) {
    struct flock lock = bytes((off_t)map->slot, 1);
    lock.l_type = F_UNLCK;
    (void)fcntl(map->fd, SET, &lock);
}

bool plock__local_place_alive(const plock__local_map *map, uint32_t slot) {
    return slot == map->slot || plock__local_used(map->fd, slot, 1);
}

bool plock__local_alive(const plock__local_map *map, uint64_t process) {
    if (process == map->process) return true;
    const uint32_t slot = (uint32_t)(process % SLOTS);
    return atomic_load(&map->processes[slot].id) == process && slot != map->slot &&
           plock__local_used(map->fd, slot, 1);
}

/* --- signs of life --- */

static const plock_ns SILENT_AFTER = PLOCK_SECOND;

static plock_ns awake(void) {
    struct timespec time;
    (void)clock_gettime(PLOCK__AWAKE_CLOCK, &time);
    return (plock_ns)time.tv_sec * PLOCK_SECOND + (plock_ns)time.tv_nsec;
}

void plock__local_give_sign(plock__local_map *map) {
    atomic_store_explicit(&map->processes[map->slot].seen_at, awake(), memory_order_relaxed);
}

plock_ns plock__local_silent_in(const plock__local_map *map, uint64_t process) {
    if (process == map->process) return SILENT_AFTER;
    const plock__local_process *other = &map->processes[process % SLOTS];
    if (atomic_load_explicit(&other->id, memory_order_relaxed) != process) return 0;
    const plock_ns seen_at = atomic_load_explicit(&other->seen_at, memory_order_relaxed);
    const plock_ns left = seen_at + SILENT_AFTER - awake();
    return left > 0 ? left : 0;
}

/* --- the identity of a process --- */

static uint64_t name_space_of_pids(void) {
    struct stat found;
    return stat("/proc/self/ns/pid", &found) ? 0 : (uint64_t)found.st_ino;
}

/* Returns when a process started, in clock ticks since boot; 0: unknown. In /proc/PID/stat, the
 * program's name before this number may contain blanks and parentheses. */
static uint64_t start_of(long pid) {
    char path[64], line[512];
    (void)snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t got = read(fd, line, sizeof line - 1);
    (void)close(fd);
    line[got > 0 ? got : 0] = 0;
    const char *at = strrchr(line, ')');
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

#ifdef PLOCK__PIDFD
int plock__local_death_of(const plock__local_map *map, uint64_t process) {
    const plock__local_process *other = &map->processes[process % SLOTS];
    const int32_t pid = other->pid;
    if (!other->started || other->pids != map->processes[map->slot].pids) return -1;
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) return -1;
    /* The other process may have ended before its descriptor was opened, and its pid may belong to
     * a new process. So the start of the process is compared. */
    if (atomic_load(&other->id) == process && start_of(pid) == other->started) return fd;
    (void)close(fd);
    return -1;
}
#else
int plock__local_death_of(const plock__local_map *map, uint64_t process) {
    (void)map, (void)process;
    return -1;
}
#endif

#ifdef PLOCK__INOTIFY
/* When a process dies, the kernel closes its descriptors in descending order of their numbers.
 * Closing the last descriptor of an inotify takes ten milliseconds, or even seconds on a busy
 * machine. Until the store's file is closed, the dead process seems alive. So the files of all
 * stores have high numbers, and inotifies low ones. */
enum { FILES_FROM = 512 };

/* If the system refuses such a high number, or if no descriptor is left, the file keeps its
 * number. */
void plock__local_number(plock__local_map *map, int fd) {
    map->before = fd;
    const int least = fd < FILES_FROM ? FILES_FROM : fd + 1;
    const int high = map->fd < 0 ? -1 : fcntl(map->fd, F_DUPFD_CLOEXEC, least);
    if (high < 0) return;
    (void)close(map->fd);
    map->fd = high;
}

static bool tell_ends(plock__local_map *map) {
    const int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    map->tells = fd >= 0 && inotify_add_watch(fd, map->path, IN_CLOSE_WRITE) >= 0 &&
                 dup3(fd, map->before, O_CLOEXEC) >= 0;
    if (fd >= 0) (void)close(fd);
    return map->tells;
}

int plock__local_ends(plock__local_map *map) {
    return map->tells || tell_ends(map) ? fcntl(map->before, F_DUPFD_CLOEXEC, 0) : -1;
}
#else
void plock__local_number(plock__local_map *map, int fd) {
    (void)map;
    (void)close(fd);
}

int plock__local_ends(plock__local_map *map) {
    (void)map;
    return -1;
}
#endif

plock_status plock__local_take_place(plock__local_map *map, bool left_over, plock_error *error) {
    /* processes that start together begin their search at different places */
    uint32_t slot = 0, tried = 0, first = (uint32_t)getpid() % SLOTS;
    for (; tried < SLOTS; tried++) {
        slot = (first + tried) % SLOTS;
        struct flock lock = bytes((off_t)slot, 1);
        if (fcntl(map->fd, SET, &lock) == 0) break;
        if (errno != EAGAIN && errno != EACCES)
            return plock__local_unusable(error, map->path, "locking a place in its file", errno);
    }
    if (tried == SLOTS)
        return plock__fail(error, PLOCK_STORE_FULL,
                           "%d processes already use the local store %.120s: end some of them",
                           SLOTS, map->path);
    map->slot = slot;
    const plock_status status = plock__local_enter(map, plock_now(), error);
    if (status == PLOCK_AGAIN) return plock__local_occupied(map, error);
    if (status) return status;
    if (left_over) plock__local_repair(map);
    plock__local_process *own = &map->processes[slot];
    own->pid = (int32_t)getpid();
    own->started = start_of((long)getpid());
    own->pids = name_space_of_pids();
    const uint64_t id = ++map->header->serial * SLOTS + slot;
    PLOCK__FAULT();
    atomic_store(&own->id, id);
    map->process = id;
    return plock__local_leave(map, error);
}

/* --- wakers: each place has a named pipe --- */

static void name_waker(const plock__local_map *map, uint32_t slot, char path[PATH_ROOM]) {
    (void)snprintf(path, PATH_ROOM, "%s.%u", map->path, slot);
}

static int open_waker(const char *path, int flags) {
    struct stat found;
    const int fd = open(path, flags | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (fstat(fd, &found) == 0 && S_ISFIFO(found.st_mode) && found.st_uid == geteuid()))
        return fd;
    (void)close(fd);
    errno = EEXIST;
    return -1;
}

plock_status plock__local_listen(const plock__local_map *map, int ears[2], plock_error *error) {
    char path[PATH_ROOM];
    name_waker(map, map->slot, path);
    const bool made = mkfifo(path, S_IRUSR | S_IWUSR) == 0;
    if (!made && errno != EEXIST)
        return plock__fail_errno(error, PLOCK_CONNECT, "making the local store's FIFO", errno);
    if (made) plock__local_set_mode(path, S_IRUSR | S_IWUSR);
    const int out = open_waker(path, O_RDONLY), in = out < 0 ? -1 : open_waker(path, O_WRONLY);
    if (in < 0) {
        const int code = errno;
        if (out >= 0) (void)close(out);
        return plock__fail_errno(error, PLOCK_CONNECT, "opening the local store's FIFO", code);
    }
    ears[0] = out;
    ears[1] = in;
    return PLOCK_OK;
}

/* A full pipe holds at least this many claims. It has room for PIPE_BUF bytes or more, and the last
 * bytes may be too few for a claim. */
const unsigned PLOCK__LOCAL_HEARD_TOO_MANY = PIPE_BUF / sizeof(uint32_t) - 1;

int plock__local_hear(const int ears[2], uint32_t claims[PLOCK__LOCAL_HEARD_MAX]) {
    ssize_t got;
    do got = read(ears[0], claims, PLOCK__LOCAL_HEARD_MAX * sizeof *claims);
    while (got < 0 && errno == EINTR);
    if (got <= 0) return 0;
    return (size_t)got % sizeof *claims ? -1 : (int)((size_t)got / sizeof *claims);
}

/* Returns the waker of the place, or -1. The waker is also open for reading, so that a write
 * without a listener raises no SIGPIPE. Sets *keeps to true if the map keeps the waker open.
 * Otherwise too many are open, or another thread has opened this one first. The caller must then
 * close the returned descriptor. */
static int waker_of(plock__local_map *map, uint32_t slot, bool *keeps) {
    char path[PATH_ROOM];
    int none = atomic_load(&map->wakers[slot]);
    *keeps = true;
    if (none >= 0) return none;
    name_waker(map, slot, path);
    const int fd = open_waker(path, O_RDWR);
    *keeps = fd >= 0 && atomic_load(&map->wakers_open) < WAKERS_MAX &&
             atomic_compare_exchange_strong(&map->wakers[slot], &none, fd);
    if (*keeps) atomic_fetch_add(&map->wakers_open, 1);
    return fd;
}

void plock__local_wake(plock__local_map *map, uint64_t process, uint32_t claim) {
    bool keeps;
    const int fd = waker_of(map, (uint32_t)(process % SLOTS), &keeps);
    if (fd < 0) return; /* no process with this place has ever listened */
    ssize_t written;
    do written = write(fd, &claim, sizeof claim);
    while (written < 0 && errno == EINTR); /* on EAGAIN, the pipe is full; the process will wake for
                                            * the earlier messages, so this one may be lost */
    if (!keeps) (void)close(fd);
}

void plock__local_close_wakers(plock__local_map *map) {
    for (uint32_t slot = 0; slot < SLOTS && atomic_load(&map->wakers_open); slot++) {
        const int fd = atomic_exchange(&map->wakers[slot], -1);
        if (fd < 0) continue;
        (void)close(fd);
        atomic_fetch_sub(&map->wakers_open, 1);
    }
    for (int end = 0; end < 2; end++) plock__close_descriptor(&map->ears[end]);
}
