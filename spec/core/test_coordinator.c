/* The coordinator: the worker thread serves all waiters of a process. The tests cover the channel,
 * the waiter that asks again once a second, the order of waiters, and the coordinator's end. */
#include "fake_native.h"
#include "fake_watch.h"
#include "test.h"

#include "base/process.h"
#include "redis/coordinator.h"
#include "redis/store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { LEASES = 4 };

static plock_store *store;
static plock_lease *leases[LEASES];
static plock_ns began;
static unsigned tickets_given;

static void begin(const char *(*says)(const char *command, unsigned nth)) {
    tickets_given = 0;
    fake_clock_start();
    store = fake_native_store(says);
    for (unsigned i = 0; i < LEASES; i++) leases[i] = fake_lease(store);
    began = plock_now();
}

static void end(void) {
    for (unsigned i = 1; i < LEASES; i++) plock_lease_free(leases[i]);
    fake_end(leases[0], store);
}

/* Makes this many waiters queue, each with a ticket. The server then has received count + 1
 * acquires, because the first waiter also asks once before it queues. */
static void get_in_queue(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        fake_await_turn(leases[i], 100 * PLOCK_SECOND);
        fake_await("EVALSHA acquire", i + 2);
    }
}

static bool coordinator_is_there(void) {
    plock__enter();
    const bool there = atomic_load(&store->node.coordinator);
    plock__leave();
    return there;
}

static void await_end_of_coordinator(void) {
    for (unsigned rounds = 0; coordinator_is_there() && test_patient(&rounds);) continue;
    CHECK(!coordinator_is_there());
}

/* Gives the waiters tickets in the order of their first requests. A waiter that presents its ticket
 * keeps its place. */
static const char *number_tickets(const char *command, unsigned nth) {
    static const char *const PLACES[] = {
        FAKE_PLACE(5000, 0, "1700000000000101", 1), FAKE_PLACE(5000, 1, "1700000000000102", 1),
        FAKE_PLACE(5000, 2, "1700000000000103", 1), FAKE_PLACE(5000, 3, "1700000000000104", 1)};
    char ticket[FAKE_COMMAND_ROOM];
    if (strncmp(command, "EVALSHA acquire", 15) || !fake_queues(command))
        return fake_refuses(command, nth);
    (void)fake_word(command, 12, ticket);
    if (!strcmp(ticket, "0")) return PLACES[tickets_given++ % LEASES];
    return PLACES[(unsigned)(ticket[15] - '1') % LEASES];
}

/* --- one channel for all --- */

static void many_wait_on_one_channel(void) {
    begin(fake_refuses);
    get_in_queue(LEASES);
    CHECK_INT(fake_commands_like("SUBSCRIBE"), 1);
    CHECK_INT(fake_connections(), 2);
    end();
}

/* No waiter queues before the channel is open. Then all waiters queue in the order in which they
 * came. */
