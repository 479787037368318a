/* Lays out a local store's file, checks an existing file, and makes a new one. */
#include "local/local_make.h"
#include "local/local_table.h"

#include "base/failure.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

/* --- layout --- */

static uint64_t pages(uint64_t bytes) {
    return (bytes + PLOCK__LOCAL_PAGE - 1) / PLOCK__LOCAL_PAGE * PLOCK__LOCAL_PAGE;
}

plock__local_plan plock__local_plan_for(uint32_t keys) {
    plock__local_plan p = {.bucket_count = 1, .claim_count = keys * PLOCK__LOCAL_CLAIMS_PER_KEY};
    while (p.bucket_count < keys) p.bucket_count *= 2;
    p.processes = PLOCK__LOCAL_PAGE;
    p.buckets = p.processes + pages(sizeof(plock__local_process) * PLOCK__LOCAL_PROCESSES);
    p.keys = p.buckets + pages(sizeof(uint32_t) * p.bucket_count);
    p.claims = p.keys + pages(sizeof(plock__local_key) * keys);
    /* the last page has only a copy of the layout's number and of the magic */
    p.size = p.claims + pages(sizeof(plock__local_claim) * p.claim_count) + PLOCK__LOCAL_PAGE;
    return p;
}

static uint64_t checksum(const plock__local_title *title) {
    const unsigned char *bytes = (const unsigned char *)title;
    uint64_t sum = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < offsetof(plock__local_title, check); i++)
        sum = (sum ^ bytes[i]) * UINT64_C(1099511628211);
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

/* Fills in the title for this host, except its random mark and its checksum. */
static void write_title(plock__local_title *title, uint32_t keys) {
    struct stat found;
    memset(title, 0, sizeof *title);
    memcpy(title->magic, PLOCK__LOCAL_MAGIC, sizeof title->magic);
    title->layout = PLOCK__LOCAL_LAYOUT;
    title->byte_order = PLOCK__LOCAL_BYTE_ORDER;
    title->size = plock__local_plan_for(keys).size;
    read_boot(title->boot);
    title->clock = stat("/proc/self/ns/time", &found) ? 0 : (uint64_t)found.st_ino;
    title->keys = keys;
}

/* --- is the file usable as it is? --- */

enum { MAGIC = sizeof PLOCK__LOCAL_MAGIC - 1 };

static bool has_magic(const unsigned char *bytes) {
    return !memcmp(bytes, PLOCK__LOCAL_MAGIC, MAGIC);
}

static bool has_magic_at(int fd, off_t place) {
    unsigned char bytes[MAGIC];
    return place >= 0 && pread(fd, bytes, MAGIC, place) == MAGIC && has_magic(bytes);
}

/* Returns the offset of the second copy of the layout's number, right before the magic at the end.
 * The second copy is needed because the first may have been written over. */
static off_t layout_at(off_t size) { return size - MAGIC - (off_t)sizeof(uint32_t); }

/* Did plock make this file, even if it is truncated or written over now? */
static bool is_ours(int fd) {
    struct stat found;
    if (fstat(fd, &found)) return false;
    return found.st_size == 0 || has_magic_at(fd, 0) || has_magic_at(fd, found.st_size - MAGIC);
}

/* A process and a file each have a clock, given as the number of a time namespace. Returns why a
 * process with one of the clocks cannot use a file with the other clock; NULL: it can. */
static const char *apart(uint64_t one, uint64_t other) {
    if (one == other) return NULL;
    return one && other
               ? "it belongs to a container with another clock"
               : "it may have another clock: /proc was hidden where it was made, or is here";
}

plock__local_verdict plock__local_judge(int fd) {
    union {
        unsigned char bytes[PLOCK__LOCAL_PAGE];
        plock__local_header header;
    } page;
    const plock__local_title *title = &page.header.title;
    plock__local_title wanted;
    struct stat found;
    plock__local_verdict v = {.ours = is_ours(fd), .why = "it was truncated"};
    if (pread(fd, &page, sizeof page, 0) != sizeof page || fstat(fd, &found)) return v;
    v.why = "its beginning was written over";
    if (!has_magic(page.bytes) || title->check != checksum(title) ||
        title->byte_order != PLOCK__LOCAL_BYTE_ORDER)
        return v;
    v.readable = true;
    v.title = *title;
    v.outlives_until = atomic_load(&page.header.outlives_until);
    v.fence = atomic_load(&page.header.fence);
    if (v.fence < 0 || v.fence >= PLOCK__LOCAL_FENCE_MAX) v.fence = 0;
    v.why = "it is of another version of plock";
    if (title->layout != PLOCK__LOCAL_LAYOUT || title->keys < PLOCK_LOCAL_KEYS_MIN ||
        title->keys > PLOCK_LOCAL_KEYS_MAX)
        return v;
    write_title(&wanted, title->keys);
    v.same_clock = title->clock == wanted.clock;
    v.rebooted = v.same_clock && atomic_load(&page.header.seen_at) > plock_now();
    v.left_over = v.rebooted || (*title->boot && *wanted.boot &&
                                 memcmp(title->boot, wanted.boot, sizeof wanted.boot) != 0);
    v.why = "it was truncated";
    if (title->size != wanted.size || (uint64_t)found.st_size != title->size) return v;
    v.why = "it was damaged";
    if (atomic_load(&page.header.damaged)) return v;
    v.usable = true;
    v.why = apart(title->clock, wanted.clock);
    return v;
}

