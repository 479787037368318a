/* Messages of failures. Each function returns the status, so that a function can end with it.
 * `error` may be NULL. A message that is too long ends with an ellipsis. */
#ifndef PLOCK__FAILURE_H
#define PLOCK__FAILURE_H

#include "plock/status.h"

#include <stddef.h>

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
plock_status
plock__fail(plock_error *error, plock_status status, const char *format, ...);

/* Ends a text of UTF-8 that takes more than `room` bytes with an ellipsis, if possible after a
 * word. `room` counts the NUL, and is 64 at least. */
void plock__shorten(char *message, size_t room);

/* Uses the text of the status. */
plock_status plock__fail_plainly(plock_error *error, plock_status status);

/* Writes "doing: text of the errno". If the process has no descriptors left, the status is
 * PLOCK_DESCRIPTORS. */
plock_status plock__fail_errno(plock_error *error, plock_status status, const char *doing,
                               int code);

#endif
