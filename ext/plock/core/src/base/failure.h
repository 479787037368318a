/* Functions that write the messages of failures. All but plock__shorten return the status, so a
 * caller can write `return plock__fail(…)`. `error` may be NULL. A message that is too long is cut,
 * and ends with an ellipsis. */
#ifndef PLOCK__FAILURE_H
#define PLOCK__FAILURE_H

#include "plock/status.h"

#include <stddef.h>

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
plock_status
plock__fail(plock_error *error, plock_status status, const char *format, ...);

/* Shortens a UTF-8 text if the text and its NUL do not fit into `room` bytes. The shortened text
 * ends with an ellipsis, if possible after a whole word. `room` must be at least 64. */
void plock__shorten(char *message, size_t room);

/* Fails, and uses the text of the status as the message. */
plock_status plock__fail_plainly(plock_error *error, plock_status status);

/* Fails with the message "doing: text of the errno `code`". If the errno says that no descriptors
 * are left, the status is PLOCK_DESCRIPTORS. */
plock_status plock__fail_errno(plock_error *error, plock_status status, const char *doing,
                               int code);

#endif
