#include "net/connection.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "net/judge.h"
#include "runtime/interest.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

plock_connection *plock__connection_new(const plock_config *config, plock_transport *transport) {
    plock_connection *connection = plock__allocate(sizeof *connection);
    if (connection) connection->reader = plock__reader_new(false);
    if (!connection || !connection->reader) {
        plock__free(connection);
        transport->does->destroy(transport);
        return NULL;
    }
    connection->transport = transport;
    connection->config = config;
    connection->generation = plock__generation();
    return connection;
}

plock_status plock__connection_enlarge(plock_connection *connection) {
    plock_reader *large = plock__reader_new(true);
    if (!large) return PLOCK_NO_MEMORY;
    plock__reader_free(connection->reader);
    connection->reader = large;
    return PLOCK_OK;
}

/* --- trails --- */

static atomic_uint trails; /* the number of trails of all connections */

bool plock__connections_trail(void) {
    return atomic_load_explicit(&trails, memory_order_relaxed) > 0;
}

void plock__connections_forget_trails(void) { atomic_store(&trails, 0); }

bool plock__connection_trails(const plock_connection *connection, plock_text key) {
    return connection->trail && plock__same_text(connection->trail->key, key);
}

static void set_trail(plock_connection *connection, plock_trail *trail) {
    plock__enter();
    connection->trail = trail;
    plock__leave();
}

void plock__connection_leave_trail(plock_connection *connection, plock_trail *trail) {
    (void)atomic_fetch_add(&trails, 1);
    set_trail(connection, trail);
}

/* Must not be called with the mutex held, because this function and the trail's `ends` take the
 * mutex. */
static void end_trail(plock_connection *connection, const plock_value *reply) {
    plock_trail *trail = connection->trail;
    if (!trail) return;
    set_trail(connection, NULL);
    if (connection->generation == plock__generation()) (void)atomic_fetch_sub(&trails, 1);
    trail->ends(trail, reply);
}

/* --- lifecycle --- */

void plock__connection_free(plock_connection *connection) {
    end_trail(connection, NULL);
    connection->transport->does->destroy(connection->transport);
    plock__reader_free(connection->reader);
    plock__commands_clear(&connection->commands);
    /* the output may have held the password of AUTH */
    if (connection->out) plock__wipe(connection->out, connection->out_room);
    plock__free(connection->out);
    plock__free(connection);
}

void plock__connection_abandon(plock_connection *connection) {
    connection->transport->does->abandon(connection->transport);
    connection->state = PLOCK__DEAD;
}

static plock_status die(plock_connection *connection, plock_status status) {
    if (status && status != PLOCK_AGAIN) connection->state = PLOCK__DEAD;
    return status;
}

static plock_status check_usable(const plock_connection *connection, plock_error *error) {
    if (connection->generation != plock__generation())
        return plock__fail_plainly(error, PLOCK_FORKED);
    if (connection->state == PLOCK__DEAD) return plock__fail_plainly(error, PLOCK_DISCONNECTED);
    return PLOCK_OK;
}

/* --- sending --- */

static plock_status flush(plock_connection *connection, plock_interest *interest,
                          plock_error *error) {
    while (connection->out_sent < connection->out_length) {
        size_t sent = 0;
        const plock_status status = connection->transport->does->write(
            connection->transport, connection->out + connection->out_sent,
            connection->out_length - connection->out_sent, &sent, interest, error);
        if (status) return status;
        connection->out_sent += sent;
    }
    connection->out_sent = connection->out_length = 0;
    return PLOCK_OK;
}

static plock_status queue(plock_connection *connection, const char *bytes, size_t length,
                          plock_error *error) {
    if (connection->out_length + length > connection->out_room) {
        const size_t room = connection->out_length + length + 512;
        /* not realloc, because the old block may hold a password and must be wiped */
        char *grown = plock__allocate(room);
        if (!grown) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
        if (connection->out) {
            memcpy(grown, connection->out, connection->out_length);
            plock__wipe(connection->out, connection->out_room);
        }
        plock__free(connection->out);
        connection->out = grown;
        connection->out_room = room;
    }
    memcpy(connection->out + connection->out_length, bytes, length);
    connection->out_length += length;
    return PLOCK_OK;
}

/* Only queues the command. The next send or receive writes it to the socket. */
static plock_status queue_command(plock_connection *connection, unsigned count,
                                  const plock_text *words, plock_error *error) {
    plock_status status = check_usable(connection, error);
    if (status) return status;
    plock_text command;
    if (plock__command_write(&connection->commands, count, words, &command))
        return die(connection, plock__fail_plainly(error, PLOCK_NO_MEMORY));
    status = queue(connection, command.bytes, command.length, error);
    if (status) return die(connection, status);
    connection->awaited++;
    return PLOCK_OK;
}

