/* What the command line needs of the system and Ruby has no method for: who has the terminal, what became of a child that is
 * not to be reaped yet, and the watchdog. */
#include "binding.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

/* --- the terminal --- */

/* terminal_group(fd) -> the process group in front of the terminal; nil: it is not our controlling terminal. */
static VALUE terminal_group(VALUE self, VALUE fd) {
    (void)self;
    const pid_t group = tcgetpgrp(NUM2INT(fd));
    return group < 0 ? Qnil : PIDT2NUM(group);
}

/* hand_terminal(fd, group) -> did it work? Who is in the background may do it, too: he is not stopped for it. */
static VALUE hand_terminal(VALUE self, VALUE fd, VALUE group) {
    (void)self;
    sigset_t stop, before;
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTTOU);
    if (pthread_sigmask(SIG_BLOCK, &stop, &before)) return Qfalse;
    const int failed = tcsetpgrp(NUM2INT(fd), NUM2PIDT(group));
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? Qfalse : Qtrue;
}

/* --- children --- */

/* ended?(pid) -> has this child ended? It stays a zombie, so that its number is nobody else's until it is reaped. */
static VALUE child_ended(VALUE self, VALUE pid) {
    (void)self;
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)NUM2PIDT(pid), &info, WEXITED | WNOHANG | WNOWAIT)) rb_sys_fail("waitid");
    return info.si_pid ? Qtrue : Qfalse;
}

/* die_with_parent: the second line, for when the watchdog is killed together with who started it. */
static VALUE die_with_parent(VALUE self) {
    (void)self;
#ifdef __linux__
    return prctl(PR_SET_PDEATHSIG, SIGKILL) ? Qfalse : Qtrue;
#else
    return Qfalse;
#endif
}

/* --- the watchdog; in a forked child of a process with threads, so nothing but system calls --- */

static const struct timespec PAUSE = {.tv_nsec = 5 * 1000 * 1000};
enum { PAUSES = 400 }; /* 2 s at most: who is dead may find nobody to reap him, and then the group never ends */

static void close_range_of(long first, long last) {
    if (first > last) return;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned)first, (unsigned)last, 0u) == 0) return;
#endif
    struct rlimit limit;
    const long end = getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > 65536 ? 65536 : (long)limit.rlim_cur;
    for (long fd = first; fd <= last && fd < end; fd++) (void)close((int)fd);
}

static void close_all_but(int one, int other) {
    const int low = one < other ? one : other, high = one < other ? other : one;
    close_range_of(0, low - 1L);
    close_range_of(low + 1L, high - 1L);
    close_range_of(high + 1L, INT32_MAX);
}

/* The group that was told last, or else the first one; 0: none is to be killed. */
static pid_t hear(int from, pid_t group) {
    pid_t told = 0;
    for (;;) {
        const ssize_t got = read(from, &told, sizeof told);
        if (got == (ssize_t)sizeof told) group = told;
        else if (got >= 0 || errno != EINTR) return group;
    }
}

/* Every signal is blocked: only SIGKILL ends it early. */
static void watch(int from, int kept, pid_t first) {
#ifdef __linux__
    (void)prctl(PR_SET_NAME, "lease-watchdog"); /* another name than the one it guards: who kills that by name kills not this, too */
#endif
    (void)setsid();
    if (chdir("/") || fcntl(from, F_SETFL, 0)) _exit(1); /* Ruby's pipes do not block */
    close_all_but(from, kept < 0 ? from : kept);
    const pid_t group = hear(from, first);
    if (group > 0)
        for (int i = 0; i < PAUSES && kill(-group, SIGKILL) == 0; i++) (void)nanosleep(&PAUSE, NULL);
    _exit(0);
}

/* start_watchdog(from, kept, group) -> its pid. What is written to the pipe is the number of a process group, as the system has
 * it in memory; when the pipe ends, because whoever wrote to it ended in whatever way, it kills the group that was written last,
 * or `group` where nothing was written, and 0 is none. It keeps what the descriptor `kept` (nil: none) stands for open until nobody of that group is left. */
static VALUE start_watchdog(VALUE self, VALUE from, VALUE kept, VALUE group) {
    (void)self;
    const int reads = NUM2INT(from);
    const pid_t first = NUM2PIDT(group);
    /* Whose it is may close it in each child. Our copy stays open: where locks are the process's own, to close it would give them up. */
    const int keeps = NIL_P(kept) ? -1 : fcntl(NUM2INT(kept), F_DUPFD_CLOEXEC, 0);
    if (!NIL_P(kept) && keeps < 0) rb_sys_fail("fcntl");
    sigset_t all, before;
    (void)sigfillset(&all);
    int failed = pthread_sigmask(SIG_SETMASK, &all, &before); /* what comes in between is not for Ruby's handlers in the child */
    const pid_t pid = failed ? -1 : fork();
    if (pid == 0) watch(reads, keeps, first);
    if (pid < 0 && !failed) failed = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* it was right when it was taken away */
    if (pid < 0) rb_syserr_fail(failed, "fork");
    return PIDT2NUM(pid);
}

void binding_init_process(void) {
    VALUE module = rb_define_module_under(binding_plock, "Processes");
    rb_define_module_function(module, "terminal_group", terminal_group, 1);
    rb_define_module_function(module, "hand_terminal", hand_terminal, 2);
    rb_define_module_function(module, "ended?", child_ended, 1);
    rb_define_module_function(module, "die_with_parent", die_with_parent, 0);
    rb_define_module_function(module, "start_watchdog", start_watchdog, 3);
}
