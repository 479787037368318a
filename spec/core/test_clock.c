/* Time: the real clock, the test clock, and the arithmetic of deadlines. */
#include "fake.h"
#include "test.h"

#include <limits.h>

static void the_clock_never_goes_back(void) {
    enum { READINGS = 10000 };
    plock_ns last = plock_now();
    bool forward = last > 0;
    for (int i = 0; i < READINGS; i++) {
        const plock_ns now = plock_now();
        forward = forward && now >= last;
        last = now;
    }
    CHECK(forward);
}

static void a_test_can_stop_the_clock_and_let_it_go_again(void) {
    const plock_ns before = plock_now();
    fake_clock_start();
    const plock_ns stopped = plock_now();
    CHECK_INT(plock_now(), stopped);
    fake_clock_pass(3 * PLOCK_MILLISECOND);
    CHECK_INT(plock_now(), stopped + 3 * PLOCK_MILLISECOND);
    fake_clock_stop();
    CHECK(plock_now() >= before);
}

static void a_moment_after_the_end_of_time_is_never(void) {
    CHECK_INT(plock_after(5, 7), 12);
    CHECK_INT(plock_after(0, PLOCK_NEVER), PLOCK_NEVER);
    CHECK_INT(plock_after(PLOCK_SECOND, PLOCK_NEVER), PLOCK_NEVER);
    CHECK_INT(plock_after(PLOCK_NEVER, 0), PLOCK_NEVER);
    CHECK_INT(plock_after(PLOCK_NEVER - 5, 5), PLOCK_NEVER);
    CHECK_INT(plock_after(PLOCK_NEVER - 5, 4), PLOCK_NEVER - 1);
    CHECK_INT(plock_after(PLOCK_SECOND, -PLOCK_MILLISECOND), PLOCK_SECOND - PLOCK_MILLISECOND);
}

/* If the timeout were rounded down, poll would return before the deadline. Then the loop would spin
 * for up to a millisecond. */
static void the_timeout_for_poll_is_rounded_up(void) {
    fake_clock_start();
    const plock_ns now = plock_now();
    CHECK_INT(plock_poll_timeout(now + 1), 1);
    CHECK_INT(plock_poll_timeout(now + PLOCK_MILLISECOND - 1), 1);
    CHECK_INT(plock_poll_timeout(now + PLOCK_MILLISECOND), 1);
    CHECK_INT(plock_poll_timeout(now + PLOCK_MILLISECOND + 1), 2);
    CHECK_INT(plock_poll_timeout(now + 2 * PLOCK_SECOND), 2000);
    fake_clock_stop();
}

static void the_timeout_for_poll_has_ends(void) {
    fake_clock_start();
    const plock_ns now = plock_now();
    CHECK_INT(plock_poll_timeout(now), 0);
    CHECK_INT(plock_poll_timeout(now - 1), 0);
    CHECK_INT(plock_poll_timeout(0), 0);
    CHECK_INT(plock_poll_timeout(PLOCK_NEVER), -1);
    CHECK_INT(plock_poll_timeout(PLOCK_NEVER - 1), INT_MAX);
    CHECK_INT(plock_poll_timeout(now + (plock_ns)INT_MAX * PLOCK_MILLISECOND), INT_MAX);
    CHECK_INT(plock_poll_timeout(now + (plock_ns)INT_MAX * PLOCK_MILLISECOND + 1), INT_MAX);
    fake_clock_stop();
}

int main(void) {
    RUN(the_clock_never_goes_back);
    RUN(a_test_can_stop_the_clock_and_let_it_go_again);
    RUN(a_moment_after_the_end_of_time_is_never);
    RUN(the_timeout_for_poll_is_rounded_up);
    RUN(the_timeout_for_poll_has_ends);
    return test_end("clock");
}
