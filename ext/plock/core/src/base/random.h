/* Random bytes from the system's generator, which each thread draws in larger pieces. OpenSSL's
 * generator would keep a state for each thread; transport_tls.c says why that is a problem. */
#ifndef PLOCK__RANDOM_H
#define PLOCK__RANDOM_H

#include "plock/status.h"

#include <stddef.h>
#include <stdint.h>

/* length: 64 at most. Returns PLOCK_OK or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__random(void *bytes, size_t length);

/* Returns a number from low to high, for jitter; low if the generator fails. */
int64_t plock__random_between(int64_t low, int64_t high);

#endif
