/* Who waits in this process for one lock: a list in the order in which they came, and when the
 * first of them looks again. Only lists; all with the lock held. */
#ifndef PLOCK__QUEUE_H
#define PLOCK__QUEUE_H

#include "redis/waiter.h"

typedef struct plock_wait_queue plock_wait_queue;

struct plock_wait_queue {
    plock_wait_queue *next;
    plock_waiter *first, *last;
    plock_ns look_at; /* PLOCK_NEVER: somebody is looking */
    /* when the server said to look; it may have said so after it gave the last answer that was
     * read. PLOCK_NEVER: it did not */
    plock_ns told_at;
    unsigned looks; /* at a holder that will not tell */
    size_t length;
    char key[];
};

/* NULL when there is no memory. Needs no lock. */
plock_wait_queue *plock__wait_queue_new(plock_text key);

/* NULL where nobody waits for it. */
plock_wait_queue *plock__wait_queue_find(plock_wait_queue *queues, plock_text key);
plock_waiter *plock__wait_queue_waiter(const plock_wait_queue *queue, plock_text value);

/* By ticket; who has none goes last, but before those who follow him. */
void plock__wait_queue_insert(plock_wait_queue *queue, plock_waiter *waiter);
void plock__wait_queue_remove(plock_waiter *waiter);

/* Is there one who has yet to be given a place in the queue, and must not be overtaken? */
bool plock__wait_queue_unplaced(const plock_wait_queue *queue);

/* The queue may have lost any of them, but this one has been seen there: all the others ask for
 * their places again. */
void plock__wait_queue_shake(plock_wait_queue *queue, const plock_waiter *seen);

/* A waiter has been refused: when is there something to see again? In a second at the latest. */
void plock__wait_queue_schedule(plock_wait_queue *queue, const plock_place *place, plock_ns now);

/* The server says to look at this moment. */
void plock__wait_queue_told(plock_wait_queue *queue, plock_ns at);

/* Somebody looks now: if it was time, there is no time to look until he has seen. */
void plock__wait_queue_looks(plock_wait_queue *queue, plock_ns now);

/* The next who is to look: one whose place in the queue is due, where he can be given one (`open`)
 * and nobody else of this line is about to get one; or the first where it is time. NULL: nobody
 * yet; *at is lowered to when there may be one. */
plock_waiter *plock__wait_queue_next(plock_wait_queue *queue, bool open, plock_ns now,
                                     plock_ns *at);

#endif
