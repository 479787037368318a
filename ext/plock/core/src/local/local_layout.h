/* The layout of a local store's file. Every process maps it at another address, so records refer
 * to one another by number.
 *
 * The words, times and texts of claims and the names of keys are the truth. Links, counts and free
 * lists follow from them: local_repair.c rebuilds them if a process died during a change. */
#ifndef PLOCK__LOCAL_LAYOUT_H
#define PLOCK__LOCAL_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

#include "plock/local.h"

enum {
    PLOCK__LOCAL_LAYOUT = 4,       /* changes with every change of the layout */
    PLOCK__LOCAL_PROCESSES = 1024, /* that can use the file at a time */
    /* bytes of a key; a longer one is stored as its digest */
    PLOCK__LOCAL_NAME_MAX = 200,
    PLOCK__LOCAL_OWNER_MAX = 40, /* bytes of an owner; likewise */
    PLOCK__LOCAL_BOOT_MAX = 40,
    PLOCK__LOCAL_PAGE = 4096,
    PLOCK__LOCAL_CLAIMS_PER_KEY = 2
};

#define PLOCK__LOCAL_MAGIC      "plock local lock" /* at the beginning, and again at the end */
#define PLOCK__LOCAL_BYTE_ORDER 0x01020304u
#define PLOCK__LOCAL_NONE       UINT32_MAX
#define PLOCK__LOCAL_FENCE_MAX  (INT64_MAX / 2) /* no true fence comes near it */

/* At the beginning of the file. It is the same in every layout, so that any version can recognize
 * the others. */
typedef struct plock__local_title {
    char magic[16];
    uint32_t layout, byte_order;
    uint64_t size; /* of the whole file */
    /* the id of the boot in which the file was made; empty: unknown. A container may see another
     * id */
    char boot[PLOCK__LOCAL_BOOT_MAX];
    /* the time namespace: a container may have its own */
    uint64_t clock;
    uint32_t mark; /* random, to notice that another file of plock was written over this one */
    uint32_t keys;
    uint64_t check; /* checksum of the fields before it */
} plock__local_title;

typedef struct plock__local_header {
    plock__local_title title;
    /* the latest end of all claims that do not end with a process. This field and the next one are
     * at the same place in every layout. */
    _Atomic int64_t outlives_until;
    _Atomic int64_t fence; /* the highest that was given to any key */
    /* the time when outlives_until was last set; if the clock shows an earlier one, that proves a
     * reboot */
    _Atomic int64_t seen_at;

    /* the critical section: 0, or the mark of the process inside; one bit says that others wait */
    _Alignas(64) _Atomic uint32_t section;
    _Atomic uint32_t damaged; /* the file must not be used any more */
    uint64_t serial;          /* the last number given to a claim or a process */

    /* Counts of records, and the first free ones. …_ready: how many records have room in the file
     * system, too */
    uint32_t keys_made, keys_ready, keys_free, unused;
    uint32_t claims_made, claims_ready, claims_free;
} plock__local_header;

/* A process that uses the store. It is alive as long as it has the lock on the byte of the file
 * that goes with its number. */
typedef struct plock__local_process {
    /* serial number × PLOCK__LOCAL_PROCESSES + place in this table; never used again */
    _Atomic uint64_t id;
    int32_t pid;
    uint64_t started, pids;  /* when the process started, and the namespace of its pid */
    _Atomic int64_t seen_at; /* its last sign of life while it waited, by PLOCK__AWAKE_CLOCK */
    uint64_t reserved[3];
} plock__local_process;

typedef struct plock__local_key {
    uint32_t canary;
    uint32_t next;                                    /* in the bucket, or in the free list */
    uint32_t first_holder, first_waiter, last_waiter; /* claims */
    uint32_t holders;
    uint64_t hash;
    uint8_t length; /* 0: free */
    uint8_t digested;
    char name[PLOCK__LOCAL_NAME_MAX];
} plock__local_key;

/* States. A claim in any other state is free. */
enum {
    PLOCK__FREE,
    PLOCK__WAITING,
    PLOCK__HANDED, /* admitted by another process; its own process has not taken the turn yet */
    PLOCK__HELD,
    PLOCK__KEPT, /* released, but the key stays taken */
    PLOCK__STATES = 8
};

/* A holder of a key, or a place in its wait queue. */
typedef struct plock__local_claim {
    uint32_t canary;
    uint32_t key;
    /* serial number × PLOCK__STATES + state. The serial number gives the order of arrival, and
     * shows whether this record still holds the same claim. */
    _Atomic uint64_t word;
    _Atomic uint64_t process; /* the claim ends with this process; 0: with none */
    _Atomic int64_t until;    /* held: when it ends by itself; PLOCK_NEVER: with its process */
    /* held: if its process has died, the claim ends at this time already */
    int64_t kept_until;
    int64_t fence;
    /* the requested times; a lease that is renewed is held for longer than its ttl */
    int64_t ttl, at_least;
    int64_t lasts; /* how long the claim may be held while its process lives */
    int64_t since; /* when the claim began to wait or, later, to hold: microseconds since 1970 */
    int64_t thread;
    int32_t pid;
    uint32_t next, previous; /* in a list of its key; next: also in the free list */
    uint16_t limit;          /* how many holders of this mode there may be; 0: any number */
    char mode;               /* 0: exclusive */
    uint8_t watched;         /* its process must be woken when the claim ends */
    _Atomic uint8_t look;    /* waiting: something has changed ahead of it */
    _Atomic uint8_t asleep;  /* waiting: a thread sleeps at the word, and is woken there */
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
