#include "redis/wait_queue.h"

#include "base/container.h"
#include "base/memory.h"
#include "base/pause.h"

#include <string.h>

#ifdef PLOCK_TESTING
static unsigned long visited; /* under the mutex */

unsigned long plock__wait_queue_visited(void) {
    const unsigned long before = visited;
    visited = 0;
    return before;
}
#define VISIT() ((void)visited++)
#else
#define VISIT() ((void)0)
#endif

plock_wait_queue *plock__wait_queue_new(plock_text key) {
    plock_wait_queue *queue = plock__allocate(sizeof *queue + key.length);
    if (!queue) return NULL;
    queue->look_at = queue->told_at = PLOCK_NEVER;
    queue->length = key.length;
    memcpy(queue->key, key.bytes, key.length);
    return queue;
}

void plock__wait_queues_free(plock_wait_queue *list) {
    for (plock_wait_queue *queue = list, *next; queue; queue = next) {
        next = queue->next;
        plock__free(queue);
    }
}

void plock__wait_queues_add(plock_wait_queues *queues, plock_wait_queue *queue) {
    queue->among = queues;
    queue->previous = NULL;
    queue->next = queues->first;
    if (queue->next) queue->next->previous = queue;
    queues->first = queue;
    plock__index_add(&queues->by_key, &queue->by_key, plock__text(queue->key, queue->length));
    plock__heap_insert(&queues->looks, &queue->look, 0);
}

void plock__wait_queues_remove(plock_wait_queue *queue) {
    plock_wait_queues *queues = queue->among;
    if (queue->next) queue->next->previous = queue->previous;
    *(queue->previous ? &queue->previous->next : &queues->first) = queue->next;
    plock__index_remove(&queue->by_key);
    plock__heap_remove(&queues->looks, &queue->look);
    queue->among = NULL;
}

void plock__wait_queue_come_at(plock_wait_queue *queue, plock_ns at) {
    if (queue->among) plock__heap_move(&queue->among->looks, &queue->look, at);
}

static void changed(plock_wait_queue *queue) { plock__wait_queue_come_at(queue, 0); }

plock_wait_queue *plock__wait_queues_due(const plock_wait_queues *queues, plock_ns now) {
    plock__heap_entry *first = queues->looks.first;
    if (!first || now < first->at) return NULL;
    return PLOCK__CONTAINER(plock_wait_queue, look, first);
}

plock_wait_queue *plock__wait_queue_find(const plock_wait_queues *queues, plock_text key) {
    for (plock__index_entry *entry = plock__index_first(&queues->by_key, key); entry;
         entry = plock__index_next(entry)) {
        plock_wait_queue *queue = PLOCK__CONTAINER(plock_wait_queue, by_key, entry);
        if (plock__same_text(key, plock__text(queue->key, queue->length))) return queue;
    }
    return NULL;
}

plock_waiter *plock__wait_queue_waiter(const plock_wait_queue *queue, plock_text value) {
    for (plock_waiter *waiter = queue ? queue->first : NULL; waiter; waiter = waiter->next)
        if (plock__same_text(value, waiter->subject.owner.value)) return waiter;
    return NULL;
}

/* Returns the number by which the due waiters are sorted. Waiters with a ticket come first, in the
 * order of their tickets. The other waiters come in the order in which they joined, those with
 * `follows` last. */
static plock_ns order(const plock_waiter *waiter) {
    static const plock_ns NO_TICKET = (plock_ns)1 << 61, FOLLOWS = (plock_ns)1 << 62;
    if (waiter->place.ticket) return waiter->place.ticket;
    return (waiter->follows ? FOLLOWS : NO_TICKET) + waiter->joined;
}

static void count(unsigned *number, bool *counted, bool counts) {
    *number += counts;
    *number -= *counted;
    *counted = counts;
}

static void note(plock_waiter *waiter, bool asking, bool unplaced, bool due) {
    plock_wait_queue *queue = waiter->queue;
    count(&queue->asking, &waiter->noted_asking, asking);
    count(&queue->unplaced, &waiter->noted_unplaced, unplaced);
    if (due)
        plock__heap_move(&queue->due, &waiter->due_entry, order(waiter));
    else
        plock__heap_remove(&queue->due, &waiter->due_entry);
    changed(queue);
}

void plock__wait_queue_insert(plock_wait_queue *queue, plock_waiter *waiter) {
    plock_waiter *before = queue->last;
    const int64_t ticket = waiter->place.ticket;
    while (ticket && before && (before->place.ticket == 0 || before->place.ticket > ticket))
        before = before->previous;
    while (!ticket && before && before->place.ticket == 0 && before->follows && !waiter->follows)
        before = before->previous;
    waiter->queue = queue;
    waiter->previous = before;
    waiter->next = before ? before->next : queue->first;
    *(before ? &before->next : &queue->first) = waiter;
    *(waiter->next ? &waiter->next->previous : &queue->last) = waiter;
    waiter->joined = queue->joined++;
    plock__wait_queue_note(waiter);
}

