/* Support for the C tests: checks that are counted, and children whose checks also count.
 *
 * A test program is one file with functions `static void says_what_it_shows(void)`. Its main ends
 * with
 *
 *   RUN(says_what_it_shows);
 *   return test_end("subject");
 *
 * A failed check is reported, and the test goes on. test_end prints the count, and returns the
 * exit status. */
#ifndef TEST_H
#define TEST_H

#include "plock.h"

#include <stdbool.h>
#include <stddef.h>

#define RUN(test) (test_begin(#test), test())

#define CHECK(condition) test_check((condition), #condition, __FILE__, __LINE__)
#define CHECK_INT(actual, expected)                                                                \
    test_int((long long)(actual), (long long)(expected), #actual, __FILE__, __LINE__)
#define CHECK_TEXT(actual, expected) test_text((actual), (expected), #actual, __FILE__, __LINE__)
#define CHECK_STATUS(actual, expected)                                                             \
    test_status((actual), (expected), #actual, __FILE__, __LINE__)

/* CHECK_HAS checks that the text contains the part, CHECK_LACKS that it does not. */
#define CHECK_HAS(actual, part)   test_has((actual), (part), true, #actual, __FILE__, __LINE__)
#define CHECK_LACKS(actual, part) test_has((actual), (part), false, #actual, __FILE__, __LINE__)

/* Each of these functions returns true if the check passed. */
bool test_check(bool held, const char *what, const char *file, int line);
bool test_int(long long actual, long long expected, const char *what, const char *file, int line);
bool test_text(const char *actual, const char *expected, const char *what, const char *file,
               int line);
bool test_status(plock_status actual, plock_status expected, const char *what, const char *file,
                 int line);
bool test_has(const char *actual, const char *part, bool wanted, const char *what, const char *file,
              int line);

void test_begin(const char *test);
int test_end(const char *subject);

/* Reports the part of the subject that cannot be tested on this machine, and the reason. */
void test_skip(const char *what, const char *why);

/* TSan ends a forked child that starts a thread, if the parent had threads. */
#if defined(__SANITIZE_THREAD__)
#define TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_TSAN 1
#endif
#endif
#ifndef TEST_TSAN
#define TEST_TSAN 0
#endif

/* If a thread is inside ASan's allocator during a fork, the allocator stays locked in the child. A
 * thread of the child may then wait for it forever. */
#if defined(__SANITIZE_ADDRESS__)
#define TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TEST_ASAN 1
#endif
#endif
#ifndef TEST_ASAN
#define TEST_ASAN 0
#endif

/* Runs the body in a forked child, and waits for it. A failed check in the child also fails in this
 * process. */
void test_in_child(void (*body)(void *), void *context);

/* Returns the number of open descriptors of this process. */
int test_open_descriptors(void);

/* Checks that this number of descriptors is open, and waits up to 10 s until it is. A thread that
 * is ending may have another descriptor open for a moment, because the C library reads a file in
 * free(). */
#define CHECK_DESCRIPTORS(expected)                                                                \
    test_int(test_descriptors_awaited(expected), (expected), "open descriptors", __FILE__, __LINE__)
int test_descriptors_awaited(int expected);

/* For a loop that polls a condition: sleeps for a moment. Returns false after 10 s in all. */
bool test_patient(unsigned *rounds);

#endif
