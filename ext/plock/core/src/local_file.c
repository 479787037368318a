#include "local_lease.h"

#include "failure.h"
#include "memory.h"
#include "plock/lease.h"
#include "process.h"
#include "random.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

static plock__local_map *maps; /* of this process; under the lock */

static const plock_ns TURN = 1 * PLOCK_SECOND; /* to wait for another process that opens the file just now */

/* --- what the file is to look like --- */

typedef struct plan {
    uint64_t processes, buckets, keys, claims, size; /* where each begins */
    uint32_t bucket_count, claim_count;
} plan;

static uint64_t pages(uint64_t bytes) {
    return (bytes + PLOCK__LOCAL_PAGE - 1) / PLOCK__LOCAL_PAGE * PLOCK__LOCAL_PAGE;
}

static plan plan_for(uint32_t keys) {
    plan p = {.bucket_count = 1, .claim_count = keys * PLOCK__LOCAL_CLAIMS_PER_KEY};
    while (p.bucket_count < keys) p.bucket_count *= 2;
    p.processes = PLOCK__LOCAL_PAGE;
    p.buckets = p.processes + pages(sizeof(plock__local_process) * PLOCK__LOCAL_PROCESSES);
    p.keys = p.buckets + pages(sizeof(uint32_t) * p.bucket_count);
    p.claims = p.keys + pages(sizeof(plock__local_key) * keys);
    p.size = p.claims + pages(sizeof(plock__local_claim) * p.claim_count) + PLOCK__LOCAL_PAGE; /* the last one has nothing but the magic */
    return p;
}

static uint64_t checksum(const plock__local_title *title) {
    const unsigned char *bytes = (const unsigned char *)title;
    uint64_t sum = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < offsetof(plock__local_title, check); i++) sum = (sum ^ bytes[i]) * UINT64_C(1099511628211);
    return sum;
}

static void read_boot(char boot[PLOCK__LOCAL_BOOT_MAX]) {
    memset(boot, 0, PLOCK__LOCAL_BOOT_MAX);
#ifdef __APPLE__
    size_t length = PLOCK__LOCAL_BOOT_MAX;
    (void)sysctlbyname("kern.bootsessionuuid", boot, &length, NULL, 0);
#else
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    const ssize_t got = read(fd, boot, PLOCK__LOCAL_BOOT_MAX);
    if (got < 0) memset(boot, 0, PLOCK__LOCAL_BOOT_MAX);
    (void)close(fd);
#endif
}

static void write_title(plock__local_title *title, uint32_t keys) {
    struct stat found;
    memset(title, 0, sizeof *title);
    memcpy(title->magic, PLOCK__LOCAL_MAGIC, sizeof title->magic);
    title->layout = PLOCK__LOCAL_LAYOUT;
    title->byte_order = PLOCK__LOCAL_BYTE_ORDER;
    title->size = plan_for(keys).size;
    read_boot(title->boot);
    title->clock = stat("/proc/self/ns/time", &found) ? 0 : (uint64_t)found.st_ino;
    title->uid = (uint32_t)geteuid();
    title->keys = keys;
    title->check = checksum(title);
}

/* --- is it usable as it is? --- */

typedef struct verdict {
    bool ours, usable, readable, rebooted; /* ours: there is nothing of anybody else's in it; readable: its title is */
    const char *why;
    int64_t outlives_until, fence;
    uint32_t keys;
} verdict;

enum { MAGIC = sizeof PLOCK__LOCAL_MAGIC - 1 };

static bool has_magic(const unsigned char *bytes) {
    return !memcmp(bytes, PLOCK__LOCAL_MAGIC, MAGIC);
}

/* One that was truncated or written over, perhaps; but never one that somebody named by mistake. */
static bool is_ours(int fd) {
    unsigned char bytes[MAGIC];
    struct stat found;
    if (fstat(fd, &found)) return false;
    if (found.st_size == 0) return true;
    if (pread(fd, bytes, MAGIC, 0) == MAGIC && has_magic(bytes)) return true;
    return found.st_size > MAGIC && pread(fd, bytes, MAGIC, found.st_size - MAGIC) == MAGIC && has_magic(bytes);
}

