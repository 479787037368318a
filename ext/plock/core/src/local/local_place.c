#include "local/local_map.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/vfs.h>
#elif defined(__APPLE__)
#include <sys/mount.h>
#include <sys/param.h>
#endif

static const char NAME[] = "locks";
enum { OTHERS_WRITE = S_IWGRP | S_IWOTH };

static plock_status refuse(plock_error *error, const char *path, const char *why) {
    return plock__fail(error, PLOCK_BAD_CONFIG, "the local store %.120s cannot be used: %s", path,
                       why);
}

plock_status plock__local_unusable(plock_error *error, const char *path, const char *doing,
                                   int code) {
    static const int NAMED_WRONGLY[] = {ELOOP, ENAMETOOLONG, EINVAL, EISDIR};
    char what[PLOCK_MESSAGE_MAX];
    plock_status status =
        code == ENOSPC || code == EDQUOT || code == EFBIG ? PLOCK_STORE_FULL : PLOCK_CONNECT;
    if (code == ENOENT || code == ENOTDIR) status = PLOCK_DISCONNECTED;
    for (size_t i = 0; i < sizeof NAMED_WRONGLY / sizeof *NAMED_WRONGLY; i++)
        if (code == NAMED_WRONGLY[i]) status = PLOCK_BAD_CONFIG;
    (void)snprintf(what, sizeof what, "the local store %.120s: %s", path, doing);
    return plock__fail_errno(error, status, what, code);
}

/* --- the default place --- */

