/* The local store in trouble. Eight processes work, some of them in their own namespaces. The file
 * is renamed, linked, removed, replaced or truncated, and processes are stopped or killed. Apart
 * from the second after each such event, a key has one holder at a time. No waiter waits for more
 * than a second for a free key. The test runs for 12 s, or for PLOCK_TROUBLE_SECONDS. Before a
 * release of the gem, it runs for 600 s. */
#include "local_support.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 8, KEYS = 3, LIVES_MAX = 1 << 17, FATES = 5 };

static const plock_ns LONG = 60 * PLOCK_SECOND, A_SECOND = PLOCK_SECOND;

static struct {
    plock_ns ends;
    _Atomic int owner[KEYS]; /* the number of the holding process, plus 1; 0 if there is none */
    _Atomic plock_ns freed_at[KEYS], troubled_at, stopped_at;
    _Atomic int doomed[LIVES_MAX];
    _Atomic long sections, wrongs, overlaps, losses, refusals, bus_errors;
} * stage;

static void wrong(const char *what, int life) {
    atomic_fetch_add(&stage->wrongs, 1);
    fprintf(stderr, "life %d, %.3f s after the last trouble: %s\n", life,
            (double)(plock_now() - atomic_load(&stage->troubled_at)) / PLOCK_SECOND, what);
}

static bool troubled(plock_ns since) {
    const plock_ns at = atomic_load(&stage->troubled_at);
    return plock_now() - at < A_SECOND + 200 * PLOCK_MILLISECOND || since < at;
}

static plock_ns latest(plock_ns a, plock_ns b) { return a > b ? a : b; }

/* Checks how long this process has waited since the latest of four events: the start of its wait,
 * the key's release, the last trouble, and the last stop. */
static void check_wait(int key, plock_ns began, int life) {
    const plock_ns since =
        latest(latest(began, atomic_load(&stage->freed_at[key])),
               latest(atomic_load(&stage->troubled_at), atomic_load(&stage->stopped_at)));
    const plock_ns waited = plock_now() - since;
    if (waited < A_SECOND) return;
    char words[80];
    (void)snprintf(words, sizeof words, "a free key was waited for for %.3f s",
                   (double)waited / PLOCK_SECOND);
    wrong(words, life);
}

static void be_inside(plock_lease *lease, int key, int life, plock_ns began) {
    const int before = atomic_exchange(&stage->owner[key], life + 1);
    const bool beside = before && before != life + 1 && !atomic_load(&stage->doomed[before - 1]);
    if (beside) atomic_fetch_add(&stage->overlaps, 1);
    if (beside && !troubled(PLOCK_NEVER)) wrong("two are inside", life);
    (void)usleep((useconds_t)(rand() % 3000));
    const bool valid = plock_lease_valid(lease);
    int own = life + 1;
    const bool left = atomic_compare_exchange_strong(&stage->owner[key], &own, 0);
    if (left)
        atomic_store(&stage->freed_at[key], plock_now());
    else if (valid && !troubled(began))
        wrong("another one was inside", life);
    atomic_fetch_add(&stage->sections, 1);
    const plock_status released = local_release(lease);
    if (released == PLOCK_OK) return;
    atomic_fetch_add(&stage->losses, 1);
    if (!troubled(began)) wrong(plock_status_name(released), life);
}

/* --- processes in their own namespaces --- */

/* Starts a child in its own PID namespace, as in a container. The namespace has its own process
 * ids. The calling process stays in its namespace. */
static pid_t apart(pid_t (*start)(int), int i) {
    static int home = -1;
    static bool refused;
    if (home < 0) home = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    if (!refused && (home < 0 || unshare(CLONE_NEWPID))) {
        refused = true;
        test_skip("workers in a PID namespace of their own", strerror(errno));
    }
    const pid_t pid = start(i);
    if (!refused) CHECK(setns(home, CLONE_NEWPID) == 0);
    return pid;
}

static bool write_to(const char *path, const char *text) {
    const int fd = open(path, O_WRONLY);
    const bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) (void)close(fd);
    return written;
}

/* Enters a user namespace, in which the same user has a different number. If that is impossible,
 * the process stays in the namespace that it has. */
static void be_called_otherwise(void) {
    char map[32];
    (void)snprintf(map, sizeof map, "1000 %u 1", (unsigned)geteuid());
    if (unshare(CLONE_NEWUSER) == 0 && !write_to("/proc/self/uid_map", map)) _exit(3);
}

/* --- the work of a process --- */

static void work(void *context) {
    const int life = *(const int *)context;
    plock_local *store = NULL;
    plock_error error;
    srand((unsigned)life);
    /* so that SIGBUS ends the process, and a sanitizer does not handle it */
    (void)signal(SIGBUS, SIG_DFL);
    if (life % 5 == 2) be_called_otherwise();
    while (plock_now() < stage->ends) {
        const plock_ns began = plock_now();
        const int key = rand() % KEYS;
        char name[16];
        (void)snprintf(name, sizeof name, "key %d", key);
        if (!store && plock_local_open(&store, local_path(), 64, &error)) {
            atomic_fetch_add(&stage->refusals, 1);
            if (!troubled(began)) wrong(error.message, life);
            (void)usleep(2000);
            continue;
        }
        plock_lease *lease = local_lease(store, name);
        const plock_status status = local_acquire_as(
            lease, &(plock_local_acquire_options){
                       .ttl = LONG, .wait = LONG, .watched = life % 2, .renews = life % 4 == 3});
        if (status == PLOCK_OK) {
            check_wait(key, began, life);
            be_inside(lease, key, life, began);
        } else {
            atomic_fetch_add(&stage->refusals, 1);
            if (!troubled(began)) wrong(plock_lease_error(lease)->message, life);
            (void)usleep(2000);
        }
        plock_lease_free(lease);
    }
}

