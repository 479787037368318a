/* A map: a local store's file that this process has mapped. The process also has a place in the
 * file, among the processes that use it. */
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

/* Claims of other processes that a release has admitted. Their processes must be woken. */
typedef struct plock__local_calls {
    unsigned count;
    struct {
        uint64_t process;
        uint32_t claim;
    } to[4];
} plock__local_calls;

/* Why a process has lost its file. A loss is final. After a loss, the mapping reads as zeros, so
 * every claim in it reads as free. */
enum plock__local_loss {
    PLOCK__LOCAL_IN_PLACE,
    PLOCK__LOCAL_MISSING, /* The path no longer leads to a file, or leads to another one. */
    PLOCK__LOCAL_HARMED,  /* The file was truncated or written over. */
    PLOCK__LOCAL_DAMAGED, /* Another process has marked the file as damaged. */
    PLOCK__LOCAL_ABSURD   /* This process found an impossible value. Operations report that, and do
                           * not start over. */
};

struct plock__local_map {
    /* Protected by the mutex. */
    plock__local_map *next; /* The next map in this process's list. */
    unsigned references;    /* Held by stores, leases, the attendant and, if pinned, the map. */
    unsigned users;         /* How many leases in this map the program holds or is acquiring. */
    /* The leases that wait or are watched: in a list, in a table by their claims (`of_claim`), and
     * in a heap by when the attendant next looks on their behalf (`looks`). */
    struct {
        plock_local_lease *first, *last, **of_claim;
        unsigned count;
        plock__heap looks;
    } registered;
    plock__local_attendant *attendant;
    plock__local_lookout *lookout;
    /* true: the map keeps a reference to itself until the process ends, because a claim is held
     * without a lease object (plock_local_lease_forget). */
    bool pinned;

    /* Set while the file is opened. The worker thread later sets `tells`. */
    unsigned generation;
    int fd, folder;
    /* At first, the descriptor from which the file was mapped. Later, plock__local_ends gives its
     * number to an inotify, which needs a low one (local_process.c). -1: none. */
    int before;
    bool tells; /* true: `before` is the inotify, and no longer the file */
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
    uint64_t process; /* the id of this process */
    /* why this file replaced an earlier one; NULL: it replaced none, or one from before a reboot */
    const char *remade;

    _Atomic plock_ns whole_at;   /* When the file was last checked to be whole. */
    _Atomic plock_ns checked_at; /* When the file was last checked to be whole and in its place. */
    _Atomic plock_ns walked_at;  /* When the path was last walked to check the file. */
    _Atomic int64_t folder_changed; /* changed_at() of the folder just before that; 0: unknown */
    atomic_int loss; /* A plock__local_loss. Nothing in a lost file counts any more. */

    /* Used only in the critical section. */
    bool damaged; /* a record has an impossible value */
    /* the process that the kernel was last asked about; the answer is in `lives` */
    uint64_t asked_about;
    bool lives;
    plock_ns swept_at;
    bool calls_later;         /* admitted waiters are woken only after the critical section */
    plock__local_calls calls; /* the waiters to wake after the critical section */
    /* for each claim: its lease, if the lease is in this process and waits or is watched; otherwise
     * NULL */
    plock_local_lease **lease_of;
    /* stand-ins for records that do not exist; writes to them have no effect */
    plock__local_key no_key;
    plock__local_claim no_claim;

    /* the wakers of other processes, by place; -1: not open */
    atomic_int wakers[PLOCK__LOCAL_PROCESSES];
    atomic_uint wakers_open;
    /* our own waker: the read end, and a write end that keeps the pipe open; -1: not open */
    int ears[2];
};

/* --- local_file.c --- */

/* Maps the file at `path`, and takes a place in it. Makes the file if there is none. If this
 * process already has a map of the file, retains that map instead. Makes one attempt, which waits
 * for no other process. Returns PLOCK_OK, PLOCK_AGAIN (another process is making the file),
 * PLOCK_SILENT (another process stays in the critical section), PLOCK_DISCONNECTED (a folder of the
 * path is missing), or a status of plock_local_open. */
PLOCK_MUST_USE plock_status plock__local_attach(plock__local_map **map, const char *path,
                                                unsigned keys, plock_error *error);

plock__local_map *plock__local_retain(plock__local_map *map);
void plock__local_release(plock__local_map *map);

void plock__local_in_child(void);

/* --- local_loss.c --- */

/* Looks at the path. Returns PLOCK__LOCAL_IN_PLACE if the file is whole and in its place; otherwise
 * the loss. */
enum plock__local_loss plock__local_look_at_path(const plock__local_map *map);

/* Checks that the file is whole and in its place, unless this was checked a few ms ago. Call this
 * function before anything is granted in the file. Returns PLOCK_OK, or the loss, which is final:
 * PLOCK_DISCONNECTED (the path no longer leads to this file) or PLOCK_PROTOCOL (the file is
 * damaged). `error` may be NULL, here and in the functions for the critical section. */
PLOCK_MUST_USE plock_status plock__local_check(plock__local_map *map, plock_ns now,
                                               plock_error *error);

