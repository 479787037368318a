/* Digests for key names, and the random owner tokens. */
#ifndef PLOCK_DIGEST_H
#define PLOCK_DIGEST_H

#include <stddef.h>

#include "plock/status.h"

#define PLOCK_DIGEST_HEX   64 /* characters of a SHA-256 in hexadecimal */
#define PLOCK_TOKEN_LENGTH 36 /* characters of a UUID */

/* Hashes the message with HMAC-SHA256 (RFC 2104, FIPS 180-4) and the secret, or with plain SHA-256
 * if secret is NULL. Writes the hash as 64 lower-case hexadecimal digits without a terminator.
 * Keeps no copy of the secret. Returns PLOCK_OK or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock_digest(const void *message, size_t length, const void *secret,
                                         size_t secret_length, char hex[PLOCK_DIGEST_HEX]);

/* Writes a random UUID, version 4 (RFC 9562), as 36 lower-case characters without a terminator. The
 * random bytes come from the system's generator. After a fork, parent and child never produce the
 * same UUID. Returns PLOCK_OK or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock_token(char token[PLOCK_TOKEN_LENGTH]);

#endif
