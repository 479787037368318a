#include "test.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS_MAX = 60, DESCRIPTORS_MAX = 1024, PATIENT_ROUNDS = 10000, CHILD_FAILED = 9 };

static atomic_int checks, failures;
static const char *running = "";

bool test_check(bool held, const char *what, const char *file, int line) {
    atomic_fetch_add(&checks, 1);
    if (held) return true;
    atomic_fetch_add(&failures, 1);
    fprintf(stderr, "%s:%d: %s: not so: %s\n", file, line, running, what);
    return false;
}

bool test_int(long long actual, long long expected, const char *what, const char *file, int line) {
    char text[256];
    (void)snprintf(text, sizeof text, "%s is %lld, expected %lld", what, actual, expected);
    return test_check(actual == expected, text, file, line);
}

bool test_text(const char *actual, const char *expected, const char *what, const char *file,
               int line) {
    char text[1024];
    const bool equal = actual && expected ? !strcmp(actual, expected) : actual == expected;
    if (!equal)
        (void)snprintf(text, sizeof text, "%s is \"%.80s\", expected \"%.80s\"", what,
                       actual ? actual : "(NULL)", expected ? expected : "(NULL)");
    return test_check(equal, equal ? what : text, file, line);
}

bool test_status(plock_status actual, plock_status expected, const char *what, const char *file,
                 int line) {
    char text[256], wanted[32];
    (void)snprintf(wanted, sizeof wanted, "%s", plock_status_name(expected));
    (void)snprintf(text, sizeof text, "%s is %s, expected %s", what, plock_status_name(actual),
                   wanted);
    return test_check(actual == expected, text, file, line);
}

bool test_has(const char *actual, const char *part, bool wanted, const char *what, const char *file,
              int line) {
    char text[1024];
    (void)snprintf(text, sizeof text, "%s \"%.160s\" %s \"%.100s\"", what, actual,
                   wanted ? "has" : "lacks", part);
    return test_check((strstr(actual, part) != NULL) == wanted, text, file, line);
}

void test_begin(const char *test) {
    running = test;
    (void)alarm(SECONDS_MAX); /* ends the program if a test hangs */
}

int test_end(const char *subject) {
    const int failed = atomic_load(&failures);
    printf("%-22s %6d checks%s\n", subject, atomic_load(&checks), failed ? ", FAILED" : "");
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

void test_skip(const char *what, const char *why) { printf("skipped: %s (%s)\n", what, why); }

void test_in_child(void (*body)(void *), void *context) {
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        atomic_store(&failures, 0);
        (void)alarm(SECONDS_MAX);
        body(context);
        (void)fflush(NULL);
        _exit(atomic_load(&failures) ? CHILD_FAILED : 0);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
}

int test_open_descriptors(void) {
    int open = 0;
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) open += fcntl(fd, F_GETFD) >= 0;
    return open;
}

bool test_patient(unsigned *rounds) {
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return ++*rounds < PATIENT_ROUNDS;
}

int test_descriptors_awaited(int expected) {
    unsigned rounds = 0;
    int open = test_open_descriptors();
    while (open != expected && test_patient(&rounds)) open = test_open_descriptors();
    return open;
}
