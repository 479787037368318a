#include "base/slot.h"

#include <string.h>

/* CRC-16/XMODEM, as the specification of Redis Cluster says. The polynomial is
 * x^16 + x^12 + x^5 + 1. A byte is divided at once by shifts, without a table, which would be cold
 * at each call. */
static unsigned checksum(const char *bytes, size_t length) {
    unsigned sum = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned top = (sum >> 8) ^ (unsigned char)bytes[i];
        top ^= top >> 4;
        sum = (sum << 8 ^ top << 12 ^ top << 5 ^ top) & 0xffff;
    }
    return sum;
}

unsigned plock__slot(plock_text key) {
    const char *open = key.length ? memchr(key.bytes, '{', key.length) : NULL;
    const size_t after = open ? (size_t)(open - key.bytes) + 1 : 0;
    const char *close = open ? memchr(key.bytes + after, '}', key.length - after) : NULL;
    const size_t length = close ? (size_t)(close - key.bytes) - after : 0;
    return (length ? checksum(key.bytes + after, length) : checksum(key.bytes, key.length)) %
           PLOCK__SLOTS;
}

bool plock__slot_keeps_together(plock_text key) {
    return !key.length || !memchr(key.bytes, '}', key.length);
}