static verdict judge(int fd) {
    unsigned char page[PLOCK__LOCAL_PAGE];
    plock__local_title title, wanted;
    struct stat found;
    verdict v = {.ours = is_ours(fd), .why = "it was truncated"};
    const ssize_t got = pread(fd, page, sizeof page, 0);
    memcpy(&title, page, sizeof title);
    if (got != (ssize_t)sizeof page || fstat(fd, &found)) return v;
    v.why = "its beginning was written over";
    if (!has_magic(page) || title.check != checksum(&title) || title.byte_order != PLOCK__LOCAL_BYTE_ORDER) return v;
    v.readable = true;
    v.keys = title.keys;
    memcpy(&v.outlives_until, page + offsetof(plock__local_header, outlives_until), sizeof v.outlives_until);
    memcpy(&v.fence, page + offsetof(plock__local_header, fence), sizeof v.fence);
    if (v.fence < 0 || v.fence >= PLOCK__LOCAL_FENCE_MAX) v.fence = 0;
    uint32_t damaged;
    memcpy(&damaged, page + offsetof(plock__local_header, damaged), sizeof damaged);
    v.why = "it is of another version of plock";
    if (title.layout != PLOCK__LOCAL_LAYOUT || title.keys < PLOCK_LOCAL_KEYS_MIN || title.keys > PLOCK_LOCAL_KEYS_MAX) return v;
    write_title(&wanted, title.keys);
    v.rebooted = memcmp(title.boot, wanted.boot, sizeof title.boot) != 0;
    v.why = "it is left from before a reboot";
    if (v.rebooted) return v;
    v.why = "it was truncated";
    if (title.size != wanted.size || (uint64_t)found.st_size != title.size) return v;
    v.why = "it was damaged";
    if (damaged) return v;
    v.usable = true;
    v.why = title.clock != wanted.clock ? "it is used from where another clock goes, in another container" : NULL;
    return v;
}

static plock_status refuse(plock_error *error, plock_status status, const char *path, const char *why, const char *because) {
    return plock__fail(error, status, "the local store %.110s cannot be used: %.80s%.60s", path, why, because);
}

/* Nothing may be taken from anybody: no process uses it, and nothing is held that outlives its process. */
static plock_status may_be_made_anew(int fd, const verdict *v, const char *path, plock_error *error) {
    if (plock__local_used(fd)) return refuse(error, PLOCK_PROTOCOL, path, v->why, ", and other processes use it");
    const plock_ns now = plock_now();
    if (v->readable && !v->rebooted && v->outlives_until > now && v->outlives_until <= plock_after(now, PLOCK_TTL_MAX))
        return refuse(error, PLOCK_PROTOCOL, path, v->why, ", and locks in it are kept for some time yet");
    return PLOCK_OK;
}

/* --- making it --- */

/* Writing, not only reserving: then there is room in every file system, and nobody is ended by a fault when he uses it. */
static int fill(int fd, uint64_t from, uint64_t until) {
    static const unsigned char ZEROS[16 * PLOCK__LOCAL_PAGE];
    while (from < until) {
        const size_t length = until - from < sizeof ZEROS ? (size_t)(until - from) : sizeof ZEROS;
        const ssize_t written = pwrite(fd, ZEROS, length, (off_t)from);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return -1;
        from += (uint64_t)written;
    }
    return 0;
}

static int write_new(int fd, uint32_t keys, int64_t fence) {
    const plan p = plan_for(keys);
    plock__local_header header;
    memset(&header, 0, sizeof header);
    write_title(&header.title, keys);
    atomic_init(&header.fence, fence);
    header.keys_free = header.claims_free = PLOCK__LOCAL_NONE;
    if (ftruncate(fd, (off_t)p.size) || fill(fd, 0, p.keys)) return -1;
    if (pwrite(fd, PLOCK__LOCAL_MAGIC, MAGIC, (off_t)p.size - MAGIC) != MAGIC) return -1;
    return pwrite(fd, &header, sizeof header, 0) == (ssize_t)sizeof header ? 0 : -1;
}

