/* Who may hold a key, and in which order. All of it in the section.
 *
 * Whoever changes something for another process wakes its waker first, and then does it: if he dies
 * in between, the other one comes, finds him dead in the section, and repairs what he left. Only a
 * holder's own release wakes afterwards, outside, for whoever is first in line watches the process
 * of each holder. Who sleeps at his claim's word (parking slot.h) is woken there, which can only be
 * after it was changed.
 *
 * A claim that another process lets in is handed over for a second. Within that second its process
 * takes it, by the thread that waits or by the native thread, and then it has its full time. Else
 * the next process that looks ends it. So a process that is stopped holds the others up for a
 * second at most. A waiter whose process has been silent for a second is passed over, and keeps
 * its place. */
#ifndef PLOCK__LOCAL_LINE_H
#define PLOCK__LOCAL_LINE_H

#include "local/local_table.h"

/* What somebody asks for. */
typedef struct plock__local_wait_request {
    plock_ns ttl, at_least, lasts;
    char mode;
    unsigned limit;
    bool watched;
    plock_text owner, label; /* an owner of PLOCK__LOCAL_OWNER_MAX bytes at most */
    bool owner_digested;
    int64_t thread;
    plock_local_lease *lease; /* NULL: nothing of it is to be told */
} plock__local_wait_request;

/* Microseconds since 1970. */
int64_t plock__local_wall(void);

/* The fence of the next lease, greater than all before. */
int64_t plock__local_next_fence(plock__local_map *map, int64_t wall);

/* Ends whatever is over on the key, and lets in whose turn it is. */
void plock__local_tidy(plock__local_map *map, uint32_t number, plock_ns now);

/* The same for all keys. Is there room now? */
bool plock__local_sweep(plock__local_map *map, plock_ns now);

/* Would a claim that comes now be let in? Waiters of silent processes are not in its way. */
bool plock__local_admits(plock__local_map *map, const plock__local_key *key, char mode,
                         unsigned limit);

/* A claim on the key that holds at once, or waits behind all others. PLOCK_OK or PLOCK_STORE_FULL.
 * A key that nobody is on is dropped. */
PLOCK_MUST_USE plock_status plock__local_claim_key(plock__local_map *map, uint32_t number,
                                                   const plock__local_wait_request *wait_request,
                                                   bool waits, plock_ns now, uint32_t *claim,
                                                   plock_error *error);

/* The first waiter from this one on whose process is not silent; NONE: there is none. */
uint32_t plock__local_living(plock__local_map *map, uint32_t waiter);

/* The claim was handed over, and its process takes it: from now on it has its full time. */
void plock__local_take_turn(plock__local_map *map, uint32_t claim, plock_ns now);

/* Ends a claim, whatever it is, and lets in whose turn it is. */
void plock__local_end_claim(plock__local_map *map, uint32_t claim, plock_ns now);

/* Calls those whom a release let in; not in the section. */
void plock__local_call(plock__local_map *map, const plock__local_calls *calls);

/* Who is first in line is to look again: something before him is different. Before it is. */
void plock__local_first_looks(plock__local_map *map, const plock__local_key *key);

/* Remembers until when something is held that no process has to be alive for. */
void plock__local_outlives(plock__local_map *map, plock_ns until);

enum { PLOCK__LOCAL_WATCHED_MAX = 32 };

/* What a waiter has to heed: when to look next, and the processes whose end concerns him. */
typedef struct plock__local_outlook {
    plock_ns look_at;
    unsigned count; /* more than there is room for: all of them at short intervals */
    uint64_t processes[PLOCK__LOCAL_WATCHED_MAX];
} plock__local_outlook;

/* Takes out who died before him, and says what he has to heed from now on. A turn that was handed
 * over to him is taken. False: he does not wait any more. */
bool plock__local_look(plock__local_map *map, uint32_t claim, uint64_t serial, plock_ns now,
                       plock__local_outlook *outlook);

/* --- local_attendant.c: for claims of this process --- */

/* It holds now, it has to look, or it was taken away. */
void plock__local_granted(plock_local_lease *lease);
void plock__local_has_to_look(plock_local_lease *lease);
void plock__local_taken_away(plock_local_lease *lease);

#endif
