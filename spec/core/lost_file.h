/* Support for the tests of a local store whose file is lost: the ways to lose it. */
#ifndef LOST_FILE_H
#define LOST_FILE_H

#include "test.h"

/* After this many microseconds, each request checks the file again, even if it only reads. */
enum { LOOKED_AT = 20000 };

/* The store's file, its folder, and a path beside the folder to which they can be moved. */
struct lost_paths {
    char folder[600], path[700], aside[700];
};
extern struct lost_paths lost;

/* Like local_begin, and also sets these paths. */
void lost_begin(void);

/* Removes everything at these paths. */
void lost_clear(void);

/* Opens a store at `path`, or in a subfolder of `folder`. A failure fails the test. */
plock_local *open_there(void);
plock_local *open_deep(void);

void is_removed(void);
void is_renamed(void);
void its_folder_is_renamed(void);
void a_copy_takes_its_place(void);
void is_truncated(void);
void its_title_is_written_over(void);
void is_marked_as_damaged(void);
void another_one_is_written_over_it(void); /* a file of another store */

struct fate {
    void (*comes)(void);
    /* a new file can be made at once, because no working process can still use the lost file */
    bool made_anew;
    const char *told;
};
enum { FATES_COUNT = 9 };
extern const struct fate FATES[FATES_COUNT];

#endif
