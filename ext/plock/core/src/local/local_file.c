#include "local/local_lease.h"
#include "local/local_make.h"

#include "base/descriptor.h"
#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static plock__local_map *maps; /* all maps of this process; under the mutex */

/* how long to wait for another process to make the file, or for a lost map to be closed */
static const plock_ns TURN = 1 * PLOCK_SECOND;

/* --- mapping the file --- */

static void close_descriptors(plock__local_map *map) {
    plock__local_close_wakers(map);
    plock__close_descriptor(&map->fd);
    plock__close_descriptor(&map->before);
    plock__close_descriptor(&map->folder);
}

static void unmap(plock__local_map *map) {
    if (map->bytes) (void)munmap(map->bytes, (size_t)map->title.size);
    close_descriptors(map);
    plock__free(map->lease_of);
    plock__free(map->registered.of_claim);
    plock__free(map->path);
    plock__free(map);
}

/* Opens the file a second time, and returns a descriptor for the locks. The first open file and its
 * locks stay alive as long as a child has inherited the mapping. The second one is not mapped, so
 * its locks end when its descriptors are closed. Returns -1 with errno on failure. ESTALE: the path
 * now leads to another file. */
static int open_apart(int fd, const char *path) {
    struct stat mapped, found;
    const int apart = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (apart < 0) return -1;
    if (!fstat(fd, &mapped) && !fstat(apart, &found) && mapped.st_dev == found.st_dev &&
        mapped.st_ino == found.st_ino)
        return apart;
    (void)close(apart);
    errno = ESTALE;
    return -1;
}

static plock_status map_file(plock__local_map **out, int fd, const char *path,
                             const plock__local_verdict *v, plock_error *error) {
    const uint32_t keys = v->title.keys;
    const plock__local_plan p = plock__local_plan_for(keys);
    struct stat found;
    plock__local_map *map = plock__allocate(sizeof *map);
    *out = map;
    if (!map) {
        (void)close(fd);
        return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    }
    map->fd = fd;
    map->folder = map->before = -1;
    for (int slot = 0; slot < PLOCK__LOCAL_PROCESSES; slot++) atomic_init(&map->wakers[slot], -1);
    map->ears[0] = map->ears[1] = -1;
    map->references = 1;
    map->generation = plock__generation();
    map->key_count = keys;
    map->claim_count = p.claim_count;
    map->bucket_mask = p.bucket_count - 1;
    map->slot = PLOCK__LOCAL_NONE - 1;
    map->no_key = (plock__local_key){.first_holder = PLOCK__LOCAL_NONE,
                                     .first_waiter = PLOCK__LOCAL_NONE,
                                     .last_waiter = PLOCK__LOCAL_NONE};
    map->path = plock__copy(path, strlen(path));
    map->lease_of = plock__allocate(sizeof *map->lease_of * p.claim_count);
    map->registered.of_claim = plock__allocate(sizeof *map->registered.of_claim * p.claim_count);
    if (!map->path || !map->lease_of || !map->registered.of_claim)
        return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    if (fstat(fd, &found) || plock__random(&map->tag, sizeof map->tag))
        return plock__fail_plainly(error, PLOCK_CRYPTO);
    map->device = found.st_dev;
    map->inode = found.st_ino;
    map->title = v->title;
    void *bytes = mmap(NULL, (size_t)p.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) return plock__local_unusable(error, path, "mapping its file", errno);
    map->bytes = bytes;
    map->fd = open_apart(fd, path);
    const int code = errno;
    plock__local_number(map, fd);
    if (map->fd < 0)
        return code == ESTALE || code == ENOENT
                   ? PLOCK_AGAIN
                   : plock__local_unusable(error, path, "opening its file", code);
    map->header = (plock__local_header *)bytes;
    map->processes = (plock__local_process *)(void *)(map->bytes + p.processes);
    map->buckets = (_Atomic uint32_t *)(void *)(map->bytes + p.buckets);
    map->keys = (plock__local_key *)(void *)(map->bytes + p.keys);
    map->claims = (plock__local_claim *)(void *)(map->bytes + p.claims);
    atomic_store(&map->whole_at, plock_now());
    PLOCK__BEFORE(PLOCK__TAKES_PLACE);
    const plock_status placed = plock__local_take_place(map, v->left_over, error);
    /* the file was moved in the meantime, so its path must be opened again */
    return placed == PLOCK_DISCONNECTED && plock__local_lost(map) ? PLOCK_AGAIN : placed;
}

/* The lost maps that mapped() has found for a file. */
typedef struct lost_maps {
    const plock__local_map *in_use; /* a map in which the process holds or waits for something */
    plock__local_unneeded unneeded; /* a map that was taken away from the stores */
} lost_maps;

/* Returns the map of this file, retained; NULL: there is no usable one. Call with the mutex held.
 * Checks each map of the file, because the file may have been harmed since the last check. Gives up
 * the place in each lost map if possible. Until then, no other process can replace the file. */
