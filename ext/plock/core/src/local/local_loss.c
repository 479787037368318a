/* Checks that the file of a local store is whole and in its place, and handles its loss. */
#include "local/local_table.h"

#include "base/failure.h"
#include "base/platform.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#ifdef __SANITIZE_THREAD__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#ifdef MAP_NORESERVE
#define PLOCK__RESERVE_NOTHING MAP_NORESERVE
#else
#define PLOCK__RESERVE_NOTHING 0
#endif

/* Reads the status of the open file. Returns false if the file no longer has a name. */
static bool has_a_name(const plock__local_map *map, struct stat *found) {
    return fstat(map->fd, found) == 0 && found->st_nlink > 0;
}

/* Reads the status of the file at the path. Returns false unless the path leads to the open file.
 * If this process may not search a folder of the path, relies on the status of the open file alone.
 */
static bool in_its_place(const plock__local_map *map, struct stat *found) {
    if (lstat(map->path, found) == 0)
        return found->st_dev == map->device && found->st_ino == map->inode;
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ESTALE) return false;
    return has_a_name(map, found);
}

/* Checks whether the file is whole. Checks the size first, because the kernel ends a process that
 * reads a truncated page. */
static enum plock__local_loss harm(const plock__local_map *map, const struct stat *found) {
    if ((uint64_t)found->st_size < map->title.size) return PLOCK__LOCAL_HARMED;
    if (memcmp(&map->header->title, &map->title, sizeof map->title)) return PLOCK__LOCAL_HARMED;
    return atomic_load(&map->header->damaged) ? PLOCK__LOCAL_DAMAGED : PLOCK__LOCAL_IN_PLACE;
}

enum plock__local_loss plock__local_look_at_path(const plock__local_map *map) {
    struct stat found;
    return in_its_place(map, &found) ? harm(map, &found) : PLOCK__LOCAL_MISSING;
}

static enum plock__local_loss look_at_size(const plock__local_map *map) {
    struct stat found;
    return has_a_name(map, &found) ? harm(map, &found) : PLOCK__LOCAL_MISSING;
}

/* How often the file is checked (CHECKED_EVERY), its path is walked (WALKED_EVERY) and its size is
 * checked (MEASURED_EVERY). A check of the size alone costs only a quarter of a microsecond. */
static const plock_ns CHECKED_EVERY = 5 * PLOCK_MILLISECOND, WALKED_EVERY = PLOCK_SECOND / 4;
static const plock_ns MEASURED_EVERY = PLOCK_MILLISECOND / 5;
static const int64_t TICK_US = 20 * 1000; /* the longest time between two ticks of a file system's
                                           * clock */

/* Returns when the folder was last renamed, or when an entry was last added, removed or renamed.
 * The result is in nanoseconds of the file system's clock. 0: unknown, or so recent that another
 * change could have the same time. */
