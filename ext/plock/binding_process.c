/* System calls that the command line needs, and for which Ruby has no method. They concern the
 * terminal's foreground process group, the state of a child that must not be reaped, and the
 * watchdog. */
#include "binding.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

/* --- the terminal --- */

/* terminal_group(fd) -> the terminal's foreground process group, or nil if `fd` is not this
 * process's controlling terminal. */
static VALUE terminal_group(VALUE self, VALUE fd) {
    (void)self;
    const pid_t group = tcgetpgrp(NUM2INT(fd));
    return group < 0 ? Qnil : PIDT2NUM(group);
}

/* hand_terminal(fd, group) -> is `group` the foreground group now? A background process would be
 * stopped by SIGTTOU here, so that signal is blocked. */
static VALUE hand_terminal(VALUE self, VALUE fd, VALUE group) {
    (void)self;
    sigset_t stop, before;
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTTOU);
    if (pthread_sigmask(SIG_BLOCK, &stop, &before)) return Qfalse;
    const int failed = tcsetpgrp(NUM2INT(fd), NUM2PIDT(group));
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return binding_bool(!failed);
}

/* --- children --- */

/* ended?(pid) -> has this child ended? The child is not reaped, so that no other process can get
 * its pid. */
static VALUE child_ended(VALUE self, VALUE pid) {
    (void)self;
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)NUM2PIDT(pid), &info, WEXITED | WNOHANG | WNOWAIT))
        rb_sys_fail("waitid");
    return binding_bool(info.si_pid);
}

/* die_with_parent -> true if the kernel will kill this process when its parent ends. Usually the
 * watchdog kills this process when the parent ends. The kernel is needed if the watchdog is killed
 * together with the parent. */
static VALUE die_with_parent(VALUE self) {
    (void)self;
#ifdef __linux__
    return binding_bool(!prctl(PR_SET_PDEATHSIG, SIGKILL));
#else
    return Qfalse;
#endif
}

/* The signal mask that signals_blocked replaced. A child that was forked in the block of
 * signals_blocked restores this mask. Only the command line's main thread forks such children. */
static sigset_t mask_before;

static VALUE unblock_signals(VALUE unused) {
    (void)unused;
    (void)pthread_sigmask(SIG_SETMASK, &mask_before, NULL); /* a valid mask, so this succeeds */
    return Qnil;
}

/* signals_blocked { } -> the block's value. Signals stay pending until the block has ended. In a
 * child that the block forks, they stay pending until default_signals. */
static VALUE signals_blocked(VALUE self) {
    (void)self;
    sigset_t all;
    (void)sigfillset(&all);
    const int failed = pthread_sigmask(SIG_SETMASK, &all, &mask_before);
    if (failed) rb_syserr_fail(failed, "pthread_sigmask");
    return rb_ensure(rb_yield, Qnil, unblock_signals, Qnil);
}

/* default_signals -> nil. For a child that was forked in signals_blocked and is about to call exec.
 * Removes Ruby's handlers, and then unblocks signals. So even a signal that has been pending since
 * the fork has the same effect as after exec. With Ruby's handlers, exec would lose the signal. */
static VALUE default_signals(VALUE self) {
    (void)self;
    for (int number = 1; number < NSIG; number++) {
        struct sigaction now;
        /* Ruby wakes its threads with SIGVTALRM */
        if (number == SIGVTALRM || sigaction(number, NULL, &now)) continue;
        if (now.sa_handler != SIG_IGN && now.sa_handler != SIG_DFL) (void)signal(number, SIG_DFL);
    }
    return unblock_signals(Qnil);
}

/* --- the watchdog. It is the forked child of a process with threads, so it makes only system calls
 * --- */

static const long PAUSE = 5 * 1000 * 1000, LONGEST_PAUSE = 320 * 1000 * 1000; /* nanoseconds */
/* If the system cannot tell whether a group is dead, the watchdog sends SIGKILL this many times,
 * over about 2 s, and then gives up. Otherwise zombies that are never reaped, which kill(2) still
 * finds, would keep it running forever. */
enum { BLIND = 12 };

static void close_range_of(long first, long last) {
    if (first > last) return;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned)first, (unsigned)last, 0u) == 0) return;
#endif
    struct rlimit limit;
    const long end =
        getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > 65536 ? 65536 : (long)limit.rlim_cur;
    for (long fd = first; fd <= last && fd < end; fd++) (void)close((int)fd);
}

static void close_all_but(int one, int other) {
    const int low = one < other ? one : other, high = one < other ? other : one;
    close_range_of(0, low - 1L);
    close_range_of(low + 1L, high - 1L);
    close_range_of(high + 1L, INT32_MAX);
}

#ifdef __linux__

/* Reads /proc/N/stat into `line`. Returns the fields after the program's name, or NULL. The name is
 * in parentheses, and may itself contain parentheses. */
static const char *stat_of(const char *number, char *line, size_t room) {
    char path[48];
    (void)snprintf(path, sizeof path, "/proc/%.20s/stat", number);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    const ssize_t got = read(fd, line, room - 1);
    (void)close(fd);
    line[got > 0 ? got : 0] = 0;
    const char *name_ends = strrchr(line, ')');
    return name_ends && name_ends[1] ? name_ends + 2 : NULL;
}

static bool lives_in(const char *number, pid_t group) {
    char line[512], state;
    int parent, its_group;
    const char *rest = stat_of(number, line, sizeof line);
    /* NOLINTNEXTLINE(cert-err34-c): the kernel wrote these numbers */
    return rest && sscanf(rest, "%c %d %d", &state, &parent, &its_group) == 3 &&
           its_group == group && state != 'Z' && state != 'X';
}