/* Beside it first, so that nobody ever sees half a file. With the folder's lock. */
static plock_status make(int folder, const char *name, const char *path, uint32_t keys, int64_t fence, plock_error *error) {
    char beside[300];
    uint64_t number;
    if (plock__random(&number, sizeof number)) return plock__fail_plainly(error, PLOCK_CRYPTO);
    const int length = snprintf(beside, sizeof beside, "%s.new.%016llx", name, (unsigned long long)number);
    if (length < 0 || (size_t)length >= sizeof beside) return refuse(error, PLOCK_BAD_CONFIG, path, "its name is too long", "");
    const int fd = openat(folder, beside, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    const bool made = fd >= 0 && !fchmod(fd, S_IRUSR | S_IWUSR) && !write_new(fd, keys, fence) && !renameat(folder, beside, folder, name);
    const int code = errno;
    if (fd >= 0) (void)close(fd);
    if (made) return PLOCK_OK;
    if (fd >= 0) (void)unlinkat(folder, beside, 0);
    return plock__fail_errno(error, code == ENOSPC || code == EDQUOT ? PLOCK_STORE_FULL : PLOCK_BAD_CONFIG, "making the local store's file", code);
}

/* --- mapping it --- */

static void unmap(plock__local_map *map) {
    plock__local_close_bells(map);
    if (map->bytes) (void)munmap(map->bytes, (size_t)map->title.size);
    if (map->fd >= 0) (void)close(map->fd);
    plock__free(map->lease_of);
    plock__free(map->path);
    plock__free(map);
}

/* A mapping keeps the open file alive that it was made from, and the locks of that, in every child. So what is locked is another one.
 * With the folder's lock, so the path still names the same file. */
static int open_apart(int fd, const char *path) {
    struct stat mapped, found;
    const int apart = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (apart < 0) return -1;
    if (!fstat(fd, &mapped) && !fstat(apart, &found) && mapped.st_dev == found.st_dev && mapped.st_ino == found.st_ino) return apart;
    (void)close(apart);
    errno = ESTALE;
    return -1;
}

static plock_status map_file(plock__local_map **out, int fd, const char *path, uint32_t keys, plock_error *error) {
    const plan p = plan_for(keys);
    struct stat found;
    plock__local_map *map = plock__allocate(sizeof *map);
    *out = map;
    if (!map) {
        (void)close(fd);
        return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    }
    map->fd = fd;
    for (int slot = 0; slot < PLOCK__LOCAL_PROCESSES; slot++) atomic_init(&map->bells[slot], -1);
    map->ears[0] = map->ears[1] = -1;
    map->references = 1;
    map->generation = plock__generation();
    map->key_count = keys;
    map->claim_count = p.claim_count;
    map->bucket_mask = p.bucket_count - 1;
    map->slot = PLOCK__LOCAL_NONE - 1;
    map->no_key = (plock__local_key){.first_holder = PLOCK__LOCAL_NONE, .first_waiter = PLOCK__LOCAL_NONE, .last_waiter = PLOCK__LOCAL_NONE};
    map->path = plock__copy(path, strlen(path));
    map->lease_of = plock__allocate(sizeof *map->lease_of * p.claim_count);
    if (!map->path || !map->lease_of) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    if (fstat(fd, &found) || plock__random(&map->tag, sizeof map->tag)) return plock__fail_plainly(error, PLOCK_CRYPTO);
    map->device = found.st_dev;
    map->inode = found.st_ino;
    write_title(&map->title, keys);
    void *bytes = mmap(NULL, (size_t)p.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) return plock__fail_errno(error, PLOCK_BAD_CONFIG, "mapping the local store's file", errno);
    map->bytes = bytes;
    map->fd = open_apart(fd, path);
    const int code = errno;
    (void)close(fd);
    if (map->fd < 0) return plock__fail_errno(error, PLOCK_BAD_CONFIG, "opening the local store's file", code);
    map->header = (plock__local_header *)bytes;
    map->processes = (plock__local_process *)(void *)(map->bytes + p.processes);
    map->buckets = (_Atomic uint32_t *)(void *)(map->bytes + p.buckets);
    map->keys = (plock__local_key *)(void *)(map->bytes + p.keys);
    map->claims = (plock__local_claim *)(void *)(map->bytes + p.claims);
    atomic_store(&map->checked_at, plock_now());
    return plock__local_take_place(map, error);
}

/* One that this process has already: a second lock on it would be the same process's, and where locks are POSIX's, closing a second
 * descriptor would lose the first one's. With the folder's lock, under which alone maps come. */
static plock__local_map *known(int folder, const char *name) {
    struct stat found;
    plock__local_map *map = NULL;
    if (fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW)) return NULL;
    plock__enter();
    for (map = maps; map; map = map->next)
        if (map->device == found.st_dev && map->inode == found.st_ino && !atomic_load(&map->gone) && !atomic_load(&map->header->damaged)) break;
    if (map) map->references++;
    plock__leave();
    return map;
}

