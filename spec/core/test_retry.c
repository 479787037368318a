/* A retry sends one request again and again until it is answered, or until its time is over. */
#include "fake.h"
#include "test.h"

#include "base/process.h"
#include "redis/retry.h"
#include "redis/store.h"

#include <string.h>

static const plock_request RELEASE = {
    .script = PLOCK__RELEASE, .keys = 1, .arguments = 1, .texts = {{"k", 1}, {"me", 2}}};
static const plock_request EXTEND = {.script = PLOCK__EXTEND,
                                     .keys = 1,
                                     .arguments = 2,
                                     .texts = {{"k", 1}, {"me", 2}, {"3000", 4}}};
static const char RELEASED[] = "EVALSHA release 1 k me";

static plock_store *store;
static plock_retry retry;
static plock_interest interest;
static plock_error error;
static plock_ns began;

static void begin(const plock_request *request, plock_ns span, bool halves) {
    fake_clock_start();
    error.status = PLOCK_OK;
    store = fake_store("redis://h?command_timeout=2");
    began = plock_now();
    plock__begin_step();
    plock__retry_begin(&retry, &store->node, request, began + span, halves);
    plock__end_step();
}

static plock_status step(void) {
    plock__begin_step();
    const plock_status status = plock__retry_step(&retry, &interest, &error);
    plock__end_step();
    return status;
}

static plock_status finish(void) {
    plock_status status;
    while ((status = step()) == PLOCK_AGAIN) (void)fake_wait(NULL, &interest);
    return status;
}

static void end(void) {
    plock__begin_step();
    plock__retry_cancel(&retry);
    plock__end_step();
    CHECK_INT(store->node.pool.waiting, 0);
    fake_end(NULL, store);
}

/* --- replicas --- */

static void too_few_replicas_say_more_than_silence(void) {
    static const plock_request ACQUIRE = {.script = PLOCK__ACQUIRE,
                                          .keys = 1,
                                          .arguments = 2,
                                          .replicas = 2,
                                          .texts = {{"k", 1}, {"me", 2}, {"3000", 4}}};
    begin(&ACQUIRE, PLOCK_SECOND / 2, false);
    fake_peers[0].answers[0] = FAKE_HELD;
    fake_peers[0].answers[1] = ":1\r\n";
    fake_peers[0].answers[2] = FAKE_SILENCE;
    CHECK_STATUS(finish(), PLOCK_UNREPLICATED);
    CHECK_STATUS(error.status, PLOCK_UNREPLICATED);
    CHECK(plock_now() - began >= PLOCK_SECOND / 2);
    end();
}

/* --- answers --- */

static void an_answer_is_its_end(void) {
    static const struct {
        const char *said;
        plock_status of_release, of_extend;
    } ANSWERS[] = {
        {":1\r\n", PLOCK_OK, PLOCK_OK},
        {":0\r\n", PLOCK_NOT_OWNER, PLOCK_NOT_OWNER},
        /* the lock was handed over, which can only follow a release */
        {":2\r\n", PLOCK_OK, PLOCK_PROTOCOL},
        {":4\r\n", PLOCK_PROTOCOL, PLOCK_PROTOCOL},
        {":-1\r\n", PLOCK_PROTOCOL, PLOCK_PROTOCOL},
        {"+OK\r\n", PLOCK_PROTOCOL, PLOCK_PROTOCOL},
        {"$-1\r\n", PLOCK_PROTOCOL, PLOCK_PROTOCOL},
    };
    for (unsigned i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++)
        for (int extends = 0; extends < 2; extends++) {
            begin(extends ? &EXTEND : &RELEASE, PLOCK_SECOND, true);
            fake_peers[0].answers[0] = ANSWERS[i].said;
            test_status(step(), extends ? ANSWERS[i].of_extend : ANSWERS[i].of_release,
                        ANSWERS[i].said, __FILE__, __LINE__);
            CHECK_INT(plock_now(), began);
            CHECK_INT(retry.doubt, error.status == PLOCK_PROTOCOL);
            end();
        }
}

