/* The local store after its file was lost: the same process or another process opens the path
 * again. */
#include "local_support.h"

#include "base/platform.h"
#include "local/local_lease.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#if TEST_TSAN
/* test_local_loss.c gives the reason for this suppression. */
const char *__tsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__tsan_default_suppressions(void) { return "race:plock__local_lose"; }
#endif

static const plock_ns LONG = 3600 * PLOCK_SECOND, SHORT = 100 * PLOCK_MILLISECOND;

/* After this many microseconds, each request checks the file again, even if it only reads. */
static const useconds_t LOOKED_AT = 20000;

static void write_over(size_t offset, const void *bytes, size_t length) {
    const int fd = open(local_path(), O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, bytes, length, (off_t)offset) == (ssize_t)length);
    (void)close(fd);
}

static void is_truncated(void) { CHECK(truncate(local_path(), 0) == 0); }

static void its_title_is_written_over(void) { write_over(0, "nonsense", 8); }

static void is_marked_as_damaged(void) {
    write_over(offsetof(plock__local_header, damaged), &(uint32_t){1}, sizeof(uint32_t));
}

static void is_moved_away_and_back(const plock_lease *missed_by) {
    char aside[600];
    CHECK(snprintf(aside, sizeof aside, "%s.aside", local_path()) > 0);
    CHECK(rename(local_path(), aside) == 0);
    (void)usleep(LOOKED_AT);
    CHECK(plock_lease_lost(missed_by));
    CHECK(rename(aside, local_path()) == 0);
}

static void serves(plock_local *store) {
    plock_lease *lease = local_lease(store, "k");
    if (!CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK))
        fprintf(stderr, "%s\n", plock_lease_error(lease)->message);
    plock_lease_free(lease);
}

static void cannot_be_opened(plock_status expected, const char *why) {
    plock_local *store = NULL;
    plock_error error = {.status = PLOCK_OK};
    CHECK_STATUS(plock_local_open(&store, local_path(), 0, &error), expected);
    CHECK_HAS(error.message, why);
    plock_local_close(store);
}

static plock_status opened(void) {
    plock_local *store = NULL;
    plock_error error;
    const plock_status status = plock_local_open(&store, local_path(), 0, &error);
    plock_local_close(store);
    return status;
}

/* --- another store of the process uses the file --- */

static void (*const HARMS[])(void) = {is_truncated, its_title_is_written_over};
enum { HARMS_COUNT = sizeof HARMS / sizeof *HARMS };

static void a_store_that_is_not_used_keeps_no_file_from_another(void) {
    for (int i = 0; i < HARMS_COUNT; i++) {
        plock_local *unused = local_open();
        HARMS[i]();
        plock_local *store = local_open();
        serves(store);
        serves(unused);
        plock_local_close(store);
        plock_local_close(unused);
    }
}

static void a_process_with_a_lease_in_a_harmed_file_opens_no_other(void) {
    for (int i = 0; i < HARMS_COUNT; i++) {
        plock_local *store = local_open();
        plock_lease *lease = local_lease(store, "k");
        CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
        HARMS[i]();
        cannot_be_opened(PLOCK_PROTOCOL, "its file was truncated or written over");
        CHECK(plock__local_lost(store->map));
        CHECK_STATUS(local_release(lease), PLOCK_NOT_OWNER);
        plock_local *other = local_open();
        serves(other);
        plock_local_close(other);
        plock_lease_free(lease);
        plock_local_close(store);
    }
}

/* On a system where file locks belong to processes, closing the lost map would drop the lock of the
 * new map. */
static void a_lost_file_that_is_put_back_is_not_used_until_its_leases_are_let_go_of(void) {
    plock_local *store = local_open(), *other = local_open();
    plock_lease *lease = local_lease(store, "k"), *second = local_lease(other, "l");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    plock_local_disconnect(other);
    is_moved_away_and_back(lease);
    CHECK_STATUS(local_acquire(second, LONG, 0), PLOCK_DISCONNECTED);
    CHECK_HAS(plock_lease_error(second)->message, "was removed, renamed or replaced");
    cannot_be_opened(PLOCK_DISCONNECTED, "was removed, renamed or replaced");
    CHECK_STATUS(local_release(lease), PLOCK_NOT_OWNER);
    CHECK_STATUS(local_acquire(second, LONG, PLOCK_SECOND), PLOCK_OK);
    CHECK(plock_lease_valid(second));
    plock_lease_free(lease);
    plock_lease_free(second);
    plock_local_close(other);
    plock_local_close(store);
}

