/* A cluster whose slots move while locks in them are held and waited for. Afterwards, waiters and
 * watches listen on the node that serves the slot. */
#include "fake_native.h"
#include "test.h"

#include "base/memory.h"
#include "base/process.h"
#include "redis/coordinator.h"
#include "redis/routes.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { LEASES = 3 };

static plock_store *store;
static plock_lease *leases[LEASES];
static plock_node *nodes[2];

static const plock_text KEY = {"k", 1};

static void route_all_to(plock_node *node) {
    for (unsigned slot = 0; slot < PLOCK__SLOTS; slot++) plock__routes_move(store, slot, node);
}

/* Makes two nodes, of which the first serves every slot. No other node is reachable. */
static void begin(const char *(*says)(const char *command, unsigned nth)) {
    fake_clock_start();
    store = fake_store("redis+cluster://127.0.0.1:1");
    fake_redis.says = says;
    fake_redis.descriptors = true;
    for (unsigned p = 0; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
    for (int i = 0; i < 2; i++) {
        plock_node_name name;
        CHECK(plock__name_node(&name, plock__text("127.0.0.1", 9), 7000 + i));
        nodes[i] = plock__routes_node(store, &name);
    }
    route_all_to(nodes[0]);
    atomic_store(&store->routes->mapped, true);
    for (unsigned i = 0; i < LEASES; i++) leases[i] = fake_lease(store);
}

/* The thread that loads a map may outlive the store, so end() waits for it. */
static void end(void) {
    for (unsigned i = 0; i < LEASES; i++) plock_lease_free(leases[i]);
    fake_clock_stop();
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    plock_store_close(store);
    fake_settle();
}

static void get_in_queue(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        fake_await_turn(leases[i], 100 * PLOCK_SECOND);
        fake_await("EVALSHA acquire", i + 2);
    }
}

static void move_to(plock_node *node) { plock__routes_move(store, plock__slot(KEY), node); }

static bool has_waiters(plock_node *node) {
    plock__enter();
    const plock_coordinator *coordinator = atomic_load(&node->coordinator);
    const bool has = coordinator && plock__wait_queue_find(&coordinator->queues, KEY);
    plock__leave();
    return has;
}

static void await_waiters(plock_node *node) {
    for (unsigned rounds = 0; !has_waiters(node) && test_patient(&rounds);) continue;
    CHECK(has_waiters(node));
}

static void waiters_listen_where_their_slot_is_now_and_ask_again(void) {
    char first[FAKE_COMMAND_ROOM], second[FAKE_COMMAND_ROOM], ticket[FAKE_COMMAND_ROOM];
    begin(fake_refuses);
    get_in_queue(2);
    move_to(nodes[1]);
    fake_await("SUBSCRIBE", 2);
    fake_await("EVALSHA acquire", 5);
    CHECK(has_waiters(nodes[1]) && !has_waiters(nodes[0]));
    /* all channels have the same id, so the records that moved with the slot stay correct */
    CHECK_TEXT(fake_command("SUBSCRIBE", 0, first), fake_command("SUBSCRIBE", 1, second));
    for (unsigned nth = 3; nth < 5; nth++) CHECK_TEXT(fake_ticket(nth, ticket), FAKE_TICKET);
    fake_call("=", 1);
    fake_await("EVALSHA acquire", 6);
    end();
}

/* The hash tag in a channel's name must hash to a slot that the channel's node serves. Otherwise,
 * that node could not publish to the channel. */
static void check_tag(unsigned subscription, unsigned nth, const char *tag) {
    char command[FAKE_COMMAND_ROOM];
    CHECK_HAS(fake_command("SSUBSCRIBE", subscription, command), tag);
    CHECK_HAS(fake_command("EVALSHA acquire", nth, command), tag);
}