static void the_order_of_threads_is_kept_while_the_channel_is_being_opened(void) {
    char value[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    begin(fake_refuses);
    fake_redis.subscriptions[0] = FAKE_SILENCE;
    fake_await_turn(leases[0], 100 * PLOCK_SECOND);
    fake_await("SUBSCRIBE", 1);
    for (unsigned i = 1; i < LEASES; i++) fake_await_turn(leases[i], 100 * PLOCK_SECOND);
    fake_await("EVALSHA acquire", 1); /* only the first waiter of the process has asked */
    fake_confirm();
    fake_await("EVALSHA acquire", 1 + LEASES);
    for (unsigned i = 0; i < LEASES; i++) {
        size_t length;
        const char *owner = plock_lease_owner(leases[i], &length);
        (void)snprintf(value, sizeof value, "%.*s", (int)length, owner);
        CHECK_TEXT(fake_value(1 + i, word), value);
        CHECK_TEXT(fake_ticket(1 + i, word), "0");
    }
    end();
}

static void two_locks_are_two_queues(void) {
    plock_lease *other;
    char command[FAKE_COMMAND_ROOM], message[FAKE_COMMAND_ROOM];
    begin(fake_refuses);
    get_in_queue(1);
    /* a key may contain blanks, because it is the last part of a message */
    CHECK_STATUS(plock_lease_new(&other, store, "other key", 9), PLOCK_OK);
    fake_await_turn(other, PLOCK_SECOND);
    fake_await("EVALSHA acquire", 3);
    size_t length;
    (void)snprintf(message, sizeof message, "= %.36s other key", plock_lease_owner(other, &length));
    CHECK(fake_publish(message));
    fake_await("EVALSHA acquire", 4);
    CHECK_HAS(fake_command("EVALSHA acquire", 3, command), "acquire 1 other key ");
    plock_lease_free(other);
    plock_lease_cancel(leases[0]);
    fake_await("EVALSHA leave", 2);
    CHECK_INT(fake_commands_like("EVALSHA leave 1 k "), 1);
    CHECK_INT(fake_commands_like("EVALSHA leave 1 other key "), 1);
    end();
}

/* --- the waiter that asks again once a second --- */

static void only_the_first_looks_and_once_a_second(void) {
    char first[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    begin(number_tickets);
    get_in_queue(LEASES); /* the holder's lease still lasts 5 s, and the holder notifies waiters */
    (void)fake_value(1, first);
    for (unsigned i = 0; i < 3; i++) {
        fake_native_pass(999 * PLOCK_MILLISECOND);
        fake_await("EVALSHA acquire", 1 + LEASES + i);
        fake_native_pass(PLOCK_MILLISECOND);
        fake_await("EVALSHA acquire", 2 + LEASES + i);
        CHECK_TEXT(fake_value(1 + LEASES + i, word), first);
        CHECK_TEXT(fake_ticket(1 + LEASES + i, word), "1700000000000101");
    }
    end();
}

/* The refusals of new waiters do not delay the first waiter's next request. */
static void newcomers_do_not_put_that_off(void) {
    char first[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    begin(number_tickets);
    get_in_queue(1);
    (void)fake_value(1, first);
    for (unsigned i = 1; i < 3; i++) {
        fake_native_pass(400 * PLOCK_MILLISECOND);
        fake_await_turn(leases[i], 100 * PLOCK_SECOND);
        fake_await("EVALSHA acquire", i + 2);
    }
    fake_native_pass(200 * PLOCK_MILLISECOND);
    fake_await("EVALSHA acquire", 5);
    CHECK_TEXT(fake_value(4, word), first);
    end();
}

/* Before the sixth acquire, the server loses the queue. In that acquire and the next three, the
 * waiters present their tickets and get their places back. */
static const char *lose_the_queue(const char *command, unsigned nth) {
    static const char *const PLACES[] = {FAKE_PLACE_AGAIN(5000, 0, "1700000000000101", 1, 1),
                                         FAKE_PLACE_AGAIN(5000, 1, "1700000000000102", 1, 1),
                                         FAKE_PLACE_AGAIN(5000, 2, "1700000000000103", 1, 1),
                                         FAKE_PLACE_AGAIN(5000, 3, "1700000000000104", 1, 1)};
    char ticket[FAKE_COMMAND_ROOM];
    if (strncmp(command, "EVALSHA acquire", 15) || nth < 1 + LEASES || nth > 2 * LEASES)
        return number_tickets(command, nth);
    (void)fake_word(command, 12, ticket);
    return PLACES[(unsigned)(ticket[15] - '1') % LEASES];
}

static void when_the_queue_has_lost_one_all_ask_for_their_places_in_their_order(void) {
    char value[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    begin(lose_the_queue);
    get_in_queue(LEASES);
    fake_native_pass(PLOCK_SECOND);
    for (unsigned i = 0; i < LEASES; i++) fake_nudge(); /* the waiters ask one after another */
    /* each waiter asks once, although each has lost its place */
    fake_await("EVALSHA acquire", 1 + 2 * LEASES);
    for (unsigned i = 0; i < LEASES; i++) {
        (void)fake_value(1 + i, value);
        CHECK_TEXT(fake_value(1 + LEASES + i, word), value);
        CHECK_TEXT(fake_ticket(1 + LEASES + i, word), fake_ticket(1 + LEASES + i, value));
        CHECK(strcmp(word, "0") != 0);
    }
    fake_native_pass(PLOCK_SECOND);
    /* from now on, only one waiter asks each second, as before the loss */
    fake_await("EVALSHA acquire", 2 + 2 * LEASES);
    end();
}

/* The server may lose the lock together with the queue. Then the first waiter finds the lock free.
 * The other waiters ask for their places at once, and not a second later. */
static const char *grant_who_looks(const char *command, unsigned nth) {
    return nth == 1 + LEASES && !strncmp(command, "EVALSHA acquire", 15)
               ? FAKE_HELD
               : lose_the_queue(command, nth);
}

static void if_a_waiter_gets_the_lock_without_being_called_the_next_looks_at_once(void) {
    begin(grant_who_looks);
    get_in_queue(LEASES);
    fake_native_pass(PLOCK_SECOND);
    for (unsigned i = 0; i < LEASES; i++) fake_nudge();
    /* the first waiter's place was lost, so all waiters ask for their places */
    fake_await("EVALSHA acquire", 1 + 2 * LEASES);
    CHECK_STATUS(fake_await_end(leases[0]), PLOCK_OK);
    end();
}

static const char *grant_who_is_called(const char *command, unsigned nth) {
    return nth == 1 + LEASES && !strncmp(command, "EVALSHA acquire", 15)
               ? FAKE_HELD
               : number_tickets(command, nth);
}

static void if_it_was_called_no_other_waiter_looks(void) {
    begin(grant_who_is_called);
    get_in_queue(LEASES);
    fake_call("=", 1);
    CHECK_STATUS(fake_await_end(leases[0]), PLOCK_OK);
    fake_native_pass(999 * PLOCK_MILLISECOND);
    fake_await("EVALSHA acquire", 2 + LEASES);
    end();
}

static void when_the_looking_waiter_gives_up_the_next_one_looks(void) {
    char second[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    begin(number_tickets);
    get_in_queue(2);
    plock_lease_cancel(leases[0]);
    fake_native_pass(5002 * PLOCK_MILLISECOND);
    fake_await("EVALSHA acquire", 4);
    (void)fake_value(2, second);
    CHECK_TEXT(fake_value(3, word), second);
    end();
}

static void a_waiter_that_is_told_to_looks_sooner(void) {
    begin(fake_refuses);
    get_in_queue(1);
    fake_call("~1000", 1);
    fake_nudge();
    fake_native_pass(999 * PLOCK_MILLISECOND);
    fake_await("EVALSHA acquire", 2);
    fake_native_pass(PLOCK_MILLISECOND);
    fake_await("EVALSHA acquire", 3);
    fake_call("~9000", 1); /* a message that names a later moment does not delay the next request */
    fake_nudge();
    fake_native_pass(5001 * PLOCK_MILLISECOND);
    fake_await("EVALSHA acquire", 4);
    end();
}

/* A message may arrive before the answer to an earlier request. */
static const char *third_is_silent(const char *command, unsigned nth) {
    if (!strncmp(command, "EVALSHA acquire", 15) && nth == 2) return FAKE_SILENCE;
    return fake_refuses(command, nth);
}

static void so_does_a_waiter_that_is_told_before_its_refusal(void) {
    begin(third_is_silent);
    get_in_queue(1);
    fake_call("=", 1);
    fake_await("EVALSHA acquire", 3);
    fake_call("~200", 1);
    fake_nudge();
    for (unsigned p = 0; p < fake_connections(); p++)
        if (!strncmp(fake_peers[p].commands[fake_peers[p].command_count - 1], "EVALSHA acquire",
                     15))
            fake_say(&fake_peers[p], FAKE_QUEUED, strlen(FAKE_QUEUED));
    fake_nudge();
    fake_native_pass(199 * PLOCK_MILLISECOND);
    fake_await("EVALSHA acquire", 3);
    fake_native_pass(PLOCK_MILLISECOND);
    fake_await("EVALSHA acquire", 4);
    end();
}

static void a_holder_that_does_not_notify_is_looked_at_often(void) {
    begin(fake_refuses_untold);
    get_in_queue(1);
    for (unsigned i = 0; i < 8; i++) {
        fake_native_pass(65 * PLOCK_MILLISECOND);
        fake_await("EVALSHA acquire", 3 + i);
    }
    end();
}

static void a_turn_without_a_waiter_here_is_passed_on(void) {
    char command[FAKE_COMMAND_ROOM];
    begin(fake_refuses);
    get_in_queue(1);
    CHECK(fake_publish("= stranger some key"));
    fake_await("EVALSHA leave", 1);
    CHECK_TEXT(fake_command("EVALSHA leave", 0, command), "EVALSHA leave 1 some key stranger 0");
    /* the next two messages name an unknown waiter, and cause no request */
    CHECK(fake_publish("~10 stranger k"));
    CHECK(fake_publish("! stranger k"));
    CHECK(fake_publish("= another k"));
    fake_await("EVALSHA leave", 2);
    fake_await("EVALSHA acquire", 2);
    end();
}

/* --- the channel breaks --- */

static void when_the_channel_is_back_all_ask_again_with_their_tickets(void) {
    static const char *const TICKETS[] = {"1700000000000101", "1700000000000102",
                                          "1700000000000103", "1700000000000104"};
    char word[FAKE_COMMAND_ROOM], first[FAKE_COMMAND_ROOM], second[FAKE_COMMAND_ROOM];
    begin(number_tickets);
    get_in_queue(LEASES);
    fake_cut_channel();
    for (unsigned rounds = 0; fake_commands_like("SUBSCRIBE") < 2 && test_patient(&rounds);)
        fake_native_pass(PLOCK_MILLISECOND);
    fake_await("EVALSHA acquire", 1 + 2 * LEASES);
    for (unsigned i = 0; i < LEASES; i++) CHECK_TEXT(fake_ticket(1 + LEASES + i, word), TICKETS[i]);
    /* the channel's name is the same, because the waiters' records contain it */
    CHECK_TEXT(fake_command("SUBSCRIBE", 1, second), fake_command("SUBSCRIBE", 0, first));
    for (unsigned i = 0; i < LEASES; i++)
        CHECK_STATUS(plock_lease_step(leases[i], &(plock_interest){0}), PLOCK_AGAIN);
    end();
}

/* A waiter's refusal may still be in flight when the channel is back. The waiter's turn may have
 * been published while the channel was closed. So this waiter also asks again. */
static const char *second_is_silent(const char *command, unsigned nth) {
    if (!strncmp(command, "EVALSHA acquire", 15) && nth == 2) return FAKE_SILENCE;
    return fake_refuses(command, nth);
}

static void so_does_a_waiter_with_a_request_under_way(void) {
    enum { BY_HIMSELF, BY_THE_THREAD, WAYS };
    for (int way = 0; way < WAYS; way++) {
        char word[FAKE_COMMAND_ROOM];
        begin(second_is_silent);
        get_in_queue(1);
        if (way == BY_HIMSELF)
            fake_await_turn(leases[1], 100 * PLOCK_SECOND);
        else
            fake_call("=", 1);
        fake_await("EVALSHA acquire", 3);
        fake_cut_channel();
        for (unsigned rounds = 0; fake_commands_like("SUBSCRIBE") < 2 && test_patient(&rounds);)
            fake_native_pass(PLOCK_MILLISECOND);
        fake_nudge();
        for (unsigned p = 0; p < fake_connections(); p++)
            if (!strncmp(fake_peers[p].commands[fake_peers[p].command_count - 1], "EVALSHA acquire",
                         15) &&
                !strcmp(fake_word(fake_peers[p].commands[fake_peers[p].command_count - 1], 4, word),
                        fake_value(2, (char[FAKE_COMMAND_ROOM]){0})))
                fake_say(&fake_peers[p], FAKE_QUEUED, strlen(FAKE_QUEUED));
        fake_carry_on(leases[way == BY_HIMSELF]);
        fake_await("EVALSHA acquire", way == BY_HIMSELF ? 5 : 4);
        unsigned asked = 0;
        char own[FAKE_COMMAND_ROOM];
        (void)fake_value(2, own);
        for (unsigned i = 3; i < (way == BY_HIMSELF ? 5 : 4); i++)
            asked +=
                !strcmp(fake_value(i, word), own) && !strcmp(fake_ticket(i, word), FAKE_TICKET);
        CHECK_INT(asked, 1);
        end();
    }
}

static const char *soon_over(const char *command, unsigned nth) {
    const char *answer = fake_refuses(command, nth);
    return answer && fake_queues(command) ? FAKE_PLACE(300, 0, FAKE_TICKET, 1) : answer;
}

static void while_it_is_away_the_first_looks_without_queueing(void) {
    char word[FAKE_COMMAND_ROOM];
    begin(soon_over);
    get_in_queue(1);
    fake_redis.subscriptions[1] = FAKE_SILENCE;
    fake_cut_channel();
    for (unsigned rounds = 0; fake_commands_like("SUBSCRIBE") < 2 && test_patient(&rounds);)
        fake_native_pass(PLOCK_MILLISECOND);
    fake_await("EVALSHA acquire", 2);
    fake_native_pass(began + 301 * PLOCK_MILLISECOND - plock_now());
    fake_await("EVALSHA acquire", 3);
    /* the waiter does not queue, because no message could reach it */
    CHECK_TEXT(fake_ticket(2, word), "");
    fake_confirm();
    fake_await("EVALSHA acquire", 4);
    CHECK_TEXT(fake_ticket(3, word), FAKE_TICKET); /* the waiter keeps its ticket */
    end();
}

/* Some of these failures go away by themselves, and some do not. */
static void waiters_learn_that_the_channel_cannot_open(void) {
    static const struct {
        const char *said;
        plock_status status, told;
    } WAYS[] = {
        {"-NOPERM this user has no permissions to access one of the channels used as arguments\r\n",
         PLOCK_NOPERM, PLOCK_NOPERM},
        {"-LOADING x\r\n", PLOCK_LOADING, PLOCK_TRY_FAILED},
        {"*2147483647\r\n", PLOCK_PROTOCOL, PLOCK_PROTOCOL},
    };
    for (unsigned i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        begin(fake_refuses);
        fake_redis.subscriptions[0] = WAYS[i].said;
        CHECK_STATUS(
            plock_lease_acquire(leases[0], &(plock_acquire_options){.ttl = PLOCK_SECOND,
                                                                    .wait = 100 * PLOCK_SECOND}),
            PLOCK_OK);
        CHECK_STATUS(fake_await_end(leases[0]), WAYS[i].told);
        CHECK_STATUS(plock_lease_error(leases[0])->status, WAYS[i].status);
        fake_await("EVALSHA acquire", 1);
        fake_await("EVALSHA leave", 0); /* the waiter never queued */
        for (unsigned tenth = 0; tenth < 10; tenth++) fake_native_pass(PLOCK_SECOND / 10);
        fake_await("SUBSCRIBE", 1); /* without waiters, the channel is not opened again */
        fake_await_turn(leases[1], 100 * PLOCK_SECOND);
        fake_await("SUBSCRIBE", 2);
        fake_await("EVALSHA acquire", 3);
        end();
    }
}

static unsigned await_subscriptions(unsigned count, plock_ns span) {
    for (unsigned rounds = 0; fake_commands_like("SUBSCRIBE") < count && test_patient(&rounds);)
        fake_native_pass(span);
    return fake_commands_like("SUBSCRIBE");
}

/* No request of the waiter is pending on the server, so the waiter keeps its token. The waiter also
 * keeps its place in the queue, because the server may publish the waiter's turn as soon as it is
 * back. */
static void while_the_server_is_away_waiters_keep_their_tokens_and_places(void) {
    enum { CLOSES, IS_SILENT, WAYS };
    for (int way = 0; way < WAYS; way++) {
        char value[FAKE_COMMAND_ROOM], before[FAKE_COMMAND_ROOM], ticket[FAKE_COMMAND_ROOM],
            given[FAKE_COMMAND_ROOM];
        begin(number_tickets);
        get_in_queue(LEASES);
        for (unsigned i = 1; i < 4; i++)
            fake_redis.subscriptions[i] = way == CLOSES ? FAKE_CLOSES : FAKE_SILENCE;
        fake_cut_channel();
        (void)await_subscriptions(5, PLOCK_SECOND / 100);
        fake_confirm();
        fake_nudge();
        unsigned asked = 0;
        for (unsigned rounds = 0; asked < LEASES && test_patient(&rounds); fake_nudge()) {
            asked = 0;
            for (unsigned i = LEASES + 1; i < fake_commands_like("EVALSHA acquire"); i++)
                asked += *fake_ticket(i, ticket) != 0;
        }
        CHECK_INT(asked, LEASES);
        for (unsigned i = LEASES + 1, nth = 1; i < fake_commands_like("EVALSHA acquire"); i++) {
            if (!*fake_ticket(i, ticket)) continue;
            CHECK_TEXT(fake_value(i, value), fake_value(nth, before));
            (void)snprintf(given, sizeof given, "%.12s%04u", "170000000000", 100 + nth);
            CHECK_TEXT(ticket, given);
            nth++;
        }
        CHECK_INT(fake_commands_like("EVALSHA leave"), 0);
        for (unsigned i = 0; i < LEASES; i++)
            CHECK_STATUS(plock_lease_step(leases[i], &(plock_interest){0}), PLOCK_AGAIN);
        end();
    }
}

/* The channel has broken and is open again, but a waiter's earlier request is still in flight. The
 * server may have sent the answer to that request before it lost the waiter's place. So a newcomer
 * must not queue until the waiter has asked once more. */
static const char *two_are_silent(const char *command, unsigned nth) {
    const bool silent_to = !strncmp(command, "EVALSHA acquire", 15) && (nth == 2 || nth == 3);
    return silent_to ? FAKE_SILENCE : fake_refuses(command, nth);
}

static void a_newcomer_does_not_overtake_one_that_asks_then(void) {
    enum { BEFORE_THE_ANSWER, AFTER_IT, MOMENTS };
    for (int moment = 0; moment < MOMENTS; moment++) {
        begin(two_are_silent);
        get_in_queue(1);
        fake_call("=", 1);
        fake_await("EVALSHA acquire", 3);
        fake_cut_channel();
        (void)await_subscriptions(2, PLOCK_MILLISECOND);
        fake_nudge();
        if (moment == AFTER_IT) {
            fake_answer("EVALSHA acquire", 2, FAKE_QUEUED);
            fake_await("EVALSHA acquire", 4);
        }
        fake_await_turn(leases[1], 100 * PLOCK_SECOND);
        fake_await("EVALSHA acquire", moment == AFTER_IT ? 4 : 3);
        end();
    }
}

/* From now on, no connection can be made. */
static void refuse_connections(void) {
    plock__pool_distrust(&store->node.pool);
    for (unsigned i = fake_connections(); i < FAKE_PEERS; i++)
        fake_peers[i].connect_failure = PLOCK_CONNECT;
}

static void take_the_server_away(void) {
    refuse_connections();
    fake_cut_channel();
}

static void after_unavailable_timeout_they_give_up_and_say_why(void) {
    begin(soon_over); /* the holder's lease ends soon, so the waiter asks again soon */
    get_in_queue(1);
    take_the_server_away();
    const plock_ns cut_at = plock_now();
    plock_interest interest;
    plock_status status = PLOCK_AGAIN;
    for (unsigned rounds = 0; status == PLOCK_AGAIN && test_patient(&rounds);) {
        fake_native_pass(PLOCK_SECOND / 50);
        status = plock_lease_step(leases[0], &interest);
        CHECK(status != PLOCK_AGAIN || interest.deadline <= cut_at + 3 * PLOCK_SECOND / 2 ||
              plock_now() < cut_at + PLOCK_SECOND / 2);
    }
    CHECK_STATUS(status, PLOCK_CONNECT);
    CHECK(plock_now() - cut_at >= PLOCK_SECOND && plock_now() - cut_at <= 3 * PLOCK_SECOND / 2);
    CHECK(strstr(plock_lease_error(leases[0])->message, "unavailable_timeout"));
    end();
}

/* A stopped server closes no connection. One waiter of the process asks once a second, and finds
 * the outage for all waiters. */
static atomic_bool silent;

static const char *silent_later(const char *command, unsigned nth) {
    return atomic_load(&silent) ? FAKE_SILENCE : number_tickets(command, nth);
}

enum { WAITERS = 3 };

/* Checks that all waiters give up together, unavailable_timeout after the request that found the
 * outage. */
static void await_the_end_of_all(plock_status expected) {
    const plock_ns since = plock_now();
    plock_status status[WAITERS] = {PLOCK_AGAIN, PLOCK_AGAIN, PLOCK_AGAIN};
    plock_ns ended_at[WAITERS] = {0};
    unsigned ended = 0;
    while (ended < WAITERS && plock_now() - since < 4 * PLOCK_SECOND) {
        fake_native_pass(PLOCK_SECOND / 50);
        for (unsigned i = 0; i < WAITERS; i++) {
            if (status[i] != PLOCK_AGAIN && status[i] != PLOCK_TRY_FAILED) continue;
            status[i] = plock_lease_step(leases[i], &(plock_interest){0});
            if (status[i] == PLOCK_AGAIN || status[i] == PLOCK_TRY_FAILED) continue;
            ended_at[i] = plock_now();
            ended++;
        }
    }
    for (unsigned i = 0; i < WAITERS; i++) {
        CHECK_STATUS(status[i], expected);
        CHECK(strstr(plock_lease_error(leases[i])->message, "unavailable_timeout"));
        CHECK(ended_at[i] - since <= 5 * PLOCK_SECOND / 2);
    }
}

static void silence_to_one_of_them_is_silence_to_all(void) {
    atomic_store(&silent, false);
    begin(silent_later);
    get_in_queue(WAITERS);
    atomic_store(&silent, true);
    await_the_end_of_all(PLOCK_SILENT);
    end();
}

/* The channel stays open, but new connections fail. For example, the server has reached its limit
 * of clients. */
static void what_refuses_one_of_them_a_connection_counts_for_all(void) {
    begin(number_tickets);
    get_in_queue(WAITERS);
    refuse_connections();
    await_the_end_of_all(PLOCK_CONNECT);
    end();
}

/* A caller that tolerates an outage is notified of each failure to reach the server. */
static void a_caller_that_endures_it_hears_of_each_failure(void) {
    begin(fake_refuses);
    CHECK_STATUS(plock_lease_acquire(leases[0], &(plock_acquire_options){.ttl = 3 * PLOCK_SECOND,
                                                                         .wait = 4 * PLOCK_SECOND,
                                                                         .endures = true}),
                 PLOCK_OK);
    fake_carry_on(leases[0]);
    fake_await("EVALSHA acquire", 2);
    take_the_server_away();
    plock_interest interest;
    plock_status status = PLOCK_AGAIN;
    unsigned told = 0;
    for (unsigned rounds = 0; told < 5 && test_patient(&rounds);) {
        fake_native_pass(PLOCK_SECOND / 50);
        status = plock_lease_step(leases[0], &interest);
        if (status != PLOCK_TRY_FAILED) continue;
        told++;
        CHECK_STATUS(plock_lease_error(leases[0])->status, PLOCK_CONNECT);
        /* each failure is reported once */
        CHECK_STATUS(plock_lease_step(leases[0], &interest), PLOCK_AGAIN);
    }
    CHECK_INT(told, 5);
    CHECK_INT(fake_commands_like("EVALSHA leave"), 0);
    end();
}

/* If a waiter's request cannot be sent, the waiter stays, and its next request has the same token.
 * The other waiters of the process learn of the failure, so they also ask for their places. */
static void a_request_that_cannot_be_sent_costs_nothing(void) {
    enum { BY_ITSELF, BY_THE_THREAD, WAYS };
    for (int way = 0; way < WAYS; way++) {
        char value[FAKE_COMMAND_ROOM], before[FAKE_COMMAND_ROOM], ticket[FAKE_COMMAND_ROOM];
        begin(fake_refuses);
        get_in_queue(1);
        const unsigned made = fake_connections();
        plock__pool_distrust(&store->node.pool);
        fake_peers[made].connect_failure = PLOCK_CONNECT;
        if (way == BY_ITSELF)
            fake_await_turn(leases[1], 100 * PLOCK_SECOND);
        else
            fake_call("=", 1);
        for (unsigned rounds = 0; fake_connections() == made && test_patient(&rounds);)
            fake_nudge();
        CHECK_INT(fake_connections(), made + 1);
        const unsigned asked = way == BY_ITSELF ? 4 : 3;
        for (unsigned rounds = 0;
             fake_commands_like("EVALSHA acquire") < asked && test_patient(&rounds);)
            fake_native_pass(PLOCK_MILLISECOND);
        fake_await("EVALSHA acquire", asked);
        if (way == BY_THE_THREAD) {
            CHECK_TEXT(fake_value(2, value), fake_value(1, before));
            CHECK_TEXT(fake_ticket(2, ticket), FAKE_TICKET);
        }
        CHECK_INT(fake_commands_like("EVALSHA leave"), 0);
        for (int i = 0; i <= (way == BY_ITSELF); i++)
            CHECK_STATUS(plock_lease_step(leases[i], &(plock_interest){0}), PLOCK_AGAIN);
        end();
    }
}

/* --- how long the coordinator stays --- */

static void it_ends_after_a_while_without_waiters(void) {
    enum { CANCELLED, SERVED, WAYS };
    for (int way = 0; way < WAYS; way++) {
        begin(fake_refuses);
        get_in_queue(1);
        fake_native_pass(PLOCK_SECOND);
        if (way == CANCELLED) {
            plock_lease_cancel(leases[0]);
        } else {
            fake_redis.says = NULL;
            fake_call("=", 1);
            CHECK_STATUS(fake_await_end(leases[0]), PLOCK_OK);
        }
        fake_native_pass(4990 * PLOCK_MILLISECOND);
        CHECK(coordinator_is_there());
        /* the coordinator is not told that the waiter is gone, and checks only every 5 s whether it
         * is still needed */
        for (unsigned i = 0; i < 6; i++) fake_native_pass(PLOCK_SECOND);
        await_end_of_coordinator();
        for (unsigned rounds = 0; fake_channel_is_open() && test_patient(&rounds);) continue;
        CHECK(!fake_channel_is_open());
        if (way == SERVED) CHECK_STATUS(fake_release(leases[0]), PLOCK_OK);
        end();
    }
}

static void it_comes_back_with_another_channel(void) {
    char first[FAKE_COMMAND_ROOM], second[FAKE_COMMAND_ROOM];
    begin(fake_refuses);
    get_in_queue(1);
    plock_lease_cancel(leases[0]);
    for (unsigned rounds = 0; coordinator_is_there() && test_patient(&rounds);)
        fake_native_pass(PLOCK_SECOND);
    fake_await_turn(leases[0], PLOCK_SECOND);
    fake_await("SUBSCRIBE", 2);
    CHECK(strcmp(fake_command("SUBSCRIBE", 0, first), fake_command("SUBSCRIBE", 1, second)) != 0);
    fake_await("EVALSHA acquire", 4);
    end();
}

static void waiting_on_and_off_keeps_it(void) {
    begin(fake_refuses);
    for (unsigned i = 0; i < 4; i++) {
        fake_await_turn(leases[0], 100 * PLOCK_SECOND);
        fake_await("EVALSHA acquire", i + 2);
        plock_lease_cancel(leases[0]);
        fake_native_pass(3 * PLOCK_SECOND);
    }
    CHECK_INT(fake_commands_like("SUBSCRIBE"), 1);
    end();
}

int main(void) {
    RUN(many_wait_on_one_channel);
    RUN(the_order_of_threads_is_kept_while_the_channel_is_being_opened);
    RUN(two_locks_are_two_queues);
    RUN(only_the_first_looks_and_once_a_second);
    RUN(newcomers_do_not_put_that_off);
    RUN(when_the_queue_has_lost_one_all_ask_for_their_places_in_their_order);
    RUN(if_a_waiter_gets_the_lock_without_being_called_the_next_looks_at_once);
    RUN(if_it_was_called_no_other_waiter_looks);
    RUN(when_the_looking_waiter_gives_up_the_next_one_looks);
    RUN(a_waiter_that_is_told_to_looks_sooner);
    RUN(so_does_a_waiter_that_is_told_before_its_refusal);
    RUN(a_holder_that_does_not_notify_is_looked_at_often);
    RUN(a_turn_without_a_waiter_here_is_passed_on);
    RUN(when_the_channel_is_back_all_ask_again_with_their_tickets);
    RUN(so_does_a_waiter_with_a_request_under_way);
    RUN(while_it_is_away_the_first_looks_without_queueing);
    RUN(waiters_learn_that_the_channel_cannot_open);
    RUN(while_the_server_is_away_waiters_keep_their_tokens_and_places);
    RUN(a_newcomer_does_not_overtake_one_that_asks_then);
    RUN(after_unavailable_timeout_they_give_up_and_say_why);
    RUN(silence_to_one_of_them_is_silence_to_all);
    RUN(what_refuses_one_of_them_a_connection_counts_for_all);
    RUN(a_caller_that_endures_it_hears_of_each_failure);
    RUN(a_request_that_cannot_be_sent_costs_nothing);
    RUN(it_ends_after_a_while_without_waiters);
    RUN(it_comes_back_with_another_channel);
    RUN(waiting_on_and_off_keeps_it);
    return test_end("coordinator");
}
