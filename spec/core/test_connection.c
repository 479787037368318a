/* One connection: its greeting, its commands, and how it ends. */
#include "fake.h"
#include "test.h"

#include "base/memory.h"
#include "net/connection.h"
#include "redis/store.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static plock_store *store;
static plock_connection *connection;
static plock_error error;
static plock_interest interest;

/* Makes a connection to fake_peers[0] without opening it, so that the test can prepare the peer. */
static void begin(const char *url) {
    store = fake_store(url);
    connection = plock__connection_new(store->config, store->node.make_transport(&store->node));
    error = (plock_error){PLOCK_OK, ""};
}

static void end(void) {
    plock__connection_free(connection);
    plock_store_close(store);
}

static plock_status open_it(void) {
    interest = (plock_interest){.fd = -1, .deadline = PLOCK_NEVER};
    return plock__connection_open(connection, PLOCK_NEVER, &interest, &error);
}

static plock_status send_word(const char *text) {
    const plock_text word = plock__text(text, strlen(text));
    return plock__connection_send(connection, 1, &word, &error);
}

static plock_status receive(const plock_value **value) {
    return plock__connection_receive(connection, value, &interest, &error);
}

/* --- the greeting --- */

static void a_connection_introduces_itself(void) {
    static const struct {
        const char *url, *greeting[3];
    } GREETINGS[] = {
        {"redis://h", {"CLIENT SETNAME plock-"}},
        {"redis://h/0", {"CLIENT SETNAME plock-"}},
        {"redis://:sesame@h", {"AUTH sesame", "CLIENT SETNAME plock-"}},
        {"redis://ali:sesame@h", {"AUTH ali sesame", "CLIENT SETNAME plock-"}},
        {"redis://h/3", {"SELECT 3", "CLIENT SETNAME plock-"}},
        {"redis://ali:sesame@h/3", {"AUTH ali sesame", "SELECT 3", "CLIENT SETNAME plock-"}},
        {"unix://:sesame@/s?db=9", {"AUTH sesame", "SELECT 9", "CLIENT SETNAME plock-"}},
    };
    for (unsigned i = 0; i < sizeof GREETINGS / sizeof *GREETINGS; i++) {
        begin(GREETINGS[i].url);
        CHECK_STATUS(open_it(), PLOCK_OK);
        CHECK_INT(connection->state, PLOCK__READY);
        unsigned count = 0;
        for (; count < 3 && GREETINGS[i].greeting[count]; count++)
            CHECK_HAS(fake_peers[0].commands[count], GREETINGS[i].greeting[count]);
        CHECK_INT(fake_peers[0].command_count, count);
        CHECK_INT(fake_peers[0].hellos, 1);
        end();
    }
}

static void the_name_tells_the_process(void) {
    char name[64];
    begin("redis://h");
    CHECK_STATUS(open_it(), PLOCK_OK);
    (void)snprintf(name, sizeof name, "CLIENT SETNAME plock-%ld", (long)getpid());
    CHECK_TEXT(fake_peers[0].commands[0], name);
    end();
}

#define MODE(mode) "*4\r\n$5\r\nproto\r\n:2\r\n$4\r\nmode\r\n" mode "\r\n"

