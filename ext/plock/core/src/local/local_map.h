/* A local store's file as this process has it: mapped, with a place among the processes that use
 * it. */
#ifndef PLOCK__LOCAL_MAP_H
#define PLOCK__LOCAL_MAP_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/heap.h"
#include "local/local_layout.h"

typedef struct plock_local_lease plock_local_lease;
typedef struct plock__local_attendant plock__local_attendant;
typedef struct plock__local_lookout plock__local_lookout;

typedef struct plock__local_map plock__local_map;

/* Claims of other processes that were admitted, and their processes. */
typedef struct plock__local_calls {
    unsigned count;
    struct {
        uint64_t process;
        uint32_t claim;
    } to[4];
} plock__local_calls;

/* Why a process has lost its file. A loss is final. The mapping then reads as zeros, so every
 * claim in it reads as free. */
enum plock__local_loss {
    PLOCK__LOCAL_IN_PLACE,
    PLOCK__LOCAL_MISSING, /* the path leads nowhere any more, or to another file */
    PLOCK__LOCAL_HARMED,  /* the file was truncated or written over */
    PLOCK__LOCAL_DAMAGED, /* another process found and marked an impossible value */
    PLOCK__LOCAL_ABSURD   /* this process found an impossible value, and has to report it first */
};

struct plock__local_map {
    /* Under the lock. */
    plock__local_map *next; /* in the list of the process's maps */
    unsigned references;    /* from stores, leases and the attendant */
    unsigned users;         /* the leases that the program holds or asks for in this map */
    /* The leases that wait or are watched: all of them, by claim, and by when they look next. */
    struct {
        plock_local_lease *first, *last, **of_claim;
        unsigned count;
        plock__heap looks;
    } registered;
    plock__local_attendant *attendant;
    plock__local_lookout *lookout;
    /* the map has a reference to itself until the process ends, because a claim in it is held
     * without a lease (plock_local_lease_forget) */
    bool pinned;

    /* Set once. */
    unsigned generation;
    int fd, folder;
    /* a descriptor lower than `fd`: at first the one that the file was mapped from, then the
     * inotify that reports the ends of processes; see plock__local_number. -1: none */
    int before;
    bool tells; /* `before` is the inotify */
    dev_t device;
    ino_t inode;
    char *path;
    plock__local_title title;
    unsigned char *bytes;
    plock__local_header *header;
    plock__local_process *processes;
    _Atomic uint32_t *buckets;
    plock__local_key *keys;
    plock__local_claim *claims;
    uint32_t key_count, claim_count, bucket_mask, slot, tag;
    uint64_t process;   /* our id */
    const char *remade; /* why this file replaced an earlier one; NULL: it did not */

    _Atomic plock_ns whole_at;   /* when the file was last checked to be whole */
    _Atomic plock_ns checked_at; /* when it was last checked to be in its place, too */
    _Atomic plock_ns walked_at;  /* when the path was last walked for that */
    /* the time of the folder's last change, when the path was last walked; 0: unknown */
    _Atomic int64_t folder_changed;
    /* why nothing in the file counts any more: one of plock__local_loss */
    atomic_int loss;

    /* In the critical section. */
    bool damaged; /* a record has an impossible value */
    /* the process that was last looked up, so that the kernel is asked once */
    uint64_t asked_about;
    bool lives;
    plock_ns swept_at;
    bool calls_later;         /* admitted waiters are woken after the critical section … */
    plock__local_calls calls; /* … and these are the waiters */
    /* the lease of each claim, if it is of this process, and waits or is watched; otherwise NULL */
    plock_local_lease **lease_of;
    /* stand-ins for records that cannot be found; writes to them have no effect */
    plock__local_key no_key;
    plock__local_claim no_claim;

    atomic_int wakers[PLOCK__LOCAL_PROCESSES]; /* of other processes; -1: not open */
    atomic_uint wakers_open;
    int ears[2]; /* our own waker: an end to read, and an end to write that keeps it open; -1: not
                    open */
};

/* --- local_file.c --- */

/* Maps the file at path, and takes a place in it. Makes the file if there is none. If this process
 * already has a map of the file, retains that instead. PLOCK_OK, PLOCK_DISCONNECTED (the path leads
 * nowhere), or as plock_local_open. */
PLOCK_MUST_USE plock_status plock__local_attach(plock__local_map **map, const char *path,
                                                unsigned keys, plock_error *error);

plock__local_map *plock__local_retain(plock__local_map *map);
void plock__local_release(plock__local_map *map);

void plock__local_in_child(void);

/* --- local_loss.c --- */

/* Looks at the path: is the file whole, and in its place? */
enum plock__local_loss plock__local_look_at_path(const plock__local_map *map);

/* Checks that the file is whole and in its place, unless that was checked a few ms ago. Call it
 * before anything is granted in the file. PLOCK_OK, PLOCK_DISCONNECTED (the path leads nowhere any
 * more, or to another file) or PLOCK_PROTOCOL; a loss is final. */
PLOCK_MUST_USE plock_status plock__local_check(plock__local_map *map, plock_ns now,
                                               plock_error *error);