static void be_refused(void *unused) {
    (void)unused;
    plock_lease *lease = local_lease(local_open(), "l");
    if (local_acquire(lease, LONG, 0) != PLOCK_REFUSED) _exit(1);
}

/* The lost map exists as long as a job uses it. Here the test uses it in place of a job. */
static void the_end_of_a_lost_map_takes_nothing_from_the_next_one(void) {
    plock_local *store = local_open();
    plock_lease *lease = local_lease(store, "k"), *second = local_lease(store, "l");
    CHECK_STATUS(local_acquire(lease, LONG, 0), PLOCK_OK);
    plock__local_map *lost = plock__local_retain(store->map);
    is_moved_away_and_back(lease);
    CHECK_STATUS(local_release(lease), PLOCK_NOT_OWNER);
    const plock_status status = local_acquire(second, LONG, 0);
    if (!plock__local_life_is_shared()) CHECK_STATUS(status, PLOCK_DISCONNECTED);
    plock__local_release(lost);
    if (status) CHECK_STATUS(local_acquire(second, LONG, 0), PLOCK_OK);
    CHECK_INT(local_status_of(local_child(be_refused, NULL)), 0);
    plock_lease_free(lease);
    plock_lease_free(second);
    plock_local_close(store);
}

/* --- claims that count in a damaged file --- */

static void a_claim_of_an_unused_map_does_not_count(void) {
    static const plock_local_acquire_options TERMS[] = {
        {.ttl = 3600 * PLOCK_SECOND},
        {.ttl = 3600 * PLOCK_SECOND, .watched = true},
        {.ttl = 3600 * PLOCK_SECOND, .renews = true},
    };
    for (size_t i = 0; i < sizeof TERMS / sizeof *TERMS; i++) {
        plock_local *store = local_open();
        plock_lease *lease = local_lease(store, "k");
        CHECK_STATUS(local_acquire_as(lease, &TERMS[i]), PLOCK_OK);
        plock__local_map *of_a_job = plock__local_retain(store->map);
        is_marked_as_damaged();
        (void)usleep(LOOKED_AT);
        CHECK_STATUS(local_release(lease), PLOCK_NOT_OWNER);
        serves(store);
        plock__local_release(of_a_job);
        plock_lease_free(lease);
        plock_local_close(store);
    }
}

struct holder {
    plock_local_acquire_options terms;
    bool forgets;
    int ready[2];
};

static void hold_on(const struct holder *holder) {
    plock_lease *lease = local_lease(local_open(), "k");
    CHECK_STATUS(local_acquire_as(lease, &holder->terms), PLOCK_OK);
    if (!holder->forgets) return;
    plock_local_lease_forget(lease);
    plock_lease_free(lease);
}

static void hold_on_there(void *context) {
    const struct holder *holder = context;
    hold_on(holder);
    if (write(holder->ready[1], "", 1) != 1) _exit(1);
    for (;;) (void)pause();
}

static pid_t start(struct holder *holder) {
    char byte;
    CHECK(pipe(holder->ready) == 0);
    const pid_t pid = local_child(hold_on_there, holder);
    CHECK(read(holder->ready[0], &byte, 1) == 1);
    return pid;
}

static void stop(const struct holder *holder, pid_t pid) {
    CHECK(kill(pid, SIGKILL) == 0);
    (void)local_status_of(pid);
    for (int end = 0; end < 2; end++) (void)close(holder->ready[end]);
}

static bool can_be_opened_soon(void) {
    unsigned rounds = 0;
    plock_status status;
    while ((status = opened()) == PLOCK_PROTOCOL && test_patient(&rounds)) continue;
    return CHECK_STATUS(status, PLOCK_OK);
}

