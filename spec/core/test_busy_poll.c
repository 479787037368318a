/* A thread that waits for an answer polls for a moment before it sleeps, if that is worthwhile. */
#include "test.h"

#include "runtime/busy_poll.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static plock__answers answers;
static plock_ns moment, at_each_look;
/* looks: how many times look() has been called. comes_at: the number of the call that finds the
 * answer, counting from 1; 0: no call finds it */
static unsigned looks, comes_at;

static plock_ns time_of_test(void) { return moment; }

static bool look(void *context) {
    CHECK(context == &looks);
    moment += at_each_look;
    return ++looks == comes_at;
}

/* Waits for an answer that call number `comes` of look() finds. Returns how often look() was
 * called. */
static unsigned wait_for_answer(unsigned comes, bool finds) {
    looks = 0;
    comes_at = comes;
    CHECK(plock__busy_poll(&answers, look, &looks) == finds);
    return looks;
}

/* Waits 15 times, which is one wait too few for polling. From the next wait on, waits are
 * frequent. */
static void begin(long threads) {
    answers = (plock__answers){0};
    moment += PLOCK_SECOND;
    at_each_look = PLOCK_MILLISECOND / 1000;
    plock__pretend_running_threads(threads);
    for (unsigned wait = 0; wait < 15; wait++) CHECK_INT(wait_for_answer(1, false), 0);
}

static void an_answer_is_found_that_comes_soon(void) {
    begin(1);
    for (unsigned comes = 1; comes < 5; comes++) CHECK_INT(wait_for_answer(comes, true), comes);
}

static void no_wait_polls_for_longer_than_a_tenth_of_a_millisecond(void) {
    begin(1);
    CHECK_INT(wait_for_answer(0, false), 100);
    begin(1);
    CHECK_INT(wait_for_answer(100, true), 100);
}

static void a_clock_that_stands_still_holds_no_wait_up(void) {
    begin(1);
    at_each_look = 0;
    CHECK_INT(wait_for_answer(0, false), 10000);
}

static void the_less_it_helps_the_fewer_waits_poll(void) {
    static const unsigned POLL[] = {0, 2, 6, 14, 30, 62, 126, 254, 510, 1022, 2046, 3070, 4094};
    unsigned polls = 0;
    begin(1);
    for (unsigned wait = 0; wait < 4100; wait++) {
        if (!wait_for_answer(0, false)) continue;
        if (polls < sizeof POLL / sizeof *POLL) CHECK_INT(wait, POLL[polls]);
        polls++;
    }
    CHECK_INT(polls, sizeof POLL / sizeof *POLL);
}

static void once_it_helps_all_waits_poll_again(void) {
    begin(1);
    for (unsigned wait = 0; wait < 14; wait++) (void)wait_for_answer(0, false);
    CHECK_INT(wait_for_answer(1, true), 1);
    CHECK_INT(wait_for_answer(1, true), 1);
}

/* If a call of look() takes long, another thread had the processor meanwhile. An answer that such a
 * call finds does not count as a success of polling. */
static void an_answer_that_was_found_late_is_no_reason_to_poll_again(void) {
    begin(1);
    at_each_look = PLOCK_MILLISECOND;
    CHECK_INT(wait_for_answer(1, true), 1);
    CHECK_INT(wait_for_answer(1, false), 0);
}

static void nobody_takes_a_processor_from_another_thread(void) {
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    begin(processors);
    CHECK_INT(wait_for_answer(1, true), 1);
    begin(processors + 1);
    CHECK_INT(wait_for_answer(1, false), 0);
}

static void the_threads_are_counted_again_after_50_milliseconds(void) {
    begin(1);
    CHECK_INT(wait_for_answer(1, true), 1);
    plock__pretend_running_threads(0);
    moment += 49 * PLOCK_MILLISECOND;
    CHECK_INT(wait_for_answer(1, true), 1);
    moment += PLOCK_MILLISECOND;
    for (unsigned wait = 0; wait < 15; wait++) CHECK_INT(wait_for_answer(1, true), 1);
    CHECK_INT(wait_for_answer(1, false), 0);
}

static void nobody_polls_while_waits_are_rare(void) {
    begin(1);
    moment += PLOCK_SECOND;
    for (unsigned wait = 0; wait < 100; wait++) {
        moment += 4 * PLOCK_MILLISECOND; /* 12 or 13 waits in 50 ms */
        CHECK_INT(wait_for_answer(1, false), 0);
    }
}

static void after_a_pause_nobody_polls_until_waits_are_frequent_again(void) {
    begin(1);
    CHECK_INT(wait_for_answer(1, true), 1);
    moment += 101 * PLOCK_MILLISECOND;
    for (unsigned wait = 0; wait < 15; wait++) CHECK_INT(wait_for_answer(1, false), 0);
    CHECK_INT(wait_for_answer(1, true), 1);
}

static void a_clock_that_is_set_back_lets_nobody_poll_by_an_old_count(void) {
    begin(1);
    CHECK_INT(wait_for_answer(1, true), 1);
    moment -= PLOCK_MILLISECOND;
    CHECK_INT(wait_for_answer(1, false), 0);
    moment += PLOCK_SECOND;
}

static void nobody_polls_where_the_other_threads_cannot_be_counted(void) {
    begin(0);
    CHECK_INT(wait_for_answer(1, false), 0);
}

static void the_threads_are_counted_on_linux(void) {
    begin(-1);
#if defined(__linux__) && !defined(PLOCK_PORTABLE)
    FILE *file = fopen("/proc/loadavg", "r");
    char text[128] = "";
    const bool told = file && fgets(text, sizeof text, file) && !strstr(text, " 0/");
    if (file) CHECK(fclose(file) == 0);
    if (told) CHECK(plock__running_threads() >= 1); /* at least this thread is running */
#else
    CHECK_INT(plock__running_threads(), 0);
#endif
}

int main(void) {
    plock_clock_replace(time_of_test);
    RUN(an_answer_is_found_that_comes_soon);
    RUN(no_wait_polls_for_longer_than_a_tenth_of_a_millisecond);
    RUN(a_clock_that_stands_still_holds_no_wait_up);
    RUN(the_less_it_helps_the_fewer_waits_poll);
    RUN(once_it_helps_all_waits_poll_again);
    RUN(an_answer_that_was_found_late_is_no_reason_to_poll_again);
    RUN(nobody_takes_a_processor_from_another_thread);
    RUN(the_threads_are_counted_again_after_50_milliseconds);
    RUN(nobody_polls_while_waits_are_rare);
    RUN(after_a_pause_nobody_polls_until_waits_are_frequent_again);
    RUN(a_clock_that_is_set_back_lets_nobody_poll_by_an_old_count);
    RUN(nobody_polls_where_the_other_threads_cannot_be_counted);
    RUN(the_threads_are_counted_on_linux);
    return test_end("busy poll");
}