static void a_channel_has_a_tag_of_its_node_and_new_waiters_name_it(void) {
    begin(fake_refuses);
    get_in_queue(1);
    fake_await("SSUBSCRIBE", 1);
    check_tag(0, 1, "{0}");
    plock__routes_move(store, plock__slot(plock__text("{0}", 3)), nodes[1]);
    fake_await("SSUBSCRIBE", 2);
    fake_await_turn(leases[1], 100 * PLOCK_SECOND);
    fake_await("EVALSHA acquire", 3);
    check_tag(1, 2, "{1}");
    end();
}

/* The map reports the move before the server ends the old subscription. So the channel already has
 * a new tag, and must keep it. */
static void the_end_of_an_earlier_tag_leaves_the_present_one(void) {
    char command[FAKE_COMMAND_ROOM], name[FAKE_COMMAND_ROOM], text[2 * FAKE_COMMAND_ROOM];
    begin(fake_refuses);
    get_in_queue(1);
    fake_await("SSUBSCRIBE", 1);
    (void)snprintf(name, sizeof name, "%s",
                   strchr(fake_command("SSUBSCRIBE", 0, command), ' ') + 1);
    plock__routes_move(store, plock__slot(plock__text("{0}", 3)), nodes[1]);
    fake_await("SSUBSCRIBE", 2);
    (void)snprintf(text, sizeof text, "*3\r\n$12\r\nsunsubscribe\r\n$%zu\r\n%s\r\n:0\r\n",
                   strlen(name), name);
    CHECK(fake_say_on_channel(text, strlen(text)));
    fake_nudge();
    fake_await("SSUBSCRIBE", 2);
    end();
}

static void a_node_with_hardly_a_slot_has_no_tag(void) {
    begin(fake_refuses);
    get_in_queue(1);
    fake_await("SSUBSCRIBE", 1);
    move_to(nodes[1]);
    fake_await("SUBSCRIBE", 2);
    fake_await("EVALSHA acquire", 3);
    fake_await_turn(leases[1], 100 * PLOCK_SECOND);
    fake_await("EVALSHA acquire", 4);
    char command[FAKE_COMMAND_ROOM];
    CHECK(!strchr(fake_command("EVALSHA acquire", 3, command), '{'));
    fake_await("SSUBSCRIBE", 1);
    end();
}

static void no_waiter_queues_before_the_new_channel_is_open(void) {
    char ticket[FAKE_COMMAND_ROOM];
    begin(fake_refuses);
    get_in_queue(1);
    fake_redis.subscriptions[1] = FAKE_SILENCE;
    move_to(nodes[1]);
    fake_await("SUBSCRIBE", 2);
    fake_native_pass(2 * PLOCK_SECOND / 5);
    fake_await("EVALSHA acquire", 2);
    fake_await_turn(leases[1], 100 * PLOCK_SECOND);
    fake_await("EVALSHA acquire", 2); /* the second waiter asks after the first one */
    fake_confirm();
    fake_await("EVALSHA acquire", 4);
    CHECK_TEXT(fake_ticket(2, ticket), FAKE_TICKET);
    CHECK_TEXT(fake_ticket(3, ticket), "0");
    end();
}

/* Each node forwards a plain message to all nodes, so it arrives on each of the process's
 * channels. */
static void a_message_that_comes_by_several_channels_counts_once(void) {
    begin(fake_refuses);
    get_in_queue(1);
    fake_peer *old = fake_redis.channel;
    move_to(nodes[1]);
    fake_await("EVALSHA acquire", 3);
    fake_peer *new = fake_redis.channel;
    CHECK(old && new &&old != new);
    fake_redis.channel = old;
    fake_call("=", 1);
    fake_nudge();
    fake_await("EVALSHA acquire", 3);
    CHECK(fake_publish("= 00000000-0000-0000-0000-000000000000 k"));
    fake_nudge();
    CHECK_INT(fake_commands_like("EVALSHA leave"),
              0); /* ignored here, because it also arrives on the new channel */
    fake_redis.channel = new;
    fake_call("=", 1);
    fake_await("EVALSHA acquire", 4);
    CHECK(fake_publish("= 00000000-0000-0000-0000-000000000000 k"));
    fake_await("EVALSHA leave", 1);
    end();
}