/* --- trouble for the file --- */

static size_t contents(int fd, unsigned char *bytes, size_t size) {
    const ssize_t got = pread(fd, bytes, size, 0);
    return got > 0 ? (size_t)got : 0;
}

/* Copies the file as it is at one moment, by reading until two reads agree. A mixture of two
 * moments would be a damaged file. Processes might not notice the damage within a second, and after
 * that second, this test allows no failures. */
static void copy(const char *from, const char *to) {
    static unsigned char bytes[1 << 20], again[sizeof bytes];
    const int in = open(from, O_RDONLY),
              out = open(to, O_WRONLY | O_CREAT | O_TRUNC, S_IRUSR | S_IWUSR);
    size_t size, length;
    do {
        size = contents(in, bytes, sizeof bytes);
        length = contents(in, again, sizeof again);
    } while (size != length || memcmp(bytes, again, size));
    CHECK(size < sizeof bytes && write(out, bytes, size) == (ssize_t)size);
    (void)close(in);
    (void)close(out);
}

static void make_trouble(int fate) {
    char aside[600];
    (void)snprintf(aside, sizeof aside, "%s.aside", local_path());
    (void)unlink(aside);
    /* troubled_at is set before the event, because processes may notice the event at once. It is
     * set again after the event, because the second in which failures are allowed begins only
     * then. */
    atomic_store(&stage->troubled_at, plock_now());
    switch (fate) {
    case 0: (void)rename(local_path(), aside); break;
    case 1: (void)(link(local_path(), aside) == 0 && unlink(local_path())); break;
    case 2: (void)unlink(local_path()); break;
    case 3: copy(local_path(), aside), (void)rename(aside, local_path()); break;
    default: (void)truncate(local_path(), 0); break;
    }
    atomic_store(&stage->troubled_at, plock_now());
}

/* --- trouble for the processes --- */

static struct {
    pid_t pid;
    int life;
} workers[WORKERS];

static pid_t start(int i) { return local_child(work, &workers[i].life); }

static void begin(int i, int life) {
    workers[i].life = life;
    workers[i].pid = life % 3 == 1 ? apart(start, i) : start(i);
}

static void bury(int i, int next) {
    atomic_store(&stage->doomed[workers[i].life], 1);
    for (int key = 0; key < KEYS; key++)
        if (atomic_load(&stage->owner[key]) == workers[i].life + 1)
            atomic_store(&stage->freed_at[key], plock_now());
    begin(i, next);
}

static void end(int i, int next) {
    if (!workers[i].pid) return;
    atomic_store(&stage->doomed[workers[i].life], 1);
    CHECK(kill(workers[i].pid, SIGKILL) == 0);
    (void)local_status_of(workers[i].pid);
    bury(i, next);
}

static void stop_for_a_while(int i) {
    if (!workers[i].pid) return;
    CHECK(kill(workers[i].pid, SIGSTOP) == 0);
    (void)usleep((useconds_t)(rand() % 400000));
    CHECK(kill(workers[i].pid, SIGCONT) == 0);
    /* the stopped process may have held a key, or may have been the next waiter to get one */
    atomic_store(&stage->stopped_at, plock_now());
}

/* A process may end when the run is over. Before that, only SIGBUS may end it, because it read a
 * truncated page. */
static void check_end(int status) {
    const bool cut_off = WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
    atomic_fetch_add(&stage->bus_errors, cut_off);
    CHECK(cut_off || (status == 0 && plock_now() >= stage->ends));
}

static int replace_those_who_died(int next) {
    for (int i = 0; i < WORKERS; i++) {
        int status;
        if (!workers[i].pid || waitpid(workers[i].pid, &status, WNOHANG) != workers[i].pid)
            continue;
        check_end(status);
        workers[i].pid = 0;
        if (plock_now() < stage->ends) bury(i, next++);
    }
    return next;
}

static void they_go_on_whatever_happens(void) {
    const char *given = getenv("PLOCK_TROUBLE_SECONDS");
    const int seconds = given ? atoi(given) : 12;
    (void)alarm((unsigned)seconds + 60);
    stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(stage != MAP_FAILED);
    stage->ends = plock_now() + seconds * PLOCK_SECOND;
    atomic_store(&stage->troubled_at, plock_now());
    int next = 0, fate = 0;
    for (; next < WORKERS; next++) begin(next, next);
    plock_ns trouble_at = plock_now() + 2 * A_SECOND;
    srand(1);
    while (plock_now() < stage->ends && next < LIVES_MAX - WORKERS) {
        (void)usleep((useconds_t)(rand() % 20000));
        next = replace_those_who_died(next);
        if (rand() % 3 == 0)
            end(rand() % WORKERS, next++);
        else if (rand() % 100 == 0)
            stop_for_a_while(rand() % WORKERS);
        if (plock_now() < trouble_at) continue;
        make_trouble(fate++ % FATES);
        trouble_at = plock_now() + 2 * A_SECOND + rand() % 1000 * PLOCK_MILLISECOND;
    }
    for (int i = 0; i < WORKERS; i++) {
        if (workers[i].pid) check_end(local_status_of(workers[i].pid));
    }
    CHECK_INT(stage->wrongs, 0);
    CHECK(stage->sections > 100 && stage->losses > 0);
    fprintf(stderr,
            "%ld sections, %d lives, %d troubles; in the second after one: %ld overlaps, %ld "
            "losses, %ld refusals, %ld ended by the kernel\n",
            stage->sections, next, fate, stage->overlaps, stage->losses, stage->refusals,
            stage->bus_errors);
}

int main(void) {
    local_begin();
    RUN(they_go_on_whatever_happens);
    local_end();
    return test_end("local_trouble");
}
