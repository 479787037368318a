/* A query: what a store says about its locks, and a lock taken away from whoever holds it. */
#ifndef PLOCK_QUERY_H
#define PLOCK_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plock/operation.h"
#include "plock/store.h"

#define PLOCK_WAITERS_TOLD 24  /* in one answer */
#define PLOCK_NOTE_MAX     160 /* bytes */

typedef struct plock_query plock_query;

/* About this key, which is of a lock that may have several holders (plock_lease_share) or not, or
 * for a scan this pattern (https://redis.io/docs/latest/commands/scan). PLOCK_OK, PLOCK_NO_MEMORY
 * or PLOCK_MISUSE (empty). */
PLOCK_MUST_USE plock_status plock_query_new(plock_query **query, plock_store *store,
                                            const char *key, size_t length, bool shared);
void plock_query_free(plock_query *query);

/* Each begins to ask, instead of what was under way; plock_query_step carries it out.
 *   status  value, ms left, what was noted at the last acquire ("fence seconds:microseconds host
 * pid thread channel label value"), waiters in all, and from the first-th on, at most
 * PLOCK_WAITERS_TOLD times, ticket (microseconds) and "host pid thread channel label value" of a
 * shared one: holders in all, waiters in all, and from the first-th on, so many times, of a holder
 * ms left and "mode fence seconds:microseconds host pid thread channel label value" ("" where
 * nothing is noted), of a waiter ticket and "share host …" scan    a cursor to go on from, 0 at the
 * end, and keys break   1 if it was held note    the note that is kept under the key, "" where
 * there is none; the given one is kept where there is no other, or instead of it with `replace`. An
 * empty one only looks. PLOCK_OK, or PLOCK_MISUSE (longer than PLOCK_NOTE_MAX): then nothing is
 * asked */
void plock_query_status(plock_query *query, int64_t first);
void plock_query_scan(plock_query *query, int64_t cursor);
void plock_query_break(plock_query *query);
PLOCK_MUST_USE plock_status plock_query_note(plock_query *query, const char *note, size_t length,
                                             bool replace);

/* The question under way has less time than a command: it ends by the deadline. */
void plock_query_hurry(plock_query *query, plock_ns deadline);

/* PLOCK_OK, PLOCK_AGAIN with interest, PLOCK_MISUSE (nothing has been asked), or the failure, which
 * plock_query_error has in words. */
PLOCK_MUST_USE plock_status plock_query_step(plock_query *query, plock_interest *interest);
void plock_query_cancel(plock_query *query);
plock_operation plock_query_operation(plock_query *query);
const plock_error *plock_query_error(const plock_query *query);

/* The answer, part by part, until the next question. */
size_t plock_query_parts(const plock_query *query);
/* NULL: it is no text */
const char *plock_query_text(const plock_query *query, size_t part, size_t *length);
/* 0 where it is no number */
int64_t plock_query_number(const plock_query *query, size_t part);

#endif
