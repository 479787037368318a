/* The local store's file: when it is used, refused or replaced, and the effects of damage. */
#include "local_support.h"

#include "local/local_make.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const plock_ns LONG = 60 * PLOCK_SECOND;

/* After this many microseconds, each request checks the file again, even if it only reads. */
static const useconds_t LOOKED_AT = 20000;

static plock_status open_at(const char *path, plock_error *error) {
    plock_local *store = NULL;
    error->message[0] = 0;
    const plock_status status = plock_local_open(&store, path, 0, error);
    plock_local_close(store);
    return status;
}

static void check_refused(plock_status expected, const char *why) {
    plock_error error;
    CHECK_STATUS(open_at(local_path(), &error), expected);
    CHECK_HAS(error.message, why);
    CHECK_HAS(error.message, local_folder());
}

/* --- which files can be used --- */

static void a_folder_is_none(void) {
    char path[600];
    plock_error error;
    CHECK(snprintf(path, sizeof path, "%s/folder", local_folder()) > 0);
    CHECK(mkdir(path, S_IRWXU) == 0);
    /* In the second round, other users may write to the parent folder. The error about the parent
     * folder must not replace the error about the path. */
    for (int shared = 0; shared < 2; shared++) {
        CHECK(chmod(local_folder(), shared ? S_IRWXU | S_IWOTH : S_IRWXU) == 0);
        CHECK_STATUS(open_at(path, &error), PLOCK_BAD_CONFIG);
        CHECK_HAS(error.message, path);
        CHECK_HAS(error.message, "it is a folder; name a file in it, such as \"locks\"");
    }
    CHECK(chmod(local_folder(), S_IRWXU) == 0);
    CHECK(rmdir(path) == 0);
}

static void it_is_for_no_other_user(void) {
    struct stat found;
    plock_local_close(local_open());
    CHECK(stat(local_path(), &found) == 0);
    CHECK_INT(found.st_mode & 0777, 0600);
    CHECK(chmod(local_path(), 0660) == 0);
    check_refused(PLOCK_BAD_CONFIG, "others can write");
    CHECK(chmod(local_path(), 0600) == 0 && chmod(local_folder(), 0777) == 0);
    check_refused(PLOCK_BAD_CONFIG, "others can write");
    CHECK(chmod(local_folder(), 0700) == 0);
    plock_local_close(local_open());
}

static void another_users_is_refused(void) {
    enum { NOBODY = 65534 };
    if (geteuid()) {
        test_skip("another user's file", "only root can make one");
        return;
    }
    plock_local_close(local_open());
    CHECK(chown(local_path(), NOBODY, (gid_t)-1) == 0);
    check_refused(PLOCK_BAD_CONFIG, "another user");
    CHECK(chown(local_path(), 0, (gid_t)-1) == 0 && chown(local_folder(), NOBODY, (gid_t)-1) == 0);
    check_refused(PLOCK_BAD_CONFIG, "another user");
    CHECK(chown(local_folder(), 0, (gid_t)-1) == 0);
}

static void a_link_or_what_is_no_file_is_refused(void) {
    char link_path[600];
    plock_error error;
    (void)snprintf(link_path, sizeof link_path, "%s/link", local_folder());
    plock_local_close(local_open());
    CHECK(symlink(local_path(), link_path) == 0);
    CHECK_STATUS(open_at(link_path, &error), PLOCK_BAD_CONFIG);
    CHECK_HAS(error.message, "symbolic link");
    CHECK(unlink(link_path) == 0 && mkfifo(link_path, 0600) == 0);
    CHECK_STATUS(open_at(link_path, &error), PLOCK_BAD_CONFIG);
    CHECK_STATUS(open_at("relative", &error), PLOCK_BAD_CONFIG);
    CHECK_STATUS(open_at("/", &error), PLOCK_BAD_CONFIG);
}

static void a_network_file_system_is_refused_with_its_name(void) {
    static const struct {
        long magic;
        const char *name;
    } REMOTE[] = {{0x6969, "NFS"},
                  {0x517b, "SMB"},
                  {(long)0xff534d42, "CIFS"},
                  {0x01021997, "9P"},
                  {0x65735546, "FUSE"}};
#ifdef __linux__
    for (size_t i = 0; i < sizeof REMOTE / sizeof *REMOTE; i++) {
        plock__local_pretend_file_system(REMOTE[i].magic);
        check_refused(PLOCK_BAD_CONFIG, REMOTE[i].name);
    }
    /* the magic number of ext4, which is not a remote file system */
    plock__local_pretend_file_system(0xef53);
    plock_local_close(local_open());
    plock__local_pretend_file_system(0);
#else
    (void)REMOTE;
    test_skip("network file systems", "their numbers are Linux's");
#endif
}

