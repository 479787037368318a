/* The channel: how it opens, which messages it reads, and which it skips. */
#include "fake.h"
#include "test.h"

#include "base/memory.h"
#include "base/process.h"
#include "redis/channel.h"
#include "redis/store.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

static plock_store *store;
static plock_channel channel;
static plock_message message;
static plock_interest interest;
static plock_error error;

static void begin(const char *url) {
    fake_clock_start();
    store = fake_store(url);
    channel = (plock_channel){0};
    CHECK_STATUS(plock__channel_name(&channel), PLOCK_OK);
}

static plock_status step(void) {
    interest = (plock_interest){.fd = -1, .deadline = PLOCK_NEVER};
    plock__begin_step();
    const plock_status status =
        plock__channel_step(&channel, &store->node, true, &message, &interest, &error);
    plock__end_step();
    return status;
}

static void end(void) {
    plock__begin_step();
    plock__channel_close(&channel, &store->node);
    plock__end_step();
    CHECK_INT(store->node.pool.open, 0);
    fake_end(NULL, store);
}

static void open_channel(const char *url) {
    begin(url);
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK_INT(message.kind, 0);
    CHECK_INT(channel.state, PLOCK__CHANNEL_OPEN);
}

static void check_text(plock_text text, const char *expected) {
    CHECK_INT(text.length, strlen(expected));
    CHECK(text.length == strlen(expected) && !memcmp(text.bytes, expected, text.length));
}

static void say(const char *bytes) { CHECK(fake_say_on_channel(bytes, strlen(bytes))); }

/* Checks that the channel reads the next message, which shows that it has skipped the previous
 * one. */
static void check_still_hearing(void) {
    CHECK(fake_publish("= last k"));
    CHECK_STATUS(step(), PLOCK_OK);
    check_text(message.value, "last");
    CHECK_STATUS(step(), PLOCK_AGAIN);
}

/* --- opening --- */

static void it_subscribes_to_its_own_name_and_is_open_when_that_is_confirmed(void) {
    char expected[64];
    open_channel("redis://h");
    (void)snprintf(expected, sizeof expected, "SUBSCRIBE plock:1:wake:%.16s", channel.name);
    CHECK_TEXT(fake_peers[0].commands[1], expected);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    CHECK_INT(interest.deadline, PLOCK_NEVER); /* a channel may be silent forever */
    end();
}

static void each_has_a_name_of_its_own(void) {
    plock_channel other;
    begin("redis://h");
    CHECK_STATUS(plock__channel_name(&other), PLOCK_OK);
    CHECK(memcmp(channel.name, other.name, PLOCK__CHANNEL_LENGTH) != 0);
    for (unsigned i = 0; i < PLOCK__CHANNEL_LENGTH; i++)
        CHECK(strchr("0123456789abcdef", channel.name[i]) != NULL);
    end();
}

/* --- the hash tag --- */

static void open_with_tag(const char *answer) {
    begin("redis://h");
    memcpy(channel.name + PLOCK__CHANNEL_LENGTH, "{7}", 3);
    channel.tag_length = 3;
    fake_peers[0].answers[0] = answer;
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK_STATUS(step(), PLOCK_AGAIN);
}

static void it_also_subscribes_with_its_tag(void) {
    char expected[64];
    open_with_tag("*3\r\n$10\r\nssubscribe\r\n$1\r\nx\r\n:1\r\n");
    (void)snprintf(expected, sizeof expected, "SUBSCRIBE plock:1:wake:%.16s", channel.name);
    CHECK_TEXT(fake_peers[0].commands[1], expected);
    (void)snprintf(expected, sizeof expected, "SSUBSCRIBE plock:1:wake:%.16s{7}", channel.name);
    CHECK_TEXT(fake_peers[0].commands[2], expected);
    say("*3\r\n$8\r\nsmessage\r\n$1\r\nx\r\n$5\r\n= t k\r\n");
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK_INT(message.kind, '=');
    check_text(message.key, "k");
    /* the server sends this message when the slot moves to another node */
    say("*3\r\n$12\r\nsunsubscribe\r\n$1\r\nx\r\n:0\r\n");
    check_still_hearing();
    say("-ERR x\r\n");
    CHECK_STATUS(step(), PLOCK_SERVER);
    end();
}

/* The server may not know SSUBSCRIBE, may refuse it to this user, or may have given the slot
 * away. */
static void it_is_open_without_the_tag_if_the_server_refuses_that(void) {
    open_with_tag("-ERR unknown command 'SSUBSCRIBE'\r\n");
    check_still_hearing();
    CHECK(!channel.tag_lost);
    say("-ERR x\r\n");
    CHECK_STATUS(step(), PLOCK_SERVER);
    end();
}

