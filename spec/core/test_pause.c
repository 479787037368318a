/* How long a waiter pauses before it asks again, and a retry before its next attempt. */
#include "test.h"

#include "base/pause.h"

enum { SAMPLES = 200 };

static void pauses_double_up_to_the_longest(void) {
    static const struct {
        unsigned pauses;
        plock_ns middle;
    } LOOKS[] = {{0, 4 * PLOCK_MILLISECOND},
                 {1, 8 * PLOCK_MILLISECOND},
                 {2, 16 * PLOCK_MILLISECOND},
                 {3, 20 * PLOCK_MILLISECOND},
                 {4000000000u, 20 * PLOCK_MILLISECOND}};
    for (unsigned i = 0; i < sizeof LOOKS / sizeof *LOOKS; i++)
        for (int sample = 0; sample < SAMPLES; sample++) {
            const plock_ns pause =
                plock__pause_before_looking(LOOKS[i].pauses, PLOCK_NEVER, 100 * PLOCK_SECOND);
            CHECK(pause >= LOOKS[i].middle * 7 / 10 && pause <= LOOKS[i].middle * 13 / 10);
        }
    for (int sample = 0; sample < SAMPLES; sample++) {
        const plock_ns pause = plock__pause_before_trying(10);
        CHECK(pause >= 175 * PLOCK_MILLISECOND && pause <= 325 * PLOCK_MILLISECOND);
    }
}

static void no_two_waiters_march_in_step(void) {
    const plock_ns first = plock__pause_before_looking(8, PLOCK_NEVER, 100 * PLOCK_SECOND);
    int equal = 0;
    for (int sample = 0; sample < SAMPLES; sample++)
        equal += plock__pause_before_looking(8, PLOCK_NEVER, 100 * PLOCK_SECOND) == first;
    CHECK(equal < SAMPLES / 10);
}

static void looks_come_when_the_lock_can_be_free_and_before_patience_ends(void) {
    CHECK_INT(plock__pause_before_looking(10, 3 * PLOCK_MILLISECOND, 100 * PLOCK_SECOND),
              3 * PLOCK_MILLISECOND);
    CHECK_INT(plock__pause_before_looking(10, PLOCK_NEVER, 8 * PLOCK_MILLISECOND),
              4 * PLOCK_MILLISECOND);
    /* a pause lasts at least a millisecond */
    CHECK_INT(plock__pause_before_looking(10, 1, 1), PLOCK_MILLISECOND);
}

int main(void) {
    RUN(pauses_double_up_to_the_longest);
    RUN(no_two_waiters_march_in_step);
    RUN(looks_come_when_the_lock_can_be_free_and_before_patience_ends);
    return test_end("pause");
}
