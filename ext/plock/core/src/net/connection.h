/* One connection to Redis: a state machine opens it, and then sends commands and receives replies.
 * The pool knows whether the connection is idle or in use. */
#ifndef PLOCK__CONNECTION_H
#define PLOCK__CONNECTION_H

#include "net/command.h"
#include "net/reply.h"
#include "net/transport.h"

typedef struct plock_connection plock_connection;
typedef struct plock_trail plock_trail;

/* A request that has left on a connection, while no caller waits for its reply. The next user of
 * the connection reads that reply before its own. */
struct plock_trail {
    /* Called once, without the lock: with the reply, or with NULL if the connection is closed
     * before the reply has come. */
    void (*ends)(plock_trail *, const plock_value *reply);
    plock_text key; /* a request about it must not leave on another connection */
};

/* Returns true if the connection has a trail about this key. With the lock held. */
bool plock__connection_trails(const plock_connection *connection, plock_text key);
/* Returns false if no connection of this process has a trail. */
bool plock__connections_trail(void);
/* In a forked child: the trails are the parent's. */
void plock__connections_forget_trails(void);
/* Sets the trail of a request that has just left. */
void plock__connection_leave_trail(plock_connection *connection, plock_trail *trail);

struct plock_connection {
    plock_connection *next_idle, *next, *previous; /* of the pool's lists */
    /* the process's generation and the pool's epoch when the connection was made */
    unsigned generation, epoch;
    plock_ns idle_since;
    bool beside; /* it does not count for the pool's limit */

    enum { PLOCK__CONNECTING, PLOCK__GREETING, PLOCK__READY, PLOCK__DEAD } state;
    plock_transport *transport;
    plock_reader *reader;
    const plock_config *config;
    plock_commands commands;
    char *out; /* the bytes that the socket has not taken yet */
    size_t out_length, out_sent, out_room;
    unsigned awaited; /* the number of replies still to come */
    /* the first of these replies is for it; NULL: for the caller. Its user changes it with the lock
     * held */
    plock_trail *trail;
    unsigned greeting;   /* a bit for each command of the greeting without a reply yet */
    plock_error refusal; /* the error reply to AUTH, kept until the reply to HELLO */
};

/* The connection owns the transport from now on. Returns NULL if there is no memory: then the
 * transport is destroyed. */
plock_connection *plock__connection_new(const plock_config *config, plock_transport *transport);
void plock__connection_free(plock_connection *connection);

/* Prepares a connection that has received nothing yet for large replies. Returns PLOCK_OK or
 * PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__connection_enlarge(plock_connection *connection);

/* Connects, authenticates, selects the database. Returns PLOCK_OK when ready, PLOCK_AGAIN with
 * interest, or the failure. */
PLOCK_MUST_USE plock_status plock__connection_open(plock_connection *connection, plock_ns deadline,
                                                   plock_interest *interest, plock_error *error);

/* Reports that the server did not answer in time, and a possible reason. Returns PLOCK_SILENT. */
plock_status plock__connection_silent(const plock_connection *connection, plock_error *error);

/* Queues one command, and sends as much as the socket takes. Returns PLOCK_OK (even if some bytes
 * remain), DISCONNECTED, TLS or NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__connection_send(plock_connection *connection, unsigned count,
                                                   const plock_text *words, plock_error *error);

/* Returns PLOCK_OK with the next reply (maybe an error reply), PLOCK_AGAIN with interest, or the
 * connection's failure. */
PLOCK_MUST_USE plock_status plock__connection_receive(plock_connection *connection,
                                                      const plock_value **value,
                                                      plock_interest *interest, plock_error *error);

/* The same for the pushes of a subscription. Without `reads` it does not read from the descriptor,
 * but uses only the bytes that were read before. */
PLOCK_MUST_USE plock_status plock__connection_hear(plock_connection *connection, bool reads,
                                                   const plock_value **value,
                                                   plock_interest *interest, plock_error *error);

/* Returns true if all output has left, the transport holds no bytes that poll(2) cannot see, and a
 * descriptor reports the next reply. Then interest waits for that descriptor. */
bool plock__connection_expects(const plock_connection *connection, plock_interest *interest);

/* Has all output left for the server? */
bool plock__connection_flushed(const plock_connection *connection);

/* Reads the reply that a trail waits for, if it has come. Returns PLOCK_OK if no trail is left,
 * PLOCK_AGAIN, or the connection's failure. */
PLOCK_MUST_USE plock_status plock__connection_catch_up(plock_connection *connection,
                                                       plock_interest *interest,
                                                       plock_error *error);

/* Is the connection ready and this process's own, with nothing under way in either direction but
 * the reply for a trail, and no unexpected bytes? */
bool plock__connection_at_rest(const plock_connection *connection);

/* In a forked child: closes the descriptor, and sends nothing. */
void plock__connection_abandon(plock_connection *connection);

#endif