typedef struct meeting {
    _Atomic int here, all;
} meeting;

static void open_together(void *context) {
    meeting *m = context;
    (void)atomic_fetch_add(&m->here, 1);
    while (atomic_load(&m->here) < atomic_load(&m->all)) (void)usleep(100);
    plock_local *store = local_open();
    plock_lease *lease = local_lease(store, "k");
    if (local_acquire(lease, LONG, LONG) || local_release(lease)) _exit(1);
    plock_lease_free(lease);
    plock_local_close(store);
}

static void many_may_make_it_at_once(void) {
    enum { PROCESSES = 8 };
    meeting *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(m != MAP_FAILED);
    (void)unlink(local_path());
    atomic_store(&m->here, 0);
    atomic_store(&m->all, PROCESSES);
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) children[i] = local_child(open_together, m);
    for (int i = 0; i < PROCESSES; i++) CHECK_INT(local_status_of(children[i]), 0);
}

static void write_file(const char *path, const char *text, size_t length) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, text, length) == (ssize_t)length);
    (void)close(fd);
}

/* A mistyped path must not destroy the file at that path. */
static void a_file_of_another_user_is_never_replaced(void) {
    static char texts[][8192] = {"root:x:0:0:root:/root:/bin/bash\n", "x", "plock local lack", ""};
    const size_t lengths[] = {32, 1, 16, sizeof texts[3]};
    memset(texts[3], 'z', sizeof texts[3]);
    for (int i = 0; i < 4; i++) {
        char found[8192];
        write_file(local_path(), texts[i], lengths[i]);
        check_refused(PLOCK_BAD_CONFIG, "no file of plock's");
        const int fd = open(local_path(), O_RDONLY);
        CHECK(fd >= 0 && read(fd, found, sizeof found) == (ssize_t)lengths[i]);
        CHECK(!memcmp(found, texts[i], lengths[i]));
        (void)close(fd);
    }
    write_file(local_path(), "", 0); /* an empty file has nothing to lose */
    plock_local *store = local_open();
    plock_local_close(store);
    (void)unlink(local_path());
}

/* --- a file that is replaced --- */

/* Changes the file's title, and then its checksum. */
static void retitle(void (*change)(plock__local_title *)) {
    plock__local_title title;
    const int fd = open(local_path(), O_RDWR);
    CHECK(fd >= 0 && pread(fd, &title, sizeof title, 0) == (ssize_t)sizeof title);
    change(&title);
    uint64_t sum = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < offsetof(plock__local_title, check); i++)
        sum = (sum ^ ((unsigned char *)&title)[i]) * UINT64_C(1099511628211);
    title.check = sum;
    CHECK(pwrite(fd, &title, sizeof title, 0) == (ssize_t)sizeof title);
    (void)close(fd);
}

static void boot_before(plock__local_title *title) { memcpy(title->boot, "before", 6); }

static void of_no_boot(plock__local_title *title) { memset(title->boot, 0, sizeof title->boot); }

static void older(plock__local_title *title) { title->layout = 0; }

static void of_another_clock(plock__local_title *title) { title->clock ^= 1; }

static void of_a_hidden_clock(plock__local_title *title) { title->clock = title->clock ? 0 : 1; }

/* Acquires a lease, whose process then ends. With at_least, the lease outlives the process. */
static void leave_something(void *context) {
    const plock_ns at_least = *(const plock_ns *)context;
    plock_local *store = local_open();
    plock_lease *lease = local_lease(store, "left");
    if (local_acquire_as(lease, &(plock_local_acquire_options){.ttl = LONG, .at_least = at_least}))
        _exit(1);
}

static void leave(plock_ns at_least) {
    (void)unlink(local_path());
    CHECK_INT(local_status_of(local_child(leave_something, &at_least)), 0);
}

static void try_it(void *context) {
    (void)context;
    plock_local *store = local_open();
    _exit((int)local_acquire(local_lease(store, "k"), LONG, 0));
}

