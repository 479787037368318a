#include "connection.h"

#include "failure.h"
#include "memory.h"
#include "process.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

plock_connection *plock__connection_new(const plock_config *config, plock_transport *transport) {
    plock_connection *connection = plock__allocate(sizeof *connection);
    if (connection) connection->reader = plock__reader_new();
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

void plock__connection_free(plock_connection *connection) {
    connection->transport->does->destroy(connection->transport);
    plock__reader_free(connection->reader);
    plock__commands_clear(&connection->commands);
    if (connection->out) plock__wipe(connection->out, connection->out_room); /* AUTH went through here */
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
    if (connection->generation != plock__generation()) return plock__fail_plainly(error, PLOCK_FORKED);
    if (connection->state == PLOCK__DEAD) return plock__fail_plainly(error, PLOCK_DISCONNECTED);
    return PLOCK_OK;
}

/* --- sending --- */

static plock_status flush(plock_connection *connection, plock_want *want, plock_error *error) {
    while (connection->out_sent < connection->out_length) {
        size_t sent = 0;
        const plock_status status = connection->transport->does->write(connection->transport, connection->out + connection->out_sent,
                                                                       connection->out_length - connection->out_sent, &sent, want, error);
        if (status) return status;
        connection->out_sent += sent;
    }
    connection->out_sent = connection->out_length = 0;
    return PLOCK_OK;
}

static plock_status queue(plock_connection *connection, const char *bytes, size_t length, plock_error *error) {
    if (connection->out_length + length > connection->out_room) {
        const size_t room = connection->out_length + length + 512;
        char *grown = plock__allocate(room); /* not a realloc: the old block may hold a password, and is wiped */
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

plock_status plock__connection_send(plock_connection *connection, unsigned count, const plock_text *words, plock_error *error) {
    plock_status status = check_usable(connection, error);
    if (status) return status;
    plock_text command;
    if (plock__command_write(&connection->commands, count, words, &command)) return die(connection, plock__fail_plainly(error, PLOCK_NO_MEMORY));
    status = queue(connection, command.bytes, command.length, error);
    if (status) return die(connection, status);
    connection->awaited++;
    plock_want later;
    status = flush(connection, &later, error);
    return status == PLOCK_AGAIN ? PLOCK_OK : die(connection, status);
}

bool plock__connection_flushed(const plock_connection *connection) {
    return connection->out_length == 0;
}

bool plock__connection_expects(const plock_connection *connection, plock_want *want) {
    const int fd = plock__connection_flushed(connection) ? connection->transport->does->descriptor(connection->transport) : -1;
    if (fd < 0) return false;
    want->fd = fd;
    want->events = POLLIN;
    return true;
}

plock_status plock__connection_hear(plock_connection *connection, bool reads, const plock_value **value, plock_want *want, plock_error *error) {
    if (!reads && connection->state == PLOCK__READY && plock__connection_expects(connection, want)) {
        const plock_status status = plock__reader_next(connection->reader, value, error);
        return die(connection, status);
    }
    connection->awaited = 1; /* it comes unasked */
    return plock__connection_receive(connection, value, want, error);
}

bool plock__connection_at_rest(const plock_connection *connection) {
    return connection->state == PLOCK__READY && connection->generation == plock__generation() && connection->awaited == 0 &&
           plock__connection_flushed(connection) && plock__reader_empty(connection->reader);
}

/* --- receiving --- */

plock_status plock__connection_receive(plock_connection *connection, const plock_value **value, plock_want *want, plock_error *error) {
    plock_status status = check_usable(connection, error);
    if (status) return status;
    plock_want for_writing;
    const plock_status flushed = flush(connection, &for_writing, error);
    if (flushed && flushed != PLOCK_AGAIN) return die(connection, flushed);
    for (;;) {
        status = plock__reader_next(connection->reader, value, error);
        if (status != PLOCK_AGAIN) break;
        char bytes[4096];
        size_t got = 0;
        status = connection->transport->does->read(connection->transport, bytes, sizeof bytes, &got, want, error);
        if (!status) status = plock__reader_feed(connection->reader, bytes, got, error);
        if (status) break;
    }
    if (status == PLOCK_AGAIN && flushed == PLOCK_AGAIN) { /* no reply comes before the command is out */
        want->fd = for_writing.fd;
        want->events = for_writing.events;
    }
    if (status) return die(connection, status);
    if (connection->awaited == 0) return die(connection, plock__fail(error, PLOCK_PROTOCOL, "an answer to nothing that was asked"));
    connection->awaited--;
    return PLOCK_OK;
}

/* --- the greeting: AUTH, SELECT, CLIENT SETNAME, sent in one go --- */

enum { AUTH = 1, SELECT = 2, SETNAME = 4 };

static plock_text word(const char *text) {
    return plock__text(text, strlen(text));
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
        status = plock__connection_send(connection, count, words, error);
        connection->greeting |= AUTH;
    }
    if (!status && config->database && strcmp(config->database, "0")) {
        status = plock__connection_send(connection, 2, (plock_text[]){word("SELECT"), word(config->database)}, error);
        connection->greeting |= SELECT;
    }
    if (!status) {
        char name[32];
        (void)snprintf(name, sizeof name, "plock-%ld", (long)getpid());
        status = plock__connection_send(connection, 3, (plock_text[]){word("CLIENT"), word("SETNAME"), word(name)}, error);
        connection->greeting |= SETNAME;
    }
    return status;
}

static plock_status judge_greeting(plock_connection *connection, const plock_value *value, plock_error *error) {
    const unsigned answered = connection->greeting & -connection->greeting; /* the lowest bit: they come in order */
    connection->greeting &= ~answered;
    if (value->type != PLOCK__ERROR) return PLOCK_OK;
    const plock_status status = plock__server_error(value, error);
    if (answered == SETNAME && (status == PLOCK_NOPERM || status == PLOCK_SERVER)) return PLOCK_OK; /* the name is for CLIENT LIST only */
    /* Some servers repeat the command that they do not understand, and here that holds the password. */
    return answered == AUTH ? plock__fail(error, status, "%s (to AUTH)", plock_status_text(status)) : status;
}

plock_status plock__connection_open(plock_connection *connection, plock_ns deadline, plock_want *want, plock_error *error) {
    plock_status status = check_usable(connection, error);
    if (!status && connection->state == PLOCK__CONNECTING) {
        status = connection->transport->does->connect(connection->transport, deadline, want, error);
        if (!status) status = greet(connection, error);
    }
    while (!status && connection->greeting) {
        const plock_value *value;
        status = plock__connection_receive(connection, &value, want, error);
        if (!status) status = judge_greeting(connection, value, error);
    }
    if (!status) connection->state = PLOCK__READY;
    return die(connection, status);
}
