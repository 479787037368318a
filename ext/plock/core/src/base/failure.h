/* Messages of failures. Each function returns the status, so that a function can end with it.
 * `error` may be NULL. */
#ifndef PLOCK__FAILURE_H
#define PLOCK__FAILURE_H

#include "plock/status.h"

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
plock_status
plock__fail(plock_error *error, plock_status status, const char *format, ...);

/* Uses the text of the status. */
plock_status plock__fail_plainly(plock_error *error, plock_status status);

/* Writes "doing: text of the errno". If the process has no descriptors left, the status is
 * PLOCK_DESCRIPTORS. */
plock_status plock__fail_errno(plock_error *error, plock_status status, const char *doing,
                               int code);

#endif
