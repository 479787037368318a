#include "local_support.h"

#include "local/local_lease.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[256], path[512];

void local_begin(void) {
    const char *temporary = getenv("TMPDIR");
    (void)snprintf(folder, sizeof folder, "%s/plock-local-XXXXXX", temporary ? temporary : "/tmp");
    CHECK(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof path, "%s/locks", folder);
}

/* Joins the worker thread. Otherwise TSan would report the ended thread as a leak, in this process
 * and in children that are forked later. ASan has another problem. While a thread begins or ends,
 * it may be inside ASan's allocator, and a fork does not wait for that. In the child, the allocator
 * would stay locked (test.h). */
static void join_thread(void) {
    enum { ROUNDS = 3 }; /* a job that is submitted while the thread ends starts another thread */
    for (int i = 0; i < ROUNDS && (TEST_TSAN || TEST_ASAN); i++)
        plock_drain(plock_now() + PLOCK_SECOND);
}

void local_end(void) {
    DIR *listing = opendir(folder);
    char name[1024];
    for (const struct dirent *entry; listing && (entry = readdir(listing));) {
        if (entry->d_name[0] == '.') continue;
        (void)snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
        CHECK(unlink(name) == 0);
    }
    if (listing) (void)closedir(listing);
    CHECK(rmdir(folder) == 0);
    plock_drain(plock_now() + PLOCK_SECOND);
    join_thread();
}

const char *local_path(void) { return path; }

const char *local_folder(void) { return folder; }

plock_local *local_open_keys(unsigned keys) {
    plock_local *store = NULL;
    plock_error error = {.status = PLOCK_OK};
    if (!CHECK_STATUS(plock_local_open(&store, path, keys, &error), PLOCK_OK))
        fprintf(stderr, "%s\n", error.message);
    return store;
}

plock_local *local_open(void) { return local_open_keys(0); }

plock_lease *local_lease(plock_local *store, const char *key) {
    plock_lease *lease = NULL;
    CHECK_STATUS(plock_local_lease_new(&lease, store, key, strlen(key)), PLOCK_OK);
    return lease;
}

plock__local_map *local_map_of(plock_local *store) {
    plock__local_map *map;
    plock_interest interest;
    plock_error error;
    CHECK_STATUS(plock__local_use(store, &map, plock_now(), &interest, &error), PLOCK_OK);
    return map;
}

plock_status local_finish(plock_lease *lease) {
    const plock_operation operation = plock_lease_operation(lease);
    return plock_carry_on(&operation, plock_wait_poll, NULL);
}

plock_status local_acquire_as(plock_lease *lease, const plock_local_acquire_options *terms) {
    const plock_status status = plock_local_lease_acquire(lease, terms);
    return status ? status : local_finish(lease);
}

plock_status local_acquire(plock_lease *lease, plock_ns ttl, plock_ns wait) {
    return local_acquire_as(lease, &(plock_local_acquire_options){.ttl = ttl, .wait = wait});
}

plock_status local_release(plock_lease *lease) {
    const plock_status status = plock_lease_release(lease, 0);
    return status ? status : local_finish(lease);
}

plock_status local_extend(plock_lease *lease, plock_ns ttl) {
    const plock_status status = plock_lease_extend(lease, ttl);
    return status ? status : local_finish(lease);
}

plock_ns local_soon(void) { return plock_after(plock_now(), PLOCK_LOCAL_PATIENCE); }

plock_status local_break(plock_local *store, const char *key) {
    const plock_ns deadline = local_soon();
    plock_error error;
    plock_interest interest;
    plock_status status;
    do status = plock_local_break(store, key, strlen(key), NULL, 0, deadline, &interest, &error);
    while (status == PLOCK_AGAIN && plock_wait_poll(NULL, &interest) == PLOCK_OK);
    return status;
}

static int count(plock_local *store, const char *key, bool waiting) {
    const plock_ns deadline = local_soon();
    plock_local_person people[64];
    plock_error error;
    plock_interest interest;
    size_t found = 0;
    plock_status status;
    do
        status = plock_local_examine(store, key, strlen(key), people, 64, &found, deadline,
                                     &interest, &error);
    while (status == PLOCK_AGAIN && plock_wait_poll(NULL, &interest) == PLOCK_OK);
    if (status) return -1;
    int counted = 0;
    for (size_t i = 0; i < found && i < 64; i++) counted += people[i].waits == waiting;
    return counted;
}

int local_holders(plock_local *store, const char *key) { return count(store, key, false); }

int local_waiters(plock_local *store, const char *key) { return count(store, key, true); }

bool local_await_waiters(plock_local *store, const char *key, int wanted) {
    unsigned rounds = 0;
    while (local_waiters(store, key) != wanted)
        if (!test_patient(&rounds)) return CHECK_INT(local_waiters(store, key), wanted);
    return true;
}

pid_t local_child(void (*body)(void *), void *context) {
    (void)fflush(NULL);
    join_thread();
    const pid_t child = fork();
    if (child == 0) {
        (void)alarm(60);
        body(context);
        (void)fflush(NULL);
        join_thread();
        _exit(0);
    }
    return child;
}

int local_status_of(pid_t child) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}