static int64_t fence_now(plock_local *store) {
    plock_lease *lease = local_lease(store, "fence");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    const int64_t fence = plock_lease_fence(lease);
    plock_lease_free(lease);
    return fence;
}

static void seen(plock_ns at) {
    const int fd = open(local_path(), O_RDWR);
    CHECK(fd >= 0 &&
          pwrite(fd, &at, sizeof at, offsetof(plock__local_header, seen_at)) == (ssize_t)sizeof at);
    (void)close(fd);
}

static void after_a_reboot_it_is_replaced_silently(void) {
    for (int kept = 0; kept < 2; kept++) {
        leave(kept ? LONG : 0);
        retitle(boot_before);
        /* if the file's last use is later than the clock's time, the clock has restarted since that
         * use */
        if (kept) seen(plock_now() + 10 * LONG);
        plock_local *store = local_open();
        CHECK(!plock_local_remade(store));
        CHECK_INT(local_holders(store, "left"), 0);
        plock_local_close(store);
    }
}

/* In a container, the boot id may differ or be unreadable. */
static void another_name_of_the_boot_is_no_proof_of_a_reboot(void) {
    static void (*const NAMES[])(plock__local_title *) = {boot_before, of_no_boot};
    for (int i = 0; i < 2; i++) {
        leave(LONG);
        retitle(NAMES[i]);
        for (int round = 0; round < 3; round++) {
            plock_local *store = local_open();
            CHECK(!plock_local_remade(store));
            CHECK_INT(local_holders(store, "left"), 1);
            CHECK(fence_now(store) > 0); /* the store works for other keys */
            plock_local_close(store);
        }
    }
}

/* Must run in a child. On a system where file locks belong to processes, the function would drop
 * all locks of its process on the file when it closes the file. */
static void retitle_as_before(void *unused) {
    (void)unused;
    retitle(boot_before);
}

static plock_ns moment;

static plock_ns stopped_clock(void) { return moment; }

static void try_it_by_the_clock(void *context) {
    plock_clock_replace(NULL);
    try_it(context);
}

static void processes_with_another_boot_id_use_it_too(void) {
    (void)unlink(local_path());
    plock_local *store = local_open();
    plock_lease *lease = local_lease(store, "k");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    /* When this process next checks the file, it would notice the new title. So the test stops the
     * clock, and no check becomes due. */
    moment = plock_now();
    plock_clock_replace(stopped_clock);
    /* as if a process with another boot id had made the file */
    test_in_child(retitle_as_before, NULL);
    CHECK_INT(WEXITSTATUS(local_status_of(local_child(try_it_by_the_clock, NULL))), PLOCK_REFUSED);
    plock_clock_replace(NULL);
    plock_lease_free(lease);
    plock_local_close(store);
    (void)unlink(local_path());
}

static void fences_grow_across_a_new_file(void) {
    (void)unlink(local_path());
    plock_local *store = local_open();
    const int64_t ahead = fence_now(store) + 1000000000; /* as if the wall clock had been wrong */
    plock_local_close(store);
    const int fd = open(local_path(), O_RDWR);
    CHECK(pwrite(fd, &ahead, sizeof ahead, offsetof(plock__local_header, fence)) ==
          (ssize_t)sizeof ahead);
    (void)close(fd);
    retitle(boot_before);
    store = local_open();
    CHECK(fence_now(store) > ahead);
    plock_local_close(store);
}

static void an_older_layout_is_replaced_unless_a_lease_is_held(void) {
    leave(0);
    retitle(older);
    plock_local *store = local_open();
    CHECK_HAS(plock_local_remade(store) ? plock_local_remade(store) : "", "another version");
    plock_local_close(store);
    leave(LONG);
    retitle(older);
    check_refused(PLOCK_PROTOCOL, "kept for some time");
    check_refused(PLOCK_PROTOCOL, "another version");
}

static void another_clock_is_refused(void) {
    leave(0);
    retitle(of_another_clock);
    check_refused(PLOCK_BAD_CONFIG, "another clock");
    (void)unlink(local_path());
    leave(0);
    retitle(of_a_hidden_clock);
    check_refused(PLOCK_BAD_CONFIG, "/proc was hidden where it was made, or is here");
    (void)unlink(local_path());
}