void plock__wait_queue_remove(plock_waiter *waiter) {
    plock_wait_queue *queue = waiter->queue;
    *(waiter->previous ? &waiter->previous->next : &queue->first) = waiter->next;
    *(waiter->next ? &waiter->next->previous : &queue->last) = waiter->previous;
    waiter->next = waiter->previous = NULL;
    note(waiter, false, false, false);
    waiter->queue = NULL;
}

void plock__wait_queue_note(plock_waiter *waiter) {
    if (!waiter->queue) return;
    note(waiter, plock__waiter_asked(waiter),
         waiter->due || (plock__waiter_asks(waiter) && !waiter->place.ticket),
         waiter->due && plock__waiter_rests(waiter));
}

/* Ends the pause in which no waiter asks, because the server answers or the channel to it is
 * open. */
static void resume(plock_wait_queue *queue) {
    queue->failures = 0;
    queue->resume_at = 0;
}

void plock__wait_queue_shake(plock_wait_queue *queue, const plock_waiter *seen) {
    resume(queue);
    for (plock_waiter *waiter = queue->first; waiter; waiter = waiter->next) {
        if (waiter == seen) continue;
        waiter->shaken = waiter->due = true;
        if (!plock__waiter_rests(waiter)) plock__waiter_call_later(waiter);
        plock__wait_queue_note(waiter);
    }
}

void plock__wait_queue_unreached(plock_wait_queue *queue, const plock_error *error,
                                 plock_ns since) {
    for (plock_waiter *waiter = queue->first; waiter; waiter = waiter->next)
        if (plock__waiter_rests(waiter)) plock__waiter_unreached(waiter, error, since);
}

/* For each key, one waiter of each process asks the server at least this often, whatever the server
 * has said. The server may have lost the queue, so that no holder notifies the waiter. Or the
 * waiters before this one in the server's queue may be frozen. */
static const plock_ns LOOK_EVERY = PLOCK_SECOND;

/* A waiter with more waiters before it in the server's queue looks a little later, so that the
 * first one looks first. If the holder does not notify waiters, the waiters must poll, at jittered,
 * growing intervals. The first waiter polls often, and the waiters behind it poll less often. */
void plock__wait_queue_schedule(plock_wait_queue *queue, const plock_place *place, plock_ns now) {
    const plock_ns rank = place->rank * PLOCK_MILLISECOND;
    plock_ns span = LOOK_EVERY;
    resume(queue);
    if (!place->free_in) {
        span = 0;
    } else if (place->notified) {
        queue->looks = 0;
        if (place->free_in < LOOK_EVERY) span = place->free_in + PLOCK_MILLISECOND + rank;
    } else {
        span = plock__pause_before_looking(queue->looks++, place->free_in, PLOCK_NEVER) + 10 * rank;
    }
    plock__wait_queue_look_at(queue, now + (span < LOOK_EVERY ? span : LOOK_EVERY));
}

void plock__wait_queue_failed(plock_wait_queue *queue, const plock_error *error, plock_ns since,
                              plock_ns now) {
    plock__wait_queue_unreached(queue, error, since);
    queue->resume_at = now + plock__pause_before_trying(queue->failures++);
    plock__wait_queue_look_at(queue, queue->resume_at);
}

void plock__wait_queue_look_at(plock_wait_queue *queue, plock_ns at) {
    queue->look_at = at;
    changed(queue);
}

static plock_ns when(const plock_wait_queue *queue) {
    return queue->told_at < queue->look_at ? queue->told_at : queue->look_at;
}

void plock__wait_queue_told(plock_wait_queue *queue, plock_ns at) {
    if (at < queue->told_at) queue->told_at = at;
    changed(queue);
}

void plock__wait_queue_looks(plock_wait_queue *queue, plock_ns now) {
    if (now < when(queue)) return;
    queue->look_at = PLOCK_NEVER;
    if (now >= queue->told_at) queue->told_at = PLOCK_NEVER;
}

plock_waiter *plock__wait_queue_next(plock_wait_queue *queue, bool open, plock_ns now,
                                     plock_ns *at) {
    if (now < queue->resume_at) {
        if (queue->resume_at < *at) *at = queue->resume_at;
        return NULL;
    }
    if (open && queue->due.first && !queue->asking) {
        VISIT();
        return PLOCK__CONTAINER(plock_waiter, due_entry, queue->due.first);
    }
    plock_waiter *first = queue->first;
    /* the loop is short: usually the first waiter rests, or the second if the first one asks */
    for (; first && !plock__waiter_rests(first); first = first->next) VISIT();
    if (!first) return NULL;
    /* `first` must ask for its place, and another waiter is doing so now; if the server has lost
     * the queue, `first` would overtake that waiter */
    if (open && first->due) return NULL;
    if (now >= when(queue)) return first;
    if (when(queue) < *at) *at = when(queue);
    return NULL;
}
