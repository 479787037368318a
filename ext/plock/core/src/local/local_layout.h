/* The layout of a local store's file. Each process may map the file at a different address, so
 * records refer to one another by number.
 *
 * The claims (their words, times and texts) and the names of keys are the only source of truth.
 * Links, counts and free lists follow from them. If a process dies during a change, local_repair.c
 * rebuilds the links, counts and free lists. */
#ifndef PLOCK__LOCAL_LAYOUT_H
#define PLOCK__LOCAL_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

#include "plock/local.h"

enum {
    PLOCK__LOCAL_LAYOUT = 4,       /* changes with every change of the layout */
    PLOCK__LOCAL_PROCESSES = 1024, /* how many processes can use the file at a time */
    /* maximum length in bytes; a longer key is stored as its digest */
    PLOCK__LOCAL_NAME_MAX = 200,
    /* maximum length in bytes; a longer owner is stored as its digest */
    PLOCK__LOCAL_OWNER_MAX = 40,
    PLOCK__LOCAL_BOOT_MAX = 40,
    PLOCK__LOCAL_PAGE = 4096,
    PLOCK__LOCAL_CLAIMS_PER_KEY = 2
};

#define PLOCK__LOCAL_MAGIC      "plock local lock" /* at the beginning and at the end of the file */
#define PLOCK__LOCAL_BYTE_ORDER 0x01020304u
#define PLOCK__LOCAL_NONE       UINT32_MAX
#define PLOCK__LOCAL_FENCE_MAX  (INT64_MAX / 2) /* real fences are far below this */

/* The beginning of the file. This struct is the same in every layout, so that each version of plock
 * can recognize the files of other versions. */
typedef struct plock__local_title {
    char magic[16];
    uint32_t layout, byte_order;
    uint64_t size; /* the size of the whole file, in bytes */
    /* the id of the boot in which the file was made; empty: unknown. The id that a container sees
     * may differ from the host's */
    char boot[PLOCK__LOCAL_BOOT_MAX];
    /* the number of the time namespace; 0: unknown. A container may have its own time namespace,
     * with another clock */
    uint64_t clock;
    uint32_t mark; /* random; if the mark differs from the one that was read first, another plock
                    * file was written over this one */
    uint32_t keys;
    uint64_t check; /* checksum of the fields above */
} plock__local_title;

typedef struct plock__local_header {
    plock__local_title title;
    /* The latest expiry of any claim that can outlive its process. This field and `fence` have the
     * same offset in every layout, so that a version that replaces the file of another version can
     * read them. */
    _Atomic int64_t outlives_until;
    _Atomic int64_t fence; /* the highest fence of any key */
    /* the time when outlives_until was last set. A clock that shows an earlier time proves a
     * reboot */
    _Atomic int64_t seen_at;

    /* the critical section: 0, or the mark of the process inside. One bit shows that other
     * processes wait */
    _Alignas(64) _Atomic uint32_t section;
    _Atomic uint32_t damaged; /* 1: the file must not be used any more */
    uint64_t serial;          /* the last number given to a claim or a process */

    /* …_made: the number of records in use or on a free list. …_ready: the number of records for
     * which room is reserved in the file system. …_free: the first record of the free list */
    uint32_t keys_made, keys_ready, keys_free, unused;
    uint32_t claims_made, claims_ready, claims_free;
} plock__local_header;

/* A process that uses the store. Each place in this table has a byte in the file. A process counts
 * as alive as long as it holds the lock on the byte of its place. */
typedef struct plock__local_process {
    /* serial number × PLOCK__LOCAL_PROCESSES + place in this table; an id is never used again */
    _Atomic uint64_t id;
    int32_t pid;
    /* when the process started, in clock ticks since boot, and the number of its pid namespace; 0:
     * unknown */
    uint64_t started, pids;
    _Atomic int64_t seen_at; /* its last sign of life, on PLOCK__AWAKE_CLOCK */
    uint64_t reserved[3];
} plock__local_process;

typedef struct plock__local_key {
    uint32_t canary;
    uint32_t next; /* the next key in the bucket's list or the free list */
    uint32_t first_holder, first_waiter, last_waiter; /* numbers of claims */
    uint32_t holders;
    uint64_t hash;
    uint8_t length; /* 0: the record is free */
    uint8_t digested;
    char name[PLOCK__LOCAL_NAME_MAX];
} plock__local_key;

/* The states of a claim. A claim in any other state counts as free. */
enum {
    PLOCK__FREE,
    PLOCK__WAITING,
    PLOCK__HANDED, /* admitted by another process; the claim's process has not taken the turn yet */
    PLOCK__HELD,
    PLOCK__KEPT, /* released, but the key stays taken */
    PLOCK__STATES = 8
};

/* A holder of a key, or a place in its wait queue. */
typedef struct plock__local_claim {
    uint32_t canary;
    uint32_t key;
    /* serial number × PLOCK__STATES + state. The serial number gives the order of arrival. It also
     * shows whether this record still has the same claim */
    _Atomic uint64_t word;
    /* the id of the process with which the claim ends; 0: the claim belongs to no process */
    _Atomic uint64_t process;
    /* for a holder: when the claim expires; PLOCK_NEVER: it ends only with its process */
    _Atomic int64_t until;
    /* for a holder: when the claim ends if its process dies, unless `until` is earlier */
    int64_t kept_until;
    int64_t fence;
    /* the requested times. A lease that is renewed may be held for longer than its ttl */
    int64_t ttl, at_least;
    /* how long the claim may be held while its process is alive; PLOCK_NEVER: without limit */
    int64_t lasts;
    /* when the claim began to wait or, for a holder, when it got the key; in microseconds since
     * 1970 */
    int64_t since;
    int64_t thread;
    int32_t pid;
    uint32_t next,
        previous;   /* neighbours in one of the key's lists; `next` also links the free list */
    uint16_t limit; /* how many holders may share this mode; 0: any number */
    char mode;      /* 0: exclusive */
    /* 1: another process that ends this claim must wake the claim's process */
    uint8_t watched;
    /* for a waiter: 1 if its process must look at the queue on its behalf, because something has
     * changed ahead of this claim */
    _Atomic uint8_t look;
    /* for a waiter: 1 if a thread sleeps on `word`, and must be woken there */
    _Atomic uint8_t asleep;
    uint8_t owner_length, owner_digested, label_length;
    char owner[PLOCK__LOCAL_OWNER_MAX];
    char label[PLOCK_LOCAL_LABEL_MAX];
} plock__local_claim;

_Static_assert(sizeof(plock__local_header) <= PLOCK__LOCAL_PAGE, "the header is on one page");
_Static_assert(sizeof(plock__local_process) == 64, "one line of the cache for each process");
_Static_assert(sizeof(plock__local_key) <= 256 && sizeof(plock__local_claim) <= 256,
               "records are small");

static inline uint64_t plock__word(uint64_t serial, unsigned state) {
    return serial * PLOCK__STATES + state;
}

static inline unsigned plock__state(const plock__local_claim *claim) {
    return (unsigned)(atomic_load_explicit(&claim->word, memory_order_relaxed) % PLOCK__STATES);
}

static inline uint64_t plock__serial(const plock__local_claim *claim) {
    return atomic_load_explicit(&claim->word, memory_order_relaxed) / PLOCK__STATES;
}

#endif