/* Checks only that the file is whole, unless that was checked a moment ago: an uncontended acquire
 * and release can afford no more. Call it before the critical section is entered. */
PLOCK_MUST_USE plock_status plock__local_check_size(plock__local_map *map, plock_ns now,
                                                    plock_error *error);

/* Checks the file's size, however recent the last check is. If the file was truncated, the map is
 * lost, and its pages then read as zeros. Call it just before every access outside the critical
 * section.
 *
 * A process that touches a page that was cut off receives SIGBUS. No check rules that out: the file
 * may be truncated between the check and the access. A handler for SIGBUS could, but that signal is
 * the program's. So the access follows the check within nanoseconds, unless the system runs another
 * thread in between. In the critical section, the check may be a fifth of a millisecond old
 * (plock__local_check_size). */
void plock__local_make_readable(plock__local_map *map);

/* Marks the file as lost: nothing in it counts any more. */
void plock__local_lose(plock__local_map *map, enum plock__local_loss loss);

/* Gives up the place in a lost file if it keeps nothing but the file from being replaced. A file
 * that was truncated or written over has no record of what is held. The thread that noticed that
 * may not have given up the place yet. In a damaged file, the claims of leases that were let go of
 * stay, and count for as long as this process has its place. With the lock held. */
void plock__local_leave_lost(const plock__local_map *map);

/* Returns PLOCK_OK, or the loss that plock__local_check found before. */
PLOCK_MUST_USE plock_status plock__local_loss_of(const plock__local_map *map, plock_error *error);

static inline bool plock__local_lost(const plock__local_map *map) {
    return atomic_load_explicit(&map->loss, memory_order_relaxed) != PLOCK__LOCAL_IN_PLACE;
}

/* --- local_lookout.c --- */

/* Ends the lookout of a map that is about to be freed. With the lock held. */
void plock__local_dismiss_lookout(plock__local_map *map);

/* --- local_place.c --- */

/* Describes a failed system call. Returns PLOCK_BAD_CONFIG if another path is needed,
 * PLOCK_DISCONNECTED if the path leads nowhere, PLOCK_STORE_FULL, or PLOCK_CONNECT if a later call
 * may succeed. */
plock_status plock__local_unusable(plock_error *error, const char *path, const char *doing,
                                   int code);

/* The default place; *path is the caller's to free. PLOCK_OK, PLOCK_BAD_CONFIG or PLOCK_NO_MEMORY.
 */
PLOCK_MUST_USE plock_status plock__local_default_path(char **path, plock_error *error);

/* Gives what has just been made this mode: the umask may have taken rights of the user's own. If it
 * fails, the next use of the path does, too. */
void plock__local_set_mode(const char *path, mode_t mode);

/* Checks and opens the folder of the file, and makes the folder if there is none. *name: the
 * file's name in the folder. */
PLOCK_MUST_USE plock_status plock__local_open_folder(const char *path, int *folder,
                                                     const char **name, plock_error *error);

/* Checks that this is a regular file of the user's, which no other user can write to. */
PLOCK_MUST_USE plock_status plock__local_accept_file(int fd, const char *path, plock_error *error);

/* Takes the lock on making the file, for which *fd is opened if it is -1. The caller closes *fd.
 * PLOCK_OK, PLOCK_AGAIN (another process has the lock), or as plock__local_unusable. */
PLOCK_MUST_USE plock_status plock__local_lock_making(int *fd, int folder, const char *name,
                                                     const char *path, plock_error *error);

/* Locks the folder, because systemd-tmpfiles(8) does not clean up a locked one. The times of the
 * file do not show its use: a write through a mapping does not change them. If a clean-up is
 * running, this waits a moment for its end. The map keeps the descriptor `folder`. */
void plock__local_hold_folder(plock__local_map *map, int folder);

/* --- local_room.c --- */

/* Reserves room in the file system for the next new record. PLOCK_OK or PLOCK_STORE_FULL. */
PLOCK_MUST_USE plock_status plock__local_ready_key(plock__local_map *map, plock_error *error);
PLOCK_MUST_USE plock_status plock__local_ready_claim(plock__local_map *map, plock_error *error);

/* --- local_section.c --- */

/* Enters the store's critical section: at most one thread of all processes is inside, for some
 * hundred instructions. The size of the file is checked before (plock__local_check_size). If a
 * process died inside, the file is repaired first. PLOCK_OK: inside. PLOCK_AGAIN: another thread
 * stays inside for long; try again in a moment. PLOCK_DISCONNECTED or PLOCK_PROTOCOL as
 * plock__local_check. */
PLOCK_MUST_USE plock_status plock__local_enter(plock__local_map *map, plock_ns now,
                                               plock_error *error);

/* Leaves it. Returns PLOCK_OK, PLOCK_PROTOCOL if an impossible value was found, or as
 * plock__local_check if the file was lost in the meantime. */
PLOCK_MUST_USE plock_status plock__local_leave(plock__local_map *map, plock_error *error);

