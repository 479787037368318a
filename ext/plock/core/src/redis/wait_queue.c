#include "redis/wait_queue.h"

#include "base/memory.h"
#include "base/pause.h"

#include <string.h>

plock_wait_queue *plock__wait_queue_new(plock_text key) {
    plock_wait_queue *queue = plock__allocate(sizeof *queue + key.length);
    if (!queue) return NULL;
    queue->look_at = queue->told_at = PLOCK_NEVER;
    queue->length = key.length;
    memcpy(queue->key, key.bytes, key.length);
    return queue;
}

static bool same(plock_text text, const char *bytes, size_t length) {
    return text.length == length && !memcmp(text.bytes, bytes, length);
}

plock_wait_queue *plock__wait_queue_find(plock_wait_queue *queues, plock_text key) {
    for (plock_wait_queue *queue = queues; queue; queue = queue->next)
        if (same(key, queue->key, queue->length)) return queue;
    return NULL;
}

plock_waiter *plock__wait_queue_waiter(const plock_wait_queue *queue, plock_text value) {
    for (plock_waiter *waiter = queue ? queue->first : NULL; waiter; waiter = waiter->next)
        if (same(value, waiter->subject.owner.value.bytes, waiter->subject.owner.value.length))
            return waiter;
    return NULL;
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
}

void plock__wait_queue_remove(plock_waiter *waiter) {
    plock_wait_queue *queue = waiter->queue;
    *(waiter->previous ? &waiter->previous->next : &queue->first) = waiter->next;
    *(waiter->next ? &waiter->next->previous : &queue->last) = waiter->previous;
    waiter->queue = NULL;
    waiter->next = waiter->previous = NULL;
}

bool plock__wait_queue_unplaced(const plock_wait_queue *queue) {
    for (const plock_waiter *waiter = queue->first; waiter; waiter = waiter->next)
        if (waiter->due || (plock__waiter_asks(waiter) && !waiter->place.ticket)) return true;
    return false;
}

void plock__wait_queue_shake(plock_wait_queue *queue, const plock_waiter *seen) {
    for (plock_waiter *waiter = queue->first; waiter; waiter = waiter->next) {
        if (waiter == seen) continue;
        waiter->shaken = true;
        if (plock__waiter_rests(waiter))
            waiter->due = true;
        else
            plock__waiter_call_later(waiter);
    }
}

/* One waiter of each process and key looks at least this often, whatever the server has said. For
 * the queue may be lost, and then no holder notifies, or the waiters before this one may be frozen.
 */
static const plock_ns LOOK_EVERY = PLOCK_SECOND;

/* A waiter with more waiters before it looks a little later, so that the first one comes first. If
 * the holder does not notify, waiters look in jittered, growing intervals: the first one often, the
 * ones behind it more rarely. */
void plock__wait_queue_schedule(plock_wait_queue *queue, const plock_place *place, plock_ns now) {
    const plock_ns rank = place->rank * PLOCK_MILLISECOND;
    plock_ns span = LOOK_EVERY;
    if (!place->free_in) {
        span = 0;
    } else if (place->notified) {
        queue->looks = 0;
        if (place->free_in < LOOK_EVERY) span = place->free_in + PLOCK_MILLISECOND + rank;
    } else {
        span = plock__pause_before_looking(queue->looks++, place->free_in, PLOCK_NEVER) + 10 * rank;
    }
    queue->look_at = now + (span < LOOK_EVERY ? span : LOOK_EVERY);
}

static plock_ns when(const plock_wait_queue *queue) {
    return queue->told_at < queue->look_at ? queue->told_at : queue->look_at;
}

void plock__wait_queue_told(plock_wait_queue *queue, plock_ns at) {
    if (at < queue->told_at) queue->told_at = at;
}

void plock__wait_queue_looks(plock_wait_queue *queue, plock_ns now) {
    if (now < when(queue)) return;
    queue->look_at = PLOCK_NEVER;
    if (now >= queue->told_at) queue->told_at = PLOCK_NEVER;
}

plock_waiter *plock__wait_queue_next(plock_wait_queue *queue, bool open, plock_ns now,
                                     plock_ns *at) {
    bool asking = false;
    plock_waiter *first = NULL, *due = NULL;
    for (plock_waiter *waiter = queue->first; waiter; waiter = waiter->next) {
        if (plock__waiter_asked(waiter)) asking = true;
        if (!plock__waiter_rests(waiter)) continue;
        if (!first) first = waiter;
        if (waiter->due && !due) due = waiter;
    }
    if (open && due && !asking) return due;
    if (!first) return NULL;
    if (now >= when(queue)) return first;
    if (when(queue) < *at) *at = when(queue);
    return NULL;
}