static void say_sharded(const char *kind, const char *value) {
    char text[2 * FAKE_COMMAND_ROOM];
    (void)snprintf(text, sizeof text, "*3\r\n$8\r\nsmessage\r\n$1\r\nx\r\n$%zu\r\n%s %s k\r\n",
                   strlen(kind) + strlen(value) + 3, kind, value);
    CHECK(fake_say_on_channel(text, strlen(text)));
}

/* A sharded message arrives on one channel only. That may be the old channel, because the slot may
 * have moved back. */
static void a_sharded_message_counts_by_whichever_channel_it_comes(void) {
    char value[FAKE_COMMAND_ROOM];
    begin(fake_refuses);
    get_in_queue(1);
    fake_peer *old = fake_redis.channel;
    move_to(nodes[1]);
    fake_await("EVALSHA acquire", 3);
    CHECK(old && old != fake_redis.channel);
    fake_redis.channel = old;
    say_sharded("=", fake_value(1, value));
    fake_nudge();
    fake_await("EVALSHA acquire", 4);
    say_sharded("=", "00000000-0000-0000-0000-000000000000");
    fake_nudge();
    /* no other channel receives this message, so the turn is passed on */
    fake_await("EVALSHA leave", 1);
    end();
}

/* The message arrives on the old node's channel, but the waiter already belongs to the new node. So
 * the new node's coordinator must make the waiter ask again. */
static void a_sharded_message_to_look_again_counts_by_whichever_channel_it_comes(void) {
    char value[FAKE_COMMAND_ROOM];
    begin(fake_refuses);
    get_in_queue(1);
    fake_peer *old = fake_redis.channel;
    move_to(nodes[1]);
    fake_await("EVALSHA acquire", 3);
    CHECK(old && old != fake_redis.channel);
    fake_nudge();
    fake_redis.channel = old;
    say_sharded("~0", fake_value(1, value));
    fake_nudge();
    fake_await("EVALSHA acquire", 4);
    end();
}

/* Until the new channel is open, the turn may arrive on the old channel. */
static void a_turn_is_heard_on_the_old_channel_until_the_new_one_is_open(void) {
    begin(fake_refuses);
    get_in_queue(1);
    fake_redis.subscriptions[1] = FAKE_SILENCE;
    move_to(nodes[1]);
    fake_await("SUBSCRIBE", 2);
    await_waiters(nodes[1]);
    fake_call("=", 1);
    fake_await("EVALSHA acquire", 3);
    end();
}

static void a_waiter_that_comes_meanwhile_joins_those_that_have_moved(void) {
    begin(fake_refuses);
    get_in_queue(1);
    move_to(nodes[1]);
    fake_await_turn(leases[1], 100 * PLOCK_SECOND);
    fake_await_turn(leases[2], 100 * PLOCK_SECOND);
    await_waiters(nodes[1]);
    fake_nudge();
    plock__enter();
    const plock_wait_queue *queue =
        plock__wait_queue_find(&atomic_load(&nodes[1]->coordinator)->queues, KEY);
    unsigned count = 0;
    for (const plock_waiter *waiter = queue->first; waiter; waiter = waiter->next) count++;
    CHECK(queue->first && queue->first->place.ticket != 0); /* the oldest waiter is first */
    plock__leave();
    CHECK_INT(count, 3);
    CHECK(!has_waiters(nodes[0]));
    end();
}

static void a_watched_lease_is_checked_where_its_slot_is_now(void) {
    static const plock_acquire_options WATCHED = {.ttl = 60 * PLOCK_SECOND, .watched = true};
    begin(NULL);
    CHECK_STATUS(plock_lease_acquire(leases[0], &WATCHED), PLOCK_OK);
    CHECK_STATUS(fake_await_end(leases[0]), PLOCK_OK);
    fake_await("SUBSCRIBE", 1);
    fake_await("EVALSHA check", 1);
    move_to(nodes[1]);
    fake_await("SUBSCRIBE", 2);
    fake_await("EVALSHA check", 2);
    CHECK(plock_lease_valid(leases[0]));
    end();
}

