/* An inquiry: what a store says about its locks, and a lock taken away from whoever holds it. */
#ifndef PLOCK_INQUIRY_H
#define PLOCK_INQUIRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plock/operation.h"
#include "plock/store.h"

#define PLOCK_WAITERS_TOLD 24 /* in one answer */
#define PLOCK_NOTE_MAX 160    /* bytes */

typedef struct plock_inquiry plock_inquiry;

/* About this key, which is of a lock that may have several holders (plock_lease_share) or not, or for a scan this pattern (https://redis.io/docs/latest/commands/scan). PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_MISUSE (empty). */
PLOCK_MUST_USE plock_status plock_inquiry_new(plock_inquiry **inquiry, plock_store *store, const char *key, size_t length, bool shared);
void plock_inquiry_free(plock_inquiry *inquiry);

/* Each begins to ask, instead of what was under way; plock_inquiry_step carries it out.
 *   status  value, ms left, what was noted at the last acquire ("fence seconds:microseconds host pid thread channel label value"), waiters in all, and from
 *           the first-th on, at most PLOCK_WAITERS_TOLD times, ticket (microseconds) and "host pid thread channel label value"
 *           of a shared one: holders in all, waiters in all, and from the first-th on, so many times, of a holder ms left and "mode fence
 *           seconds:microseconds host pid thread channel label value" ("" where nothing is noted), of a waiter ticket and "share host …"
 *   scan    a cursor to go on from, 0 at the end, and keys
 *   break   1 if it was held
 *   note    the note that is kept under the key, "" where there is none; the given one is kept where there is no other, or instead of it
 *           with `replace`. An empty one only looks. PLOCK_OK, or PLOCK_MISUSE (longer than PLOCK_NOTE_MAX): then nothing is asked */
void plock_inquiry_status(plock_inquiry *inquiry, int64_t first);
void plock_inquiry_scan(plock_inquiry *inquiry, int64_t cursor);
void plock_inquiry_break(plock_inquiry *inquiry);
PLOCK_MUST_USE plock_status plock_inquiry_note(plock_inquiry *inquiry, const char *note, size_t length, bool replace);

/* The question under way has less time than a command: it ends by the deadline. */
void plock_inquiry_hurry(plock_inquiry *inquiry, plock_ns deadline);

/* PLOCK_OK, PLOCK_AGAIN with want, PLOCK_MISUSE (nothing has been asked), or the failure, which plock_inquiry_error has in words. */
PLOCK_MUST_USE plock_status plock_inquiry_step(plock_inquiry *inquiry, plock_want *want);
void plock_inquiry_cancel(plock_inquiry *inquiry);
plock_operation plock_inquiry_operation(plock_inquiry *inquiry);
const plock_error *plock_inquiry_error(const plock_inquiry *inquiry);

/* The answer, part by part, until the next question. */
size_t plock_inquiry_parts(const plock_inquiry *inquiry);
const char *plock_inquiry_text(const plock_inquiry *inquiry, size_t part, size_t *length); /* NULL: it is no text */
int64_t plock_inquiry_number(const plock_inquiry *inquiry, size_t part);                   /* 0 where it is no number */

#endif