static void a_tag_whose_slot_is_elsewhere_is_lost(void) {
    open_with_tag("-MOVED 7 127.0.0.1:7001\r\n");
    CHECK(channel.tag_lost);
    check_still_hearing();
    end();
}

static void a_tag_that_comes_later_is_used_at_once_if_it_is_open(void) {
    open_channel("redis://h");
    memcpy(channel.name + PLOCK__CHANNEL_LENGTH, "{8}", 3);
    channel.tag_length = 3;
    plock__begin_step();
    plock__channel_use_tag(&channel);
    plock__channel_close(&channel, &store->node);
    plock__channel_use_tag(&channel);
    plock__end_step();
    CHECK_INT(fake_peers[0].command_count, 3);
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK_TEXT(fake_peers[1].commands[2], fake_peers[0].commands[2]);
    end();
}

/* --- its connection --- */

/* The channel takes no connection from callers that acquire. */
static void its_connection_is_beside_the_pool(void) {
    open_channel("redis://ali:sesame@h/3?pool_size=1");
    CHECK_TEXT(fake_peers[0].commands[0], "AUTH ali sesame");
    CHECK_TEXT(fake_peers[0].commands[1], "SELECT 3");
    CHECK_INT(store->node.pool.open, 0);
    plock_lease *lease = fake_lease(store);
    fake_peers[1].answers[0] = FAKE_HELD;
    fake_peers[1].answers[1] = FAKE_DONE;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    plock_lease_free(lease);
    plock__begin_step();
    plock__channel_close(&channel, &store->node);
    plock__end_step();
    CHECK(fake_peers[0].destroyed && !fake_peers[1].destroyed);
    CHECK_INT(store->node.pool.open, 1);
    fake_end(NULL, store);
}

static void a_failure_to_open_is_reported_and_closes_it(void) {
    static const struct {
        const char *said;
        plock_status status;
    } WAYS[] = {
        {"-NOPERM this user has no permissions to access one of the channels used as arguments\r\n",
         PLOCK_NOPERM},
        {"-NOAUTH Authentication required.\r\n", PLOCK_NOAUTH},
        {"-LOADING x\r\n", PLOCK_LOADING},
        {"-ERR unknown command 'SUBSCRIBE'\r\n", PLOCK_SERVER},
        {FAKE_CLOSES, PLOCK_DISCONNECTED},
        {"garbage\r\n", PLOCK_PROTOCOL},
        {"*2147483647\r\n", PLOCK_PROTOCOL},
        {"$2147483647\r\n", PLOCK_PROTOCOL},
        {"*3\r\n$9\r\nsubscr", PLOCK_SILENT},
        {"+OK\r\n", PLOCK_SILENT}, /* this answer and the next three confirm nothing */
        {":1\r\n", PLOCK_SILENT},
        {"*0\r\n", PLOCK_SILENT},
        {"*3\r\n$11\r\nunsubscribe\r\n$1\r\nx\r\n:0\r\n", PLOCK_SILENT},
        {FAKE_SILENCE, PLOCK_SILENT},
    };
    for (unsigned i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        begin("redis://h?command_timeout=0.3");
        fake_redis.subscriptions[0] = WAYS[i].said;
        const plock_status status = step();
        if (status == PLOCK_AGAIN) {
            CHECK_INT(interest.deadline, plock_now() + 300 * PLOCK_MILLISECOND);
            fake_clock_pass(300 * PLOCK_MILLISECOND);
        }
        test_status(status == PLOCK_AGAIN ? step() : status, WAYS[i].status, WAYS[i].said, __FILE__,
                    __LINE__);
        CHECK_STATUS(error.status, WAYS[i].status);
        CHECK_INT(channel.state, PLOCK__CHANNEL_CLOSED);
        CHECK(fake_peers[0].destroyed);
        CHECK_STATUS(step(), PLOCK_OK); /* the next attempt works */
        CHECK_INT(fake_connections(), 2);
        end();
    }
}

static void connecting_has_its_time_too(void) {
    begin("redis://h?connect_timeout=0.4");
    fake_peers[0].silent_greeting = true;
    CHECK_STATUS(step(), PLOCK_AGAIN);
    CHECK_INT(interest.deadline, plock_now() + 400 * PLOCK_MILLISECOND);
    fake_clock_pass(400 * PLOCK_MILLISECOND);
    CHECK_STATUS(step(), PLOCK_SILENT);
    fake_peers[1].connect_failure = PLOCK_CONNECT;
    CHECK_STATUS(step(), PLOCK_CONNECT);
    CHECK_INT(channel.state, PLOCK__CHANNEL_CLOSED);
    end();
}

/* --- messages --- */

