/* Which claims may hold a key, and in which order. All of it runs in the critical section.
 *
 * A process that makes a change for another process first wakes the other, and then makes the
 * change. If it dies in between, the woken process finds it dead in the critical section, and
 * repairs the file. Only a holder's own release wakes waiters afterwards, outside the critical
 * section. That is safe, because the first waiter watches the process of each holder. A thread that
 * sleeps at its claim's word (parking_slot.h) is woken after the word has changed.
 *
 * A claim that another process admits is handed over for a second. Within that second, a thread of
 * the claim's own process takes the turn, and then the claim has its full time. Otherwise the next
 * process that looks ends the claim. So a stopped process delays the others for a second at most. A
 * waiter whose process has been silent for a second is passed over, and keeps its place. One whose
 * process has died is passed over at once. */
#ifndef PLOCK__LOCAL_QUEUE_H
#define PLOCK__LOCAL_QUEUE_H

#include "local/local_table.h"

/* The claim that a caller asks for. */
typedef struct plock__local_wait_request {
    plock_ns ttl, at_least, lasts;
    char mode;
    unsigned limit;
    bool watched;
    plock_text owner, label; /* an owner of PLOCK__LOCAL_OWNER_MAX bytes at most */
    bool owner_digested;
    int64_t thread;
    plock_local_lease *lease; /* the lease to notify of changes; NULL: none */
} plock__local_wait_request;

/* Ends the claims on the key that are over, and admits the next waiters. */
void plock__local_tidy(plock__local_map *map, uint32_t number, plock_ns now);

/* The same, and ends the claims of waiters whose process has died, which no look of another waiter
 * may reach. That takes longer: the kernel is asked about each waiter. */
void plock__local_tidy_whole(plock__local_map *map, uint32_t number, plock_ns now);

/* The same for all keys. Returns true if that made room for a key or a claim. */
bool plock__local_sweep(plock__local_map *map, plock_ns now);

/* Would a new claim be admitted now? Waiters of silent and of dead processes do not count. */
bool plock__local_admits(plock__local_map *map, const plock__local_key *key, char mode,
                         unsigned limit);

/* Makes a claim on the key, which holds at once or, if `waits`, waits behind all others. PLOCK_OK,
 * PLOCK_STORE_FULL or PLOCK_PROTOCOL. On failure, a key without claims is dropped. */
PLOCK_MUST_USE plock_status plock__local_claim_key(plock__local_map *map, uint32_t number,
                                                   const plock__local_wait_request *wait_request,
                                                   bool waits, plock_ns now, uint32_t *claim,
                                                   plock_error *error);

/* Takes the turn that was handed over to the claim. From now on the claim has its full time. */
void plock__local_take_turn(plock__local_map *map, uint32_t claim, plock_ns now);

/* Returns when a holder's claim ends: at `until`, or earlier if its process is dead. */
plock_ns plock__local_end_of(plock__local_map *map, plock__local_claim *claim);

/* Ends a claim in any state, and admits the next waiters. */
void plock__local_end_claim(plock__local_map *map, uint32_t claim, plock_ns now);

/* The same, but the lease of a claim of this process is not notified. */
void plock__local_give_up_claim(plock__local_map *map, uint32_t claim, plock_ns now);

/* Wakes the waiters that a release admitted. Not in the critical section. */
void plock__local_call(plock__local_map *map, const plock__local_calls *calls);

/* Makes the first waiter look again, because something ahead of it changes. Call it before the
 * change. */
void plock__local_first_looks(plock__local_map *map, const plock__local_key *key);

enum { PLOCK__LOCAL_WATCHED_MAX = 32 };

/* When a waiter must look next, and the processes whose end it must notice. */
typedef struct plock__local_outlook {
    plock_ns look_at;
    unsigned count; /* if it is more than there is room for, the waiter looks at short intervals */
    uint64_t processes[PLOCK__LOCAL_WATCHED_MAX];
} plock__local_outlook;

/* Ends the claims of dead processes ahead of this waiter, takes a turn that was handed over to it,
 * and fills in the outlook. Returns false if the claim no longer waits. */
bool plock__local_look(plock__local_map *map, uint32_t claim, uint64_t serial, plock_ns now,
                       plock__local_outlook *outlook);

/* --- local_attendant.c: for claims of this process --- */

/* Notify the lease that it holds now, that it has to look, or that its claim was ended. */
void plock__local_granted(plock_local_lease *lease);
void plock__local_has_to_look(plock_local_lease *lease);
void plock__local_taken_away(plock_local_lease *lease);

#endif
