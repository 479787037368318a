/* Random bytes from the system's generator, drawn in larger pieces for each thread. Not from
 * OpenSSL's: that would keep a generator for each thread, with what transport_tls.c says of such
 * state. */
#ifndef PLOCK__RANDOM_H
#define PLOCK__RANDOM_H

#include "plock/status.h"

#include <stddef.h>
#include <stdint.h>

/* length: 64 at most. Returns PLOCK_OK or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__random(void *bytes, size_t length);

/* A number from low to high, for jitter; low where there is no randomness to be had. */
int64_t plock__random_between(int64_t low, int64_t high);

#endif