/* Checks only that the file is whole, unless this was checked in the last fifth of a millisecond. A
 * longer check would slow down an uncontended acquire and release. Call this function before the
 * critical section is entered. */
PLOCK_MUST_USE plock_status plock__local_check_size(plock__local_map *map, plock_ns now,
                                                    plock_error *error);

/* Checks the file's size, even if the last check is recent. If the file was truncated, the map is
 * lost, and its pages then read as zeros. Call this function just before every access outside the
 * critical section.
 *
 * A process that accesses a truncated page receives SIGBUS. No check can prevent this, because the
 * file may be truncated between the check and the access. A handler could catch SIGBUS, but signal
 * handlers belong to the program. So the caller must access the file right after the check. */
void plock__local_make_readable(plock__local_map *map);

/* Marks the file as lost, so that nothing in it counts any more. */
void plock__local_lose(plock__local_map *map, enum plock__local_loss loss);

/* Gives up this process's place in a lost file if the place would only prevent other processes from
 * replacing the file. Call with the mutex held.
 *
 * That is so if the file was truncated or written over: its claims no longer count, but the thread
 * that noticed this may not have given up the place yet. It is also so if the file is damaged, and
 * no lease of this process is left in it: the claims of ended leases stay in a damaged file, and
 * would count as long as this process has its place. */
void plock__local_leave_lost(const plock__local_map *map);

/* Returns PLOCK_OK, or the loss that plock__local_check found before. */
PLOCK_MUST_USE plock_status plock__local_loss_of(const plock__local_map *map, plock_error *error);

static inline bool plock__local_lost(const plock__local_map *map) {
    return atomic_load_explicit(&map->loss, memory_order_relaxed) != PLOCK__LOCAL_IN_PLACE;
}

/* --- local_lookout.c --- */

/* Ends the lookout of a map that is about to be freed. Call with the mutex held. */
void plock__local_dismiss_lookout(plock__local_map *map);

/* --- local_place.c --- */

/* Describes a failed system call in *error. Returns PLOCK_BAD_CONFIG (another path is needed),
 * PLOCK_DISCONNECTED (the path does not exist), PLOCK_STORE_FULL (there is no room),
 * PLOCK_DESCRIPTORS, or PLOCK_CONNECT (a later call may succeed). */
plock_status plock__local_unusable(plock_error *error, const char *path, const char *doing,
                                   int code);

/* Sets *path to the default path, which the caller must free. Returns PLOCK_OK, PLOCK_BAD_CONFIG or
 * PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__local_default_path(char **path, plock_error *error);

/* Sets the mode of a file or folder that has just been made, because the umask may have taken
 * permissions from its owner. A failure is ignored, because the next use of the path will fail as
 * well. */
void plock__local_set_mode(const char *path, mode_t mode);

/* Checks and opens the folder of the file, and makes the folder if there is none. Sets *name to the
 * file's name in the folder. */
PLOCK_MUST_USE plock_status plock__local_open_folder(const char *path, int *folder,
                                                     const char **name, plock_error *error);

/* Checks that this is a regular file that belongs to the user, and that no other user can write to
 * it. */
PLOCK_MUST_USE plock_status plock__local_accept_file(int fd, const char *path, plock_error *error);

/* Takes the lock that a process needs to make the file. Opens the lock's own file as *fd, unless
 * *fd is open already. The caller must close *fd. Returns PLOCK_OK, PLOCK_AGAIN (another process
 * has the lock), or a status of plock__local_unusable. */
PLOCK_MUST_USE plock_status plock__local_lock_making(int *fd, int folder, const char *name,
                                                     const char *path, plock_error *error);

/* Locks the folder, so that systemd-tmpfiles(8) does not clean it up. Writes through a mapping do
 * not change the file's times, so systemd-tmpfiles takes the file for unused, and could delete it.
 * If a clean-up is running, this function waits briefly until it ends. The map keeps the
 * descriptor `folder`. */
void plock__local_hold_folder(plock__local_map *map, int folder);

/* --- local_section.c --- */

/* Enters the store's critical section, after plock__local_check_size. At most one thread of all
 * processes is inside, for a few hundred instructions. If a process died inside, this function
 * repairs the file. Returns PLOCK_OK if this thread is inside now. Returns PLOCK_AGAIN if another
 * thread stays inside for long, so that the caller must try again in a moment. Returns
 * PLOCK_DISCONNECTED or PLOCK_PROTOCOL if the file is lost. */
PLOCK_MUST_USE plock_status plock__local_enter(plock__local_map *map, plock_ns now,
                                               plock_error *error);

/* Leaves the critical section. Returns PLOCK_OK, PLOCK_PROTOCOL if an impossible value was found,
 * or the loss if the file was lost in the meantime. */
PLOCK_MUST_USE plock_status plock__local_leave(plock__local_map *map, plock_error *error);

/* Reads the header's `section`. Returns the place of the process that is inside; UINT32_MAX: no
 * process is inside. */
uint32_t plock__local_place_inside(uint32_t section);

