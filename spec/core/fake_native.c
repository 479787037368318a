#include "fake_native.h"

#include "test.h"

#include "base/process.h"
#include "redis/store.h"
#include "runtime/worker.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

plock_store *fake_native_store(const char *(*says)(const char *command, unsigned nth)) {
    plock_store *store = fake_store("redis://h");
    fake_redis.says = says;
    fake_redis.descriptors = true;
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    return store;
}

bool fake_queues(const char *command) {
    char ticket[FAKE_COMMAND_ROOM];
    return *fake_word(command, 12, ticket) >= '0' && *ticket <= '9';
}

const char *fake_refuses(const char *command, unsigned nth) {
    (void)nth;
    if (strncmp(command, "EVALSHA acquire", 15)) return NULL;
    return fake_queues(command) ? FAKE_QUEUED : FAKE_REFUSED;
}

const char *fake_refuses_untold(const char *command, unsigned nth) {
    const char *answer = fake_refuses(command, nth);
    return answer && fake_queues(command) ? FAKE_PLACE(5000, 0, FAKE_TICKET, 0) : answer;
}

/* --- waiting for the worker thread --- */

void fake_await(const char *beginning, unsigned count) {
    for (unsigned rounds = 0; fake_commands_like(beginning) < count && test_patient(&rounds);)
        continue;
    char what[128];
    (void)snprintf(what, sizeof what, "%u of \"%s\"", count, beginning);
    fake_nudge();
    test_int(fake_commands_like(beginning), count, what, __FILE__, __LINE__);
}

void fake_await_settled(plock_store *store) {
    unsigned rounds = 0, left;
    do {
        plock__enter();
        left = store->node.debts.collecting;
        plock__leave();
    } while (left > 0 && test_patient(&rounds));
    CHECK_INT(left, 0);
}

static plock_status wait_for_descriptor(void *context, const plock_interest *interest) {
    unsigned *rounds = context;
    struct pollfd polled = fake_polled(interest);
    (void)poll(&polled, 1, 1);
    return test_patient(rounds) ? PLOCK_OK : PLOCK_INTERRUPTED;
}

plock_status fake_await_end(plock_lease *lease) {
    unsigned rounds = 0;
    return plock_drive(lease, wait_for_descriptor, &rounds);
}

void fake_carry_on(plock_lease *lease) {
    plock_interest interest;
    plock_status status;
    struct pollfd polled;
    do {
        status = plock_lease_step(lease, &interest);
        polled = fake_polled(&interest);
    } while (status == PLOCK_AGAIN && poll(&polled, 1, 0) > 0);
    CHECK_STATUS(status, PLOCK_AGAIN);
}

void fake_await_turn(plock_lease *lease, plock_ns wait) {
    CHECK_STATUS(
        plock_lease_acquire(lease, &(plock_acquire_options){.ttl = 3 * PLOCK_SECOND, .wait = wait}),
        PLOCK_OK);
    fake_carry_on(lease);
}

static atomic_uint nudges;

static plock_status nudged(plock_job *job, plock_interest *interest) {
    (void)job, (void)interest;
    return PLOCK_OK;
}

static void nudge_ends(plock_job *job) {
    (void)job;
    atomic_fetch_add(&nudges, 1);
}

/* Makes three rounds. In them, the worker thread reads the clock, sends a waiter's request, and
 * reads the answer. */
void fake_nudge(void) {
    static plock_job job;
    for (int i = 0; i < 3; i++) {
        const unsigned before = atomic_load(&nudges);
        job = (plock_job){.step = nudged, .destroy = nudge_ends};
        plock__worker_submit(&job);
        for (unsigned rounds = 0; atomic_load(&nudges) == before && test_patient(&rounds);)
            continue;
        CHECK_INT(atomic_load(&nudges), before + 1);
    }
}

void fake_native_pass(plock_ns span) {
    fake_clock_pass(span);
    fake_nudge();
}

/* --- the commands to the server, and its messages --- */

const char *fake_value(unsigned nth, char value[FAKE_COMMAND_ROOM]) {
    char command[FAKE_COMMAND_ROOM];
    return fake_word(fake_command("EVALSHA acquire", nth, command), 4, value);
}

const char *fake_ticket(unsigned nth, char ticket[FAKE_COMMAND_ROOM]) {
    char command[FAKE_COMMAND_ROOM];
    return fake_word(fake_command("EVALSHA acquire", nth, command), 12, ticket);
}

const char *fake_signature(unsigned nth, char signature[FAKE_COMMAND_ROOM]) {
    char command[FAKE_COMMAND_ROOM];
    const char *from = fake_command("EVALSHA acquire", nth, command), *to;
    for (unsigned words = 0; words < 6 && *from; words++) from = strchr(from, ' ') + 1;
    to = from;
    for (unsigned words = 0; words < 5 && *to; words++) to += strcspn(to, " ") + (words < 4);
    (void)snprintf(signature, FAKE_COMMAND_ROOM, "%.*s", (int)(to - from), from);
    return signature;
}

void fake_call(const char *kind, unsigned nth) {
    char value[FAKE_COMMAND_ROOM], message[2 * FAKE_COMMAND_ROOM];
    (void)snprintf(message, sizeof message, "%s %s k", kind, fake_value(nth, value));
    CHECK(fake_publish(message));
}
