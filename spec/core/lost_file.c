#include "lost_file.h"

#include "local_support.h"

#include "local/local_make.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct lost_paths lost;

void lost_begin(void) {
    local_begin();
    (void)snprintf(lost.folder, sizeof lost.folder, "%s/of-the-program", local_folder());
    (void)snprintf(lost.path, sizeof lost.path, "%s/locks", lost.folder);
    (void)snprintf(lost.aside, sizeof lost.aside, "%s/aside", local_folder());
}

static int remove_entry(const char *name, const struct stat *found, int kind, struct FTW *walk) {
    (void)found, (void)kind, (void)walk;
    return remove(name);
}

void lost_clear(void) {
    const char *const all[] = {lost.folder, lost.aside};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        (void)nftw(all[i], remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void copy_over(void) {
    char bytes[4096];
    const int in = open(lost.path, O_RDONLY),
              out = open(lost.aside, O_WRONLY | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
    ssize_t got;
    while ((got = read(in, bytes, sizeof bytes)) > 0) CHECK(write(out, bytes, (size_t)got) == got);
    (void)close(in);
    (void)close(out);
    CHECK(rename(lost.aside, lost.path) == 0);
}

static void write_over(size_t offset, const void *bytes, size_t length) {
    const int fd = open(lost.path, O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, bytes, length, (off_t)offset) == (ssize_t)length);
    (void)close(fd);
}

/* --- ways to lose a file --- */

void is_removed(void) { CHECK(unlink(lost.path) == 0); }

void is_renamed(void) { CHECK(rename(lost.path, lost.aside) == 0); }

void its_folder_is_renamed(void) { CHECK(rename(lost.folder, lost.aside) == 0); }

static void its_folder_is_removed_but_for_a_link(void) {
    CHECK(link(lost.path, lost.aside) == 0);
    (void)nftw(lost.folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

void a_copy_takes_its_place(void) { copy_over(); }

void is_truncated(void) { CHECK(truncate(lost.path, 0) == 0); }

void its_title_is_written_over(void) { write_over(0, "nonsense", 8); }

void is_marked_as_damaged(void) {
    write_over(offsetof(plock__local_header, damaged), &(uint32_t){1}, sizeof(uint32_t));
}

/* Overwrites the file as cp(1) does, but does not truncate the file first. */
void another_one_is_written_over_it(void) {
    static unsigned char bytes[2 << 20];
    const plock__local_plan p = plock__local_plan_for(PLOCK_LOCAL_KEYS);
    plock_local *other;
    plock_error error;
    CHECK(p.keys < sizeof bytes);
    CHECK_STATUS(plock_local_open(&other, lost.aside, 0, &error), PLOCK_OK);
    plock_local_close(other);
    const int fd = open(lost.aside, O_RDONLY);
    CHECK(fd >= 0 && pread(fd, bytes, p.keys, 0) == (ssize_t)p.keys);
    write_over(0, bytes, p.keys);
    CHECK(pread(fd, bytes, PLOCK__LOCAL_PAGE, (off_t)p.claims) == PLOCK__LOCAL_PAGE);
    write_over(p.claims, bytes, PLOCK__LOCAL_PAGE);
    (void)close(fd);
}

const struct fate FATES[FATES_COUNT] = {
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

plock_local *open_there(void) {
    plock_local *store = NULL;
    plock_error error = {.status = PLOCK_OK};
    if (!CHECK_STATUS(plock_local_open(&store, lost.path, 0, &error), PLOCK_OK))
        fprintf(stderr, "%s\n", error.message);
    return store;
}

/* Opens a store in a subfolder of `folder`. */
plock_local *open_deep(void) {
    char within[700], deep[800];
    lost_clear();
    CHECK(snprintf(within, sizeof within, "%s/within", lost.folder) > 0 &&
          snprintf(deep, sizeof deep, "%s/locks", within) > 0);
    CHECK(mkdir(lost.folder, S_IRWXU) == 0 && mkdir(within, S_IRWXU) == 0);
    plock_local *store = NULL;
    plock_error error = {.status = PLOCK_OK};
    CHECK_STATUS(plock_local_open(&store, deep, 0, &error), PLOCK_OK);
    return store;
}