/* The answer 3 means that the server has done only a part of the work. The retry asks for the rest
 * at once. If the lease is gone by then, the release still counts as a success. */
static void an_unfinished_request_is_sent_again(void) {
    static const struct {
        const char *last;
        plock_status status;
    } ENDS[] = {{":1\r\n", PLOCK_OK},
                {":2\r\n", PLOCK_OK},
                {":0\r\n", PLOCK_OK},
                {"-NOPERM x\r\n", PLOCK_NOPERM}};
    for (unsigned i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        begin(&RELEASE, PLOCK_SECOND, true);
        fake_peers[0].answers[0] = fake_peers[0].answers[1] = ":3\r\n";
        fake_peers[0].answers[2] = ENDS[i].last;
        CHECK_STATUS(step(), ENDS[i].status);
        CHECK_INT(plock_now(), began);
        CHECK_INT(fake_commands_like(RELEASED), 3);
        end();
    }
    begin(&EXTEND, PLOCK_SECOND, true);
    fake_peers[0].answers[0] = ":3\r\n"; /* never a valid answer to an extension */
    CHECK_STATUS(step(), PLOCK_PROTOCOL);
    end();
}

static void a_lasting_failure_ends_it_too(void) {
    static const struct {
        const char *said;
        plock_status status;
        bool doubt;
    } ERRORS[] = {{"-NOPERM x\r\n", PLOCK_NOPERM, true},
                  {"-NOAUTH x\r\n", PLOCK_NOAUTH, false},
                  {"-MOVED 1 h:1\r\n", PLOCK_MOVED, false},
                  {"-ERR x\r\n", PLOCK_SERVER, true}};
    for (unsigned i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++) {
        begin(&RELEASE, PLOCK_SECOND, true);
        fake_peers[0].answers[0] = ERRORS[i].said;
        CHECK_STATUS(step(), ERRORS[i].status);
        CHECK_INT(retry.doubt, ERRORS[i].doubt);
        CHECK_INT(fake_commands_like(RELEASED), 1);
        end();
    }
}

/* --- retries --- */

static void what_may_pass_is_tried_again_after_a_growing_pause(void) {
    plock_ns last = 0;
    begin(&RELEASE, 10 * PLOCK_SECOND, true);
    for (unsigned i = 0; i < 8; i++) fake_peers[0].answers[i] = "-LOADING x\r\n";
    fake_peers[0].answers[8] = FAKE_DONE;
    for (unsigned i = 0; i < 8; i++) {
        CHECK_STATUS(step(), PLOCK_AGAIN);
        const plock_ns pause = interest.deadline - plock_now();
        CHECK_INT(interest.fd, -1);
        CHECK(pause >= 7 * PLOCK_MILLISECOND && pause <= 325 * PLOCK_MILLISECOND);
        if (i == 5) CHECK(pause > last);
        if (i == 0) last = pause;
        fake_clock_pass(pause - 1);
        CHECK_STATUS(step(), PLOCK_AGAIN);
        CHECK_INT(fake_commands_like(RELEASED), i + 1);
        fake_clock_pass(1);
    }
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK_INT(fake_connections(), 1);
    end();
}

static void each_try_has_half_of_the_time_that_is_left(void) {
    begin(&RELEASE, PLOCK_SECOND, true);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    CHECK_INT(interest.deadline, began + PLOCK_SECOND / 2);
    fake_peers[1].answers[0] = FAKE_DONE;
    CHECK_STATUS(finish(), PLOCK_OK);
    CHECK(plock_now() < began + PLOCK_SECOND);
    CHECK(retry.doubt); /* the server may have executed the first request */
    CHECK_INT(fake_connections(), 2);
    end();
}

static void or_all_of_it(void) {
    begin(&EXTEND, PLOCK_SECOND, false);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    CHECK_INT(interest.deadline, began + PLOCK_SECOND);
    CHECK_STATUS(finish(), PLOCK_SILENT);
    CHECK_INT(plock_now(), began + PLOCK_SECOND);
    CHECK_INT(fake_connections(), 1);
    end();
}

