/* Which claims may hold a key, and in which order. All functions run in the critical section,
 * unless their comment says otherwise.
 *
 * If a process changes the claim of another process, it wakes that process before the change. If
 * the changing process then dies, the woken process finds it dead in the critical section, and
 * repairs the file. There is one exception: a holder's own release wakes waiters after the change,
 * outside the critical section. That is safe, because the first waiter watches each holder's
 * process, and notices its death. A thread that sleeps on its claim's word (parking_slot.h) is also
 * woken after the word has changed.
 *
 * If another process admits a claim, the claim is handed over for one second. Within that second, a
 * thread of the claim's own process must take the turn, and the claim then has its full time.
 * Otherwise the next process that looks at the queue ends the claim. So a stopped process delays
 * the others by one second at most. If a waiter's process has been silent for a second, other
 * waiters are admitted before that waiter, but it keeps its place. If the process has died, they
 * are admitted at once. */
#ifndef PLOCK__LOCAL_QUEUE_H
#define PLOCK__LOCAL_QUEUE_H

#include "local/local_table.h"

/* The claim that a caller asks for. */
typedef struct plock__local_wait_request {
    plock_ns ttl, at_least, lasts;
    char mode;
    unsigned limit;
    bool watched;
    plock_text owner, label; /* the owner has at most PLOCK__LOCAL_OWNER_MAX bytes */
    bool owner_digested;
    int64_t thread;
    plock_local_lease *lease; /* the lease to notify of changes; NULL: none */
} plock__local_wait_request;

/* Ends each holder's claim on the key if the claim has expired or its process is dead. Then admits
 * the next waiters. */
void plock__local_tidy(plock__local_map *map, uint32_t number, plock_ns now);

/* Does the same as plock__local_tidy, and also ends the claims of all waiters whose process has
 * died. That takes longer, because it asks the kernel about each waiter's process. */
void plock__local_tidy_whole(plock__local_map *map, uint32_t number, plock_ns now);

/* Calls plock__local_tidy_whole for all keys. Returns true if that made room for a key or a
 * claim. */
bool plock__local_sweep(plock__local_map *map, plock_ns now);

/* Would a new claim be admitted now? Waiters do not count if their process is silent or dead. */
bool plock__local_admits(plock__local_map *map, const plock__local_key *key, char mode,
                         unsigned limit);

/* Makes a claim on the key. The claim holds the key at once or, if `waits` is true, waits behind
 * all others. Returns PLOCK_OK, PLOCK_STORE_FULL or PLOCK_PROTOCOL. On failure, a key without
 * claims is dropped. */
PLOCK_MUST_USE plock_status plock__local_claim_key(plock__local_map *map, uint32_t number,
                                                   const plock__local_wait_request *wait_request,
                                                   bool waits, plock_ns now, uint32_t *claim,
                                                   plock_error *error);

/* Takes the turn that was handed over to the claim. From then on, the claim has its full time. */
void plock__local_take_turn(plock__local_map *map, uint32_t claim, plock_ns now);

/* Returns when a holder's claim ends: at `until`, or earlier if the holder's process is dead. */
plock_ns plock__local_end_of(plock__local_map *map, plock__local_claim *claim);

/* Ends a claim in any state, and admits the next waiters. */
void plock__local_end_claim(plock__local_map *map, uint32_t claim, plock_ns now);

/* Like plock__local_end_claim, but does not notify the claim's lease. */
void plock__local_give_up_claim(plock__local_map *map, uint32_t claim, plock_ns now);

/* Wakes the waiters that a release has admitted. Do not call in the critical section. */
void plock__local_call(plock__local_map *map, const plock__local_calls *calls);

/* Tells the first waiter to look at the queue. Call this function before something ahead of that
 * waiter changes. */
void plock__local_first_looks(plock__local_map *map, const plock__local_key *key);

enum { PLOCK__LOCAL_WATCHED_MAX = 32 };

/* When the attendant must next look on behalf of a waiter, and the processes whose end the
 * attendant must notice. */
typedef struct plock__local_outlook {
    plock_ns look_at;
    unsigned count; /* if there are more than PLOCK__LOCAL_WATCHED_MAX, the attendant must notice
                     * the end of any process */
    uint64_t processes[PLOCK__LOCAL_WATCHED_MAX];
} plock__local_outlook;

/* Looks at the queue on behalf of a waiter. Ends the claims of dead processes ahead of the waiter,
 * and takes a turn that was handed over to it. Returns false if the claim no longer waits. */
bool plock__local_look(plock__local_map *map, uint32_t claim, uint64_t serial, plock_ns now,
                       plock__local_outlook *outlook);

/* --- local_registered.c: for claims of this process --- */

/* These functions notify a lease that its claim holds the key now, that the attendant must look on
 * its behalf, or that its claim was ended. */
void plock__local_granted(plock_local_lease *lease);
void plock__local_has_to_look(plock_local_lease *lease);
void plock__local_taken_away(plock_local_lease *lease);

#endif
