/* A local store's file as this process has it: mapped, with a place among the processes that use
 * it. */
#ifndef PLOCK__LOCAL_MAP_H
#define PLOCK__LOCAL_MAP_H

#include <stdbool.h>
#include <sys/types.h>

#include "local/local_layout.h"

typedef struct plock_local_lease plock_local_lease;
typedef struct plock__local_attendant plock__local_attendant;
typedef struct plock__local_lookout plock__local_lookout;

typedef struct plock__local_map plock__local_map;

/* Claims of other processes that were let in, and whose. */
typedef struct plock__local_calls {
    unsigned count;
    struct {
        uint64_t process;
        uint32_t claim;
    } to[4];
} plock__local_calls;

/* What a file has come to, as one process knows it: for good. Where it is lost, the mapping is made
 * of zeros, so that every claim in it reads as nobody's. */
enum plock__local_loss {
    PLOCK__LOCAL_IN_PLACE,
    PLOCK__LOCAL_MISSING, /* its path names nothing any more, or another file */
    PLOCK__LOCAL_HARMED,  /* it was truncated or written over */
    PLOCK__LOCAL_DAMAGED, /* something in it cannot be, as somebody has found, and marked it */
    PLOCK__LOCAL_ABSURD /* the same, as this process has found: that is told before anything is made
                           anew */
};

struct plock__local_map {
    /* Under the lock. */
    plock__local_map *next;        /* all of the process */
    unsigned references;           /* of stores and leases */
    unsigned users;                /* leases that the program holds in it, or asks for */
    plock_local_lease *registered; /* that wait or are watched */
    plock__local_attendant *attendant;
    plock__local_lookout *lookout;
    /* something is held that no lease stands for: it is kept as long as the process lives, and
     * refers to itself */
    bool pinned;

    /* Set once. */
    unsigned generation;
    int fd, folder;
    /* a number below fd's, see plock__local_ends: the mapped file's, until ends are told there; -1:
     * none */
    int before;
    bool tells; /* so they are */
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
    const char *remade; /* why it was made anew */

    _Atomic plock_ns whole_at;   /* when the file was last seen to be whole, */
    _Atomic plock_ns checked_at; /* and in its place, too; */
    _Atomic plock_ns walked_at;  /* when the path was walked for that, */
    /* and what the folder said of its last change then; 0: nothing */
    _Atomic int64_t folder_changed;
    /* why nothing is held in it any more, one of plock__local_loss */
    atomic_int loss;

    /* In the section. */
    bool damaged; /* something in it cannot be */
    /* of whom it is known here whether he lives, so that the kernel is asked once */
    uint64_t asked_about;
    bool lives;
    plock_ns swept_at;
    bool calls_later; /* who is let in is told after the section: */
    plock__local_calls calls;
    /* by claim: those of this process that wait or are watched */
    plock_local_lease **lease_of;
    /* stand in for what cannot be found: nothing that is written to them matters */
    plock__local_key no_key;
    plock__local_claim no_claim;

    atomic_int wakers[PLOCK__LOCAL_PROCESSES]; /* of other processes; -1: not open */
    atomic_uint wakers_open;
    int ears[2]; /* our own: where we listen, and an end that keeps it open; -1: nobody listens */
};

/* --- local_file.c --- */

/* Maps the file at path, which is made where there is none, and takes a place in it; or the one
 * that this process has mapped already. PLOCK_OK, PLOCK_DISCONNECTED (its path leads nowhere), or
 * as plock_local_open says. */
PLOCK_MUST_USE plock_status plock__local_attach(plock__local_map **map, const char *path,
                                                unsigned keys, plock_error *error);

plock__local_map *plock__local_retain(plock__local_map *map);
void plock__local_release(plock__local_map *map);

/* Makes sure that there is room in the file system for the record that is made next. PLOCK_OK or
 * PLOCK_STORE_FULL. */
PLOCK_MUST_USE plock_status plock__local_ready_key(plock__local_map *map, plock_error *error);
PLOCK_MUST_USE plock_status plock__local_ready_claim(plock__local_map *map, plock_error *error);

void plock__local_in_child(void);

/* --- local_loss.c --- */

/* Looks at the path: is the file whole, and in its place? */
enum plock__local_loss plock__local_look_at_path(const plock__local_map *map);

/* Looks whether the file is still what it was and where it was, if that was long ago. To be called
 * before anything is granted in it. PLOCK_OK, PLOCK_DISCONNECTED (its path names nothing any more,
 * or another file) or PLOCK_PROTOCOL; then it stays so. */
PLOCK_MUST_USE plock_status plock__local_check(plock__local_map *map, plock_ns now,
                                               plock_error *error);

/* Whether it is whole, only, if that was a moment ago: what an uncontended acquire and release
 * can afford. To be called before the section is entered. */
PLOCK_MUST_USE plock_status plock__local_check_size(plock__local_map *map, plock_ns now,
                                                    plock_error *error);

/* Looks at the file's size, however lately that was done, and loses the map if the file was
 * truncated: its pages read as zeros then. Every access outside the section comes just after this.
 *
 * A process that touches a page that was cut off receives SIGBUS. No check rules that out: the file
 * may be truncated between the check and the access. A handler for SIGBUS could, but that signal is
 * the program's. So the two stand nanoseconds apart, unless the system runs another thread between
 * them; in the section, a fifth of a millisecond (plock__local_check_size). */
void plock__local_make_readable(plock__local_map *map);

/* Nothing in the file is to be believed any more. */
void plock__local_lose(plock__local_map *map, enum plock__local_loss loss);

/* PLOCK_OK, or what plock__local_check has found before. */
PLOCK_MUST_USE plock_status plock__local_loss_of(const plock__local_map *map, plock_error *error);

