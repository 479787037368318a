/* The local store when its file is lost. All leases in the file are then lost, and each of them
 * reports this. */
#include "lost_file.h"

#include "local_support.h"

#include "local/local_lease.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#if TEST_TSAN
/* Anonymous memory replaces the pages of a lost file while other threads may use them. TSan would
 * report a race, so it is told to ignore plock__local_lose. The tests in this file show that a
 * process in the critical section notices the loss. */
const char *__tsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__tsan_default_suppressions(void) { return "race:plock__local_lose"; }
#endif

static const plock_ns LONG = 3600 * PLOCK_SECOND;

/* --- a lease in a lost file --- */

/* Checks the lease until the folder's last change is long ago. From then on, a check looks at the
 * path only if the folder has changed. */
static void look_often(const plock_lease *lease) {
    for (int i = 0; i < 3; i++) {
        (void)usleep(2 * LOOKED_AT);
        CHECK(plock_lease_valid(lease));
    }
}

static void every_method_says_that_it_is_lost_after(bool many_looks) {
    for (int i = 0; i < FATES_COUNT; i++) {
        lost_clear();
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
        plock_lease_free(unasked); /* the test has not used this lease since the loss */
        if (FATES[i].made_anew) CHECK_STATUS(local_acquire(other, LONG, 0), PLOCK_OK);
        plock_lease_free(other);
        plock_local_close(store);
    }
    lost_clear();
}

static void every_method_says_that_it_is_lost(void) {
    every_method_says_that_it_is_lost_after(false);
    every_method_says_that_it_is_lost_after(true);
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
    lost_clear();
}

/* Both changes fall into one tick of the file system's clock. Before Linux 6.13, the folder's time
 * of last change then stays the same. */
static void one_change_of_the_folder_follows_another_at_once(void) {
    char other[700];
    CHECK(snprintf(other, sizeof other, "%s/other", lost.folder) > 0);
    for (int i = 0; i < 50; i++) {
        lost_clear();
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
    lost_clear();
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
            lost_clear();
            plock_local *store = open_there();
            plock_lease *lease = local_lease(store, "k");
            CHECK_STATUS(local_acquire_as(lease, &TERMS[terms]), PLOCK_OK);
            /* After this pause, a request checks the file before it reads from it. Otherwise, the
             * request could read a truncated page, which raises SIGBUS. */
            (void)usleep(LOOKED_AT);
            FATES[i].comes();
            if (!CHECK(loss_is_told(plock_lease_id(lease))))
                fprintf(stderr, "fate %d, terms %zu\n", i, terms);
            CHECK_STATUS(local_release(lease), PLOCK_NOT_OWNER);
            plock_lease_free(lease);
            plock_local_close(store);
        }
    lost_clear();
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
        /* a lease that was left to other processes stays in a damaged file, so is_left is not
         * tested with the fates that damage the file */
        const size_t ends = i < 5 ? ENDS_COUNT : ENDS_COUNT - 1;
        plock_lease *leases[TERMS_COUNT][ENDS_COUNT] = {{NULL}}, *waiting;
        plock_interest interest;
        lost_clear();
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
        /* After this pause, a request checks the file before it reads from it. Otherwise, the
         * request could read a truncated page, which raises SIGBUS. */
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
    lost_clear();
}

/* --- a file that is put back --- */

static void a_file_that_was_away_for_a_second_has_lost_its_leases(void) {
    for (int deep = 0; deep < 2; deep++) {
        lost_clear();
        plock_local *store = deep ? open_deep() : open_there();
        plock_lease *asked = local_lease(store, "k"), *released = local_lease(store, "l"),
                    *extended = local_lease(store, "m");
        plock_lease *const leases[] = {asked, released, extended};
        for (int i = 0; i < 3; i++) CHECK_STATUS(local_acquire(leases[i], LONG, 0), PLOCK_OK);
        const char *const moved = deep ? lost.folder : lost.path;
        CHECK(rename(moved, lost.aside) == 0);
        (void)usleep(1000000); /* no process uses the store meanwhile */
        CHECK(rename(lost.aside, moved) == 0);
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
    lost_clear();
}

static void acquire_soon_elsewhere(void *unused) {
    (void)unused;
    plock_lease *lease = local_lease(open_there(), "k");
    if (local_acquire(lease, LONG, PLOCK_SECOND)) _exit(1);
    plock_lease_free(lease);
}

static void a_lease_released_while_its_file_was_away_is_free_afterwards(void) {
    for (int renews = 0; renews < 2; renews++) {
        lost_clear();
        plock_local *store = open_there();
        plock_lease *lease = local_lease(store, "k");
        CHECK_STATUS(
            local_acquire_as(lease, &(plock_local_acquire_options){.ttl = LONG, .renews = renews}),
            PLOCK_OK);
        (void)usleep(LOOKED_AT);
        is_renamed();
        (void)usleep(LOOKED_AT);
        CHECK_STATUS(local_release(lease), PLOCK_NOT_OWNER);
        CHECK(rename(lost.aside, lost.path) == 0);
        CHECK_INT(local_status_of(local_child(acquire_soon_elsewhere, NULL)), 0);
        plock_lease_free(lease);
        plock_local_close(store);
    }
    lost_clear();
}

/* --- events that lose nothing --- */

static void a_folder_that_may_not_be_searched_for_a_while_takes_nothing_away(void) {
    if (geteuid() == 0) return; /* root may search any folder */
    lost_clear();
    plock_local *store = open_there();
    plock_lease *lease = local_lease(store, "k");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    CHECK(chmod(lost.folder, 0) == 0);
    (void)usleep(LOOKED_AT);
    CHECK(plock_lease_valid(lease));
    CHECK(chmod(lost.folder, S_IRWXU) == 0);
    CHECK_STATUS(local_release(lease), PLOCK_OK);
    plock_lease_free(lease);
    plock_local_close(store);
    lost_clear();
}

int main(void) {
    lost_begin();
    RUN(every_method_says_that_it_is_lost);
    RUN(the_folder_of_its_folder_is_renamed);
    RUN(one_change_of_the_folder_follows_another_at_once);
    RUN(it_is_told_within_a_second);
    RUN(a_process_that_has_released_is_not_refused);
    RUN(a_file_that_was_away_for_a_second_has_lost_its_leases);
    RUN(a_lease_released_while_its_file_was_away_is_free_afterwards);
    RUN(a_folder_that_may_not_be_searched_for_a_while_takes_nothing_away);
    local_end();
    return test_end("local_loss");
}
