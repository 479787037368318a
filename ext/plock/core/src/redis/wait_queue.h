/* The wait queue: the waiters of this process for one lock, in order, and when the first of them
 * looks again. It sends nothing. All functions require the lock. */
#ifndef PLOCK__QUEUE_H
#define PLOCK__QUEUE_H

#include "redis/waiter.h"

typedef struct plock_wait_queue plock_wait_queue;

struct plock_wait_queue {
    plock_wait_queue *next;
    plock_waiter *first, *last;
    plock_ns look_at; /* PLOCK_NEVER: a waiter is looking */
    /* when a message of the server said to look; it may be newer than the last answer. PLOCK_NEVER:
     * none did */
    plock_ns told_at;
    unsigned looks; /* at a holder that does not notify */
    size_t length;
    char key[];
};

/* NULL: there is no memory. Does not require the lock. */
plock_wait_queue *plock__wait_queue_new(plock_text key);

/* NULL: no waiter of this process waits for the key, or has the value. */
plock_wait_queue *plock__wait_queue_find(plock_wait_queue *queues, plock_text key);
plock_waiter *plock__wait_queue_waiter(const plock_wait_queue *queue, plock_text value);

/* By ticket. A waiter without one goes last, but before those that follow. */
void plock__wait_queue_insert(plock_wait_queue *queue, plock_waiter *waiter);
void plock__wait_queue_remove(plock_waiter *waiter);

/* Must a waiter still get its place in the queue? Then no other one may overtake it. */
bool plock__wait_queue_unplaced(const plock_wait_queue *queue);

/* The queue on the server may have lost any waiter but `seen`: all others ask for their places
 * again. */
void plock__wait_queue_shake(plock_wait_queue *queue, const plock_waiter *seen);

/* A waiter was refused: sets when the next look is due, in a second at the latest. */
void plock__wait_queue_schedule(plock_wait_queue *queue, const plock_place *place, plock_ns now);

/* A message of the server says when to look. */
void plock__wait_queue_told(plock_wait_queue *queue, plock_ns at);

/* A waiter looks now: if it was time, no other one looks before the answer. */
void plock__wait_queue_looks(plock_wait_queue *queue, plock_ns now);

/* The next waiter that must look. If the channel is `open` and no other waiter of this queue asks,
 * it is the first whose place is due; else the first that rests, if it is time. NULL: none yet, and
 * *at is lowered to when there may be one. */
plock_waiter *plock__wait_queue_next(plock_wait_queue *queue, bool open, plock_ns now,
                                     plock_ns *at);

#endif
