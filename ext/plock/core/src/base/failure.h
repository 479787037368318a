/* Putting a failure into words. Each returns the status, so that a function can end with it. error
 * may be NULL. */
#ifndef PLOCK__FAILURE_H
#define PLOCK__FAILURE_H

#include "plock/status.h"

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
plock_status
plock__fail(plock_error *error, plock_status status, const char *format, ...);

/* With the text that the list of statuses has. */
plock_status plock__fail_plainly(plock_error *error, plock_status status);

/* "doing: what the system says". Running out of descriptors becomes the status of that name. */
plock_status plock__fail_errno(plock_error *error, plock_status status, const char *doing,
                               int code);

#endif