/* Is any process of the group alive? Returns 1 (yes), 0 (no) or -1 (unknown). Does not call
 * opendir(3), because that function allocates memory. */
static int group_lives(pid_t group) {
    _Alignas(8) char entries[4096];
    struct entry { /* getdents64(2) */
        uint64_t inode;
        int64_t offset;
        unsigned short length;
        unsigned char kind;
        char name[];
    };
    const int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long got = -1, at;
    int numbers = 0, found = 0;
    while (proc >= 0 && !found &&
           (got = syscall(SYS_getdents64, proc, entries, sizeof entries)) > 0)
        for (at = 0; at < got && !found; at += ((struct entry *)(void *)(entries + at))->length) {
            const char *name = ((struct entry *)(void *)(entries + at))->name;
            if (*name < '1' || *name > '9') continue;
            numbers++;
            found = lives_in(name, group);
        }
    if (proc >= 0) (void)close(proc);
    return found ? 1 : got < 0 || !numbers ? -1 : 0;
}

/* Gives this process another name. Otherwise ps would show the guarded program's command line for
 * this process, and pkill -f would match it. */
static void take_name(void) {
    static const char NAME[] = "lease-watchdog";
    char line[1024];
    unsigned long start = 0, end = 0;
    (void)prctl(PR_SET_NAME, NAME);
    const char *at = stat_of("self", line, sizeof line);
    for (int field = 3; at && field < 48; field++) at = (at = strchr(at, ' ')) ? at + 1 : NULL;
    /* NOLINTNEXTLINE(cert-err34-c): the kernel wrote these numbers */
    if (!at || sscanf(at, "%lu %lu", &start, &end) != 2 || !start || end <= start) return;
    memset((void *)start, 0, end - start);
    memcpy((void *)start, NAME, end - start > sizeof NAME ? sizeof NAME : end - start - 1);
}

#else

static int group_lives(pid_t group) {
    (void)group;
    return -1;
}

static void take_name(void) {}

#endif

/* Sends SIGKILL to the group until none of its processes is left. A process that has changed its
 * user cannot be killed, so this function waits until that process ends. */
static void end_group(pid_t group) {
    long pause = PAUSE;
    for (int blind = 0; blind < BLIND;) {
        if (kill(-group, SIGKILL) && errno != EPERM) return;
        const struct timespec moment = {.tv_nsec = pause};
        (void)nanosleep(&moment, NULL);
        if (pause < LONGEST_PAUSE) pause *= 2;
        const int left = group_lives(group);
        if (left == 0) return;
        if (left < 0) blind++;
    }
}

/* Reads the ids of process groups until the pipe ends. Returns the last id that was read, or
 * `group` if the pipe had none. The id 0 stands for no group. */
static pid_t hear(int from, pid_t group) {
    pid_t told = 0;
    for (;;) {
        const ssize_t got = read(from, &told, sizeof told);
        if (got == (ssize_t)sizeof told)
            group = told;
        else if (got >= 0 || errno != EINTR)
            return group;
    }
}

/* Runs the watchdog. All signals are blocked, so only SIGKILL ends the watchdog early. */
static void watch(int from, int kept, pid_t first) {
    take_name();
    (void)setsid();
    if (chdir("/") || fcntl(from, F_SETFL, 0)) _exit(1); /* Ruby had made the pipe non-blocking */
    close_all_but(from, kept < 0 ? from : kept);
    const pid_t group = hear(from, first);
    if (group > 0) end_group(group);
    _exit(0);
}

/* start_watchdog(from, kept, group) -> the watchdog's pid. The writer at the other end of the pipe
 * `from` writes ids of process groups, each as a pid_t. The pipe ends when the writer has ended in
 * any way. Then the watchdog kills the group whose id was written last, or `group` if no id was
 * written. An id of 0 means that it kills none. The watchdog keeps a copy of the descriptor `kept`
 * open until no process of the killed group is left. `kept` may be nil. */
static VALUE start_watchdog(VALUE self, VALUE from, VALUE kept, VALUE group) {
    (void)self;
    const int reads = NUM2INT(from);
    const pid_t first = NUM2PIDT(group);
    /* The owner of the descriptor may close it in every child, so the watchdog gets a copy. The
     * copy also stays open in this process, because on some systems closing the copy would release
     * this process's locks on the file. */
    const int keeps = NIL_P(kept) ? -1 : fcntl(NUM2INT(kept), F_DUPFD_CLOEXEC, 0);
    if (!NIL_P(kept) && keeps < 0) rb_sys_fail("fcntl");
    sigset_t all, before;
    (void)sigfillset(&all);
    /* a signal just after the fork must not run Ruby's handlers in the child */
    int failed = pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t pid = failed ? -1 : fork();
    if (pid == 0) watch(reads, keeps, first);
    if (pid < 0 && !failed) failed = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* a valid mask, so this succeeds */
    if (pid < 0) rb_syserr_fail(failed, "fork");
    return PIDT2NUM(pid);
}

void binding_init_process(void) {
    VALUE module = rb_define_module_under(binding_plock, "Processes");
    rb_define_module_function(module, "terminal_group", terminal_group, 1);
    rb_define_module_function(module, "hand_terminal", hand_terminal, 2);
    rb_define_module_function(module, "ended?", child_ended, 1);
    rb_define_module_function(module, "die_with_parent", die_with_parent, 0);
    rb_define_module_function(module, "signals_blocked", signals_blocked, 0);
    rb_define_module_function(module, "default_signals", default_signals, 0);
    rb_define_module_function(module, "start_watchdog", start_watchdog, 3);
}