static void stay(void *context) {
    plock_local *store = local_open();
    (void)context;
    plock_lease *lease = local_lease(store, "k");
    if (local_acquire(lease, LONG, 0)) _exit(1);
    for (;;) (void)pause();
}

static void harm_is_refused_as_long_as_a_process_uses_it(void) {
    static const char *const HARM[] = {"truncated", "written over"};
    for (int i = 0; i < 2; i++) {
        (void)unlink(local_path());
        plock_local *store = local_open();
        const pid_t other = local_child(stay, NULL);
        unsigned rounds = 0;
        while (!local_holders(store, "k") && test_patient(&rounds)) continue;
        plock_local_close(store);
        const int fd = open(local_path(), O_RDWR);
        CHECK(i ? pwrite(fd, "nonsense", 8, 0) == 8 : ftruncate(fd, 1024 * 1024) == 0);
        (void)close(fd);
        check_refused(PLOCK_PROTOCOL, "other processes use it");
        check_refused(PLOCK_PROTOCOL, HARM[i]);
        CHECK(kill(other, SIGKILL) == 0);
        (void)local_status_of(other);
        store = local_open();
        CHECK_HAS(plock_local_remade(store) ? plock_local_remade(store) : "", HARM[i]);
        plock_local_close(store);
    }
}

static void only_open(void *context) {
    const int *ready = context;
    plock_local *store = local_open();
    plock_lease *lease = local_lease(store, "k");
    if (local_acquire(lease, LONG, 0) || local_release(lease) || write(ready[1], "", 1) != 1)
        _exit(1);
    for (;;) (void)pause();
}

static void after_damage_a_process_that_only_has_it_open_is_not_in_the_way(void) {
    for (int i = 0; i < 2; i++) {
        int ready[2];
        char byte;
        (void)unlink(local_path());
        CHECK(pipe(ready) == 0);
        const pid_t other = local_child(only_open, ready);
        CHECK(read(ready[0], &byte, 1) == 1);
        const int fd = open(local_path(), O_RDWR);
        CHECK(i ? pwrite(fd, "nonsense", 8, 0) == 8
                : pwrite(fd, &(uint32_t){1}, sizeof(uint32_t),
                         offsetof(plock__local_header, damaged)) == sizeof(uint32_t));
        (void)close(fd);
        plock_local *store = local_open();
        CHECK_HAS(plock_local_remade(store) ? plock_local_remade(store) : "",
                  i ? "written over" : "damaged");
        plock_local_close(store);
        CHECK(kill(other, SIGKILL) == 0);
        (void)local_status_of(other);
        (void)close(ready[0]);
        (void)close(ready[1]);
    }
}

/* systemd-tmpfiles(8) removes nothing from a folder that it cannot lock. So a store keeps its
 * folder locked. */
static void its_folder_is_locked_as_long_as_it_is_open(void) {
    const int folder = open(local_folder(), O_RDONLY | O_DIRECTORY);
    plock_local *stores[] = {local_open(), local_open()};
    CHECK(flock(folder, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);
    plock_local_close(stores[0]);
    CHECK(flock(folder, LOCK_EX | LOCK_NB) == -1);
    plock_local_close(stores[1]);
    unsigned rounds = 0;
    while (flock(folder, LOCK_EX | LOCK_NB) && test_patient(&rounds)) continue;
    plock_local *store = local_open(); /* opened while another program has the folder's lock */
    CHECK_INT(local_holders(store, "k"), 0);
    plock_local_close(store);
    (void)close(folder);
}

static void the_traces_of_a_process_that_died_while_making_it_are_removed(void) {
    char beside[600];
    (void)snprintf(beside, sizeof beside, "%s.new", local_path());
    (void)unlink(local_path());
    write_file(beside, "half", 4);
    plock_local *store = local_open();
    CHECK(access(beside, F_OK) == -1);
    plock_local_close(store);
}

static void write_little(void *context) {
    (void)context;
    plock_local *store = NULL;
    plock_error error = {.status = PLOCK_OK};
    const struct rlimit most = {.rlim_cur = 4096, .rlim_max = 4096};
    if (setrlimit(RLIMIT_FSIZE, &most)) _exit(1);
    _exit(plock_local_open(&store, local_path(), 0, &error) == PLOCK_STORE_FULL &&
                  strstr(error.message, "ulimit -f")
              ? 0
              : 2);
}

static void a_limit_on_the_size_of_files_is_reported(void) {
    (void)unlink(local_path());
    CHECK_INT(local_status_of(local_child(write_little, NULL)), 0);
}

/* From now on, the kernel refuses all locks to this process, as if the file system had none. */
static void have_no_locks(unsigned code) {
    enum { COMMAND = offsetof(struct seccomp_data, args) + sizeof(uint64_t) };
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, COMMAND),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_SETLK, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETLK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | code),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = sizeof steps / sizeof *steps, .filter = steps};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
          prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