static void a_refused_greeting_has_its_status(void) {
    static const struct {
        const char *url, *answers[4];
        plock_status status;
    } GREETINGS[] = {
        {"redis://h", {"+OK\r\n", "-ERR unknown subcommand\r\n"}, PLOCK_OK},
        {"redis://h", {"-ERR unknown command 'HELLO'\r\n", "+OK\r\n"}, PLOCK_OK},
        {"redis://h",
         {"-NOPERM this user has no permissions to run the 'hello' command\r\n", "+OK\r\n"},
         PLOCK_OK},
        {"redis://h", {MODE("$10\r\nstandalone"), "+OK\r\n"}, PLOCK_OK},
        {"redis://h", {MODE("$7\r\ncluster"), "+OK\r\n"}, PLOCK_CLUSTER},
        {"redis://h/1",
         {MODE("$7\r\ncluster"), "-ERR SELECT is not allowed in cluster mode\r\n", "+OK\r\n"},
         PLOCK_CLUSTER},
        {"redis://h", {MODE("$8\r\nsentinel"), "+OK\r\n"}, PLOCK_SENTINEL},
        {"redis://:x@h", {"-WRONGPASS x\r\n", MODE("$8\r\nsentinel"), "+OK\r\n"}, PLOCK_SENTINEL},
        {"redis+sentinel://h/main",
         {"+OK\r\n", "+OK\r\n", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"},
         PLOCK_OK},
        {"redis+sentinel://h/main",
         {"+OK\r\n", "+OK\r\n", "*5\r\n$5\r\nslave\r\n$1\r\nh\r\n:1\r\n$9\r\nconnected\r\n:0\r\n"},
         PLOCK_READONLY},
        {"redis+sentinel://h/main", {"+OK\r\n", "+OK\r\n", "-NOPERM no\r\n"}, PLOCK_NOPERM},
        {"redis+sentinel://h/main", {MODE("$8\r\nsentinel"), "+OK\r\n"}, PLOCK_SENTINEL},
        {"redis://:x@h",
         {"-WRONGPASS x\r\n", MODE("$10\r\nstandalone"), "+OK\r\n"},
         PLOCK_WRONGPASS},
        {"redis://:x@h", {"-WRONGPASS x\r\n", FAKE_CLOSES}, PLOCK_WRONGPASS},
        {"redis://h",
         {"+OK\r\n",
          "-NOPERM this user has no permissions to run the 'client|setname' command\r\n"},
         PLOCK_OK},
        {"redis://h", {"-NOAUTH Authentication required.\r\n"}, PLOCK_NOAUTH},
        {"redis://:x@h",
         {"-WRONGPASS invalid username-password pair or user is disabled.\r\n", "-NOAUTH\r\n"},
         PLOCK_WRONGPASS},
        {"redis://a:x@h",
         {"-WRONGPASS invalid username-password pair or user is disabled.\r\n", "-NOAUTH\r\n"},
         PLOCK_WRONGPASS},
        {"redis://:x@h", {"-ERR invalid password\r\n", "-NOAUTH\r\n"}, PLOCK_WRONGPASS},
        {"redis://:x@h",
         {"-ERR AUTH <password> called without any password configured for the default user.\r\n",
          "+OK\r\n", "+OK\r\n"},
         PLOCK_WRONGPASS},
        {"redis://a:x@h",
         {"-ERR wrong number of arguments for 'auth' command\r\n", "+OK\r\n"},
         PLOCK_WRONGPASS},
        {"redis://:x@h",
         {"-LOADING Redis is loading the dataset in memory\r\n", "+OK\r\n"},
         PLOCK_LOADING},
        {"redis://h/99",
         {"+OK\r\n", "-ERR DB index is out of range\r\n", "+OK\r\n"},
         PLOCK_BAD_CONFIG},
        {"redis://h/1",
         {"+OK\r\n", "-ERR SELECT is not allowed in cluster mode\r\n", "+OK\r\n"},
         PLOCK_MOVED},
        {"redis://h/1",
         {"+OK\r\n", "-NOPERM this user has no permissions to run the 'select' command\r\n",
          "+OK\r\n"},
         PLOCK_NOPERM},
        {"redis://:x@h/1",
         {"+OK\r\n", "+OK\r\n", "-NOAUTH Authentication required.\r\n", "+OK\r\n"},
         PLOCK_NOAUTH},
        {"redis://h", {"HTTP/1.1 400 Bad Request\r\n"}, PLOCK_PROTOCOL},
        {"redis://h", {"*2147483647\r\n"}, PLOCK_PROTOCOL},
        {"redis://h", {FAKE_CLOSES}, PLOCK_DISCONNECTED},
    };
    for (unsigned i = 0; i < sizeof GREETINGS / sizeof *GREETINGS; i++) {
        begin(GREETINGS[i].url);
        fake_peers[0].silent_greeting = true;
        memcpy(fake_peers[0].answers, GREETINGS[i].answers, sizeof GREETINGS[i].answers);
        if (!CHECK_STATUS(open_it(), GREETINGS[i].status))
            CHECK_TEXT(GREETINGS[i].answers[0], "understood");
        CHECK_INT(connection->state, GREETINGS[i].status ? PLOCK__DEAD : PLOCK__READY);
        if (GREETINGS[i].status) CHECK_STATUS(error.status, GREETINGS[i].status);
        CHECK_LACKS(error.message, "sesame");
        end();
    }
}

static void connecting_may_take_several_steps(void) {
    begin("redis://:sesame@h/3");
    fake_peers[0].connect_again = 2;
    fake_peers[0].silent_greeting = true;
    fake_peers[0].fd = 7;
    CHECK_STATUS(open_it(), PLOCK_AGAIN);
    CHECK_STATUS(open_it(), PLOCK_AGAIN);
    CHECK_INT(fake_peers[0].command_count, 0);
    for (int reply = 0; reply < 4; reply++) {
        CHECK_STATUS(open_it(), PLOCK_AGAIN);
        CHECK_INT(fake_peers[0].command_count, 3);
        CHECK_INT(fake_peers[0].hellos, 1); /* all commands were sent together */
        CHECK_INT(interest.fd, 7);
        fake_say(&fake_peers[0], "+OK\r\n", 5);
    }
    CHECK_STATUS(open_it(), PLOCK_OK);
    end();
}

static void a_connection_that_cannot_be_made_is_dead(void) {
    begin("redis://h");
    fake_peers[0].connect_failure = PLOCK_CONNECT;
    CHECK_STATUS(open_it(), PLOCK_CONNECT);
    CHECK_STATUS(open_it(), PLOCK_DISCONNECTED);
    CHECK_STATUS(send_word("PING"), PLOCK_DISCONNECTED);
    end();
}

/* --- commands --- */

static void a_command_may_leave_and_a_reply_come_in_pieces(void) {
    begin("redis://ali:sesame@h/3");
    const plock_value *value;
    unsigned agains = 0;
    fake_peers[0].write_chunk = 1;
    fake_peers[0].read_chunk = 1;
    fake_peers[0].read_dribbles = true;
    fake_peers[0].answers[0] = "$5\r\nhello\r\n";
    plock_status status;
    while ((status = open_it()) == PLOCK_AGAIN) agains++;
    CHECK_STATUS(status, PLOCK_OK);
    CHECK_STATUS(send_word("PING"), PLOCK_OK);
    while ((status = receive(&value)) == PLOCK_AGAIN) agains++;
    CHECK_STATUS(status, PLOCK_OK);
    CHECK(value->type == PLOCK__STRING && value->length == 5 && !memcmp(value->text, "hello", 5));
    CHECK(agains > 15);
    end();
}

static void what_the_socket_does_not_take_is_sent_later(void) {
    begin("redis://h");
    const plock_value *value;
    CHECK_STATUS(open_it(), PLOCK_OK);
    fake_peers[0].write_room = fake_peers[0].written + 5;
    fake_peers[0].answers[0] = "+PONG\r\n";
    CHECK_STATUS(send_word("PING"), PLOCK_OK);
    CHECK(!plock__connection_flushed(connection));
    interest.deadline = 12345; /* a deadline that the caller has set */
    CHECK_STATUS(plock__connection_receive(connection, &value, &interest, &error), PLOCK_AGAIN);
    CHECK_INT(interest.events, POLLOUT); /* no reply comes before the whole command is sent */
    CHECK_INT(interest.deadline, 12345);
    fake_peers[0].write_room = 0;
    CHECK_STATUS(receive(&value), PLOCK_OK);
    CHECK(plock__connection_flushed(connection));
    CHECK_TEXT(fake_peers[0].commands[1], "PING");
    end();
}

static void the_other_side_can_go_away_at_any_byte(void) {
    static const char REPLY[] = "*2\r\n:1\r\n$3\r\nabc\r\n";
    for (size_t at = 0; at < sizeof REPLY - 1; at++) {
        begin("redis://h");
        const plock_value *value;
        CHECK_STATUS(open_it(), PLOCK_OK);
        CHECK_STATUS(send_word("PING"), PLOCK_OK);
        fake_say(&fake_peers[0], REPLY, at);
        CHECK_STATUS(receive(&value), PLOCK_AGAIN);
        fake_peers[0].read_failure = PLOCK_DISCONNECTED;
        CHECK_STATUS(receive(&value), PLOCK_DISCONNECTED);
        CHECK_INT(connection->state, PLOCK__DEAD);
        end();
    }
}

static void a_connection_may_break_while_sending(void) {
    begin("redis://h");
    CHECK_STATUS(open_it(), PLOCK_OK);
    fake_peers[0].write_failure = PLOCK_DISCONNECTED;
    CHECK_STATUS(send_word("PING"), PLOCK_DISCONNECTED);
    CHECK_INT(connection->state, PLOCK__DEAD);
    CHECK_STATUS(send_word("PING"), PLOCK_DISCONNECTED);
    end();
}

static void an_answer_to_nothing_is_a_protocol_error(void) {
    begin("redis://h");
    const plock_value *value;
    CHECK_STATUS(open_it(), PLOCK_OK);
    fake_say(&fake_peers[0], "+OK\r\n", 5);
    CHECK_STATUS(receive(&value), PLOCK_PROTOCOL);
    CHECK_INT(connection->state, PLOCK__DEAD);
    end();
}

static void replies_come_in_the_order_of_the_commands(void) {
    begin("redis://h");
    const plock_value *value;
    fake_peers[0].answers[0] = ":1\r\n";
    fake_peers[0].answers[1] = "-ERR 2\r\n";
    CHECK_STATUS(open_it(), PLOCK_OK);
    CHECK_STATUS(send_word("ONE"), PLOCK_OK);
    CHECK_STATUS(send_word("TWO"), PLOCK_OK);
    CHECK_INT(connection->awaited, 2);
    CHECK_STATUS(receive(&value), PLOCK_OK);
    CHECK(value->type == PLOCK__INTEGER && value->integer == 1);
    CHECK_STATUS(receive(&value), PLOCK_OK); /* an error reply is returned like any other reply */
    CHECK(value->type == PLOCK__ERROR);
    CHECK_INT(connection->awaited, 0);
    end();
}

static void a_long_command_leaves_whole(void) {
    static char word[300];
    begin("redis://h");
    const plock_value *value;
    memset(word, 'w', sizeof word - 1);
    fake_peers[0].write_chunk = 7;
    CHECK_STATUS(open_it(), PLOCK_OK);
    for (int i = 0; i < 5; i++) {
        fake_peers[0].answers[i] = "+OK\r\n";
        CHECK_STATUS(send_word(word), PLOCK_OK);
        CHECK_STATUS(receive(&value), PLOCK_OK);
        CHECK_TEXT(fake_peers[0].commands[1 + i], word);
    }
    end();
}

/* --- its end --- */

static void an_abandoned_connection_is_of_no_use(void) {
    begin("redis://h");
    const plock_value *value;
    CHECK_STATUS(open_it(), PLOCK_OK);
    plock__connection_abandon(connection);
    CHECK(fake_peers[0].abandoned);
    CHECK_STATUS(send_word("PING"), PLOCK_DISCONNECTED);
    CHECK_STATUS(receive(&value), PLOCK_DISCONNECTED);
    CHECK_INT(fake_peers[0].command_count, 1);
    end();
    CHECK(fake_peers[0].destroyed);
}

static void nothing_is_left_behind(void) {
    const long before = plock__live_allocations();
    begin("redis://ali:sesame@h/3");
    CHECK_STATUS(open_it(), PLOCK_OK);
    CHECK_STATUS(send_word("PING"), PLOCK_OK);
    end();
    CHECK_INT(plock__live_allocations(), before);
}

int main(void) {
    RUN(a_connection_introduces_itself);
    RUN(the_name_tells_the_process);
    RUN(a_refused_greeting_has_its_status);
    RUN(connecting_may_take_several_steps);
    RUN(a_connection_that_cannot_be_made_is_dead);
    RUN(a_command_may_leave_and_a_reply_come_in_pieces);
    RUN(what_the_socket_does_not_take_is_sent_later);
    RUN(the_other_side_can_go_away_at_any_byte);
    RUN(a_connection_may_break_while_sending);
    RUN(an_answer_to_nothing_is_a_protocol_error);
    RUN(replies_come_in_the_order_of_the_commands);
    RUN(a_long_command_leaves_whole);
    RUN(an_abandoned_connection_is_of_no_use);
    RUN(nothing_is_left_behind);
    return test_end("connection");
}