static int64_t changed_at(int folder) {
    struct stat found;
    if (folder < 0 || fstat(folder, &found)) return 0;
    const struct timespec at = PLOCK__CHANGED_AT(found);
    const int64_t ago = plock__local_wall() - ((int64_t)at.tv_sec * 1000000 + at.tv_nsec / 1000);
    return ago > -TICK_US && ago < TICK_US ? 0 : (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

/* A waiter whose turn has come must wait for this check. With cold caches, walking the path takes
 * 20 microseconds, and reading the status of the open file only 7. So the path is walked only if
 * its last folder has changed, and from time to time, because a folder further up may have changed.
 */
static enum plock__local_loss look_again(plock__local_map *map, plock_ns now) {
    const int64_t changed = changed_at(map->folder);
    if (changed && changed == atomic_load(&map->folder_changed) &&
        now - atomic_load(&map->walked_at) < WALKED_EVERY)
        return look_at_size(map);
    const enum plock__local_loss loss = plock__local_look_at_path(map);
    atomic_store(&map->folder_changed, changed);
    atomic_store(&map->walked_at, now);
    return loss;
}

/* Replaces the file's pages with empty pages in one step. A thread that reads at the same time sees
 * old or empty pages, and both are correct. TSan would take mmap for a write to the pages, so a
 * plain system call bypasses it. If memory runs out, only map->loss shows the loss. */
static void replace_pages(void *bytes, size_t size) {
    const int protection = PROT_READ | PROT_WRITE;
    const int flags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | PLOCK__RESERVE_NOTHING;
#ifdef __SANITIZE_THREAD__
    (void)syscall(SYS_mmap, bytes, size, protection, flags, -1, 0);
#else
    (void)mmap(bytes, size, protection, flags, -1, 0);
#endif
}

void plock__local_lose(plock__local_map *map, enum plock__local_loss loss) {
    int in_place = PLOCK__LOCAL_IN_PLACE;
    if (!atomic_compare_exchange_strong(&map->loss, &in_place, (int)loss)) return;
    replace_pages(map->bytes, (size_t)map->title.size);
    if (loss != PLOCK__LOCAL_HARMED) return;
    PLOCK__BEFORE(PLOCK__LEAVES_PLACE);
    /* Without a place of this process in the old file, other processes can make a new file. They
     * need not wait until this process has given up its leases in the old file. */
    plock__local_leave_place(map);
}

/* Does nothing with POSIX locks, which do not exclude the process itself. A newer map of this
 * process may have the same place, and unlocking would take the place from the newer map. */
void plock__local_leave_lost(const plock__local_map *map) {
    const int loss = atomic_load(&map->loss);
    const bool unused = map->users == 0 && !map->pinned;
    const bool damaged = loss == PLOCK__LOCAL_DAMAGED || loss == PLOCK__LOCAL_ABSURD;
    if (!plock__local_life_is_shared()) return;
    if (loss == PLOCK__LOCAL_HARMED || (damaged && unused)) plock__local_leave_place(map);
}

plock_status plock__local_loss_of(const plock__local_map *map, plock_error *error) {
    switch (atomic_load(&map->loss)) {
    case PLOCK__LOCAL_IN_PLACE: return PLOCK_OK;
    case PLOCK__LOCAL_MISSING:
        return plock__fail(error, PLOCK_DISCONNECTED,
                           "the file of the local store %.120s was removed, renamed or replaced",
                           map->path);
    case PLOCK__LOCAL_HARMED:
        return plock__fail(
            error, PLOCK_PROTOCOL,
            "the local store %.120s is damaged: its file was truncated or written over", map->path);
    default:
        return plock__fail(error, PLOCK_PROTOCOL,
                           "the local store %.120s is damaged: another program wrote to its file. "
                           "plock replaces it when nothing is held in it",
                           map->path);
    }
}

static plock_ns since(_Atomic plock_ns *at, plock_ns now) {
    return now - atomic_load_explicit(at, memory_order_relaxed);
}

static plock_status seen(plock__local_map *map, enum plock__local_loss loss, plock_error *error) {
    if (loss == PLOCK__LOCAL_IN_PLACE) return PLOCK_OK;
    plock__local_lose(map, loss);
    return plock__local_loss_of(map, error);
}

plock_status plock__local_check(plock__local_map *map, plock_ns now, plock_error *error) {
    if (plock__local_lost(map)) return plock__local_loss_of(map, error);
    if (since(&map->checked_at, now) < CHECKED_EVERY) return PLOCK_OK;
    const enum plock__local_loss loss = look_again(map, now);
    const plock_status status = seen(map, loss, error);
    atomic_store(&map->checked_at, now);
    atomic_store(&map->whole_at, now);
    return status;
}

/* Stores the time only after the check. Other threads skip their own check as soon as they read the
 * new time, so the loss must be known by then. */
static plock_status check_size_now(plock__local_map *map, plock_ns now, plock_error *error) {
    if (plock__local_lost(map)) return plock__local_loss_of(map, error);
    PLOCK__BEFORE(PLOCK__MEASURES);
    const plock_status status = seen(map, look_at_size(map), error);
    atomic_store(&map->whole_at, now);
    return status;
}

plock_status plock__local_check_size(plock__local_map *map, plock_ns now, plock_error *error) {
    if (!plock__local_lost(map) && since(&map->whole_at, now) < MEASURED_EVERY) return PLOCK_OK;
    return check_size_now(map, now, error);
}

void plock__local_make_readable(plock__local_map *map) {
    /* if the file is lost, the check records that in the map */
    (void)(check_size_now(map, plock_now(), NULL) == PLOCK_OK);
}