static void open_without_locks(void *context) {
    const unsigned *code = context;
    plock_error error;
    have_no_locks(*code);
    if (open_at(local_path(), &error) != PLOCK_CONNECT) _exit(1);
    _exit(strstr(error.message, "locking a place") && strstr(error.message, strerror((int)*code))
              ? 0
              : 2);
}

static void a_lock_that_cannot_be_had_is_told_as_what_it_is(void) {
    for (unsigned i = 0; i < 2; i++) {
        unsigned code = i ? EIO : ENOLCK;
        plock_local_close(local_open());
        CHECK_INT(WEXITSTATUS(local_status_of(local_child(open_without_locks, &code))), 0);
    }
}

static void one_that_is_removed_is_made_again_by_those_who_use_it(void) {
    plock_local *store = local_open();
    plock_lease *lease = local_lease(store, "k");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    CHECK(unlink(local_path()) == 0);
    (void)usleep(LOOKED_AT);
    plock_lease *other = local_lease(store, "l");
    /* the store does not use a new file while a lease is held in the removed file */
    CHECK_STATUS(local_acquire(other, LONG, 0), PLOCK_DISCONNECTED);
    CHECK_STATUS(local_release(lease), PLOCK_NOT_OWNER);
    plock_lease_free(lease);
    CHECK_STATUS(local_acquire(other, LONG, 0), PLOCK_OK);
    CHECK(access(local_path(), F_OK) == 0);
    plock_lease_free(other);
    plock_local_close(store);
}

/* --- several stores of one process --- */

/* Acquires and releases a lease. Tries again as long as the file must be replaced first. */
static bool serves(plock_local *store) {
    unsigned rounds = 0;
    plock_status status;
    do {
        plock_lease *lease = local_lease(store, "k");
        status = local_acquire(lease, LONG, 0);
        plock_lease_free(lease);
    } while (status && test_patient(&rounds));
    return CHECK_STATUS(status, PLOCK_OK);
}

static plock_local *opened_meanwhile;
static plock_lease *acquired_meanwhile;

static void open_and_acquire(void) {
    opened_meanwhile = local_open();
    acquired_meanwhile = local_lease(opened_meanwhile, "k");
    CHECK_STATUS(local_acquire(acquired_meanwhile, LONG, 0), PLOCK_OK);
}

static void be_refused(void *unused) {
    (void)unused;
    plock_lease *lease = local_lease(local_open(), "k");
    if (local_acquire(lease, LONG, 0) != PLOCK_REFUSED) _exit(1);
}

/* A process loses its POSIX locks on a file as soon as it closes any descriptor of the file. */
static void closing_a_store_takes_nothing_from_one_that_is_opened_just_then(void) {
    plock_local *store = local_open();
    plock__local_before(PLOCK__IS_UNMAPPED, open_and_acquire);
    plock_local_close(store);
    CHECK_INT(local_status_of(local_child(be_refused, NULL)), 0);
    CHECK_STATUS(local_release(acquired_meanwhile), PLOCK_OK);
    plock_lease_free(acquired_meanwhile);
    plock_local_close(opened_meanwhile);
}

static void wait_for_nothing(plock_local *store) {
    plock_lease *held = local_lease(store, "k"), *lease = local_lease(store, "k");
    CHECK_STATUS(local_acquire(held, LONG, 0), PLOCK_OK);
    CHECK_STATUS(local_acquire(lease, LONG, PLOCK_MILLISECOND), PLOCK_TIMED_OUT);
    plock_lease_free(lease);
    plock_lease_free(held);
}

