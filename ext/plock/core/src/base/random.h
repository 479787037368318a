/* Random bytes from the system's generator. Each thread fetches many bytes at once. OpenSSL's
 * generator is not used, because it keeps a state for each thread. If a thread ends while the
 * process exits, OpenSSL may free that state twice (transport_tls.c). */
#ifndef PLOCK__RANDOM_H
#define PLOCK__RANDOM_H

#include "plock/status.h"

#include <stddef.h>
#include <stdint.h>

/* Writes `length` random bytes, 64 at most. Returns PLOCK_OK or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__random(void *bytes, size_t length);

/* Returns a number from low to high, for jitter, or low if the generator fails. */
int64_t plock__random_between(int64_t low, int64_t high);

#endif