plock_status plock__connection_send(plock_connection *connection, unsigned count,
                                    const plock_text *words, plock_error *error) {
    plock_status status = queue_command(connection, count, words, error);
    if (status) return status;
    plock_interest later;
    status = flush(connection, &later, error);
    return status == PLOCK_AGAIN ? PLOCK_OK : die(connection, status);
}

bool plock__connection_flushed(const plock_connection *connection) {
    return connection->out_length == 0;
}

/* Does the transport hold bytes that poll(2) on the descriptor does not report? */
static bool holds_bytes(const plock_connection *connection) {
    const plock_transport *transport = connection->transport;
    return transport->does->pending && transport->does->pending(transport) > 0;
}

bool plock__connection_expects(const plock_connection *connection, plock_interest *interest) {
    if (!plock__connection_flushed(connection) || holds_bytes(connection)) return false;
    plock_interest expected = *interest;
    connection->transport->does->expect(connection->transport, &expected);
    if (expected.fd < 0) return false;
    *interest = expected;
    return true;
}

plock_status plock__connection_hear(plock_connection *connection, bool reads,
                                    const plock_value **value, plock_interest *interest,
                                    plock_error *error) {
    if (!reads && connection->state == PLOCK__READY &&
        plock__connection_expects(connection, interest)) {
        const plock_status status = plock__reader_next(connection->reader, value, error);
        return die(connection, status);
    }
    connection->awaited = 1; /* a push answers no request, so no request has counted it */
    return plock__connection_receive(connection, value, interest, error);
}

bool plock__connection_at_rest(const plock_connection *connection) {
    return connection->state == PLOCK__READY && connection->generation == plock__generation() &&
           connection->awaited == (connection->trail ? 1 : 0) &&
           plock__connection_flushed(connection) && plock__reader_empty(connection->reader) &&
           !holds_bytes(connection);
}

/* --- receiving --- */

static plock_status receive(plock_connection *connection, const plock_value **value,
                            plock_interest *interest, plock_error *error) {
    plock_status status = check_usable(connection, error);
    if (status) return status;
    plock_interest for_writing;
    const plock_status flushed = flush(connection, &for_writing, error);
    if (flushed && flushed != PLOCK_AGAIN) return die(connection, flushed);
    for (;;) {
        status = plock__reader_next(connection->reader, value, error);
        if (status != PLOCK_AGAIN) break;
        char bytes[4096];
        size_t got = 0;
        status = connection->transport->does->read(connection->transport, bytes, sizeof bytes, &got,
                                                   interest, error);
        if (!status) status = plock__reader_feed(connection->reader, bytes, got, error);
        if (status) break;
    }
    /* no reply can arrive before the whole command is sent, so wait until the socket takes more */
    if (status == PLOCK_AGAIN && flushed == PLOCK_AGAIN)
        plock__interest_set(interest, for_writing.fd, for_writing.events);
    if (status) return die(connection, status);
    if (connection->awaited == 0)
        return die(connection,
                   plock__fail(error, PLOCK_PROTOCOL, "an answer to nothing that was asked"));
    connection->awaited--;
    return PLOCK_OK;
}

plock_status plock__connection_catch_up(plock_connection *connection, plock_interest *interest,
                                        plock_error *error) {
    if (!connection->trail) return PLOCK_OK;
    const plock_value *value;
    const plock_status status = receive(connection, &value, interest, error);
    if (!status) end_trail(connection, value);
    return status;
}

plock_status plock__connection_receive(plock_connection *connection, const plock_value **value,
                                       plock_interest *interest, plock_error *error) {
    const plock_status status = plock__connection_catch_up(connection, interest, error);
    return status ? status : receive(connection, value, interest, error);
}

/* --- the greeting ---
 *
 * AUTH, HELLO, SELECT, CLIENT SETNAME and ROLE are sent in one write. A server that refuses us may
 * close the connection at once. A second write would then fail, and hide the server's message. */

enum { AUTH = 1, HELLO = 2, SELECT = 4, SETNAME = 8, ROLE = 16 };

static plock_text word(const char *text) { return plock__text(text, strlen(text)); }

/* Queues a command of the greeting. */
static plock_status say(plock_connection *connection, unsigned command, unsigned count,
                        const plock_text *words, plock_error *error) {
    connection->greeting |= command;
    return queue_command(connection, count, words, error);
}

