/* A view of bytes that another object owns. */
#ifndef PLOCK__TEXT_H
#define PLOCK__TEXT_H

#include <stddef.h>

typedef struct plock_text {
    const char *bytes;
    size_t length;
} plock_text;

static inline plock_text plock__text(const char *bytes, size_t length) {
    return (plock_text){bytes, length};
}

#endif