static bool is_folder(const char *path) {
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

static bool usable(const char *folder) {
    return folder && *folder == '/' && is_folder(folder) && access(folder, W_OK) == 0;
}

/* Does this folder belong to the user? After su or sudo, XDG_RUNTIME_DIR may still name another
 * user's folder. */
static bool own(const char *folder) {
    struct stat found;
    return usable(folder) && stat(folder, &found) == 0 && found.st_uid == geteuid() &&
           !(found.st_mode & OTHERS_WRITE);
}

plock_status plock__local_default_path(char **path, plock_error *error) {
    char text[1024];
    const char *runtime = getenv("XDG_RUNTIME_DIR"), *temporary = getenv("TMPDIR");
    if (!usable(temporary)) temporary = "/tmp";
    const int length = own(runtime) ? snprintf(text, sizeof text, "%s/plock/%s", runtime, NAME)
                                    : snprintf(text, sizeof text, "%s/plock-%lu/%s", temporary,
                                               (unsigned long)geteuid(), NAME);
    *path = NULL;
    if (length < 0 || (size_t)length >= sizeof text)
        return plock__fail(error, PLOCK_BAD_CONFIG,
                           "the default place for a local store has too long a name");
    *path = plock__copy(text, (size_t)length);
    return *path ? PLOCK_OK : plock__fail_plainly(error, PLOCK_NO_MEMORY);
}

/* --- file systems --- */

#if defined(__linux__)

/* File systems that several hosts share, or on which a write to mapped memory is not at once
 * visible to other processes, by their numbers in statfs(2). */
static const struct {
    unsigned long magic;
    const char *name;
} REMOTE[] = {
    {0x6969, "NFS"},        {0x517b, "SMB"},           {0xff534d42, "CIFS"},
    {0xfe534d42, "SMB"},    {0x01021997, "9P"},        {0x65735546, "FUSE"},
    {0x00c36400, "Ceph"},   {0x5346414f, "AFS"},       {0x6b414653, "AFS"},
    {0x73757245, "Coda"},   {0x564c, "NCP"},           {0x7461636f, "OCFS2"},
    {0x01161970, "GFS2"},   {0x0bd00bd0, "Lustre"},    {0x47504653, "GPFS"},
    {0x19830326, "BeeGFS"}, {0xaad7aaea, "PanFS"},     {0x786f4256, "vboxsf"},
    {0xbacbacbc, "vmhgfs"}, {0x6e736673, "a network"},
};

#ifdef PLOCK_TESTING
static long pretended;

void plock__local_pretend_file_system(long magic) { pretended = magic; }
#endif

static const char *remote_file_system(int fd) {
    struct statfs found;
    if (fstatfs(fd, &found)) return NULL;
    unsigned long magic = (unsigned long)found.f_type & 0xffffffff;
#ifdef PLOCK_TESTING
    if (pretended) magic = (unsigned long)pretended;
#endif
    for (size_t i = 0; i < sizeof REMOTE / sizeof *REMOTE; i++)
        if (REMOTE[i].magic == magic) return REMOTE[i].name;
    return NULL;
}

#else

#ifdef PLOCK_TESTING
void plock__local_pretend_file_system(long magic) { (void)magic; }
#endif

static const char *remote_file_system(int fd) {
#if defined(__APPLE__)
    struct statfs found;
    if (fstatfs(fd, &found) == 0 && !(found.f_flags & MNT_LOCAL)) return "a network";
#endif
    (void)fd;
    return NULL;
}

#endif

/* --- folder and file --- */

static plock_status accept_folder(int fd, const char *folder, plock_error *error) {
    struct stat found;
    if (fstat(fd, &found))
        return plock__local_unusable(error, folder, "looking at its folder", errno);
    if (found.st_uid != geteuid())
        return refuse(error, folder, "the folder belongs to another user");
    if (found.st_mode & OTHERS_WRITE)
        return refuse(error, folder,
                      "others can write to the folder; a folder of its own with mode 0700 will do");
    const char *remote = remote_file_system(fd);
    if (!remote) return PLOCK_OK;
    char why[96];
    (void)snprintf(why, sizeof why,
                   "the folder is on %s file system, where processes do not share memory", remote);
    return refuse(error, folder, why);
}

void plock__local_set_mode(const char *path, mode_t mode) {
    const int ignored = fchmodat(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW);
    (void)ignored;
}

plock_status plock__local_open_folder(const char *path, int *folder, const char **name,
                                      plock_error *error) {
    char parent[1024];
    const char *slash = *path == '/' ? strrchr(path, '/') : NULL;
    *folder = -1;
    if (!slash || !slash[1])
        return refuse(error, path, "its path must be absolute and name a file");
    if (is_folder(path))
        return refuse(error, path, "it is a folder; name a file in it, such as \"locks\"");
    const size_t length = slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof parent) return refuse(error, path, "its path is too long");
    memcpy(parent, path, length);
    parent[length] = 0;
    *name = slash + 1;
    const bool made = mkdir(parent, S_IRWXU) == 0;
    if (!made && errno != EEXIST)
        return plock__local_unusable(error, parent, "making its folder", errno);
    if (made) plock__local_set_mode(parent, S_IRWXU);
    const int fd = open(parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return refuse(error, parent, "its folder is a symbolic link, or no folder");
    if (fd < 0) return plock__local_unusable(error, parent, "opening its folder", errno);
    const plock_status status = accept_folder(fd, parent, error);
    if (status)
        (void)close(fd);
    else
        *folder = fd;
    return status;
}

plock_status plock__local_accept_file(int fd, const char *path, plock_error *error) {
    struct stat found;
    if (fstat(fd, &found)) return plock__local_unusable(error, path, "looking at it", errno);
    if (!S_ISREG(found.st_mode)) return refuse(error, path, "it is not a regular file");
    if (found.st_uid != geteuid()) return refuse(error, path, "it belongs to another user");
    if (found.st_mode & OTHERS_WRITE)
        return refuse(error, path, "others can write to it; its mode must be 0600");
    return PLOCK_OK;
}

/* --- locks beside the file --- */

static int try_lock(int fd, int how) {
    int failed;
    do failed = flock(fd, how | LOCK_NB);
    while (failed && errno == EINTR);
    return failed;
}

plock_status plock__local_lock_making(int *fd, int folder, const char *name, const char *path,
                                      plock_error *error) {
    char beside[300];
    const int length = snprintf(beside, sizeof beside, "%s.lock", name);
    if (length < 0 || (size_t)length >= sizeof beside)
        return refuse(error, path, "its name is too long");
    if (*fd < 0) {
        *fd = openat(folder, beside, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                     S_IRUSR | S_IWUSR);
        if (*fd < 0)
            return plock__local_unusable(error, path,
                                         "opening the file that is locked while it is made", errno);
        /* the umask may have taken permissions from the file's owner */
        (void)fchmod(*fd, S_IRUSR | S_IWUSR);
    }
    if (!try_lock(*fd, LOCK_EX)) return PLOCK_OK;
    return errno == EWOULDBLOCK ? PLOCK_AGAIN
                                : plock__local_unusable(error, path, "locking the folder", errno);
}

void plock__local_hold_folder(plock__local_map *map, int folder) {
    const struct timespec moment = {.tv_nsec = PLOCK_MILLISECOND};
    plock__enter();
    const bool first = map->folder < 0;
    if (first) map->folder = folder;
    plock__leave();
    if (!first) (void)close(folder); /* the map already has the folder */
    for (int tries = 0; first && tries < 20 && try_lock(folder, LOCK_SH) && errno == EWOULDBLOCK;
         tries++)
        (void)nanosleep(&moment, NULL);
}