plock_status plock__local_refuse(plock_error *error, plock_status status, const char *path,
                                 const char *why, const char *because) {
    return plock__fail(error, status, "the local store %.110s cannot be used: %.80s%.60s", path,
                       why, because);
}

/* --- may the file be replaced? --- */

/* If the file is complete and has the current layout, returns the number of keys that the file was
 * made for; otherwise 0. */
static uint32_t keys_in(int fd) {
    uint32_t low = PLOCK_LOCAL_KEYS_MIN, high = PLOCK_LOCAL_KEYS_MAX, layout;
    struct stat found;
    if (fstat(fd, &found) || !has_magic_at(fd, found.st_size - MAGIC)) return 0;
    if (pread(fd, &layout, sizeof layout, layout_at(found.st_size)) != sizeof layout ||
        layout != PLOCK__LOCAL_LAYOUT)
        return 0;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (plock__local_plan_for(middle).size < (uint64_t)found.st_size)
            low = middle + 1;
        else
            high = middle;
    }
    return plock__local_plan_for(low).size == (uint64_t)found.st_size ? low : 0;
}

/* Marks the file as damaged, so that no process can acquire a lock in it any more. Returns false if
 * it cannot do that, or if a process that is alive may still be in the critical section. */
static bool is_closed(int fd) {
    static const uint32_t DAMAGED = 1;
    uint32_t section;
    if (pwrite(fd, &DAMAGED, sizeof DAMAGED, offsetof(plock__local_header, damaged)) !=
        sizeof DAMAGED)
        return false;
    if (pread(fd, &section, sizeof section, offsetof(plock__local_header, section)) !=
        sizeof section)
        return false;
    const uint32_t slot = plock__local_place_inside(section);
    return slot >= PLOCK__LOCAL_PROCESSES || !plock__local_used(fd, slot, 1);
}

/* Has a holder's claim expired? Then it no longer counts, because any process that finds it would
 * end it, and the holder cannot extend it in a file that is marked as damaged. */
static bool is_over(const plock__local_claim *claim, uint32_t number, plock_ns now) {
    return plock__state(claim) != PLOCK__WAITING && now >= atomic_load(&claim->until) &&
           claim->canary == (PLOCK__CLAIM_CANARY ^ number);
}

/* Does a process that is alive have this claim, as a holder or a waiter? */
static bool counts(int fd, const plock__local_plan *p, const plock__local_claim *claim,
                   uint32_t number, plock_ns now) {
    const unsigned state = plock__state(claim);
    const uint64_t process = atomic_load(&claim->process), slot = process % PLOCK__LOCAL_PROCESSES;
    plock__local_process found;
    if (state == PLOCK__FREE || state >= PLOCK__KEPT || is_over(claim, number, now)) return false;
    if (!process || !plock__local_used(fd, (uint32_t)slot, 1)) return false;
    if (pread(fd, &found, sizeof found, (off_t)(p->processes + slot * sizeof found)) !=
        sizeof found)
        return true;
    const uint64_t id = atomic_load(&found.id);
    /* if another process has taken that place, the claim's process has ended */
    return id == process || id % PLOCK__LOCAL_PROCESSES != slot;
}

/* Does a process hold a lock in the file, or wait for one? A process that only has the file open
 * notices the loss when it next uses the file, so it counts only if the records are incomplete. If
 * the times in the file may come from another clock, expired claims count, too. */