static plock_status open_file(int folder, const char *name, const char *path, int *fd, plock_error *error) {
    *fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0 && errno == ENOENT) return PLOCK_OK;
    if (*fd < 0 && errno == ELOOP) return refuse(error, PLOCK_BAD_CONFIG, path, "it is a symbolic link", "");
    if (*fd < 0) return plock__fail_errno(error, PLOCK_BAD_CONFIG, "opening the local store's file", errno);
    const plock_status status = plock__local_accept_file(*fd, path, error);
    if (status) (void)close(*fd);
    return status;
}

/* The rest, with the folder's lock. *new: it was not mapped before. */
static plock_status attach(plock__local_map **map, bool *new, int folder, const char *name, const char *path, unsigned keys, plock_error *error) {
    const char *remade = NULL;
    *new = false;
    if ((*map = known(folder, name))) {
        if (!keys || keys == (*map)->key_count) return PLOCK_OK;
        plock__local_release(*map);
        *map = NULL;
        return refuse(error, PLOCK_BAD_CONFIG, path, "it was made with room for another number of keys", "");
    }
    for (int rounds = 0;; rounds++) {
        int fd;
        plock_status status = open_file(folder, name, path, &fd, error);
        if (status) return status;
        const verdict v = fd < 0 ? (verdict){.keys = keys} : judge(fd);
        if (v.usable) {
            if (!v.why && (!keys || keys == v.keys)) {
                *new = true;
                status = map_file(map, fd, path, v.keys, error);
                if (*map) (*map)->remade = remade;
                return status;
            }
            (void)close(fd);
            return refuse(error, PLOCK_BAD_CONFIG, path, v.why ? v.why : "it was made with room for another number of keys", "");
        }
        if (fd >= 0 && !v.ours) {
            (void)close(fd);
            return refuse(error, PLOCK_BAD_CONFIG, path, "it is no file of plock's, or was written over", "; remove it if nothing in it is needed");
        }
        if (fd >= 0) {
            if (!v.rebooted) remade = v.why;
            status = may_be_made_anew(fd, &v, path, error);
            (void)close(fd);
        }
        if (!status && rounds) status = refuse(error, PLOCK_PROTOCOL, path, "it does not stay as it was made", "");
        if (!status) status = make(folder, name, path, keys ? keys : v.readable && v.keys >= PLOCK_LOCAL_KEYS_MIN && v.keys <= PLOCK_LOCAL_KEYS_MAX ? v.keys : PLOCK_LOCAL_KEYS, v.fence, error);
        if (status) return status;
    }
}

static plock_status lock_folder(int folder, const char *path, plock_error *error) {
    const struct timespec moment = {.tv_nsec = PLOCK_MILLISECOND};
    const plock_ns deadline = plock_after(plock_now(), TURN);
    while (flock(folder, LOCK_EX | LOCK_NB)) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) return plock__fail_errno(error, PLOCK_BAD_CONFIG, "locking the local store's folder", errno);
        if (plock_now() >= deadline) return refuse(error, PLOCK_SILENT, path, "another process has been opening it for a second: is it stopped?", "");
        (void)nanosleep(&moment, NULL);
    }
    return PLOCK_OK;
}

