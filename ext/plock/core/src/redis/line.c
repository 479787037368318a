#include "redis/line.h"

#include "base/memory.h"
#include "base/pause.h"

#include <string.h>

plock_line *plock__line_new(plock_text key) {
    plock_line *line = plock__allocate(sizeof *line + key.length);
    if (!line) return NULL;
    line->look_at = line->told_at = PLOCK_NEVER;
    line->length = key.length;
    memcpy(line->key, key.bytes, key.length);
    return line;
}

static bool same(plock_text text, const char *bytes, size_t length) {
    return text.length == length && !memcmp(text.bytes, bytes, length);
}

plock_line *plock__line_find(plock_line *lines, plock_text key) {
    for (plock_line *line = lines; line; line = line->next)
        if (same(key, line->key, line->length)) return line;
    return NULL;
}

plock_waiter *plock__line_waiter(const plock_line *line, plock_text value) {
    for (plock_waiter *waiter = line ? line->first : NULL; waiter; waiter = waiter->next)
        if (same(value, waiter->subject.owner.value.bytes, waiter->subject.owner.value.length)) return waiter;
    return NULL;
}

void plock__line_insert(plock_line *line, plock_waiter *waiter) {
    plock_waiter *before = line->last;
    const int64_t ticket = waiter->place.ticket;
    while (ticket && before && (before->place.ticket == 0 || before->place.ticket > ticket)) before = before->previous;
    while (!ticket && before && before->place.ticket == 0 && before->follows && !waiter->follows) before = before->previous;
    waiter->line = line;
    waiter->previous = before;
    waiter->next = before ? before->next : line->first;
    *(before ? &before->next : &line->first) = waiter;
    *(waiter->next ? &waiter->next->previous : &line->last) = waiter;
}

void plock__line_remove(plock_waiter *waiter) {
    plock_line *line = waiter->line;
    *(waiter->previous ? &waiter->previous->next : &line->first) = waiter->next;
    *(waiter->next ? &waiter->next->previous : &line->last) = waiter->previous;
    waiter->line = NULL;
    waiter->next = waiter->previous = NULL;
}

bool plock__line_unplaced(const plock_line *line) {
    for (const plock_waiter *waiter = line->first; waiter; waiter = waiter->next)
        if (waiter->due || (waiter->state == PLOCK__ASKS && !waiter->place.ticket)) return true;
    return false;
}

void plock__line_shake(plock_line *line, const plock_waiter *seen) {
    for (plock_waiter *waiter = line->first; waiter; waiter = waiter->next) {
        if (waiter == seen) continue;
        waiter->shaken = true;
        *(waiter->state == PLOCK__RESTS ? &waiter->due : &waiter->woken) = true;
    }
}

/* One of each process and key looks that often, whatever the server has promised: the queue may be lost, and with it whom a holder would
 * tell; or those who are told before us are frozen. */
static const plock_ns LOOK_EVERY = PLOCK_SECOND;

/* Each one further behind looks a little later, so that the first comes first. A holder that does not notify is looked at in jittered,
 * growing intervals: often by the first, more rarely by those behind. */
void plock__line_schedule(plock_line *line, const plock_place *place, plock_ns now) {
    const plock_ns rank = place->rank * PLOCK_MILLISECOND;
    plock_ns span = LOOK_EVERY;
    if (!place->free_in) {
        span = 0;
    } else if (place->notified) {
        line->looks = 0;
        if (place->free_in < LOOK_EVERY) span = place->free_in + PLOCK_MILLISECOND + rank;
    } else {
        span = plock__pause_before_looking(line->looks++, place->free_in, PLOCK_NEVER) + 10 * rank;
    }
    line->look_at = now + (span < LOOK_EVERY ? span : LOOK_EVERY);
}

static plock_ns when(const plock_line *line) {
    return line->told_at < line->look_at ? line->told_at : line->look_at;
}

void plock__line_told(plock_line *line, plock_ns at) {
    if (at < line->told_at) line->told_at = at;
}

void plock__line_looks(plock_line *line, plock_ns now) {
    if (now < when(line)) return;
    line->look_at = PLOCK_NEVER;
    if (now >= line->told_at) line->told_at = PLOCK_NEVER;
}

plock_waiter *plock__line_next(plock_line *line, bool open, plock_ns now, plock_ns *at) {
    bool asking = false;
    plock_waiter *first = NULL, *due = NULL;
    for (plock_waiter *waiter = line->first; waiter; waiter = waiter->next) {
        if (waiter->state == PLOCK__ASKED) asking = true;
        if (waiter->state != PLOCK__RESTS) continue;
        if (!first) first = waiter;
        if (waiter->due && !due) due = waiter;
    }
    if (open && due && !asking) return due;
    if (!first) return NULL;
    if (now >= when(line)) return first;
    if (when(line) < *at) *at = when(line);
    return NULL;
}