static void it_ends_with_the_last_failure_when_its_time_is_over(void) {
    begin(&RELEASE, PLOCK_SECOND, true);
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].connect_failure = PLOCK_CONNECT;
    CHECK_STATUS(finish(), PLOCK_CONNECT);
    CHECK_INT(plock_now(), began + PLOCK_SECOND);
    CHECK_HAS(error.message, "the fake says connect");
    CHECK(!retry.doubt); /* no request was ever sent */
    CHECK(fake_connections() >= 5);
    end();
}

/* A caller may clear its error between the steps. The last step must still report the failure, and
 * not a success. */
static void the_failure_is_its_own_and_not_what_the_caller_kept(void) {
    begin(&EXTEND, PLOCK_SECOND, true);
    for (unsigned i = 0; i < FAKE_ANSWERS; i++) fake_peers[0].answers[i] = "-LOADING x\r\n";
    plock_status status = PLOCK_AGAIN;
    while (status == PLOCK_AGAIN) {
        error = (plock_error){.status = PLOCK_OK};
        status = step();
        if (status == PLOCK_AGAIN) (void)fake_wait(NULL, &interest);
    }
    CHECK_STATUS(status, PLOCK_LOADING);
    CHECK_STATUS(error.status, PLOCK_LOADING);
    CHECK_INT(plock_now(), began + PLOCK_SECOND);
    end();
}

static void a_connection_found_closed_is_replaced_at_once_and_once(void) {
    for (int twice = 0; twice < 2; twice++) {
        begin(&RELEASE, PLOCK_SECOND, true);
        fake_peers[0].answers[0] = FAKE_DONE;
        fake_peers[0].answers[1] = FAKE_CLOSES;
        CHECK_STATUS(finish(), PLOCK_OK);
        fake_peers[1].answers[0] = twice ? FAKE_CLOSES : FAKE_DONE;
        fake_peers[2].answers[0] = FAKE_NOT_OURS;
        plock__begin_step();
        plock__retry_begin(&retry, &store->node, &RELEASE, plock_now() + PLOCK_SECOND, true);
        plock__end_step();
        CHECK_STATUS(step(), twice ? PLOCK_AGAIN : PLOCK_OK);
        CHECK_INT(plock_now(), began);
        if (twice) CHECK_STATUS(finish(), PLOCK_NOT_OWNER);
        CHECK(retry.doubt);
        end();
    }
}

/* --- giving up --- */

static void it_can_be_given_up_at_any_moment(void) {
    begin(&RELEASE, PLOCK_SECOND, true);
    end(); /* before the request has begun */
    CHECK_INT(fake_connections(), 0);
    begin(&RELEASE, PLOCK_SECOND, true);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    end(); /* after the request was sent */
    CHECK(fake_peers[0].destroyed);
    CHECK_INT(fake_commands_like("EVAL "), 0);
    begin(&RELEASE, PLOCK_SECOND, true);
    fake_peers[0].answers[0] = "-LOADING x\r\n";
    CHECK_STATUS(step(), PLOCK_AGAIN);
    end(); /* during a pause */
    begin(&RELEASE, PLOCK_SECOND, true);
    fake_peers[0].answers[0] = FAKE_DONE;
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK_INT(store->node.pool.open, 1);
    end(); /* after the request was answered */
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(too_few_replicas_say_more_than_silence);
    RUN(an_answer_is_its_end);
    RUN(an_unfinished_request_is_sent_again);
    RUN(a_lasting_failure_ends_it_too);
    RUN(what_may_pass_is_tried_again_after_a_growing_pause);
    RUN(each_try_has_half_of_the_time_that_is_left);
    RUN(or_all_of_it);
    RUN(it_ends_with_the_last_failure_when_its_time_is_over);
    RUN(the_failure_is_its_own_and_not_what_the_caller_kept);
    RUN(a_connection_found_closed_is_replaced_at_once_and_once);
    RUN(it_can_be_given_up_at_any_moment);
    return test_end("retry");
}