static void stores_of_a_process_do_not_keep_a_file_that_is_gone_from_one_another(void) {
    for (int truncated = 0; truncated < 2; truncated++) {
        (void)unlink(local_path());
        plock_local *stores[] = {local_open(), local_open(), local_open()};
        wait_for_nothing(stores[0]);
        CHECK((truncated ? truncate(local_path(), PLOCK__LOCAL_PAGE) : unlink(local_path())) == 0);
        (void)usleep(LOOKED_AT);
        CHECK(serves(stores[0]));
        CHECK(serves(stores[1])); /* although the idle third store has the old file */
        CHECK(access(local_path(), F_OK) == 0);
        for (int i = 0; i < 3; i++) plock_local_close(stores[i]);
    }
}

/* --- damage to the file --- */

static void scribble(size_t offset, const void *bytes, size_t length) {
    const int fd = open(local_path(), O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, bytes, length, (off_t)offset) == (ssize_t)length);
    (void)close(fd);
}

static void a_record_that_is_in_use_is_not_given_to_another(void) {
    static const size_t FREE_ONES[] = {offsetof(plock__local_header, keys_free),
                                       offsetof(plock__local_header, claims_free)};
    for (int i = 0; i < 2; i++) {
        (void)unlink(local_path());
        plock_local *store = local_open();
        plock_lease *held = local_lease(store, "k"), *other = local_lease(store, "l");
        CHECK_STATUS(local_acquire(held, LONG, 0), PLOCK_OK);
        scribble(FREE_ONES[i], &(uint32_t){0}, sizeof(uint32_t));
        CHECK_STATUS(local_acquire(other, LONG, 0), PLOCK_PROTOCOL);
        CHECK(plock_lease_lost(held) && !plock_lease_valid(held));
        plock_lease_free(other);
        plock_lease_free(held);
        plock_local_close(store);
    }
    (void)unlink(local_path());
}

static void a_fence_that_cannot_grow_is_damage(void) {
    plock_local *store = local_open();
    plock_lease *lease = local_lease(store, "k");
    scribble(offsetof(plock__local_header, fence), &(int64_t){INT64_MAX}, sizeof(int64_t));
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_PROTOCOL);
    plock_lease_free(lease);
    plock_local_close(store);
    store = local_open();
    CHECK_HAS(plock_local_remade(store) ? plock_local_remade(store) : "", "damaged");
    CHECK(serves(store));
    plock_local_close(store);
}

static void an_impossible_expiry_does_not_prevent_a_replacement(void) {
    leave(0);
    retitle(older);
    scribble(offsetof(plock__local_header, outlives_until), &(int64_t){INT64_MAX}, sizeof(int64_t));
    plock_local *store = local_open();
    CHECK_HAS(plock_local_remade(store) ? plock_local_remade(store) : "", "another version");
    plock_local_close(store);
}

static plock_local *damaged;

static void look_at_it(void *context) {
    (void)context;
    (void)alarm(5);
    if (local_waiters(damaged, "k") >= 0) _exit(1);
}

/* Makes the end of a list point back into the list, as damage may do. */
static void a_circle_of_waiters_ends_in_an_error(void) {
    (void)unlink(local_path());
    damaged = local_open();
    plock_lease *leases[3];
    plock_interest interest;
    for (int i = 0; i < 3; i++) {
        leases[i] = local_lease(damaged, "k");
        CHECK_STATUS(
            plock_local_lease_acquire(
                leases[i], &(plock_local_acquire_options){.ttl = LONG, .wait = i ? LONG : 0}),
            PLOCK_OK);
        CHECK_STATUS(plock_lease_step(leases[i], &interest), i ? PLOCK_AGAIN : PLOCK_OK);
    }
    const size_t second =
        plock__local_plan_for(PLOCK_LOCAL_KEYS).claims + 2 * sizeof(plock__local_claim);
    scribble(second + offsetof(plock__local_claim, next), &(uint32_t){1}, sizeof(uint32_t));
    CHECK_INT(local_status_of(local_child(look_at_it, NULL)), 0);
    for (int i = 0; i < 3; i++) plock_lease_free(leases[i]);
    plock_local_close(damaged);
    (void)unlink(local_path());
}

static void use(plock_local *store, unsigned round) {
    char name[32];
    (void)snprintf(name, sizeof name, "key %u", round % 40);
    plock_lease *lease = local_lease(store, name), *shared = local_lease(store, "shared");
    (void)local_acquire(lease, LONG, round % 3 ? 0 : PLOCK_MILLISECOND);
    (void)local_acquire_as(shared, &(plock_local_acquire_options){.ttl = LONG, .mode = 'r'});
    (void)local_holders(store, name);
    (void)local_waiters(store, "shared");
    if (round % 5 == 0) (void)local_break(store, name);
    if (round % 2) (void)local_release(lease);
    plock_lease_free(shared);
    plock_lease_free(lease);
}