static inline bool plock__local_lost(const plock__local_map *map) {
    return atomic_load_explicit(&map->loss, memory_order_relaxed) != PLOCK__LOCAL_IN_PLACE;
}

/* --- local_lookout.c --- */

/* The map goes. With the lock held. */
void plock__local_dismiss_lookout(plock__local_map *map);

/* --- local_place.c --- */

/* The system says that it cannot be used: PLOCK_BAD_CONFIG where another path is needed,
 * PLOCK_DISCONNECTED where its path leads nowhere, PLOCK_STORE_FULL, or PLOCK_CONNECT where it may
 * do later. */
plock_status plock__local_unusable(plock_error *error, const char *path, const char *doing,
                                   int code);

/* The default place; *path is the caller's to free. PLOCK_OK, PLOCK_BAD_CONFIG or PLOCK_NO_MEMORY.
 */
PLOCK_MUST_USE plock_status plock__local_default_path(char **path, plock_error *error);

/* Opens the folder that the file is in, which is made where there is none, after looking whether it
 * will do. *name: the file's in it. */
PLOCK_MUST_USE plock_status plock__local_open_folder(const char *path, int *folder,
                                                     const char **name, plock_error *error);

/* May this file be ours? */
PLOCK_MUST_USE plock_status plock__local_accept_file(int fd, const char *path, plock_error *error);

/* --- local_section.c --- */

/* The store's critical section: at most one thread of all processes is inside, for some hundred
 * instructions. The size of the file is checked before (plock__local_check_size). If a process died
 * in the section, what it left is repaired first. PLOCK_OK: inside. PLOCK_AGAIN: another thread is
 * inside, for longer than one should wait here: try again in a moment. PLOCK_DISCONNECTED or
 * PLOCK_PROTOCOL as plock__local_check. */
PLOCK_MUST_USE plock_status plock__local_enter(plock__local_map *map, plock_ns now,
                                               plock_error *error);

/* PLOCK_OK, or PLOCK_PROTOCOL: something was found that cannot be; or as plock__local_check, where
 * the file was lost since. */
PLOCK_MUST_USE plock_status plock__local_leave(plock__local_map *map, plock_error *error);

/* The place of the process that is inside, where the header says this; none has UINT32_MAX. */
uint32_t plock__local_place_inside(uint32_t section);

/* Who was inside at last, for people; 0: nobody. */
int plock__local_insider(const plock__local_map *map);

/* --- local_process.c --- */

/* A place among the processes, and the lock that goes with it. left_over: the file may be from
 * before a reboot, and not all of it have come to the disk. PLOCK_OK, PLOCK_STORE_FULL or
 * PLOCK_PROTOCOL. */
PLOCK_MUST_USE plock_status plock__local_take_place(plock__local_map *map, bool left_over,
                                                    plock_error *error);

/* Nothing that this process has in the file counts any more. */
void plock__local_leave_place(const plock__local_map *map);

bool plock__local_alive(const plock__local_map *map, uint64_t process);
bool plock__local_place_alive(const plock__local_map *map, uint32_t slot); /* whoever it is */
bool plock__local_life_is_shared(void); /* by whoever inherits the file */
/* does any process use the file that has one of these places? */
bool plock__local_used(int fd, uint32_t first, uint32_t count);

/* A process gives a sign of life when one of its threads begins to wait, and at least every half
 * second until none waits any more. */
void plock__local_give_sign(plock__local_map *map);

/* How long it may still give no sign before it counts as silent: stopped, or dead. 0: it does. */
plock_ns plock__local_silent_in(const plock__local_map *map, uint64_t process);

/* A descriptor that is readable when this process ends; -1 where there is no such. */
int plock__local_death_of(const plock__local_map *map, uint64_t process);

/* A descriptor that is readable when some process may have let go of the file, whichever it was; -1
 * where there is no such. It is told a moment before that process counts as dead. */
int plock__local_ends(plock__local_map *map);

/* The descriptor that the map was made from, or nothing more. */
void plock__local_keep_number(plock__local_map *map, int fd);

/* Moves the file to a number that the kernel closes before those, when the process dies. */
void plock__local_close_early(plock__local_map *map);

/* Opens ears. PLOCK_OK, PLOCK_DESCRIPTORS or PLOCK_CONNECT. */
PLOCK_MUST_USE plock_status plock__local_listen(const plock__local_map *map, int ears[2],
                                                plock_error *error);
void plock__local_clear(const int ears[2]);
void plock__local_wake(plock__local_map *map, uint64_t process);
void plock__local_close_wakers(plock__local_map *map);

/* --- local_repair.c --- */

/* Makes everything anew that can be made from the records. In the section. */
void plock__local_repair(plock__local_map *map);

/* --- fault points --- */

#ifdef PLOCK_TESTING
/* Ends the process at the n-th point from now, or stops it, or sends it SIGUSR1; 0: at none.
 * Returns how many there were since the last call. */
unsigned long plock__local_die_at(unsigned long n);
unsigned long plock__local_stop_at(unsigned long n);
unsigned long plock__local_signal_at(unsigned long n);
void plock__local_fault(void);
/* What statfs is to say instead of the truth; 0: the truth. */
void plock__local_pretend_file_system(long magic);
/* What is to happen, once, when the native thread has chosen a lease that has to look, and has not
 * looked yet; when an attendant has stopped, and is not freed yet; when a map is not among the
 * process's any more, and is still mapped; or when it is mapped, and has no place yet. */
enum plock__local_moment {
    PLOCK__LOOKS,
    PLOCK__IS_FREED,
    PLOCK__IS_UNMAPPED,
    PLOCK__TAKES_PLACE,
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
