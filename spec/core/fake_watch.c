#include "fake_watch.h"

#include "test.h"

#include <string.h>

const char *_Atomic fake_to_acquire, *_Atomic fake_to_extend, *_Atomic fake_to_check,
    *_Atomic fake_to_adopt;

static bool is(const char *command, const char *beginning) {
    return !strncmp(command, beginning, strlen(beginning));
}

static const char *says(const char *command, unsigned nth) {
    (void)nth;
    if (is(command, "EVALSHA acquire")) return atomic_load(&fake_to_acquire);
    if (is(command, "EVALSHA extend")) return atomic_load(&fake_to_extend);
    if (is(command, "EVALSHA adopt")) return atomic_load(&fake_to_adopt);
    return is(command, "EVALSHA check") ? atomic_load(&fake_to_check) : NULL;
}

plock_store *fake_watching_store(void) {
    atomic_store(&fake_to_acquire, NULL);
    atomic_store(&fake_to_extend, NULL);
    atomic_store(&fake_to_check, NULL);
    atomic_store(&fake_to_adopt, NULL);
    plock_notice_want(PLOCK_RENEWED, false);
    fake_clock_start();
    return fake_native_store(says);
}

plock_status fake_hold(plock_lease *lease, const plock_acquire_options *patience) {
    const plock_status status = plock_lease_acquire(lease, patience);
    return status ? status : fake_await_end(lease);
}

void fake_watch(plock_lease *lease, const plock_acquire_options *patience) {
    CHECK_STATUS(fake_hold(lease, patience), PLOCK_OK);
    fake_await("SUBSCRIBE", 1);
    fake_await(patience->renews ? "EVALSHA extend" : "EVALSHA check", 1);
}

void fake_answer(const char *beginning, unsigned nth, const char *answer) {
    fake_peer *asker = NULL;
    for (unsigned order = 0; order < fake_redis.order && !asker; order++)
        for (unsigned p = 0; p < fake_connections(); p++)
            for (unsigned c = 0; c < fake_peers[p].command_count && c < FAKE_COMMANDS; c++)
                if (fake_peers[p].orders[c] == order && is(fake_peers[p].commands[c], beginning) &&
                    nth-- == 0)
                    asker = &fake_peers[p];
    if (!CHECK(asker != NULL)) return;
    fake_say(asker, answer, strlen(answer));
    fake_nudge();
}

plock_ns fake_reliable(plock_ns asked_at, plock_ns ttl) {
    return asked_at + ttl - ttl / 100 - 2 * PLOCK_MILLISECOND;
}

void fake_await_notice(plock_notice_kind kind, const plock_lease *lease) {
    plock_notice *notice;
    for (unsigned rounds = 0; !(notice = plock_notice_next()) && test_patient(&rounds);) continue;
    if (!CHECK(notice != NULL)) return;
    CHECK_INT(notice->kind, kind);
    CHECK_INT(notice->id, plock_lease_id(lease));
    plock_notice_free(notice);
}

void fake_no_notice(void) {
    fake_nudge();
    plock_notice *notice = plock_notice_next();
    CHECK(!notice);
    plock_notice_free(notice);
}