static void messages_of_each_kind_are_understood(void) {
    static const struct {
        const char *text;
        char kind;
        unsigned ms;
        const char *value, *key;
    } MESSAGES[] = {
        {"= token key", '=', 0, "token", "key"},
        {"! token key", '!', 0, "token", "key"},
        {"!5 token key", '!', 0, "token", "key"},
        /* a caller's own token may contain any characters */
        {"!9 two words a key", '!', 0, "two words", "a key"},
        {"!3 two words a key", '!', 0, "two", "words a key"},
        {"~1000 token key", '~', 1000, "token", "key"},
        {"~0 t k", '~', 0, "t", "k"},
        {"= t a key with blanks  ", '=', 0, "t", "a key with blanks  "},
        {"= t  k", '=', 0, "t", " k"},
    };
    open_channel("redis://h");
    for (unsigned i = 0; i < sizeof MESSAGES / sizeof *MESSAGES; i++) {
        CHECK(fake_publish(MESSAGES[i].text));
        CHECK_STATUS(step(), PLOCK_OK);
        CHECK_INT(message.kind, MESSAGES[i].kind);
        CHECK_INT(message.ms, MESSAGES[i].ms);
        check_text(message.value, MESSAGES[i].value);
        check_text(message.key, MESSAGES[i].key);
        CHECK_STATUS(step(), PLOCK_AGAIN);
    }
    end();
}

/* A Marshal-encoded token may contain any byte, and so may a key. */
static void values_and_keys_may_hold_any_byte(void) {
    static const char TEXT[] =
        "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$13\r\n= \4\bI\"\r\n k\0\r\xff\r\n";
    open_channel("redis://h");
    CHECK(fake_say_on_channel(TEXT, sizeof TEXT - 1));
    CHECK_STATUS(step(), PLOCK_OK);
    check_text(message.value, "\4\bI\"\r\n");
    CHECK(message.key.length == 4 && !memcmp(message.key.bytes, "k\0\r\xff", 4));
    end();
}

static void several_that_came_together_are_heard_one_by_one_without_another_read(void) {
    open_channel("redis://h");
    for (int i = 0; i < 3; i++) CHECK(fake_publish(i == 0 ? "= a k" : i == 1 ? "~5 b k" : "= c k"));
    CHECK_STATUS(step(), PLOCK_OK);
    check_text(message.value, "a");
    const unsigned reads = fake_peers[0].reads;
    CHECK_STATUS(step(), PLOCK_OK);
    check_text(message.value, "b");
    CHECK_STATUS(step(), PLOCK_OK);
    check_text(message.value, "c");
    CHECK_INT(fake_peers[0].reads, reads);
    CHECK_STATUS(step(), PLOCK_AGAIN);
    end();
}

/* TLS takes a whole record from the socket, even if one read returns only a part of it. The
 * descriptor does not show that the transport still holds the rest. */
static void what_the_transport_holds_is_heard_before_the_descriptor_is_waited_for(void) {
    enum { MESSAGES = 30, KEY = 300 }; /* more bytes than two reads return */
    char text[KEY + 16];
    open_channel("redis://h");
    fake_redis.descriptors = true;
    plock__begin_step();
    plock__channel_close(&channel, &store->node);
    plock__end_step();
    /* the channel subscribes again, on a connection with a descriptor */
    CHECK_STATUS(step(), PLOCK_OK);
    fake_peers[1].hoards = true;
    for (int i = 0; i < MESSAGES; i++) {
        (void)snprintf(text, sizeof text, "= t %0*d", KEY, i);
        CHECK(fake_publish(text));
    }
    const unsigned reads = fake_peers[1].reads;
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK_INT(fake_peers[1].reads, reads + 1);
    unsigned heard = 1;
    plock_status status;
    plock__begin_step();
    while ((status = plock__channel_step(&channel, &store->node, false, &message, &interest,
                                         &error)) == PLOCK_OK)
        heard++;
    plock__end_step();
    CHECK_STATUS(status, PLOCK_AGAIN);
    CHECK_INT(heard, MESSAGES);
    CHECK(interest.fd >= 0);
    end();
}

static void a_message_may_come_in_pieces(void) {
    open_channel("redis://h");
    fake_peers[0].read_chunk = 1;
    fake_peers[0].read_dribbles = true;
    CHECK(fake_publish("~250 token key"));
    plock_status status;
    for (unsigned steps = 0; (status = step()) == PLOCK_AGAIN && CHECK(steps < 1000); steps++)
        continue;
    CHECK_STATUS(status, PLOCK_OK);
    CHECK_INT(message.ms, 250);
    check_text(message.key, "key");
    end();
}

