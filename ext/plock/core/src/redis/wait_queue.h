/* The wait queue: the waiters of this process for one lock, in order, and when the first of them
 * looks again. It sends nothing. Its functions require the lock. */
#ifndef PLOCK__QUEUE_H
#define PLOCK__QUEUE_H

#include "redis/waiter.h"

typedef struct plock_wait_queue plock_wait_queue;

struct plock_wait_queue {
    plock_wait_queue *next;
    plock_waiter *first, *last;
    plock_ns look_at; /* when a waiter must look; PLOCK_NEVER: a waiter is looking now */
    /* the same, by a message of the server, which may be newer than the last answer; PLOCK_NEVER:
     * there was none */
    plock_ns told_at;
    unsigned looks; /* how many looks in a row found a holder that does not notify */
    size_t length;
    char key[];
};

/* Returns NULL if there is no memory. Does not require the lock. */
plock_wait_queue *plock__wait_queue_new(plock_text key);

/* Find the wait queue for the key, and the waiter with the value. Return NULL if there is none. */
plock_wait_queue *plock__wait_queue_find(plock_wait_queue *queues, plock_text key);
plock_waiter *plock__wait_queue_waiter(const plock_wait_queue *queue, plock_text value);

/* Inserts the waiter by ticket. Without a ticket it goes behind all others, but before those that
 * follow, unless it follows, too. */
void plock__wait_queue_insert(plock_wait_queue *queue, plock_waiter *waiter);
void plock__wait_queue_remove(plock_waiter *waiter);

/* Must a waiter still get its place in the queue? Then no other one may overtake it. */
bool plock__wait_queue_unplaced(const plock_wait_queue *queue);

/* The queue on the server may have lost any waiter except `seen`. So makes all others ask for their
 * places again. */
void plock__wait_queue_shake(plock_wait_queue *queue, const plock_waiter *seen);

/* Sets when the next look is due, after a refusal: in a second at the latest. */
void plock__wait_queue_schedule(plock_wait_queue *queue, const plock_place *place, plock_ns now);

/* Notes that a message of the server says to look at this time. */
void plock__wait_queue_told(plock_wait_queue *queue, plock_ns at);

/* Notes that a waiter looks now. If a look was due, no other waiter looks before the answer. */
void plock__wait_queue_looks(plock_wait_queue *queue, plock_ns now);

/* Returns the next waiter whose job must ask. If the channel is `open` and no job of this queue is
 * asking, that is the first waiter whose place is due. Otherwise it is the first that rests, if a
 * look is due. Returns NULL if there is none now; then lowers *at to the time of the next look. */
plock_waiter *plock__wait_queue_next(plock_wait_queue *queue, bool open, plock_ns now,
                                     plock_ns *at);

#endif