/* Whatever is written to the file, no call crashes or loops forever. Each call ends, with success
 * or an error. */
static void scribbling_ends_in_an_error_at_worst(void) {
    enum { ROUNDS = 150, MARKS = 12, LIVE = 40 };
    for (unsigned seed = 1; seed <= (TEST_TSAN ? 10 : 100); seed++) {
        (void)unlink(local_path());
        srand(seed);
        plock_local *store = local_open_keys(64);
        plock_lease *held[LIVE];
        char name[32];
        for (int i = 0; i < LIVE; i++) {
            (void)snprintf(name, sizeof name, "key %d", i);
            held[i] = local_lease(store, name);
            CHECK_STATUS(local_acquire(held[i], LONG, 0), PLOCK_OK);
        }
        struct stat found;
        const int fd = open(local_path(), O_RDWR);
        CHECK(fd >= 0 && fstat(fd, &found) == 0);
        /* in every fourth round, the header is also damaged: the lock, the counts, and the heads of
         * lists */
        const bool spares_header = seed % 4;
        const off_t from = spares_header ? PLOCK__LOCAL_PAGE + 64 * PLOCK__LOCAL_PROCESSES
                                         : (off_t)offsetof(plock__local_header, outlives_until);
        for (unsigned round = 0; round < ROUNDS; round++) {
            for (int mark = 0; mark < MARKS; mark++) {
                const unsigned char bytes[4] = {(unsigned char)rand(), (unsigned char)rand(),
                                                (unsigned char)rand(), (unsigned char)rand()};
                const off_t room = spares_header ? found.st_size - from - 4 : 256;
                CHECK(pwrite(fd, bytes, (size_t)(1 + rand() % 4), from + rand() % room) > 0);
            }
            use(store, round);
            plock_error error;
            plock_interest interest;
            if (plock_local_break(store, "k", 1, NULL, 0, local_soon(), &interest, &error) ==
                    PLOCK_PROTOCOL ||
                round > 60)
                break;
        }
        (void)close(fd);
        for (int i = 0; i < LIVE; i++) plock_lease_free(held[i]);
        plock_local_close(store);
    }
}

int main(void) {
    local_begin();
    RUN(a_folder_is_none);
    RUN(it_is_for_no_other_user);
    RUN(another_users_is_refused);
    RUN(a_link_or_what_is_no_file_is_refused);
    RUN(a_network_file_system_is_refused_with_its_name);
    RUN(a_file_of_another_user_is_never_replaced);
    RUN(many_may_make_it_at_once);
    RUN(after_a_reboot_it_is_replaced_silently);
    RUN(another_name_of_the_boot_is_no_proof_of_a_reboot);
    RUN(processes_with_another_boot_id_use_it_too);
    RUN(fences_grow_across_a_new_file);
    RUN(an_older_layout_is_replaced_unless_a_lease_is_held);
    RUN(another_clock_is_refused);
    RUN(harm_is_refused_as_long_as_a_process_uses_it);
    RUN(after_damage_a_process_that_only_has_it_open_is_not_in_the_way);
    RUN(its_folder_is_locked_as_long_as_it_is_open);
    RUN(the_traces_of_a_process_that_died_while_making_it_are_removed);
    RUN(a_limit_on_the_size_of_files_is_reported);
    RUN(a_lock_that_cannot_be_had_is_told_as_what_it_is);
    RUN(one_that_is_removed_is_made_again_by_those_who_use_it);
    RUN(closing_a_store_takes_nothing_from_one_that_is_opened_just_then);
    RUN(stores_of_a_process_do_not_keep_a_file_that_is_gone_from_one_another);
    RUN(a_record_that_is_in_use_is_not_given_to_another);
    RUN(a_fence_that_cannot_grow_is_damage);
    RUN(an_impossible_expiry_does_not_prevent_a_replacement);
    RUN(a_circle_of_waiters_ends_in_an_error);
    RUN(scribbling_ends_in_an_error_at_worst);
    local_end();
    return test_end("local_file");
}
