/* A view of bytes that another object owns. */
#ifndef PLOCK__TEXT_H
#define PLOCK__TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct plock_text {
    const char *bytes;
    size_t length;
} plock_text;

static inline plock_text plock__text(const char *bytes, size_t length) {
    return (plock_text){bytes, length};
}

static inline plock_text plock__text_of(const char *terminated) {
    return plock__text(terminated, strlen(terminated));
}

static inline bool plock__same_text(plock_text one, plock_text other) {
    return one.length == other.length && !memcmp(one.bytes, other.bytes, one.length);
}

/* Removes the first word from a text of words separated by blanks, and returns that word. */
static inline plock_text plock__cut_word(plock_text *rest) {
    const char *blank = memchr(rest->bytes, ' ', rest->length);
    const plock_text word =
        plock__text(rest->bytes, blank ? (size_t)(blank - rest->bytes) : rest->length);
    const size_t used = word.length + (blank ? 1 : 0);
    *rest = plock__text(rest->bytes + used, rest->length - used);
    return word;
}

/* Writes two lower-case hexadecimal digits for each byte, and no terminator. */
static inline void plock__write_hex(const unsigned char *bytes, size_t length, char *hex) {
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0; i < length; i++) {
        *hex++ = DIGITS[bytes[i] >> 4];
        *hex++ = DIGITS[bytes[i] & 15];
    }
}

#endif