/* Returns the place of the process that is inside, from the header's `section`; UINT32_MAX: no
 * process is inside. */
uint32_t plock__local_place_inside(uint32_t section);

/* Returns the pid of the process that is inside, for messages; 0: no process is inside. */
int plock__local_insider(const plock__local_map *map);

/* --- local_process.c --- */

/* Takes a place among the processes, and the lock that goes with it. left_over: the file may be
 * from before a reboot, and partly unwritten. PLOCK_OK, PLOCK_STORE_FULL, PLOCK_SILENT, or as
 * plock__local_enter. */
PLOCK_MUST_USE plock_status plock__local_take_place(plock__local_map *map, bool left_over,
                                                    plock_error *error);

/* Gives the place up: no claim of this process counts any more. */
void plock__local_leave_place(const plock__local_map *map);

bool plock__local_alive(const plock__local_map *map, uint64_t process);
/* Does a living process have this place? */
bool plock__local_place_alive(const plock__local_map *map, uint32_t slot);
/* Does a process count as alive as long as another process has an inherited descriptor of it? */
bool plock__local_life_is_shared(void);
/* Does a living process have one of these places? */
bool plock__local_used(int fd, uint32_t first, uint32_t count);

/* A process gives a sign of life when one of its threads begins to wait, and then at least every
 * half second until no thread waits. */
void plock__local_give_sign(plock__local_map *map);

/* How long the process may still give no sign before it counts as silent (stopped or dead). 0: it
 * is silent. */
plock_ns plock__local_silent_in(const plock__local_map *map, uint64_t process);

/* Returns a descriptor that becomes readable when the process ends, or -1. */
int plock__local_death_of(const plock__local_map *map, uint64_t process);

/* Returns a descriptor that becomes readable when any process may have closed the file, or -1. It
 * becomes readable a moment before that process counts as dead. */
int plock__local_ends(plock__local_map *map);

/* Moves `map->fd` to a high descriptor number. `fd` is the descriptor that the file was mapped
 * from. It becomes `map->before`, whose lower number is for the inotify of plock__local_ends. On a
 * system without inotify it is closed. */
void plock__local_number(plock__local_map *map, int fd);

/* Opens the waker of this process. Messages that are left in it stay: they may be for the attendant
 * that another thread has just begun. Messages to a process that had this place before cause a look
 * at worst. PLOCK_OK, PLOCK_DESCRIPTORS or PLOCK_CONNECT. */
PLOCK_MUST_USE plock_status plock__local_listen(const plock__local_map *map, int ears[2],
                                                plock_error *error);

/* Reads which claims of this process others have woken it for. Returns how many; if that is
 * PLOCK__LOCAL_HEARD_MAX, there may be more. -1: another program has written there. */
enum { PLOCK__LOCAL_HEARD_MAX = 256 };
int plock__local_hear(const int ears[2], uint32_t claims[PLOCK__LOCAL_HEARD_MAX]);

/* If this many were heard without a pause, others may be missing, because the pipe was full. */
extern const unsigned PLOCK__LOCAL_HEARD_TOO_MANY;

/* Wakes the process, because one of its claims changes. */
void plock__local_wake(plock__local_map *map, uint64_t process, uint32_t claim);
void plock__local_close_wakers(plock__local_map *map);

/* --- local_repair.c --- */

/* Rebuilds links, counts and free lists from the records. In the critical section. */
void plock__local_repair(plock__local_map *map);

/* --- fault points --- */

#ifdef PLOCK_TESTING
/* Ends the process at the n-th fault point from now, or stops it, or sends it SIGUSR1; 0: at none.
 * Returns how many points the process has passed since the last call. */
unsigned long plock__local_die_at(unsigned long n);
unsigned long plock__local_stop_at(unsigned long n);
unsigned long plock__local_signal_at(unsigned long n);
void plock__local_fault(void);
/* Makes every file system seem to have this type (statfs(2)); 0: its true type. */
void plock__local_pretend_file_system(long magic);
/* Tests set a function that runs once at one of these moments: the worker thread has chosen a
 * lease and has not looked yet; an attendant has stopped and is not freed yet; a map has left the
 * process's list and is still mapped; a map has no place yet; the size of a file is about to be
 * checked; a loss is known and the place in the file is not given up yet; a lease that was left
 * alone at first was found held, and is not registered yet. */
enum plock__local_moment {
    PLOCK__LOOKS,
    PLOCK__IS_FREED,
    PLOCK__IS_UNMAPPED,
    PLOCK__TAKES_PLACE,
    PLOCK__MEASURES,
    PLOCK__LEAVES_PLACE,
    PLOCK__REGISTERS,
    PLOCK__MOMENTS
};
void plock__local_before(enum plock__local_moment moment, void (*happens)(void));
void plock__local_happens(enum plock__local_moment moment);
#define PLOCK__FAULT()        plock__local_fault()
#define PLOCK__BEFORE(moment) plock__local_happens(moment)
#else
#define PLOCK__FAULT()        ((void)0)
#define PLOCK__BEFORE(moment) ((void)0)
#endif

#endif
