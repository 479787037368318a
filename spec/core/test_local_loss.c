/* The local store when its file is lost. All leases in the file are then lost, and each of them
 * reports this. */
#include "local_support.h"

#include "local/local_lease.h"
#include "local/local_make.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if TEST_TSAN
/* Anonymous memory replaces the pages of a lost file while other threads may use them. TSan takes
 * this for a write that races with those threads. The tests here show that a process in the
 * critical section notices the loss. */
const char *__tsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__tsan_default_suppressions(void) { return "race:plock__local_lose"; }
#endif

static const plock_ns LONG = 3600 * PLOCK_SECOND;

/* After this many microseconds, even a request that only reads checks the file again. */
static const useconds_t LOOKED_AT = 20000;

static char folder[600], path[700], aside[700];

static int remove_entry(const char *name, const struct stat *found, int kind, struct FTW *walk) {
    (void)found, (void)kind, (void)walk;
    return remove(name);
}

static void clear(void) {
    const char *const all[] = {folder, aside};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        (void)nftw(all[i], remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void copy_over(void) {
    char bytes[4096];
    const int in = open(path, O_RDONLY),
              out = open(aside, O_WRONLY | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
    ssize_t got;
    while ((got = read(in, bytes, sizeof bytes)) > 0) CHECK(write(out, bytes, (size_t)got) == got);
    (void)close(in);
    (void)close(out);
    CHECK(rename(aside, path) == 0);
}

static void write_over(size_t offset, const void *bytes, size_t length) {
    const int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, bytes, length, (off_t)offset) == (ssize_t)length);
    (void)close(fd);
}

/* --- ways to lose a file --- */

static void is_removed(void) { CHECK(unlink(path) == 0); }

static void is_renamed(void) { CHECK(rename(path, aside) == 0); }

static void its_folder_is_renamed(void) { CHECK(rename(folder, aside) == 0); }

static void its_folder_is_removed_but_for_a_link(void) {
    CHECK(link(path, aside) == 0);
    (void)nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void a_copy_takes_its_place(void) { copy_over(); }

static void is_truncated(void) { CHECK(truncate(path, 0) == 0); }

static void its_title_is_written_over(void) { write_over(0, "nonsense", 8); }

static void is_marked_as_damaged(void) {
    write_over(offsetof(plock__local_header, damaged), &(uint32_t){1}, sizeof(uint32_t));
}

/* Overwrites the file as cp(1) does, but skips the moment at which cp(1) has truncated it. */
static void another_one_is_written_over_it(void) {
    static unsigned char bytes[2 << 20];
    const plock__local_plan p = plock__local_plan_for(PLOCK_LOCAL_KEYS);
    plock_local *other;
    plock_error error;
    CHECK(p.keys < sizeof bytes);
    CHECK_STATUS(plock_local_open(&other, aside, 0, &error), PLOCK_OK);
    plock_local_close(other);
    const int fd = open(aside, O_RDONLY);
    CHECK(fd >= 0 && pread(fd, bytes, p.keys, 0) == (ssize_t)p.keys);
    write_over(0, bytes, p.keys);
    CHECK(pread(fd, bytes, PLOCK__LOCAL_PAGE, (off_t)p.claims) == PLOCK__LOCAL_PAGE);
    write_over(p.claims, bytes, PLOCK__LOCAL_PAGE);
    (void)close(fd);
}

static const struct fate {
    void (*comes)(void);
    /* a new file can be made at once, because no working process can still use the lost file */
    bool made_anew;
    const char *told;
} FATES[] = {
    {is_removed, true, "was removed, renamed or replaced"},
    {is_renamed, true, "was removed, renamed or replaced"},
    {its_folder_is_renamed, true, "was removed, renamed or replaced"},
    {its_folder_is_removed_but_for_a_link, true, "was removed, renamed or replaced"},
    {a_copy_takes_its_place, true, "was removed, renamed or replaced"},
    {is_truncated, true, "truncated or written over"},
    {its_title_is_written_over, true, "truncated or written over"},
    {another_one_is_written_over_it, true, "truncated or written over"},
    {is_marked_as_damaged, true, "is damaged"},
};
enum { FATES_COUNT = sizeof FATES / sizeof *FATES };

static plock_local *open_there(void) {
    plock_local *store = NULL;
    plock_error error = {.status = PLOCK_OK};
    if (!CHECK_STATUS(plock_local_open(&store, path, 0, &error), PLOCK_OK))
        fprintf(stderr, "%s\n", error.message);
    return store;
}

/* --- a lease in a lost file --- */

/* Looks until the folder's last change is long ago. From then on, a look checks the path only if
 * the folder has changed. */
static void look_often(const plock_lease *lease) {
    for (int i = 0; i < 3; i++) {
        (void)usleep(2 * LOOKED_AT);
        CHECK(plock_lease_valid(lease));
    }
}

static void every_method_says_that_it_is_lost_after(bool many_looks) {
    for (int i = 0; i < FATES_COUNT; i++) {
        clear();
        plock_local *store = open_there();
        plock_lease *lease = local_lease(store, "k"), *other = local_lease(store, "l"),
                    *unasked = local_lease(store, "m"), *left = local_lease(store, "n");
        CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
        CHECK_STATUS(local_acquire(unasked, LONG, 0), PLOCK_OK);
        CHECK_STATUS(local_acquire(left, LONG, 0), PLOCK_OK);
        if (many_looks) look_often(lease);
        FATES[i].comes();
        (void)usleep(LOOKED_AT);
        CHECK(!plock_lease_valid(lease));
        CHECK(plock_lease_lost(lease));
        CHECK_STATUS(local_extend(lease, LONG), PLOCK_NOT_OWNER);
        CHECK(!plock_lease_valid(lease));
        /* only leases of mode 'w' or 'r' can be downgraded */
        CHECK_STATUS(plock_lease_downgrade(left), PLOCK_MISUSE);
        const plock_status acquired = local_acquire(other, LONG, 0);
        /* no lease can be acquired while another one is still held in the lost file */
        CHECK(acquired == PLOCK_DISCONNECTED || acquired == PLOCK_PROTOCOL);
        CHECK_HAS(plock_lease_error(other)->message, FATES[i].told);
        CHECK_STATUS(local_release(lease), PLOCK_NOT_OWNER);
        CHECK(plock_lease_lost(lease));
        CHECK_STATUS(plock_lease_leave(left), PLOCK_OK);
        CHECK_STATUS(local_finish(left), PLOCK_NOT_OWNER);
        plock_lease_free(lease);
        plock_lease_free(left);
        plock_lease_free(unasked); /* no operation was called on this lease since the loss */
        if (FATES[i].made_anew) CHECK_STATUS(local_acquire(other, LONG, 0), PLOCK_OK);
        plock_lease_free(other);
        plock_local_close(store);
    }
    clear();
}

static void every_method_says_that_it_is_lost(void) {
    every_method_says_that_it_is_lost_after(false);
    every_method_says_that_it_is_lost_after(true);
}

/* Opens a store in a subfolder of `folder`. */
static plock_local *open_deep(void) {
    char within[700], deep[800];
    clear();
    CHECK(snprintf(within, sizeof within, "%s/within", folder) > 0 &&
          snprintf(deep, sizeof deep, "%s/locks", within) > 0);
    CHECK(mkdir(folder, S_IRWXU) == 0 && mkdir(within, S_IRWXU) == 0);
    plock_local *store = NULL;
    plock_error error = {.status = PLOCK_OK};
    CHECK_STATUS(plock_local_open(&store, deep, 0, &error), PLOCK_OK);
    return store;
}

/* The file's own folder does not change when the folder above is renamed. */
static void the_folder_of_its_folder_is_renamed(void) {
    plock_local *store = open_deep();
    plock_lease *lease = local_lease(store, "k");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    look_often(lease);
    its_folder_is_renamed();
    const plock_ns within_a_second = plock_now() + PLOCK_SECOND;
    while (plock_lease_valid(lease) && plock_now() < within_a_second) (void)usleep(LOOKED_AT / 4);
    CHECK(plock_lease_lost(lease) && plock_now() < within_a_second);
    CHECK_STATUS(local_release(lease), PLOCK_NOT_OWNER);
    plock_lease_free(lease);
    plock_local_close(store);
    clear();
}

/* Both changes fall into one tick of the file system's clock. Before Linux 6.13, the folder's time
 * of last change then stays the same. */
static void one_change_of_the_folder_follows_another_at_once(void) {
    char other[700];
    CHECK(snprintf(other, sizeof other, "%s/other", folder) > 0);
    for (int i = 0; i < 50; i++) {
        clear();
        plock_local *store = open_there();
        plock_lease *lease = local_lease(store, "k");
        CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
        (void)usleep(LOOKED_AT / 2);
        const int fd = open(other, O_WRONLY | O_CREAT, S_IRUSR | S_IWUSR);
        CHECK(fd >= 0 && plock_lease_valid(lease));
        is_renamed();
        (void)usleep(LOOKED_AT / 2);
        CHECK(!plock_lease_valid(lease));
        (void)close(fd);
        plock_lease_free(lease);
        plock_local_close(store);
    }
    clear();
}

/* Returns true if a notice reports the loss of this lease within a second. */
static bool loss_is_told(uint64_t id) {
    const plock_ns deadline = plock_now() + PLOCK_SECOND;
    for (;;) {
        for (plock_notice *notice; (notice = plock_notice_next());) {
            const bool found = notice->kind == PLOCK_LOST && notice->id == id;
            plock_notice_free(notice);
            if (found) return true;
        }
        struct pollfd polled = {.fd = plock_notice_descriptor(), .events = POLLIN};
        if (plock_now() >= deadline || poll(&polled, 1, 50) < 0) return false;
        plock_notice_clear();
    }
}

static void it_is_told_within_a_second(void) {
    static const plock_local_acquire_options TERMS[] = {
        {.ttl = 3600 * PLOCK_SECOND, .watched = true},
        {.ttl = 3600 * PLOCK_SECOND, .renews = true},
        {.ttl = 3600 * PLOCK_SECOND, .renews = true, .automatic = true, .watched = true},
    };
    for (int i = 0; i < FATES_COUNT; i++)
        for (size_t terms = 0; terms < sizeof TERMS / sizeof *TERMS; terms++) {
            clear();
            plock_local *store = open_there();
            plock_lease *lease = local_lease(store, "k");
            CHECK_STATUS(local_acquire_as(lease, &TERMS[terms]), PLOCK_OK);
            /* Waits until the next request will check the file first. Otherwise it could read a
             * truncated page, which raises SIGBUS. */
            (void)usleep(LOOKED_AT);
            FATES[i].comes();
            if (!CHECK(loss_is_told(plock_lease_id(lease))))
                fprintf(stderr, "fate %d, terms %zu\n", i, terms);
            CHECK_STATUS(local_release(lease), PLOCK_NOT_OWNER);
            plock_lease_free(lease);
            plock_local_close(store);
        }
    clear();
}

/* --- processes that have released --- */

static void is_released(plock_lease *lease) { CHECK_STATUS(local_release(lease), PLOCK_OK); }

static void is_left(plock_lease *lease) {
    CHECK_STATUS(plock_lease_leave(lease), PLOCK_OK);
    CHECK_STATUS(local_finish(lease), PLOCK_OK);
}

static void is_let_go_of(plock_lease *lease) { plock_lease_let_go(lease, 0); }

static void is_released_and_cancelled(plock_lease *lease) {
    CHECK_STATUS(plock_lease_release(lease, 0), PLOCK_OK);
    plock_lease_cancel(lease);
}

/* The lease objects still exist, as in Ruby until they are collected. */
static void a_process_that_has_released_is_not_refused(void) {
    static const plock_local_acquire_options TERMS[] = {
        {.ttl = 3600 * PLOCK_SECOND},
        {.ttl = 3600 * PLOCK_SECOND, .watched = true},
        {.ttl = 3600 * PLOCK_SECOND, .renews = true, .automatic = true},
    };
    static void (*const ENDS[])(plock_lease * lease) = {is_released, is_let_go_of,
                                                        is_released_and_cancelled, is_left};
    enum { TERMS_COUNT = sizeof TERMS / sizeof *TERMS, ENDS_COUNT = sizeof ENDS / sizeof *ENDS };
    for (int i = 0; i < FATES_COUNT; i++) {
        /* a lease that was left stays in a damaged file, so it is not tested there */
        const size_t ends = i < 5 ? ENDS_COUNT : ENDS_COUNT - 1;
        plock_lease *leases[TERMS_COUNT][ENDS_COUNT] = {{NULL}}, *waiting;
        plock_interest interest;
        clear();
        plock_local *store = open_there();
        for (size_t terms = 0; terms < TERMS_COUNT; terms++)
            for (size_t end = 0; end < ends; end++) {
                const char key[] = {'k', (char)('0' + terms), (char)('0' + end), 0};
                leases[terms][end] = local_lease(store, key);
                CHECK_STATUS(local_acquire_as(leases[terms][end], &TERMS[terms]), PLOCK_OK);
            }
        waiting = local_lease(store, "k00");
        CHECK_STATUS(plock_local_lease_acquire(
                         waiting, &(plock_local_acquire_options){.ttl = LONG, .wait = LONG}),
                     PLOCK_OK);
        CHECK_STATUS(plock_lease_step(waiting, &interest), PLOCK_AGAIN);
        (void)usleep(300000); /* by now, automatically renewed leases are watched */
        plock_lease_cancel(waiting);
        for (size_t terms = 0; terms < TERMS_COUNT; terms++)
            for (size_t end = 0; end < ends; end++) ENDS[end](leases[terms][end]);
        /* Waits until the next request will check the file first. Otherwise it could read a
         * truncated page, which raises SIGBUS. */
        (void)usleep(LOOKED_AT);
        FATES[i].comes();
        (void)usleep(LOOKED_AT);
        plock_lease *lease = local_lease(store, "k");
        if (!CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK))
            fprintf(stderr, "fate %d: %s\n", i, plock_lease_error(lease)->message);
        plock_lease_free(lease);
        plock_lease_free(waiting);
        for (size_t terms = 0; terms < TERMS_COUNT; terms++)
            for (size_t end = 0; end < ends; end++) plock_lease_free(leases[terms][end]);
        plock_local_close(store);
    }
    clear();
}

/* --- a file that is put back --- */

static void a_file_that_was_away_for_a_second_has_lost_its_leases(void) {
    for (int deep = 0; deep < 2; deep++) {
        clear();
        plock_local *store = deep ? open_deep() : open_there();
        plock_lease *asked = local_lease(store, "k"), *released = local_lease(store, "l"),
                    *extended = local_lease(store, "m");
        plock_lease *const leases[] = {asked, released, extended};
        for (int i = 0; i < 3; i++) CHECK_STATUS(local_acquire(leases[i], LONG, 0), PLOCK_OK);
        const char *const moved = deep ? folder : path;
        CHECK(rename(moved, aside) == 0);
        (void)usleep(1000000); /* no process uses the store meanwhile */
        CHECK(rename(aside, moved) == 0);
        CHECK(!plock_lease_valid(asked) && plock_lease_lost(asked));
        CHECK_STATUS(local_release(released), PLOCK_NOT_OWNER);
        CHECK_STATUS(local_extend(extended, LONG), PLOCK_NOT_OWNER);
        for (int i = 0; i < 3; i++) plock_lease_free(leases[i]);
        plock_lease *lease = local_lease(store, "k");
        /* granted as soon as the worker thread has given up the lost file */
        CHECK_STATUS(local_acquire(lease, LONG, PLOCK_SECOND), PLOCK_OK);
        plock_lease_free(lease);
        plock_local_close(store);
    }
    clear();
}

static void acquire_soon_elsewhere(void *unused) {
    (void)unused;
    plock_lease *lease = local_lease(open_there(), "k");
    if (local_acquire(lease, LONG, PLOCK_SECOND)) _exit(1);
    plock_lease_free(lease);
}

static void a_lease_released_while_its_file_was_away_is_free_afterwards(void) {
    for (int renews = 0; renews < 2; renews++) {
        clear();
        plock_local *store = open_there();
        plock_lease *lease = local_lease(store, "k");
        CHECK_STATUS(
            local_acquire_as(lease, &(plock_local_acquire_options){.ttl = LONG, .renews = renews}),
            PLOCK_OK);
        (void)usleep(LOOKED_AT);
        is_renamed();
        (void)usleep(LOOKED_AT);
        CHECK_STATUS(local_release(lease), PLOCK_NOT_OWNER);
        CHECK(rename(aside, path) == 0);
        CHECK_INT(local_status_of(local_child(acquire_soon_elsewhere, NULL)), 0);
        plock_lease_free(lease);
        plock_local_close(store);
    }
    clear();
}

/* --- waiters --- */

static void a_waiter_waits_in_the_present_file(void) {
    for (int watched = 0; watched < 2; watched++)
        for (int i = 0; i < FATES_COUNT; i++) {
            clear();
            plock_local *store = open_there();
            plock_lease *first = local_lease(store, "k"), *second = local_lease(store, "k");
            plock_interest interest;
            CHECK_STATUS(local_acquire(first, LONG, 0), PLOCK_OK);
            CHECK_STATUS(
                plock_local_lease_acquire(
                    second,
                    &(plock_local_acquire_options){.ttl = LONG, .wait = LONG, .watched = watched}),
                PLOCK_OK);
            CHECK_STATUS(plock_lease_step(second, &interest), PLOCK_AGAIN);
            (void)usleep(LOOKED_AT);
            FATES[i].comes();
            (void)usleep(LOOKED_AT);
            CHECK_STATUS(local_release(first), PLOCK_NOT_OWNER);
            plock_lease_free(first);
            const plock_status served = local_finish(second);
            struct stat found;
            if (!CHECK_STATUS(served, PLOCK_OK)) fprintf(stderr, "fate %d\n", i);
            CHECK(plock_lease_valid(second) && stat(path, &found) == 0);
            CHECK_STATUS(local_release(second), PLOCK_OK);
            plock_lease_free(second);
            plock_local_close(store);
        }
    clear();
}

static void hold_on(void *told) {
    plock_lease *lease = local_lease(open_there(), "k");
    if (local_acquire(lease, LONG, 0)) _exit(1);
    if (write(*(const int *)told, "", 1) != 1) _exit(1);
    for (;;) (void)pause();
}

/* A lease that waits in the queue behind a holder in another process. */
struct behind {
    int told[2];
    pid_t holder;
    plock_local *store;
    plock_lease *lease;
};

static void wait_behind_a_holder(struct behind *behind, bool watched) {
    char byte;
    plock_interest interest;
    const plock_local_acquire_options options = {.ttl = LONG, .wait = LONG, .watched = watched};
    clear();
    CHECK(pipe(behind->told) == 0);
    behind->holder = local_child(hold_on, &behind->told[1]);
    CHECK(read(behind->told[0], &byte, 1) == 1);
    behind->store = open_there();
    behind->lease = local_lease(behind->store, "k");
    CHECK_STATUS(plock_local_lease_acquire(behind->lease, &options), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(behind->lease, &interest), PLOCK_AGAIN);
}

static void end_waiting(struct behind *behind) {
    CHECK(kill(behind->holder, SIGKILL) == 0);
    (void)local_status_of(behind->holder);
    for (int end = 0; end < 2; end++) (void)close(behind->told[end]);
    plock_lease_free(behind->lease);
    plock_local_close(behind->store);
}

/* Here the holder has not released the lost lease. */
static void and_does_so_within_a_second_after_damage(void) {
    static void (*const HARMS[])(void) = {is_truncated, its_title_is_written_over,
                                          another_one_is_written_over_it};
    for (size_t i = 0; i < sizeof HARMS / sizeof *HARMS; i++) {
        struct behind behind;
        wait_behind_a_holder(&behind, false);
        /* Waits until the next request will check the file first. Otherwise it could read a
         * truncated page, which raises SIGBUS. */
        (void)usleep(LOOKED_AT);
        HARMS[i]();
        const plock_ns harmed_at = plock_now();
        if (!CHECK_STATUS(local_finish(behind.lease), PLOCK_OK))
            fprintf(stderr, "harm %zu: %s\n", i, plock_lease_error(behind.lease)->message);
        CHECK(plock_now() - harmed_at < 1500 * PLOCK_MILLISECOND);
        end_waiting(&behind);
    }
    clear();
}

/* --- a truncation that is not noticed yet --- */

static void ask_just_after(void *unused) {
    (void)unused;
    plock_lease *lease = local_lease(open_there(), "k");
    if (local_acquire(lease, LONG, 0) || !plock_lease_valid(lease)) _exit(1);
    is_truncated();
    if (plock_lease_valid(lease)) _exit(2);
}

static void a_lease_that_is_asked_about_just_after_a_truncation_is_lost(void) {
    clear();
    CHECK_INT(local_status_of(local_child(ask_just_after, NULL)), 0);
    clear();
}

static void *truncate_and_wake(void *interrupt) {
    (void)usleep(LOOKED_AT); /* until the waiter sleeps */
    is_truncated();
    plock_waker_wake(interrupt);
    return NULL;
}

static void be_interrupted_just_after(void *unused) {
    (void)unused;
    pthread_t thread;
    plock_interest interest;
    plock_waker *interrupt = plock_waker_take();
    plock_local *store = open_there();
    plock_lease *first = local_lease(store, "k"), *second = local_lease(store, "k");
    const plock_local_acquire_options terms = {.ttl = LONG, .wait = LONG};
    if (local_acquire(first, LONG, 0) || plock_local_lease_acquire(second, &terms)) _exit(1);
    if (plock_lease_step(second, &interest) != PLOCK_AGAIN) _exit(2);
    if (pthread_create(&thread, NULL, truncate_and_wake, interrupt)) _exit(3);
    /* plock_await returns PLOCK_OK if another event has woken the waiter */
    while (plock_await(&interest, interrupt) == PLOCK_OK)
        if (plock_lease_step(second, &interest) != PLOCK_AGAIN) _exit(4);
    (void)pthread_join(thread, NULL);
    (void)plock_waker_clear(interrupt);
    if (plock_lease_step(second, &interest) != PLOCK_AGAIN) _exit(5);
    if (local_release(first) != PLOCK_NOT_OWNER) _exit(6);
    if (local_finish(second) || !plock_lease_valid(second)) _exit(7);
}

static void a_waiter_that_is_interrupted_just_after_a_truncation_goes_on(void) {
    clear();
    CHECK_INT(local_status_of(local_child(be_interrupted_just_after, NULL)), 0);
    clear();
}

static void put_back_in_a_moment(void *unused) {
    (void)unused;
    (void)usleep(300000);
    if (rename(aside, folder)) _exit(1);
}

/* While the folder is away, no file can be made at the path. The waiter tolerates this for a
 * second, as it tolerates a server that is away for a moment. */
static void a_folder_further_up_that_is_away_is_waited_for_a_second(void) {
    for (int back = 0; back < 2; back++) {
        plock_local *store = open_deep();
        plock_lease *first = local_lease(store, "k"), *second = local_lease(store, "k"),
                    *third = local_lease(store, "l");
        plock_interest interest;
        CHECK_STATUS(local_acquire(first, LONG, 0), PLOCK_OK);
        CHECK_STATUS(plock_local_lease_acquire(
                         second, &(plock_local_acquire_options){.ttl = LONG, .wait = LONG}),
                     PLOCK_OK);
        CHECK_STATUS(plock_lease_step(second, &interest), PLOCK_AGAIN);
        const plock_ns moved_at = plock_now();
        its_folder_is_renamed();
        (void)usleep(300000);
        CHECK_STATUS(local_release(first), PLOCK_NOT_OWNER);
        const pid_t pid = back ? local_child(put_back_in_a_moment, NULL) : 0;
        const plock_status served = local_finish(second);
        if (back) {
            CHECK_STATUS(served, PLOCK_OK);
            CHECK(plock_lease_valid(second));
            CHECK_INT(local_status_of(pid), 0);
        } else {
            CHECK_STATUS(served, PLOCK_DISCONNECTED);
            CHECK_HAS(plock_lease_error(second)->message, "No such file or directory");
            CHECK(plock_now() - moved_at > PLOCK_SECOND &&
                  plock_now() - moved_at < 3 * PLOCK_SECOND);
            CHECK_STATUS(local_acquire(third, LONG, 0), PLOCK_DISCONNECTED); /* refused at once */
        }
        plock_lease_free(first);
        plock_lease_free(second);
        plock_lease_free(third);
        plock_local_close(store);
    }
    clear();
}

/* --- processes in the critical section --- */

static void move_away_and_back(int unused) {
    const struct timespec until_noticed = {.tv_sec = 1};
    (void)unused;
    if (rename(path, aside) || nanosleep(&until_noticed, NULL) || rename(aside, path)) _exit(4);
}

struct visitor {
    unsigned long point;
    int done[2];
};

/* At step `point` of the extension, the file is moved away. A second later, when the worker thread
 * has noticed that, the file is put back. */
static void extend_meanwhile(void *context) {
    const struct visitor *v = context;
    plock_lease *lease = local_lease(open_there(), "k");
    if (local_acquire_as(lease, &(plock_local_acquire_options){.ttl = LONG, .watched = true}))
        _exit(1);
    if (signal(SIGUSR1, move_away_and_back) == SIG_ERR) _exit(2);
    (void)plock__local_signal_at(v->point);
    const bool lost = local_extend(lease, LONG) == PLOCK_NOT_OWNER && plock_lease_lost(lease);
    if (write(v->done[1], lost ? "y" : "n", 1) != 1) _exit(3);
    for (;;) (void)pause(); /* the process stays alive, and keeps its lease */
}

static void a_file_that_comes_back_can_be_used_though_a_process_was_inside(void) {
    for (unsigned long point = 1; point <= 2; point++) {
        clear();
        struct visitor v = {.point = point};
        char lost = 0;
        CHECK(pipe(v.done) == 0);
        const pid_t pid = local_child(extend_meanwhile, &v);
        CHECK(read(v.done[0], &lost, 1) == 1 && lost == 'y');
        plock_local *store = open_there();
        plock_lease *lease = local_lease(store, "l");
        CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
        CHECK(kill(pid, SIGKILL) == 0);
        (void)local_status_of(pid);
        plock_lease_free(lease);
        plock_local_close(store);
        for (int end = 0; end < 2; end++) (void)close(v.done[end]);
    }
    clear();
}

/* --- losses that are noticed at the critical section --- */

/* Delays the next check of the path, and makes a check of the size due. So a change is noticed only
 * when a process enters the critical section. */
static void is_seen_at_the_section(plock_local *store) {
    plock__local_map *map = store->map;
    atomic_store(&map->checked_at, plock_after(plock_now(), LONG));
    atomic_store(&map->whole_at, 0);
}

/* The ways to lose a file that a process notices when it enters the critical section. */
static const struct fate SEEN_INSIDE[] = {
    {is_removed, true, "was removed, renamed or replaced"},
    {a_copy_takes_its_place, true, "was removed, renamed or replaced"},
    {is_truncated, true, "truncated or written over"},
    {its_title_is_written_over, true, "truncated or written over"},
    {another_one_is_written_over_it, true, "truncated or written over"},
    {is_marked_as_damaged, true, "is damaged"},
};
enum { SEEN_INSIDE_COUNT = sizeof SEEN_INSIDE / sizeof *SEEN_INSIDE };

/* The first action of a process that has no lease in the file, and what it returned. */
struct retry {
    plock_local *store;
    plock_lease *leases[2];
    size_t refused, count, length;
    uint32_t cursor;
    plock_local_acquire_options terms;
    plock_local_person person;
    plock_error error;
    char key[PLOCK_LOCAL_KEY_MAX];
};

static plock_status by_lease(struct retry *e, plock_status begun) {
    if (begun) return begun;
    const plock_status status = local_finish(e->leases[0]);
    e->error = *plock_lease_error(e->leases[0]);
    return status;
}

static plock_status acquires(struct retry *e) {
    return by_lease(e, plock_local_lease_acquire(e->leases[0], &e->terms));
}

static plock_status adopts(struct retry *e) {
    return by_lease(e, plock_local_lease_adopt(e->leases[0], "him", 3, &e->terms));
}

static plock_status releases_for_another(struct retry *e) {
    return by_lease(e, plock_local_lease_release_owned(e->leases[0], "him", 3));
}

static plock_status repeated(struct retry *e,
                             plock_status (*step)(struct retry *e, plock_interest *interest)) {
    plock_interest interest;
    plock_status status;
    do status = step(e, &interest);
    while (status == PLOCK_AGAIN && plock_wait_poll(NULL, &interest) == PLOCK_OK);
    return status;
}

static plock_status both(struct retry *e, plock_interest *interest) {
    return plock_local_acquire_all(e->leases, 2, &e->terms, &e->refused, interest, &e->error);
}

static plock_status people(struct retry *e, plock_interest *interest) {
    return plock_local_examine(e->store, "k", 1, &e->person, 1, &e->count, interest, &e->error);
}

static plock_status keys(struct retry *e, plock_interest *interest) {
    return plock_local_next_key(e->store, &e->cursor, e->key, &e->length, interest, &e->error);
}

static plock_status end_of_all(struct retry *e, plock_interest *interest) {
    return plock_local_break(e->store, "k", 1, NULL, 0, interest, &e->error);
}

static plock_status acquires_both(struct retry *e) { return repeated(e, both); }

static plock_status examines(struct retry *e) { return repeated(e, people); }

static plock_status lists(struct retry *e) { return repeated(e, keys); }

static plock_status breaks(struct retry *e) { return repeated(e, end_of_all); }

static const struct kind {
    plock_status (*does)(struct retry *e);
    plock_local_acquire_options terms;
    plock_status in_a_new_file;
    int held; /* how many of the two leases are held after the action */
} KINDS[] = {
    {acquires, {.ttl = 3600 * PLOCK_SECOND}, PLOCK_OK, 1},
    {acquires, {.ttl = 3600 * PLOCK_SECOND, .wait = 3600 * PLOCK_SECOND}, PLOCK_OK, 1},
    {acquires, {.ttl = 3600 * PLOCK_SECOND, .watched = true}, PLOCK_OK, 1},
    {acquires, {.ttl = 3600 * PLOCK_SECOND, .renews = true, .automatic = true}, PLOCK_OK, 1},
    {acquires, {.ttl = 3600 * PLOCK_SECOND, .mode = 'r', .limit = 5}, PLOCK_OK, 1},
    {acquires_both, {.ttl = 3600 * PLOCK_SECOND}, PLOCK_OK, 2},
    {acquires_both, {.ttl = 3600 * PLOCK_SECOND, .watched = true}, PLOCK_OK, 2},
    {adopts, {.ttl = 3600 * PLOCK_SECOND}, PLOCK_NOT_OWNER, 0},
    {adopts, {.ttl = 3600 * PLOCK_SECOND, .watched = true}, PLOCK_NOT_OWNER, 0},
    {releases_for_another, {.ttl = 0}, PLOCK_NOT_OWNER, 0},
    {examines, {.ttl = 0}, PLOCK_OK, 0},
    {lists, {.ttl = 0}, PLOCK_OK, 0},
    {breaks, {.ttl = 0}, PLOCK_NOT_OWNER, 0},
};
enum { KINDS_COUNT = sizeof KINDS / sizeof *KINDS };

static struct retry retry_to(plock_local *store, const struct kind *kind) {
    return (struct retry){.store = store,
                          .leases = {local_lease(store, "k"), local_lease(store, "l")},
                          .terms = kind->terms};
}

static void is_done(const struct retry *e) {
    for (int i = 0; i < 2; i++) plock_lease_free(e->leases[i]);
}

/* Checks that the first `held` leases are held in the present file, each of them once. */
static void holds_what_it_says(const struct retry *e, int held) {
    struct stat found;
    if (!CHECK(stat(path, &found) == 0 && found.st_size > 0)) return;
    plock_local *other = open_there();
    for (int i = 0; i < 2; i++) {
        CHECK_INT(plock_lease_valid(e->leases[i]), i < held);
        CHECK_INT(local_holders(other, i ? "l" : "k"), i < held);
        CHECK_INT(local_waiters(other, i ? "l" : "k"), 0);
    }
    plock_local_close(other);
}

static void a_process_with_nothing_in_the_file_starts_again(void) {
    for (int i = 0; i < SEEN_INSIDE_COUNT; i++)
        for (int kind = 0; kind < KINDS_COUNT; kind++) {
            clear();
            plock_local *store = open_there();
            struct retry e = retry_to(store, &KINDS[kind]);
            is_seen_at_the_section(store);
            SEEN_INSIDE[i].comes();
            const plock_status status = KINDS[kind].does(&e);
            if (!CHECK_STATUS(status, KINDS[kind].in_a_new_file))
                fprintf(stderr, "fate %d, kind %d: %s\n", i, kind, e.error.message);
            CHECK_INT(e.count + e.length, 0);
            holds_what_it_says(&e, KINDS[kind].held);
            is_done(&e);
            plock_local_close(store);
        }
    clear();
}

/* If the process could already use the new file, two of its threads could hold the same lock. One
 * thread has not noticed yet that its lease in the old file is lost. The other acquires in the new
 * file. */
static void a_process_with_a_lease_in_the_file_is_refused_another(void) {
    for (int i = 0; i < SEEN_INSIDE_COUNT; i++)
        for (int kind = 0; kind < KINDS_COUNT; kind++) {
            clear();
            plock_local *store = open_there(), *second = open_there();
            plock_lease *lease = local_lease(second, "m");
            struct retry e = retry_to(store, &KINDS[kind]);
            e.terms.wait = 0;
            CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
            is_seen_at_the_section(store);
            SEEN_INSIDE[i].comes();
            const plock_status status = KINDS[kind].does(&e);
            if (!CHECK(status == PLOCK_DISCONNECTED || status == PLOCK_PROTOCOL))
                fprintf(stderr, "fate %d, kind %d: %d\n", i, kind, status);
            CHECK_HAS(e.error.message, SEEN_INSIDE[i].told);
            for (int number = 0; number < 2; number++)
                CHECK(!plock_lease_held(e.leases[number]) && !plock_lease_valid(e.leases[number]));
            CHECK(plock_lease_lost(lease));
            CHECK_STATUS(local_release(lease), PLOCK_NOT_OWNER);
            plock_lease_free(lease);
            CHECK_STATUS(KINDS[kind].does(&e), KINDS[kind].in_a_new_file);
            holds_what_it_says(&e, KINDS[kind].held);
            is_done(&e);
            plock_local_close(second);
            plock_local_close(store);
        }
    clear();
}

static plock__local_map *visited;

static void another_thread_enters(void) {
    plock_error error;
    CHECK_STATUS(plock__local_check_size(visited, plock_now(), &error), PLOCK_PROTOCOL);
}

static void a_check_that_has_only_begun_counts_for_nothing(void) {
    clear();
    plock_local *store = open_there();
    plock_error error;
    visited = store->map;
    is_seen_at_the_section(store);
    is_truncated();
    plock__local_before(PLOCK__MEASURES, another_thread_enters);
    CHECK_STATUS(plock__local_check_size(visited, plock_now(), &error), PLOCK_PROTOCOL);
    plock_local_close(store);
    clear();
}

static struct pause_of_a_thread { pthread_barrier_t begins, ends; } noticing;

static void lets_others_go_on(void) {
    (void)pthread_barrier_wait(&noticing.begins);
    (void)pthread_barrier_wait(&noticing.ends);
}

static void *notices_the_loss(void *unused) {
    another_thread_enters();
    return unused;
}

/* Another thread has noticed the loss, but has not given up the process's place in the file yet. It
 * pauses until this thread has acquired. */
static void the_place_is_given_up_by_whoever_needs_it(void) {
    for (int kind = 0; kind < KINDS_COUNT; kind++) {
        clear();
        plock_local *store = open_there();
        struct retry e = retry_to(store, &KINDS[kind]);
        pthread_t thread;
        visited = plock__local_retain(store->map);
        is_seen_at_the_section(store);
        is_truncated();
        CHECK(!pthread_barrier_init(&noticing.begins, NULL, 2) &&
              !pthread_barrier_init(&noticing.ends, NULL, 2));
        plock__local_before(PLOCK__LEAVES_PLACE, lets_others_go_on);
        CHECK(pthread_create(&thread, NULL, notices_the_loss, NULL) == 0);
        (void)pthread_barrier_wait(&noticing.begins);
        if (!CHECK_STATUS(KINDS[kind].does(&e), KINDS[kind].in_a_new_file))
            fprintf(stderr, "kind %d: %s\n", kind, e.error.message);
        (void)pthread_barrier_wait(&noticing.ends);
        CHECK(pthread_join(thread, NULL) == 0);
        holds_what_it_says(&e, KINDS[kind].held);
        is_done(&e);
        plock__local_release(visited);
        plock_local_close(store);
        CHECK(!pthread_barrier_destroy(&noticing.begins) &&
              !pthread_barrier_destroy(&noticing.ends));
    }
    clear();
}

/* The waiter was refused in the lost file, but has not asked in the present one. */
static void a_waiter_whose_patience_ends_as_the_file_is_lost_asks_once_more(void) {
    for (int i = 0; i < 2;
         i++) /* the other losses leave a damaged file, which other processes may still need */
        for (int watched = 0; watched < 2; watched++) {
            struct behind behind;
            wait_behind_a_holder(&behind, watched);
            is_seen_at_the_section(behind.store);
            SEEN_INSIDE[i].comes();
            plock_lease_hurry(behind.lease, plock_now());
            if (!CHECK_STATUS(local_finish(behind.lease), PLOCK_OK))
                fprintf(stderr, "fate %d: %s\n", i, plock_lease_error(behind.lease)->message);
            CHECK(plock_lease_valid(behind.lease));
            CHECK_INT(local_holders(behind.store, "k"), 1);
            end_waiting(&behind);
        }
    clear();
}

static void is_removed_long_after_it_was_looked_at(void) {
    (void)usleep(1000); /* the last look is no longer recent enough */
    is_removed();
}

static void a_file_removed_while_it_is_opened_is_replaced(void) {
    for (int kind = 0; kind < KINDS_COUNT; kind++) {
        clear();
        plock_local_close(open_there());
        plock__local_before(PLOCK__TAKES_PLACE, is_removed_long_after_it_was_looked_at);
        plock_local *store = open_there();
        if (!store) continue;
        struct retry e = retry_to(store, &KINDS[kind]);
        is_removed();
        (void)usleep(LOOKED_AT);
        plock_local_close(open_there());
        plock__local_before(PLOCK__TAKES_PLACE, is_removed_long_after_it_was_looked_at);
        if (!CHECK_STATUS(KINDS[kind].does(&e), KINDS[kind].in_a_new_file))
            fprintf(stderr, "kind %d: %s\n", kind, e.error.message);
        holds_what_it_says(&e, KINDS[kind].held);
        is_done(&e);
        plock_local_close(store);
    }
    clear();
}

static void is_removed_and_missed(int unused) {
    (void)unused;
    if (unlink(path)) _exit(4);
    plock__local_lose(visited, PLOCK__LOCAL_MISSING);
}

/* Loses the file at step `point` of the action, as if another thread noticed the loss and replaced
 * the pages. Returns false if the action has fewer steps. */
static bool who_is_inside_begins_afresh_at(unsigned long point, const struct kind *kind) {
    clear();
    plock_local *store = open_there();
    struct retry e = retry_to(store, kind);
    visited = plock__local_retain(store->map);
    (void)plock__local_signal_at(point);
    const plock_status status = kind->does(&e);
    const bool reached = plock__local_signal_at(0) >= point;
    if (!CHECK_STATUS(status, kind->in_a_new_file))
        fprintf(stderr, "kind %d, point %lu: %s\n", (int)(kind - KINDS), point, e.error.message);
    CHECK_INT(plock__local_lost(visited), reached);
    holds_what_it_says(&e, kind->held);
    is_done(&e);
    plock__local_release(visited);
    plock_local_close(store);
    return reached;
}

static void a_process_inside_when_the_file_is_lost_starts_again(void) {
    CHECK(signal(SIGUSR1, is_removed_and_missed) != SIG_ERR);
    for (int kind = 0; kind < KINDS_COUNT; kind++) {
        unsigned long point = 1;
        /* the worker thread's steps would also be counted, even after the action */
        if (KINDS[kind].terms.watched) continue;
        while (who_is_inside_begins_afresh_at(point, &KINDS[kind])) point++;
        CHECK(point > 1);
    }
    CHECK(signal(SIGUSR1, SIG_DFL) != SIG_ERR);
    clear();
}

/* --- events that lose nothing --- */

static void a_folder_that_may_not_be_searched_for_a_while_takes_nothing_away(void) {
    if (geteuid() == 0) return; /* root may search any folder */
    clear();
    plock_local *store = open_there();
    plock_lease *lease = local_lease(store, "k");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    CHECK(chmod(folder, 0) == 0);
    (void)usleep(LOOKED_AT);
    CHECK(plock_lease_valid(lease));
    CHECK(chmod(folder, S_IRWXU) == 0);
    CHECK_STATUS(local_release(lease), PLOCK_OK);
    plock_lease_free(lease);
    plock_local_close(store);
    clear();
}

int main(void) {
    local_begin();
    (void)snprintf(folder, sizeof folder, "%s/of-the-program", local_folder());
    (void)snprintf(path, sizeof path, "%s/locks", folder);
    (void)snprintf(aside, sizeof aside, "%s/aside", local_folder());
    RUN(every_method_says_that_it_is_lost);
    RUN(the_folder_of_its_folder_is_renamed);
    RUN(one_change_of_the_folder_follows_another_at_once);
    RUN(it_is_told_within_a_second);
    RUN(a_process_that_has_released_is_not_refused);
    RUN(a_file_that_was_away_for_a_second_has_lost_its_leases);
    RUN(a_lease_released_while_its_file_was_away_is_free_afterwards);
    RUN(a_waiter_waits_in_the_present_file);
    RUN(and_does_so_within_a_second_after_damage);
    RUN(a_lease_that_is_asked_about_just_after_a_truncation_is_lost);
    RUN(a_waiter_that_is_interrupted_just_after_a_truncation_goes_on);
    RUN(a_folder_further_up_that_is_away_is_waited_for_a_second);
    RUN(a_file_that_comes_back_can_be_used_though_a_process_was_inside);
    RUN(a_check_that_has_only_begun_counts_for_nothing);
    RUN(the_place_is_given_up_by_whoever_needs_it);
    RUN(a_process_with_nothing_in_the_file_starts_again);
    RUN(a_process_with_a_lease_in_the_file_is_refused_another);
    RUN(a_file_removed_while_it_is_opened_is_replaced);
    RUN(a_waiter_whose_patience_ends_as_the_file_is_lost_asks_once_more);
    RUN(a_process_inside_when_the_file_is_lost_starts_again);
    RUN(a_folder_that_may_not_be_searched_for_a_while_takes_nothing_away);
    local_end();
    return test_end("local_loss");
}
