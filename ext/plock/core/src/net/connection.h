/* One connection to Redis: a state machine from nothing to ready, and commands and their replies on
 * it. Whose it is at any moment (idle, in use) is the pool's business. */
#ifndef PLOCK__CONNECTION_H
#define PLOCK__CONNECTION_H

#include "net/command.h"
#include "net/reply.h"
#include "net/transport.h"

typedef struct plock_connection plock_connection;

struct plock_connection {
    plock_connection *next_idle, *next, *previous; /* the pool's lists */
    /* of the process and of the pool, when it was made */
    unsigned generation, epoch;
    plock_ns idle_since;
    bool beside; /* the pool's bound does not count it */

    enum { PLOCK__CONNECTING, PLOCK__GREETING, PLOCK__READY, PLOCK__DEAD } state;
    plock_transport *transport;
    plock_reader *reader;
    const plock_config *config;
    plock_commands commands;
    char *out; /* what the socket has not taken yet */
    size_t out_length, out_sent, out_room;
    unsigned awaited;    /* replies still to come */
    unsigned greeting;   /* which commands of the greeting are awaited, one bit each */
    plock_error refusal; /* of AUTH, until HELLO has said which server this is */
};

/* Takes the transport over. NULL when there is no memory. */
plock_connection *plock__connection_new(const plock_config *config, plock_transport *transport);
void plock__connection_free(plock_connection *connection);

/* Connects, authenticates, selects the database. PLOCK_OK: ready; PLOCK_AGAIN with interest; else
 * what went wrong. */
PLOCK_MUST_USE plock_status plock__connection_open(plock_connection *connection, plock_ns deadline,
                                                   plock_interest *interest, plock_error *error);

/* That the server did not answer in time, and what may be the reason. Returns PLOCK_SILENT. */
plock_status plock__connection_silent(const plock_connection *connection, plock_error *error);

/* Queues one command and sends what the socket takes of it. PLOCK_OK (also when some is left to
 * send), DISCONNECTED, TLS, NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__connection_send(plock_connection *connection, unsigned count,
                                                   const plock_text *words, plock_error *error);

/* The next reply: PLOCK_OK (the value may be an error reply), PLOCK_AGAIN with interest, or the
 * connection's failure. */
PLOCK_MUST_USE plock_status plock__connection_receive(plock_connection *connection,
                                                      const plock_value **value,
                                                      plock_interest *interest, plock_error *error);

/* The same for what a subscription pushes; without `reads` only what has left the descriptor
 * already, and then PLOCK_AGAIN waits for more. */
PLOCK_MUST_USE plock_status plock__connection_hear(plock_connection *connection, bool reads,
                                                   const plock_value **value,
                                                   plock_interest *interest, plock_error *error);

/* Has all left, has all been read that came, and is there a descriptor that tells when the answer
 * comes? Then want is for that. */
bool plock__connection_expects(const plock_connection *connection, plock_interest *interest);

/* Has all of what was queued left for the server? */
bool plock__connection_flushed(const plock_connection *connection);

/* Ready, this process's own, and with nothing under way in either direction, not even bytes that
 * nobody asked for? */
bool plock__connection_at_rest(const plock_connection *connection);

/* In a forked child: closes the descriptor without a word. */
void plock__connection_abandon(plock_connection *connection);

#endif