/* The watch begins before the lease's request, and so before the first map is loaded. */
static void what_begins_before_the_map_is_known_moves_to_its_node(void) {
    static const plock_acquire_options WATCHED = {.ttl = 60 * PLOCK_SECOND, .watched = true};
    plock_interest interest;
    begin(NULL);
    atomic_store(&store->routes->slots[plock__slot(KEY)], NULL);
    CHECK_STATUS(plock_lease_acquire(leases[0], &WATCHED), PLOCK_OK);
    CHECK_STATUS(plock_lease_step(leases[0], &interest), PLOCK_AGAIN);
    CHECK_INT(fake_connections(), 0);
    move_to(nodes[1]);
    fake_await("SUBSCRIBE", 1);
    fake_clock_pass(interest.deadline - plock_now());
    CHECK_STATUS(fake_await_end(leases[0]), PLOCK_OK);
    end();
}

static atomic_bool is_silent;

static const char *refuses_and_falls_silent(const char *command, unsigned nth) {
    return atomic_load(&is_silent) ? FAKE_SILENCE : fake_refuses(command, nth);
}

static void a_wait_at_a_silent_node_ends_though_the_earlier_node_answers(void) {
    plock_interest interest;
    plock_status status = PLOCK_AGAIN;
    atomic_store(&is_silent, false);
    begin(refuses_and_falls_silent);
    get_in_queue(1);
    move_to(nodes[1]);
    await_waiters(nodes[1]);
    fake_await("EVALSHA acquire", 3);
    atomic_store(&is_silent, true);
    for (int i = 0; i < 60 && (status == PLOCK_AGAIN || status == PLOCK_TRY_FAILED); i++) {
        atomic_store(&nodes[0]->reached_at, plock_now());
        fake_native_pass(PLOCK_SECOND / 10);
        status = plock_lease_step(leases[0], &interest);
    }
    CHECK_STATUS(status, PLOCK_SILENT);
    CHECK_HAS(plock_lease_error(leases[0])->message, ":7001");
    end();
}

static void each_allocation_may_fail(void) {
    for (unsigned long n = 1;; n++) {
        begin(fake_refuses);
        get_in_queue(1);
        (void)plock__fail_allocation(n);
        move_to(nodes[1]);
        fake_nudge();
        const bool over = plock__fail_allocation(0) < n;
        /* the move, or opening the channel, is retried */
        for (unsigned rounds = 0; fake_commands_like("SUBSCRIBE") < 2 && test_patient(&rounds);)
            fake_native_pass(PLOCK_SECOND / 10);
        fake_await("SUBSCRIBE", 2);
        await_waiters(nodes[1]);
        end();
        if (over) return;
    }
}

int main(void) {
    RUN(waiters_listen_where_their_slot_is_now_and_ask_again);
    RUN(a_channel_has_a_tag_of_its_node_and_new_waiters_name_it);
    RUN(the_end_of_an_earlier_tag_leaves_the_present_one);
    RUN(a_node_with_hardly_a_slot_has_no_tag);
    RUN(no_waiter_queues_before_the_new_channel_is_open);
    RUN(a_message_that_comes_by_several_channels_counts_once);
    RUN(a_sharded_message_counts_by_whichever_channel_it_comes);
    RUN(a_sharded_message_to_look_again_counts_by_whichever_channel_it_comes);
    RUN(a_turn_is_heard_on_the_old_channel_until_the_new_one_is_open);
    RUN(a_waiter_that_comes_meanwhile_joins_those_that_have_moved);
    RUN(a_watched_lease_is_checked_where_its_slot_is_now);
    RUN(what_begins_before_the_map_is_known_moves_to_its_node);
    RUN(a_wait_at_a_silent_node_ends_though_the_earlier_node_answers);
    RUN(each_allocation_may_fail);
    return test_end("reroute");
}