static plock__local_map *mapped(dev_t device, ino_t inode, lost_maps *lost) {
    *lost = (lost_maps){.in_use = NULL};
    for (plock__local_map *map = maps; map; map = map->next) {
        if (map->device != device || map->inode != inode) continue;
        if (!plock__local_lost(map)) {
            const enum plock__local_loss loss = plock__local_look_at_path(map);
            if (loss == PLOCK__LOCAL_IN_PLACE) {
                map->references++;
                return map;
            }
            plock__local_lose(map, loss);
        }
        plock__local_leave_lost(map);
        if (map->users > 0)
            lost->in_use = map;
        else if (!lost->unneeded.count)
            lost->unneeded = plock__local_retire(map);
    }
    return NULL;
}

/* Sets *map to the usable map that this process already has of the file, or to NULL.
 *
 * With POSIX locks, a process must not have two maps of a file. The lock of the second map would
 * not exclude this process, and closing that map would drop the locks of the first one. Returns
 * PLOCK_OK, or the loss of a lost map of the file that is still in use. */
static plock_status known(plock__local_map **map, int folder, const char *name,
                          plock_error *error) {
    struct stat found;
    lost_maps lost;
    if (fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW)) return PLOCK_OK;
    plock__enter();
    *map = mapped(found.st_dev, found.st_ino, &lost);
    const plock_status status =
        !*map && lost.in_use ? plock__local_loss_of(lost.in_use, error) : PLOCK_OK;
    plock__leave();
    plock__local_let_maps_go(&lost.unneeded);
    return status;
}

/* Returns PLOCK_OK if no lost map of this file is left to close; otherwise the loss of such a
 * map. */
static plock_status to_be_closed(const struct stat *file, plock_error *error) {
    plock_status status = PLOCK_OK;
    plock__enter();
    for (const plock__local_map *map = maps; map && !status; map = map->next)
        if (map->device == file->st_dev && map->inode == file->st_ino && !map->pinned)
            status = plock__local_loss_of(map, error);
    plock__leave();
    return status;
}

/* With POSIX locks, waits until this process has no lost map of the file, because closing it would
 * drop the locks of a new map. Usually the worker thread soon gives up a lost map. Returns
 * PLOCK_OK, or the loss if a lost map is still left after a second. */
static plock_status refuse_beside_lost(int fd, plock_error *error) {
    const struct timespec moment = {.tv_nsec = PLOCK_MILLISECOND};
    const plock_ns deadline = plock_after(plock_now(), TURN);
    struct stat found;
    plock_status status;
    if (plock__local_life_is_shared() || fstat(fd, &found)) return PLOCK_OK;
    while ((status = to_be_closed(&found, error)) && plock_now() < deadline)
        (void)nanosleep(&moment, NULL);
    return status;
}

/* Adds the map to the list, and returns the map. If another thread has already added a map of the
 * file, frees this map, and returns the other thread's map. */
static plock__local_map *enlist(plock__local_map *map) {
    lost_maps lost;
    plock__enter();
    plock__local_map *other = mapped(map->device, map->inode, &lost);
    if (!other) {
        map->next = maps;
        maps = map;
    }
    plock__leave();
    plock__local_let_maps_go(&lost.unneeded);
    if (!other) return map;
    unmap(map);
    return other;
}

static plock_status open_file(int folder, const char *name, const char *path, int *fd,
                              plock_error *error) {
    *fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0 && errno == ENOENT) return PLOCK_OK;
    if (*fd < 0 && errno == ELOOP)
        return plock__local_refuse(error, PLOCK_BAD_CONFIG, path, "it is a symbolic link", "");
    if (*fd < 0) return plock__local_unusable(error, path, "opening its file", errno);
    const plock_status status = plock__local_accept_file(*fd, path, error);
    if (status) (void)close(*fd);
    return status;
}

static uint32_t room_for(unsigned keys, const plock__local_verdict *v) {
    if (keys) return keys;
    const uint32_t before = v->readable ? v->title.keys : 0;
    return before >= PLOCK_LOCAL_KEYS_MIN && before <= PLOCK_LOCAL_KEYS_MAX ? before
                                                                            : PLOCK_LOCAL_KEYS;
}

static plock_status refuse_as_strange(const char *path, plock_error *error) {
    return plock__local_refuse(error, PLOCK_BAD_CONFIG, path,
                               "it is no file of plock's, or was written over",
                               "; remove it if nothing in it is needed");
}

static const char OTHER_ROOM[] = "it was made with room for another number of keys";

/* Maps the file if it is usable and has room for this number of keys. Returns PLOCK_AGAIN if the
 * path now leads to another file. */
static plock_status use(plock__local_map **map, int fd, const plock__local_verdict *v,
                        const char *path, unsigned keys, const char *remade, plock_error *error) {
    if (!v->why && (!keys || keys == v->title.keys)) {
        plock_status status = refuse_beside_lost(fd, error);
        if (status)
            (void)close(fd);
        else
            status = map_file(map, fd, path, v, error);
        if (*map) (*map)->remade = remade;
        if (*map && status) unmap(*map);
        if (status) *map = NULL;
        return status;
    }
    (void)close(fd);
    return plock__local_refuse(error, PLOCK_BAD_CONFIG, path, v->why ? v->why : OTHER_ROOM, "");
}

