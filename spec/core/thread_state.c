#include "thread_state.h"

#include "test.h"

#include <openssl/crypto.h>
#include <stdlib.h>

static _Thread_local unsigned long freed;

static void *allocate(size_t size, const char *file, int line) {
    (void)file, (void)line;
    return malloc(size);
}

static void *reallocate(void *memory, size_t size, const char *file, int line) {
    (void)file, (void)line;
    return realloc(memory, size);
}

static void give_back(void *memory, const char *file, int line) {
    (void)file, (void)line;
    if (memory) freed++;
    free(memory);
}

void thread_state_watch(void) {
    CHECK(CRYPTO_set_mem_functions(allocate, reallocate, give_back) == 1);
    CHECK_INT(OPENSSL_init_crypto(0, NULL), 1);
    (void)thread_state_drop(); /* frees the state of the initialization */
}

bool thread_state_drop(void) {
    const unsigned long before = freed;
    OPENSSL_thread_stop();
    return freed != before;
}