static void a_lease_that_has_ended_by_time_does_not_count(void) {
    struct holder holder = {.terms = {.ttl = SHORT}, .forgets = true};
    const pid_t pid = start(&holder);
    is_marked_as_damaged();
    CHECK(can_be_opened_soon());
    CHECK_INT(kill(pid, 0), 0);
    stop(&holder, pid);
}

static void nor_does_one_of_this_process(void) {
    hold_on(&(struct holder){.terms = {.ttl = SHORT}, .forgets = true});
    is_marked_as_damaged();
    CHECK(can_be_opened_soon());
}

/* A renewed claim ends only with its process. */
static void but_one_that_no_other_process_would_end_does(void) {
    static const struct holder HOLDERS[] = {
        {.terms = {.ttl = 3600 * PLOCK_SECOND}, .forgets = true},
        {.terms = {.ttl = 3600 * PLOCK_SECOND}},
        {.terms = {.ttl = 100 * PLOCK_MILLISECOND, .renews = true, .watched = true}},
        {.terms = {.ttl = 100 * PLOCK_MILLISECOND, .renews = true, .automatic = true}},
    };
    for (size_t i = 0; i < sizeof HOLDERS / sizeof *HOLDERS; i++) {
        struct holder holder = HOLDERS[i];
        const pid_t pid = start(&holder);
        is_marked_as_damaged();
        (void)usleep((useconds_t)(2 * SHORT / 1000));
        cannot_be_opened(PLOCK_PROTOCOL, "other processes use it");
        stop(&holder, pid);
        CHECK_STATUS(opened(), PLOCK_OK);
    }
}

/* While another process makes the file, a call waits through its interest, and does not block. */
static void a_file_that_is_being_made_blocks_no_thread(void) {
    char beside[600];
    plock_local_person people[1];
    plock_interest interest;
    plock_error error;
    size_t found;
    plock_local *store = local_open();
    serves(store);
    CHECK(snprintf(beside, sizeof beside, "%s.lock", local_path()) > 0);
    const int making = open(beside, O_RDWR);
    CHECK(flock(making, LOCK_EX | LOCK_NB) == 0 && unlink(local_path()) == 0);
    (void)usleep(LOOKED_AT);
    plock_lease *lease = local_lease(store, "k"), *another = local_lease(store, "l");
    const plock_local_acquire_options terms = {.ttl = LONG};
    CHECK_STATUS(plock_local_lease_acquire(lease, &terms), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    CHECK(interest.deadline > 0 && interest.deadline < plock_now() + PLOCK_SECOND);
    CHECK_STATUS(plock_local_acquire_all(&another, 1, &terms, &found, &interest, &error),
                 PLOCK_AGAIN);
    CHECK_STATUS(
        plock_local_examine(store, "k", 1, people, 1, &found, local_soon(), &interest, &error),
        PLOCK_AGAIN);
    (void)close(making);
    CHECK_STATUS(local_finish(lease), PLOCK_OK);
    CHECK_STATUS(plock_local_acquire_all(&another, 1, &terms, &found, &interest, &error), PLOCK_OK);
    CHECK_INT(local_holders(store, "k"), 1);
    CHECK_STATUS(local_release(lease), PLOCK_OK);
    CHECK_STATUS(local_release(another), PLOCK_OK);
    plock_lease_free(lease);
    plock_lease_free(another);
    plock_local_close(store);
}

int main(void) {
    local_begin();
    RUN(a_file_that_is_being_made_blocks_no_thread);
    RUN(a_store_that_is_not_used_keeps_no_file_from_another);
    RUN(a_process_with_a_lease_in_a_harmed_file_opens_no_other);
    RUN(a_lost_file_that_is_put_back_is_not_used_until_its_leases_are_let_go_of);
    RUN(the_end_of_a_lost_map_takes_nothing_from_the_next_one);
    RUN(a_claim_of_an_unused_map_does_not_count);
    RUN(a_lease_that_has_ended_by_time_does_not_count);
    RUN(nor_does_one_of_this_process);
    RUN(but_one_that_no_other_process_would_end_does);
    local_end();
    return test_end("local_reopened");
}
