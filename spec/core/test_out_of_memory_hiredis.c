/* Each allocation of hiredis fails once, as the engine's do in test_out_of_memory.c. The reader and
 * the formatter of hiredis call malloc, which this file replaces. */
#include "scenarios.h"
#include "test.h"

#include "base/memory.h"
#include "net/reply.h"

#include <dlfcn.h>
#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GLIBC__)

/* The real allocators: those of the sanitizers, or those of glibc. */
#define MAYBE __attribute__((weak))
void *__interceptor_malloc(size_t size) MAYBE;
void *__interceptor_calloc(size_t count, size_t size) MAYBE;
void *__interceptor_realloc(void *memory, size_t size) MAYBE;
void *__libc_malloc(size_t size) MAYBE;
void *__libc_calloc(size_t count, size_t size) MAYBE;
void *__libc_realloc(void *memory, size_t size) MAYBE;

/* The sanitizers call these functions when the program or a thread starts, before the sanitizers
 * are ready. So the replacements are not instrumented. */
#if defined(__clang__) &&                                                                          \
    __has_attribute(                                                                               \
        disable_sanitizer_instrumentation) /* Clang needs this stronger attribute for TSan */
#define UNWATCHED                                                                                  \
    __attribute__((no_sanitize("address", "undefined"), disable_sanitizer_instrumentation))
#else
#define UNWATCHED __attribute__((no_sanitize("address", "thread", "undefined")))
#endif
#define REPLACEMENT __attribute__((visibility("default"))) UNWATCHED

static volatile bool armed;
static void *library; /* where hiredis is loaded in memory */
static atomic_ulong asked, failing;

static unsigned long arm(unsigned long n) {
    atomic_store(&failing, n);
    armed = n > 0;
    return atomic_exchange(&asked, 0);
}

UNWATCHED static void *library_of(const void *address) {
    Dl_info where;
    return dladdr(address, &where) ? where.dli_fbase : NULL;
}

/* Only allocations of hiredis fail. The return address shows which library has called. */
UNWATCHED static bool fails(const void *caller) {
    return library_of(caller) == library &&
           atomic_fetch_add(&asked, 1) + 1 == atomic_load(&failing);
}

REPLACEMENT void *malloc(size_t size) {
    if (armed && fails(__builtin_return_address(0))) return NULL;
    return __interceptor_malloc ? __interceptor_malloc(size) : __libc_malloc(size);
}

REPLACEMENT void *calloc(size_t count, size_t size) {
    if (armed && fails(__builtin_return_address(0))) return NULL;
    return __interceptor_calloc ? __interceptor_calloc(count, size) : __libc_calloc(count, size);
}

REPLACEMENT void *realloc(void *memory, size_t size) {
    if (armed && fails(__builtin_return_address(0))) return NULL;
    return __interceptor_realloc ? __interceptor_realloc(memory, size)
                                 : __libc_realloc(memory, size);
}

/* Returns false if allocations of hiredis cannot be made to fail here. Valgrind replaces malloc
 * itself, and a statically linked hiredis has no address range of its own. */
static bool can_be_starved(void) {
    library = library_of((const void *)(uintptr_t)redisReaderCreateWithFunctions);
    if (!library || library == library_of(&library)) return false;
    (void)arm(1);
    plock_reader *reader = plock__reader_new(false);
    const unsigned long seen = arm(0);
    plock__reader_free(reader);
    return seen > 0 && !reader;
}

static unsigned long starve_each(const scenario *scenarios, unsigned count) {
    unsigned long seen = 0;
    for (unsigned i = 0; i < count; i++) {
        test_begin(scenarios[i].name);
        seen += scenario_starve(&scenarios[i], arm);
    }
    return seen;
}

static void each_allocation_of_each_scenario_may_fail(void) {
    CHECK(starve_each(SCENARIOS, SCENARIO_COUNT) > 20);
    CHECK(starve_each(WATCH_SCENARIOS, WATCH_SCENARIO_COUNT) > 20);
}

/* After a long reply, hiredis frees its buffer and allocates a small one. */
static plock_status read_long_and_short(plock_reader *reader) {
    enum { PIECE = 4096, PIECES = 3 };
    static char piece[PIECE];
    char head[32];
    const plock_value *value;
    plock_error error;
    memset(piece, 'x', sizeof piece);
    const int length = snprintf(head, sizeof head, "$%d\r\n", PIECE * PIECES);
    plock_status status = plock__reader_feed(reader, head, (size_t)length, &error);
    for (int i = 0; !status && i < PIECES; i++) {
        status = plock__reader_feed(reader, piece, sizeof piece, &error);
        if (!status) status = plock__reader_next(reader, &value, &error);
        if (status == PLOCK_AGAIN) status = PLOCK_OK;
    }
    if (!status) status = plock__reader_feed(reader, "\r\n", 2, &error);
    if (!status) status = plock__reader_next(reader, &value, &error);
    for (int i = 0; !status && i < 3; i++) {
        status = plock__reader_feed(reader, ":1\r\n", 4, &error);
        if (!status) status = plock__reader_next(reader, &value, &error);
    }
    return status;
}

static void a_reader_may_run_out_at_any_byte(void) {
    unsigned long n = 1;
    for (bool over = false; !over && CHECK(n < 100); n++) {
        (void)arm(n);
        plock_reader *reader = plock__reader_new(false);
        const plock_status status = reader ? read_long_and_short(reader) : PLOCK_NO_MEMORY;
        over = arm(0) < n;
        CHECK_STATUS(status, over ? PLOCK_OK : PLOCK_NO_MEMORY);
        plock__reader_free(reader);
        CHECK_INT(plock__live_allocations(), 0);
    }
    CHECK(n > 3);
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    if (can_be_starved()) {
        RUN(a_reader_may_run_out_at_any_byte);
        RUN(each_allocation_of_each_scenario_may_fail);
    } else {
        test_skip("hiredis without memory", "its malloc cannot be replaced here");
    }
    return test_end("out of memory, hiredis");
}

#else

int main(void) {
    test_skip("hiredis without memory", "its malloc cannot be replaced on this system");
    return test_end("out of memory, hiredis");
}

#endif
