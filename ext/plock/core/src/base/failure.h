/* Messages of failures. Each function returns the status, so that its caller can return that at
 * once. `error` may be NULL. A message that is too long ends with an ellipsis. */
#ifndef PLOCK__FAILURE_H
#define PLOCK__FAILURE_H

#include "plock/status.h"

#include <stddef.h>

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
plock_status
plock__fail(plock_error *error, plock_status status, const char *format, ...);

/* Shortens a UTF-8 text that does not fit into `room` bytes with its NUL. The text then ends with
 * an ellipsis, if possible after a word. `room` must be at least 64. */
void plock__shorten(char *message, size_t room);

/* Fails with the text of the status as the message. */
plock_status plock__fail_plainly(plock_error *error, plock_status status);

/* Writes "doing: text of the errno". If the process has no descriptors left, the status is
 * PLOCK_DESCRIPTORS. */
plock_status plock__fail_errno(plock_error *error, plock_status status, const char *doing,
                               int code);

#endif
