#include "base/slot.h"

#include <string.h>

/* CRC-16/XMODEM (x^16 + x^12 + x^5 + 1), as Redis Cluster specifies it. Shifts handle a whole byte
 * at once. A table would be slower, because it would rarely be in the cache. */
static unsigned checksum(const char *bytes, size_t length) {
    unsigned sum = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned top = (sum >> 8) ^ (unsigned char)bytes[i];
        top ^= top >> 4;
        sum = (sum << 8 ^ top << 12 ^ top << 5 ^ top) & 0xffff;
    }
    return sum;
}

/* Returns the hash tag of a key: the text between its first { and the next }. The length is 0 if
 * the key has no tag. */
static plock_text tag_of(plock_text key) {
    const char *open = key.length ? memchr(key.bytes, '{', key.length) : NULL;
    if (!open) return plock__text(NULL, 0);
    const char *content = open + 1;
    const size_t rest = key.length - (size_t)(content - key.bytes);
    const char *close = memchr(content, '}', rest);
    return plock__text(content, close ? (size_t)(close - content) : 0);
}

unsigned plock__slot(plock_text key) {
    const plock_text tag = tag_of(key), hashed = tag.length ? tag : key;
    return checksum(hashed.bytes, hashed.length) % PLOCK__SLOTS;
}

bool plock__slot_keeps_together(plock_text key) {
    if (!key.length || !memchr(key.bytes, '}', key.length)) return true;
    return key.bytes[0] != '{' && tag_of(key).length;
}
