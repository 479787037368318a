#include "base/memory.h"

#include <openssl/crypto.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef PLOCK_TESTING
#include <stdatomic.h>

static atomic_ulong allocations, failing;
static atomic_long live;

unsigned long plock__fail_allocation(unsigned long n) {
    const unsigned long seen = atomic_exchange(&allocations, 0);
    atomic_store(&failing, n);
    return seen;
}

long plock__live_allocations(void) { return atomic_load(&live); }

static bool fails(void) { return atomic_fetch_add(&allocations, 1) + 1 == atomic_load(&failing); }
#define COUNT(exists, by) ((exists) ? (void)atomic_fetch_add(&live, (by)) : (void)0)
#else
#define fails()           0
#define COUNT(exists, by) ((void)(exists))
#endif

void *plock__allocate(size_t size) {
    void *memory = fails() ? NULL : calloc(1, size);
    COUNT(memory != NULL, 1);
    return memory;
}

void plock__free(void *memory) {
    const bool exists = memory != NULL;
    free(memory);
    /* free() may briefly open a file in /proc. A test counts the open descriptors as soon as no
     * block is left, so this block is counted until free() has returned. */
    COUNT(exists, -1);
}

char *plock__copy(const char *text, size_t length) {
    char *copy = plock__allocate(length + 1);
    if (copy) memcpy(copy, text, length);
    return copy;
}

void plock__wipe(void *memory, size_t size) { OPENSSL_cleanse(memory, size); }

void plock__free_secret(char *text) {
    if (text) plock__wipe(text, strlen(text));
    plock__free(text);
}
