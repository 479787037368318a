/* The wait queue: the waiters of this process for one lock, in order, and the time of the next
 * look. In a look, a resting waiter asks the server for the lock again, although no message has
 * announced its turn. The wait queue sends no requests. Its functions require the mutex. */
#ifndef PLOCK__QUEUE_H
#define PLOCK__QUEUE_H

#include "base/heap.h"
#include "base/index.h"
#include "redis/waiter.h"

typedef struct plock_wait_queue plock_wait_queue;

/* The wait queues of a coordinator. */
typedef struct plock_wait_queues {
    plock_wait_queue *first;
    plock__index by_key;
    plock__heap looks; /* orders the queues by the time of the coordinator's next visit */
} plock_wait_queues;

struct plock_wait_queue {
    plock_wait_queues *among; /* NULL: no coordinator has it */
    plock_wait_queue *next, *previous;
    plock__index_entry by_key;
    plock__heap_entry look;
    plock_waiter *first, *last;
    plock_ns look_at; /* when the next look is due; PLOCK_NEVER: a look is under way */
    /* When the next look is due according to a message from the server. The message may be newer
     * than the last answer. PLOCK_NEVER: no message has come. */
    plock_ns told_at;
    unsigned looks;     /* How many looks in a row found a holder that does not notify waiters. */
    unsigned failures;  /* How many attempts in a row have not reached the server. */
    plock_ns resume_at; /* No waiter asks before this time, because the server cannot be reached. */
    /* Kept up to date by plock__wait_queue_note. due: the resting waiters that must ask for their
     * places, in order. asking: how many waiters have jobs that ask. unplaced: how many still need
     * a place. joined: how many have ever joined. */
    plock__heap due;
    unsigned asking, unplaced, joined;
    size_t length;
    char key[];
};

/* Returns NULL if memory runs out. Does not require the mutex. */
plock_wait_queue *plock__wait_queue_new(plock_text key);

/* Frees a list of wait queues that no coordinator has. Does not require the mutex. */
void plock__wait_queues_free(plock_wait_queue *list);

/* Add a queue to a coordinator's queues, and remove a queue from them. */
void plock__wait_queues_add(plock_wait_queues *queues, plock_wait_queue *queue);
void plock__wait_queues_remove(plock_wait_queue *queue);

/* Returns a queue that the coordinator must visit now, or NULL. A queue must be visited if it has
 * changed since the last visit, or if the time that plock__wait_queue_come_at set has come. */
plock_wait_queue *plock__wait_queues_due(const plock_wait_queues *queues, plock_ns now);
void plock__wait_queue_come_at(plock_wait_queue *queue, plock_ns at);

/* The first function finds the wait queue for the key. The second one finds the waiter in the queue
 * whose owner's value is `value`. Both return NULL if there is none. */
plock_wait_queue *plock__wait_queue_find(const plock_wait_queues *queues, plock_text key);
plock_waiter *plock__wait_queue_waiter(const plock_wait_queue *queue, plock_text value);

/* Inserts the waiter by ticket. A waiter without a ticket goes behind those that have one. Among
 * the waiters without a ticket, those with `follows` are last. */
void plock__wait_queue_insert(plock_wait_queue *queue, plock_waiter *waiter);
void plock__wait_queue_remove(plock_waiter *waiter);

/* Must be called after each change of the waiter's state, place or `due`. Updates what the
 * wait queue has noted about the waiter, so that no function needs to visit all waiters. Does
 * nothing if the waiter is in no wait queue. */
void plock__wait_queue_note(plock_waiter *waiter);

/* Makes all waiters except `seen` ask for their places again, because the queue on the server may
 * have lost any of them. */
void plock__wait_queue_shake(plock_wait_queue *queue, const plock_waiter *seen);

/* Notes for all resting waiters that the server cannot be reached. since: when the server began to
 * owe an answer. */
void plock__wait_queue_unreached(plock_wait_queue *queue, const plock_error *error, plock_ns since);

/* Does the same as plock__wait_queue_unreached, and begins a pause in which no waiter asks. The
 * pause grows with each failure in a row. It ends early when the channel opens. */
void plock__wait_queue_failed(plock_wait_queue *queue, const plock_error *error, plock_ns since,
                              plock_ns now);

/* Sets the time of the next look after a refusal with this place. The look is due within a
 * second. */
void plock__wait_queue_schedule(plock_wait_queue *queue, const plock_place *place, plock_ns now);

/* Sets the time of the next look. Replaces the time that was set after an earlier answer. */
void plock__wait_queue_look_at(plock_wait_queue *queue, plock_ns at);

/* Notes that, according to a message from the server, a look is due at this time. */
void plock__wait_queue_told(plock_wait_queue *queue, plock_ns at);

/* Notes that a waiter asks the server now. If a look was due, this request is the look, and no
 * other waiter looks before the answer comes. */
void plock__wait_queue_looks(plock_wait_queue *queue, plock_ns now);

/* Returns the next waiter whose job must ask the server. While the channel is `open`, the waiters
 * that must ask for their places go first, one at a time. If none of them can go now, and a look is
 * due, returns the first resting waiter. But while the channel is open, a waiter that must ask for
 * its place does not look. For such a waiter, the function returns NULL. If no waiter must ask now
 * (for example, during a pause), returns NULL, and lowers *at to the time at which one must ask. */
plock_waiter *plock__wait_queue_next(plock_wait_queue *queue, bool open, plock_ns now,
                                     plock_ns *at);

#ifdef PLOCK_TESTING
/* Returns how many waiters plock__wait_queue_next has visited since the last call. */
unsigned long plock__wait_queue_visited(void);
#endif

#endif
