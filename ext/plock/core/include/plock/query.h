/* A query reads the state of a store's locks, breaks a held lock, or reads and writes a note. */
#ifndef PLOCK_QUERY_H
#define PLOCK_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plock/operation.h"
#include "plock/store.h"

#define PLOCK_WAITERS_TOLD 24  /* how many holders and waiters an answer has at most */
#define PLOCK_NOTE_MAX     160 /* bytes */

typedef struct plock_query plock_query;

/* Creates a query about this key or, for a scan, this pattern
 * (https://redis.io/docs/latest/commands/scan). `shared` means that the lock may have several
 * holders (plock_lease_share). Returns PLOCK_OK, PLOCK_NO_MEMORY or PLOCK_MISUSE (empty key). */
PLOCK_MUST_USE plock_status plock_query_new(plock_query **query, plock_store *store,
                                            const char *key, size_t length, bool shared);
void plock_query_free(plock_query *query);

/* Each of these functions begins a question, and gives up an earlier question that is still under
 * way. plock_query_step carries the question out.
 *
 * plock_query_status answers with the key's value, the milliseconds until the key expires, the note
 * of the last acquire, and the number of waiters. The note is "fence seconds:microseconds host pid
 * thread channel label value". Then the answer lists at most PLOCK_WAITERS_TOLD waiters, from index
 * `first` on. Each waiter has two parts: its ticket (microseconds) and "host pid thread channel
 * label value".
 *
 * For a shared lock, plock_query_status answers with the number of holders and the number of
 * waiters. Then the answer lists at most PLOCK_WAITERS_TOLD entries, from index `first` on. The
 * holders come first, and then the waiters. A holder has two parts: the milliseconds until its
 * lease expires, and "mode fence seconds:microseconds host pid thread channel label value" (or "",
 * if its note is missing). A waiter also has two parts: its ticket and "share host pid thread
 * channel label value".
 *
 * plock_query_scan answers with a cursor to continue from (0 at the end), and then with keys.
 *
 * plock_query_break_only answers 0 if the lock was not held. If the answer to an earlier attempt
 * was lost, the answer is never 0, because that attempt may have broken the lock. It takes the lock
 * only from the holders with these fences. `fences` has a blank before and after each fence, as in
 * " 1700000000000000 - ". "-" means the holders without a fence. With no fences (""), all holders
 * lose the lock. The text must not change until the question has ended.
 *
 * plock_query_note stores the given note if the key had none or `replace` is true. With an empty
 * note, it stores nothing. It answers with the note that the key has afterwards, or with "" if the
 * key has none. If the note is longer than PLOCK_NOTE_MAX, it begins no question and returns
 * PLOCK_MISUSE. Otherwise it returns PLOCK_OK. */
void plock_query_status(plock_query *query, int64_t first);
void plock_query_scan(plock_query *query, int64_t cursor);
void plock_query_break_only(plock_query *query, const char *fences, size_t length);
PLOCK_MUST_USE plock_status plock_query_note(plock_query *query, const char *note, size_t length,
                                             bool replace);

/* Makes the question under way end by the deadline, if the deadline comes before command_timeout is
 * over. */
void plock_query_hurry(plock_query *query, plock_ns deadline);

/* Returns PLOCK_OK, PLOCK_AGAIN with interest, PLOCK_MISUSE (no question), or the failure, with a
 * message in plock_query_error. */
PLOCK_MUST_USE plock_status plock_query_step(plock_query *query, plock_interest *interest);
void plock_query_cancel(plock_query *query);
plock_operation plock_query_operation(plock_query *query);
const plock_error *plock_query_error(const plock_query *query);

/* The parts of the answer, which stay valid until the next question. */
size_t plock_query_parts(const plock_query *query);
/* returns NULL if the part is not a text */
const char *plock_query_text(const plock_query *query, size_t part, size_t *length);
/* returns 0 if the part is not a number */
int64_t plock_query_number(const plock_query *query, size_t part);

#endif
