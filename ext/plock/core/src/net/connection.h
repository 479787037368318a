/* One connection to Redis: a state machine opens it, and then sends commands and receives replies.
 * The pool knows whether the connection is idle or in use. */
#ifndef PLOCK__CONNECTION_H
#define PLOCK__CONNECTION_H

#include "net/command.h"
#include "net/reply.h"
#include "net/transport.h"

typedef struct plock_connection plock_connection;
typedef struct plock_trail plock_trail;

/* A request that was sent on a connection, although no caller waits for its reply. The next user of
 * the connection reads that reply before its own. */
struct plock_trail {
    /* Called once, without the mutex. The reply is NULL if the connection is closed before the
     * reply has come. */
    void (*ends)(plock_trail *, const plock_value *reply);
    /* the key of the request; a later acquire of this key should use the same connection */
    plock_text key;
};

/* Returns true if the connection has a trail about this key. Call with the mutex held. */
bool plock__connection_trails(const plock_connection *connection, plock_text key);
/* Returns false if no connection of this process has a trail. */
bool plock__connections_trail(void);
/* In a forked child: forgets the trails, which belong to the parent. */
void plock__connections_forget_trails(void);
/* Sets the trail of a request that was just sent. */
void plock__connection_leave_trail(plock_connection *connection, plock_trail *trail);

struct plock_connection {
    plock_connection *next_idle, *next, *previous; /* the links of the pool's lists */
    /* the process's generation and the pool's epoch when the connection was made */
    unsigned generation, epoch;
    plock_ns idle_since;
    bool beside; /* the connection does not count towards the pool's limit */

    enum { PLOCK__CONNECTING, PLOCK__GREETING, PLOCK__READY, PLOCK__DEAD } state;
    plock_transport *transport;
    plock_reader *reader;
    const plock_config *config;
    plock_commands commands;
    char *out; /* the bytes that the socket has not taken yet */
    size_t out_length, out_sent, out_room;
    unsigned awaited; /* the number of replies still to come */
    /* The trail whose reply comes next; NULL if the next reply is for the caller. Only the
     * connection's user changes this field, with the mutex held. */
    plock_trail *trail;
    unsigned greeting;   /* one bit for each command of the greeting whose reply has not come yet */
    plock_error refusal; /* the error reply to AUTH, kept until the reply to HELLO */
};

/* Makes a connection, which then owns the transport. If memory runs out, destroys the transport and
 * returns NULL. */
plock_connection *plock__connection_new(const plock_config *config, plock_transport *transport);
void plock__connection_free(plock_connection *connection);

/* Makes room for large replies in a connection that has received nothing yet. Returns PLOCK_OK or
 * PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__connection_enlarge(plock_connection *connection);

/* Connects, authenticates, and selects the database. Returns PLOCK_OK when the connection is ready,
 * PLOCK_AGAIN with interest, or the failure. */
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

/* Like plock__connection_receive, for a message that the server pushes to a subscriber. If `reads`
 * is false, reads only bytes that poll(2) does not report, which saves a system call. */
PLOCK_MUST_USE plock_status plock__connection_hear(plock_connection *connection, bool reads,
                                                   const plock_value **value,
                                                   plock_interest *interest, plock_error *error);

/* If all output has been sent, and the transport holds no bytes that poll(2) does not report,
 * returns true, and makes the interest wait for the next reply. */
bool plock__connection_expects(const plock_connection *connection, plock_interest *interest);

bool plock__connection_flushed(const plock_connection *connection);

/* Reads the reply for the trail, if the reply has come. Returns PLOCK_OK if no trail is left,
 * PLOCK_AGAIN, or the connection's failure. */
PLOCK_MUST_USE plock_status plock__connection_catch_up(plock_connection *connection,
                                                       plock_interest *interest,
                                                       plock_error *error);

/* Returns true if the connection is ready, belongs to this process, and has received no unexpected
 * bytes. It may still wait for its trail's reply, but for no other reply. */
bool plock__connection_at_rest(const plock_connection *connection);

/* In a forked child: closes the descriptor, and sends nothing. */
void plock__connection_abandon(plock_connection *connection);

#endif