static plock_status greet(plock_connection *connection, plock_error *error) {
    const plock_config *config = connection->config;
    plock_status status = PLOCK_OK;
    connection->state = PLOCK__GREETING;
    if (config->password) {
        plock_text words[3] = {word("AUTH")};
        unsigned count = 1;
        if (config->username) words[count++] = word(config->username);
        words[count++] = word(config->password);
        status = say(connection, AUTH, count, words, error);
    }
    /* HELLO 2 keeps RESP2, and its answer shows whether this is the kind of server that the URL
     * names. */
    if (!status)
        status = say(connection, HELLO, 2, (plock_text[]){word("HELLO"), word("2")}, error);
    if (!status && plock_config_selects(config))
        status = say(connection, SELECT, 2, (plock_text[]){word("SELECT"), word(config->database)},
                     error);
    if (!status) {
        char name[32];
        (void)snprintf(name, sizeof name, "plock-%ld", (long)getpid());
        status = say(connection, SETNAME, 3,
                     (plock_text[]){word("CLIENT"), word("SETNAME"), word(name)}, error);
    }
    /* a sentinel may name a server that is no longer a primary, or not yet a primary */
    if (!status && config->sentinels)
        status = say(connection, ROLE, 1, (plock_text[]){word("ROLE")}, error);
    return status;
}

/* The connection works without these two commands. SETNAME only names the client in CLIENT LIST,
 * and not every proxy knows HELLO. */
static bool may_be_refused(unsigned command, plock_status status) {
    return (command == SETNAME || command == HELLO) &&
           (status == PLOCK_NOPERM || status == PLOCK_SERVER);
}

/* Reports a refused AUTH, but only after the answer to HELLO. A sentinel may also refuse a
 * password, and only HELLO shows that the server is a sentinel. */
static plock_status take_refusal(plock_connection *connection, plock_error *error) {
    if (!connection->refusal.status) return PLOCK_OK;
    *error = connection->refusal;
    return error->status;
}

static plock_status judge_greeting(plock_connection *connection, const plock_value *value,
                                   plock_error *error) {
    /* the lowest bit, because replies come in the order of the bits */
    const unsigned answered = connection->greeting & -connection->greeting;
    connection->greeting &= ~answered;
    if (value->type != PLOCK__ERROR) {
        plock_status status = PLOCK_OK;
        if (answered == HELLO) status = plock__judge_server(connection->config, value, error);
        if (answered == ROLE) status = plock__judge_role(value, error);
        return status ? status : answered == AUTH ? PLOCK_OK : take_refusal(connection, error);
    }
    const plock_status status = plock__server_error(value, error);
    if (answered == AUTH) {
        /* omits the server's words: some servers repeat an unknown command with its arguments, and
         * an argument of AUTH is the password */
        const char *why =
            plock__judge_no_password(value)
                ? "the server has no password set: remove it from the URL, or set requirepass"
                : plock_status_text(status);
        (void)plock__fail(error, status, "%s (to AUTH)", why);
        if (status != PLOCK_WRONGPASS) return status;
        connection->refusal = *error;
        return PLOCK_OK;
    }
    if (connection->refusal.status) return take_refusal(connection, error);
    return may_be_refused(answered, status) ? PLOCK_OK : status;
}

/* Adds a hint about TLS to the error, if the server closed the connection without an answer. A
 * server that speaks TLS closes a connection that begins without a handshake. */
static plock_status ask_for_tls(const plock_connection *connection, plock_error *error) {
    const plock_config *config = connection->config;
    const bool unanswered = connection->greeting & (config->password ? AUTH : HELLO);
    if (error->status != PLOCK_DISCONNECTED || !unanswered || config->scheme != PLOCK_TCP)
        return error->status;
    const plock_error cause = *error;
    return plock__fail(error, PLOCK_DISCONNECTED, "%.140s (if the server speaks TLS, use %s://)",
                       cause.message, plock__config_scheme(config, true));
}

plock_status plock__connection_open(plock_connection *connection, plock_ns deadline,
                                    plock_interest *interest, plock_error *error) {
    plock_status status = check_usable(connection, error);
    if (!status && connection->state == PLOCK__CONNECTING) {
        status =
            connection->transport->does->connect(connection->transport, deadline, interest, error);
        if (!status) status = greet(connection, error);
    }
    while (!status && connection->greeting) {
        const plock_value *value;
        status = plock__connection_receive(connection, &value, interest, error);
        if (!status)
            status = judge_greeting(connection, value, error);
        else if (status != PLOCK_AGAIN && take_refusal(connection, error))
            status = error->status;
        else if (status == PLOCK_DISCONNECTED)
            status = ask_for_tls(connection, error);
    }
    if (!status) connection->state = PLOCK__READY;
    return die(connection, status);
}

/* A Redis without TLS takes a TLS handshake for the beginning of a line, and silently waits for the
 * end of the line. So a silent handshake probably means a server without TLS. The TCP connection
 * itself exists, because the transport would have reported a failure to connect. */
plock_status plock__connection_silent(const plock_connection *connection, plock_error *error) {
    const bool handshakes =
        connection->state == PLOCK__CONNECTING && connection->config->scheme == PLOCK_TLS_OVER_TCP;
    if (!handshakes) return plock__fail_plainly(error, PLOCK_SILENT);
    return plock__fail(error, PLOCK_SILENT,
                       "the server did not answer the TLS handshake in time: it does not seem to "
                       "speak TLS on this port (then use %s://)",
                       plock__config_scheme(connection->config, false));
}