plock_status plock__local_attach(plock__local_map **map, const char *path, unsigned keys, plock_error *error) {
    int folder;
    const char *name;
    bool new = false;
    *map = NULL;
    plock_status status = plock__local_open_folder(path, &folder, &name, error);
    if (status) return status;
    status = lock_folder(folder, path, error);
    if (!status) status = attach(map, &new, folder, name, path, keys, error);
    if (new && !status) {
        plock__enter();
        (*map)->next = maps;
        maps = *map;
        plock__leave();
    } else if (*map && status) {
        unmap(*map);
        *map = NULL;
    }
    (void)close(folder); /* and its lock */
    return status;
}

plock__local_map *plock__local_retain(plock__local_map *map) {
    plock__enter();
    map->references++;
    plock__leave();
    return map;
}

void plock__local_release(plock__local_map *map) {
    plock__enter();
    const bool last = --map->references == 0;
    if (map->generation == plock__generation()) plock__local_review(map);
    for (plock__local_map **link = &maps; last && *link; link = &(*link)->next)
        if (*link == map) {
            *link = map->next;
            break;
        }
    plock__leave();
    if (last) unmap(map);
}

/* --- while it is used --- */

static const plock_ns CHECKED_EVERY = 100 * PLOCK_MILLISECOND;

plock_status plock__local_check(plock__local_map *map, plock_ns now, plock_error *error) {
    struct stat found;
    if (now - atomic_load_explicit(&map->checked_at, memory_order_relaxed) < CHECKED_EVERY && !atomic_load(&map->gone)) return PLOCK_OK;
    atomic_store(&map->checked_at, now);
    const bool removed = fstat(map->fd, &found) || found.st_nlink == 0;
    if (!removed && !atomic_load(&map->harmed) && (uint64_t)found.st_size >= map->title.size &&
        !memcmp(&map->header->title, &map->title, sizeof map->title))
        return PLOCK_OK;
    atomic_store(&map->gone, true);
    if (removed) return plock__fail(error, PLOCK_DISCONNECTED, "the file of the local store %.120s was removed", map->path);
    atomic_store(&map->harmed, true);
    return plock__fail(error, PLOCK_PROTOCOL, "the local store %.120s is damaged: its file was truncated or written over", map->path);
}

/* A part of the records at a time. */
enum { AT_ONCE = 256 };

static plock_status ready(plock__local_map *map, uint32_t made, uint32_t *ready_ones, uint32_t most, const void *first, size_t size, plock_error *error) {
    if (made < *ready_ones) return PLOCK_OK;
    const uint32_t until = *ready_ones + AT_ONCE < most ? *ready_ones + AT_ONCE : most;
    const uint64_t start = (uint64_t)((const unsigned char *)first - map->bytes);
    if (fill(map->fd, start + *ready_ones * size, start + until * size))
        return plock__fail_errno(error, PLOCK_STORE_FULL, "making room in the local store's file", errno);
    PLOCK__FAULT();
    *ready_ones = until;
    return PLOCK_OK;
}

plock_status plock__local_ready_key(plock__local_map *map, plock_error *error) {
    return ready(map, map->header->keys_made, &map->header->keys_ready, map->key_count, map->keys, sizeof *map->keys, error);
}

plock_status plock__local_ready_claim(plock__local_map *map, plock_error *error) {
    return ready(map, map->header->claims_made, &map->header->claims_ready, map->claim_count, map->claims, sizeof *map->claims, error);
}

/* What is open is shared with the parent, which would seem alive as long as we are. Where leases still point to what it mapped, that
 * stays, and is not used. */
void plock__local_in_child(void) {
    for (plock__local_map *map = maps; map; map = map->next) {
        plock__local_close_bells(map);
        if (map->fd >= 0) (void)close(map->fd);
        map->fd = -1;
        map->registered = NULL;
        map->attendant = NULL;
    }
    maps = NULL;
}