/* Any client may publish on the channel, so its messages may be nonsense. */
static void nonsense_is_skipped(void) {
    static const char *const MESSAGES[] = {
        "",        " ",     "=",   "= ",     "= t",     "= t ",
        "=  k",    "? t k", "t k", "~x t k", "~-1 t k", "~99999999999999999999 t k",
        "=1x t k", "\xff"};
    static const char *const REPLIES[] = {
        ":1\r\n",
        "+OK\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "$3\r\nfoo\r\n",
        "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n:5\r\n",
        "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$-1\r\n",
        "*2\r\n$7\r\nmessage\r\n$5\r\n= t k\r\n",
        "*3\r\n$7\r\nMESSAGE\r\n$1\r\nx\r\n$5\r\n= t k\r\n",
        "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nx\r\n$5\r\n= t k\r\n",
        "*3\r\n*1\r\n$7\r\nmessage\r\n$1\r\nx\r\n$5\r\n= t k\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n"};
    open_channel("redis://h");
    for (unsigned i = 0; i < sizeof MESSAGES / sizeof *MESSAGES; i++) {
        CHECK(fake_publish(MESSAGES[i]));
        test_status(step(), PLOCK_AGAIN, MESSAGES[i], __FILE__, __LINE__);
    }
    for (unsigned i = 0; i < sizeof REPLIES / sizeof *REPLIES; i++) {
        say(REPLIES[i]);
        test_status(step(), PLOCK_AGAIN, REPLIES[i], __FILE__, __LINE__);
    }
    check_still_hearing();
    end();
}

/* --- the end --- */

static void the_cause_of_its_end_is_reported(void) {
    static const struct {
        const char *said;
        plock_status status;
    } WAYS[] = {{"-ERR x\r\n", PLOCK_SERVER},
                {"-LOADING x\r\n", PLOCK_LOADING},
                {"garbage\r\n", PLOCK_PROTOCOL},
                {"*2147483647\r\n", PLOCK_PROTOCOL},
                {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", PLOCK_PROTOCOL}};
    for (unsigned i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        open_channel("redis://h");
        say(WAYS[i].said);
        CHECK_STATUS(step(), WAYS[i].status);
        CHECK_INT(channel.state, PLOCK__CHANNEL_CLOSED);
        CHECK(fake_peers[0].destroyed);
        end();
    }
    open_channel("redis://h");
    fake_cut_channel();
    CHECK_STATUS(step(), PLOCK_DISCONNECTED);
    CHECK_STATUS(step(), PLOCK_OK);
    CHECK_INT(channel.state, PLOCK__CHANNEL_OPEN);
    /* the name stays the same, because records on the server contain it */
    CHECK_TEXT(fake_peers[1].commands[1], fake_peers[0].commands[1]);
    check_still_hearing();
    end();
}

static void a_message_longer_than_any_of_ours_ends_it(void) {
    static char piece[4001];
    open_channel("redis://h");
    memset(piece, 'x', sizeof piece - 1);
    say("*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$20000\r\n");
    plock_status status = PLOCK_AGAIN;
    for (int i = 0; i < 5 && status == PLOCK_AGAIN; i++) {
        say(piece);
        status = step();
    }
    CHECK_STATUS(status, PLOCK_PROTOCOL);
    end();
}

static void closing_it_twice_is_closing_it_once(void) {
    open_channel("redis://h");
    plock__begin_step();
    plock__channel_close(&channel, &store->node);
    plock__end_step();
    CHECK(fake_peers[0].destroyed);
    end();
}

int main(void) {
    RUN(it_subscribes_to_its_own_name_and_is_open_when_that_is_confirmed);
    RUN(each_has_a_name_of_its_own);
    RUN(it_also_subscribes_with_its_tag);
    RUN(it_is_open_without_the_tag_if_the_server_refuses_that);
    RUN(a_tag_whose_slot_is_elsewhere_is_lost);
    RUN(a_tag_that_comes_later_is_used_at_once_if_it_is_open);
    RUN(its_connection_is_beside_the_pool);
    RUN(a_failure_to_open_is_reported_and_closes_it);
    RUN(connecting_has_its_time_too);
    RUN(messages_of_each_kind_are_understood);
    RUN(values_and_keys_may_hold_any_byte);
    RUN(several_that_came_together_are_heard_one_by_one_without_another_read);
    RUN(what_the_transport_holds_is_heard_before_the_descriptor_is_waited_for);
    RUN(a_message_may_come_in_pieces);
    RUN(nonsense_is_skipped);
    RUN(the_cause_of_its_end_is_reported);
    RUN(a_message_longer_than_any_of_ours_ends_it);
    RUN(closing_it_twice_is_closing_it_once);
    return test_end("channel");
}
