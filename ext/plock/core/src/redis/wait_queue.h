/* The wait queue: the waiters of this process for one lock, in order, and when the first of them
 * looks again. It sends nothing. Its functions require the lock. */
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
    plock__heap looks; /* by when the coordinator has to come to the queue next */
} plock_wait_queues;

struct plock_wait_queue {
    plock_wait_queues *among; /* NULL: it is not among a coordinator's */
    plock_wait_queue *next, *previous;
    plock__index_entry by_key;
    plock__heap_entry look;
    plock_waiter *first, *last;
    plock_ns look_at; /* when a waiter must look; PLOCK_NEVER: a waiter is looking now */
    /* the same, by a message of the server, which may be newer than the last answer; PLOCK_NEVER:
     * there was none */
    plock_ns told_at;
    unsigned looks;     /* how many looks in a row found a holder that does not notify */
    unsigned failures;  /* how many attempts in a row have not reached the server */
    plock_ns resume_at; /* before this time no waiter asks, as the server cannot be reached */
    /* What plock__wait_queue_note knows of the waiters: those that must ask for their places and
     * rest, in order; how many have jobs that ask, and how many still need a place. */
    plock__heap due;
    unsigned asking, unplaced, joined;
    size_t length;
    char key[];
};

/* Returns NULL if there is no memory. Does not require the lock. */
plock_wait_queue *plock__wait_queue_new(plock_text key);

/* Add a queue to a coordinator's, and remove it. */
void plock__wait_queues_add(plock_wait_queues *queues, plock_wait_queue *queue);
void plock__wait_queues_remove(plock_wait_queue *queue);

/* Returns a queue that the coordinator has to come to now; NULL: there is none. The queue has
 * changed since the coordinator last came to it, or its moment has come. The coordinator then tells
 * when to come next. */
plock_wait_queue *plock__wait_queues_due(const plock_wait_queues *queues, plock_ns now);
void plock__wait_queue_come_at(plock_wait_queue *queue, plock_ns at);

/* Find the wait queue for the key, and the waiter with the value. Return NULL if there is none. */
plock_wait_queue *plock__wait_queue_find(const plock_wait_queues *queues, plock_text key);
plock_waiter *plock__wait_queue_waiter(const plock_wait_queue *queue, plock_text value);

/* Inserts the waiter by ticket. Without a ticket it goes behind all others, but before those that
 * follow, unless it follows, too. */
void plock__wait_queue_insert(plock_wait_queue *queue, plock_waiter *waiter);
void plock__wait_queue_remove(plock_waiter *waiter);

/* Call it after each change of the waiter's state, place or `due`. It keeps account of these, so
 * that nothing has to go through all waiters. Does nothing for a waiter in no wait queue. */
void plock__wait_queue_note(plock_waiter *waiter);

/* Must a waiter still get its place in the queue? Then no other one may overtake it. */
bool plock__wait_queue_unplaced(const plock_wait_queue *queue);

/* The queue on the server may have lost any waiter except `seen`. So makes all others ask for their
 * places again. */
void plock__wait_queue_shake(plock_wait_queue *queue, const plock_waiter *seen);

/* The server cannot be reached, and began to owe an answer then. This counts for all waiters that
 * rest. */
void plock__wait_queue_unreached(plock_wait_queue *queue, const plock_error *error, plock_ns since);

/* The same, and no waiter asks during a pause, which grows with each failure in a row. The pause
 * ends early when the channel opens. */
void plock__wait_queue_failed(plock_wait_queue *queue, const plock_error *error, plock_ns since,
                              plock_ns now);

/* Sets when the next look is due, after a refusal: in a second at the latest. */
void plock__wait_queue_schedule(plock_wait_queue *queue, const plock_place *place, plock_ns now);

/* Sets when a waiter looks next, whatever has been said before. */
void plock__wait_queue_look_at(plock_wait_queue *queue, plock_ns at);

/* Notes that a message of the server says to look at this time. */
void plock__wait_queue_told(plock_wait_queue *queue, plock_ns at);

/* Notes that a waiter looks now. If a look was due, no other waiter looks before the answer. */
void plock__wait_queue_looks(plock_wait_queue *queue, plock_ns now);

/* Returns the next waiter whose job must ask; NULL during a pause. If the channel is `open` and no
 * job of this queue is asking, that is the first waiter whose place is due. Otherwise it is the
 * first that rests, if a look is due, and its place is not. Returns NULL if there is none now; then
 * lowers *at to the time of the next look. */
plock_waiter *plock__wait_queue_next(plock_wait_queue *queue, bool open, plock_ns now,
                                     plock_ns *at);

#ifdef PLOCK_TESTING
/* Returns how many waiters plock__wait_queue_next has visited since the last call. */
unsigned long plock__wait_queue_visited(void);
#endif

#endif