/* Finds this process's map of the file. Returns PLOCK_AGAIN if there is none. */
static plock_status find(plock__local_map **map, int folder, const char *name, const char *path,
                         unsigned keys, plock_error *error) {
    const plock_status status = known(map, folder, name, error);
    if (!*map) return status ? status : PLOCK_AGAIN;
    if (!keys || keys == (*map)->key_count) return PLOCK_OK;
    plock__local_release(*map);
    *map = NULL;
    return plock__local_refuse(error, PLOCK_BAD_CONFIG, path, OTHER_ROOM, "");
}

/* Finds this process's map of an existing file, or maps the file. Runs without the lock of
 * plock__local_lock_making, so that processes that start together need not wait. Another process
 * may therefore replace the file before this one has a place in it, so the path is checked again at
 * the end. Returns PLOCK_AGAIN if the file must be made, or perhaps replaced. */
static plock_status find_or_use(plock__local_map **map, int folder, const char *name,
                                const char *path, unsigned keys, plock_error *error) {
    plock_status status = find(map, folder, name, path, keys, error);
    if (status != PLOCK_AGAIN || !plock__local_life_is_shared()) return status;
    int fd;
    status = open_file(folder, name, path, &fd, error);
    if (status || fd < 0) return status ? status : PLOCK_AGAIN;
    const plock__local_verdict v = plock__local_judge(fd);
    if (!v.usable || v.left_over) {
        (void)close(fd);
        return v.ours ? PLOCK_AGAIN : refuse_as_strange(path, error);
    }
    status = use(map, fd, &v, path, keys, NULL, error);
    if (*map && plock__local_look_at_path(*map) != PLOCK__LOCAL_IN_PLACE) {
        unmap(*map);
        *map = NULL;
        return PLOCK_AGAIN;
    }
    if (*map) *map = enlist(*map);
    return status;
}

/* Does what find_or_use() does, while the caller has the lock of plock__local_lock_making. Makes or
 * replaces the file if necessary. Returns PLOCK_AGAIN if another program changes the file. */
static plock_status make_or_use(plock__local_map **map, int folder, const char *name,
                                const char *path, unsigned keys, plock_error *error) {
    const char *remade = NULL;
    bool made = false, moved = false;
    for (;;) {
        int fd;
        plock_status status = find(map, folder, name, path, keys, error);
        if (status == PLOCK_AGAIN) status = open_file(folder, name, path, &fd, error);
        if (status || *map) return status;
        const plock__local_verdict v =
            fd < 0 ? (plock__local_verdict){.ours = true} : plock__local_judge(fd);
        if (fd >= 0 && !plock__local_is_replaceable(fd, &v)) {
            status = use(map, fd, &v, path, keys, remade, error);
            if (*map) *map = enlist(*map);
            if (status != PLOCK_AGAIN || moved) return status;
            moved = true;
            continue;
        }
        if (!v.ours)
            status = refuse_as_strange(path, error);
        else if (fd >= 0)
            status = plock__local_may_be_replaced(fd, &v, path, error);
        if (fd >= 0) (void)close(fd);
        if (!v.left_over) remade = v.why;
        if (!status && made) return PLOCK_AGAIN;
        if (!status)
            status = plock__local_make(folder, name, path, room_for(keys, &v), v.fence, error);
        if (status) return status;
        made = true;
    }
}

plock_status plock__local_attach(plock__local_map **map, const char *path, unsigned keys,
                                 plock_error *error) {
    int folder, lock = -1;
    const char *name;
    *map = NULL;
    plock_status status = plock__local_open_folder(path, &folder, &name, error);
    if (status) return status;
    if ((status = find_or_use(map, folder, name, path, keys, error)) == PLOCK_AGAIN)
        status = plock__local_lock_making(&lock, folder, name, path, error);
    if (!status && !*map &&
        (status = make_or_use(map, folder, name, path, keys, error)) == PLOCK_AGAIN)
        status = plock__local_refuse(error, PLOCK_PROTOCOL, path,
                                     "another program changes it while it is made", "");
    if (lock >= 0) (void)close(lock);
    if (*map)
        plock__local_hold_folder(*map, folder);
    else
        (void)close(folder);
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
    if (last) plock__local_dismiss_lookout(map);
    /* The file is closed before another thread can open it again. With POSIX locks, closing it
     * afterwards would drop the lock on the process's new place. */
    if (last) plock__close_descriptor(&map->fd);
    plock__leave();
    if (!last) return;
    PLOCK__BEFORE(PLOCK__IS_UNMAPPED);
    unmap(map);
}

/* Closes the descriptors that a child has inherited. While they are open, a dead parent seems
 * alive. The mappings stay, unused, because leases still point to them. */
void plock__local_in_child(void) {
    for (plock__local_map *map = maps; map; map = map->next) {
        close_descriptors(map);
        map->attendant = NULL;
        map->lookout = NULL;
    }
    maps = NULL;
}