static bool is_needed(int fd, const plock__local_verdict *v) {
    const plock_ns now = v->same_clock ? plock_now() : INT64_MIN;
    enum { AT_ONCE = 64 };
    plock__local_claim claims[AT_ONCE];
    if (!plock__local_used(fd, 0, PLOCK__LOCAL_PROCESSES)) return false;
    const uint32_t keys = keys_in(fd);
    if (!keys || !is_closed(fd)) return true;
    const plock__local_plan p = plock__local_plan_for(keys);
    for (uint32_t first = 0; first < p.claim_count; first += AT_ONCE) {
        const uint32_t count = p.claim_count - first < AT_ONCE ? p.claim_count - first : AT_ONCE;
        const size_t length = count * sizeof *claims;
        if (pread(fd, claims, length, (off_t)(p.claims + first * sizeof *claims)) !=
            (ssize_t)length)
            return true;
        for (uint32_t i = 0; i < count; i++)
            if (counts(fd, &p, &claims[i], first + i, now)) return true;
    }
    return false;
}

/* Does the file have a held lock that outlives its process? */
static bool keeps(const plock__local_verdict *v) {
    const plock_ns now = plock_now();
    return v->readable && !v->rebooted && v->outlives_until > now &&
           v->outlives_until <= plock_after(now, PLOCK_TTL_MAX);
}

bool plock__local_is_replaceable(int fd, const plock__local_verdict *v) {
    return !v->usable ||
           (v->left_over && !keeps(v) && !plock__local_used(fd, 0, PLOCK__LOCAL_PROCESSES));
}

plock_status plock__local_may_be_replaced(int fd, const plock__local_verdict *v, const char *path,
                                          plock_error *error) {
    if (keeps(v))
        return plock__local_refuse(error, PLOCK_PROTOCOL, path, v->why,
                                   ", and locks in it are kept for some time");
    if (!v->usable && is_needed(fd, v))
        return plock__local_refuse(error, PLOCK_PROTOCOL, path, v->why,
                                   ", and other processes use it");
    return PLOCK_OK;
}

/* --- making the file --- */

/* Does the process's limit on file sizes allow this size? A signal ends a process that writes
 * beyond the limit. */
static bool may_grow_to(uint64_t size) {
    struct rlimit most;
    return getrlimit(RLIMIT_FSIZE, &most) || most.rlim_cur == RLIM_INFINITY ||
           most.rlim_cur >= size;
}

/* Writes zeros, because not every file system can reserve room in another way. Without reserved
 * room, a process that accesses a page would be killed if the disk is full. */
int plock__local_fill(int fd, uint64_t from, uint64_t until) {
    static const unsigned char ZEROS[16 * PLOCK__LOCAL_PAGE];
    errno = EFBIG;
    if (!may_grow_to(until)) return -1;
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
    const plock__local_plan p = plock__local_plan_for(keys);
    plock__local_header header;
    memset(&header, 0, sizeof header);
    write_title(&header.title, keys);
    if (plock__random(&header.title.mark, sizeof header.title.mark)) return -1;
    header.title.check = checksum(&header.title);
    atomic_init(&header.fence, fence);
    header.keys_free = header.claims_free = PLOCK__LOCAL_NONE;
    if (ftruncate(fd, (off_t)p.size) || plock__local_fill(fd, 0, p.keys)) return -1;
    if (pwrite(fd, PLOCK__LOCAL_MAGIC, MAGIC, (off_t)p.size - MAGIC) != MAGIC) return -1;
    if (pwrite(fd, &header.title.layout, sizeof header.title.layout, layout_at((off_t)p.size)) !=
        sizeof header.title.layout)
        return -1;
    return pwrite(fd, &header, sizeof header, 0) == (ssize_t)sizeof header ? 0 : -1;
}

/* First makes the file under another name, so that no process sees a half-written file. The caller
 * has the lock, so an existing file with that name must be left over from a process that died. */
plock_status plock__local_make(int folder, const char *name, const char *path, uint32_t keys,
                               int64_t fence, plock_error *error) {
    char beside[300];
    const int length = snprintf(beside, sizeof beside, "%s.new", name);
    if (length < 0 || (size_t)length >= sizeof beside)
        return plock__local_refuse(error, PLOCK_BAD_CONFIG, path, "its name is too long", "");
    if (!may_grow_to(plock__local_plan_for(keys).size))
        return plock__fail(error, PLOCK_STORE_FULL,
                           "the local store %.120s needs a file of %llu bytes, and this process "
                           "may write smaller ones only (ulimit -f)",
                           path, (unsigned long long)plock__local_plan_for(keys).size);
    (void)unlinkat(folder, beside, 0);
    const int fd = openat(folder, beside, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                          S_IRUSR | S_IWUSR);
    const bool made = fd >= 0 && !fchmod(fd, S_IRUSR | S_IWUSR) && !write_new(fd, keys, fence) &&
                      !renameat(folder, beside, folder, name);
    const int code = errno;
    if (fd >= 0) (void)close(fd);
    if (made) return PLOCK_OK;
    if (fd >= 0) (void)unlinkat(folder, beside, 0);
    return plock__local_unusable(error, path, "making its file", code);
}