/* Returns PLOCK_SILENT, with an error that names the process that is inside. */
plock_status plock__local_occupied(const plock__local_map *map, plock_error *error);

/* --- local_process.c --- */

/* Takes a place among the processes, and locks its byte. left_over: the file may be from before a
 * reboot. Some changes may then not have reached the disk, so this function repairs the file.
 * Returns PLOCK_OK, PLOCK_STORE_FULL, PLOCK_SILENT (another process stays in the critical section),
 * or a status of plock__local_unusable or plock__local_enter. */
PLOCK_MUST_USE plock_status plock__local_take_place(plock__local_map *map, bool left_over,
                                                    plock_error *error);

/* Gives up the place. From then on, no claim of this process counts. */
void plock__local_leave_place(const plock__local_map *map);

bool plock__local_alive(const plock__local_map *map, uint64_t process);
/* Does a process that is alive have this place? */
bool plock__local_place_alive(const plock__local_map *map, uint32_t slot);
/* Does a dead process still count as alive while another process has a descriptor inherited from
 * it? */
bool plock__local_life_is_shared(void);
/* Does a process that is alive have one of these places? */
bool plock__local_used(int fd, uint32_t first, uint32_t count);

/* Records a sign of life of this process. A process gives one when one of its threads begins to
 * wait, and then at least every half second until none of its threads waits. */
void plock__local_give_sign(plock__local_map *map);

/* Returns how long it takes until the process counts as silent (stopped or dead) if it gives no
 * further sign of life. 0: the process is silent. */
plock_ns plock__local_silent_in(const plock__local_map *map, uint64_t process);

/* Returns a descriptor that becomes readable when the process ends, or -1. */
int plock__local_death_of(const plock__local_map *map, uint64_t process);

/* Returns a descriptor that becomes readable when some process may have closed the file, or -1. A
 * dead process may still count as alive at that moment. */
int plock__local_ends(plock__local_map *map);

/* Moves `map->fd` to a high descriptor number, if the system allows it. `fd`, from which the file
 * was mapped, stays open as `map->before`, to reserve its low number for the inotify of
 * plock__local_ends. On a system without inotify, this function only closes `fd`. */
void plock__local_number(plock__local_map *map, int fd);

/* Opens the waker of this process. Messages that are already in it stay, because they may be for an
 * attendant that another thread has just started. A message for an earlier process with the same
 * place makes the attendant look once needlessly. Returns PLOCK_OK, PLOCK_DESCRIPTORS or
 * PLOCK_CONNECT. */
PLOCK_MUST_USE plock_status plock__local_listen(const plock__local_map *map, int ears[2],
                                                plock_error *error);

/* Reads from the waker the numbers of claims, which other processes have written to wake this
 * process. Returns how many it has read. After PLOCK__LOCAL_HEARD_MAX numbers, the waker may have
 * more. Returns -1 if another program has written to the waker. */
enum { PLOCK__LOCAL_HEARD_MAX = 256 };
int plock__local_hear(const int ears[2], uint32_t claims[PLOCK__LOCAL_HEARD_MAX]);

/* If this many numbers of claims were read without a pause, the pipe may have been full, and
 * further numbers may have been lost. */
extern const unsigned PLOCK__LOCAL_HEARD_TOO_MANY;

/* Wakes the process, because one of its claims, `claim`, is about to change or has changed. */
void plock__local_wake(plock__local_map *map, uint64_t process, uint32_t claim);
void plock__local_close_wakers(plock__local_map *map);

/* --- local_repair.c --- */

/* Rebuilds links, counts and free lists from the records. Call in the critical section. */
void plock__local_repair(plock__local_map *map);

/* --- fault points --- */

#ifdef PLOCK_TESTING
/* At the n-th fault point from now on, these functions end the process, stop it, or send it
 * SIGUSR1. 0: at no point. They return how many points the process has passed since the last
 * call. */
unsigned long plock__local_die_at(unsigned long n);
unsigned long plock__local_stop_at(unsigned long n);
unsigned long plock__local_signal_at(unsigned long n);
void plock__local_fault(void);
/* Makes every file system seem to have this type (statfs(2)). 0: each has its true type again. */
void plock__local_pretend_file_system(long magic);
/* A test can set a function that runs once at one of these moments. */
enum plock__local_moment {
    PLOCK__LOOKS,        /* The worker thread has chosen a lease, and has not looked yet. */
    PLOCK__IS_FREED,     /* An attendant has stopped, and is not freed yet. */
    PLOCK__IS_UNMAPPED,  /* A map has left the process's list, and is still mapped. */
    PLOCK__TAKES_PLACE,  /* A file has been mapped, and the map has taken no place in it yet. */
    PLOCK__MEASURES,     /* The size of a file is about to be checked. */
    PLOCK__LEAVES_PLACE, /* This process knows of the loss, but has not given up its place in the
                          * file yet. */
    PLOCK__REGISTERS,    /* A lease with PLOCK__WATCHED_LATER was found held, but is not registered
                          * yet. */
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
