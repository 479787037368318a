/* A clock that the test moves, and a store whose server the test plays.
 *
 * The n-th connection that the store makes talks to fake_peers[n]. A peer answers the greeting by
 * itself. It answers each later command with the next of its answers, as soon as the command is
 * complete. A peer without answers is silent. It confirms a SUBSCRIBE by itself. For commands of
 * the worker thread, the whole server, fake_server, can give the answers. */
#ifndef FAKE_H
#define FAKE_H

#include "net/transport.h"
#include "plock.h"

#include <poll.h>

/* --- the clock --- */

void fake_clock_start(void); /* stands still, soon after the machine was started */
void fake_clock_pass(plock_ns span);
void fake_clock_stop(void);

/* A wait for plock_drive that takes no time: if nothing is ready, the clock jumps to the deadline.
 */
plock_status fake_wait(void *context, const plock_interest *interest);

/* Returns the descriptor and events that an event loop would poll. */
struct pollfd fake_polled(const plock_interest *interest);

/* --- the server --- */

enum {
    FAKE_PEERS = 120,
    FAKE_COMMANDS = 24,
    FAKE_ANSWERS = 16,
    FAKE_COMMAND_ROOM = 400,
    FAKE_IN = 20480,
    FAKE_OUT = 80 * 1024
};

/* Answers that are not bytes. */
extern const char FAKE_SILENCE[]; /* none */
extern const char FAKE_CLOSES[];  /* the connection ends */

#define FAKE_REFUSED                         "*2\r\n:0\r\n:5000\r\n"
#define FAKE_TICKET                          "1700000000000100"
#define FAKE_PLACE(left, rank, ticket, told) FAKE_PLACE_AGAIN(left, rank, ticket, told, 0)
#define FAKE_PLACE_AGAIN(left, rank, ticket, told, lost)                                           \
    "*6\r\n:0\r\n:" #left "\r\n:" #rank "\r\n$16\r\n" ticket "\r\n:" #told "\r\n:" #lost "\r\n"
#define FAKE_QUEUED                                                                                \
    FAKE_PLACE(5000, 0, FAKE_TICKET, 1) /* rank 0; the holder has 5 s left, and notifies waiters   \
                                         */
#define FAKE_HELD       "$16\r\n1700000000000001\r\n"
#define FAKE_HELD_FENCE 1700000000000001
#define FAKE_DONE       ":1\r\n"
#define FAKE_NOT_OURS   ":0\r\n"
#define FAKE_NOSCRIPT   "-NOSCRIPT No matching script. Please use EVAL.\r\n"
#define FAKE_LOADED     "$40\r\n0123456789012345678901234567890123456789\r\n"

typedef struct fake_peer {
    /* Set by the test. */
    const char *answers[FAKE_ANSWERS];
    /* without answers, it grants and confirms every command */
    bool obliging;
    bool silent_greeting;   /* the greeting takes from answers, too */
    unsigned connect_again; /* how many times connect returns AGAIN */
    plock_status connect_failure;
    size_t read_chunk; /* the most bytes of one read; 0: all */
    /* the first read empties the descriptor, as TLS does; the rest is pending */
    bool hoards;
    bool read_dribbles;        /* AGAIN follows each read with bytes */
    plock_status read_failure; /* after all bytes; PLOCK_OK: AGAIN */
    size_t write_chunk;        /* the most bytes of one write; 0: all */
    size_t write_room;         /* the bytes it takes before AGAIN; 0: no limit */
    plock_status write_failure;
    bool looks_dead; /* alive() returns false */
    int fd;          /* for the interest; -1 unless the test sets another */

    /* Read by the test. A command is its words, with blanks between. The name of a script stands
     * for its SHA-1. */
    char commands[FAKE_COMMANDS][FAKE_COMMAND_ROOM];
    unsigned command_count;
    unsigned hellos; /* HELLO is not among the commands */
    bool connected, abandoned, destroyed;
    unsigned looks, reads; /* calls of alive() and read() */

    /* Used by the fake only. */
    char in[FAKE_IN], out[FAKE_OUT]; /* to plock, from plock */
    unsigned orders[FAKE_COMMANDS];  /* the number of each among all the server's */
    int waker;                       /* the other end of fd; -1: the fake has none */
    /* hoarded: how many bytes of `out` have left the descriptor */
    size_t in_length, in_read, out_length, written, hoarded;
    unsigned answered;
    bool paused, closing;
} fake_peer;

extern fake_peer fake_peers[FAKE_PEERS];

/* The server as a whole. fake_reset resets it. */
typedef struct fake_server {
    /* Set by the test. */
    const char *(*says)(
        const char *command,
        unsigned nth); /* to the n-th of its kind ("EVALSHA acquire", from 0), before any peer's
                        * own answers; NULL: nothing to say. With the fake's mutex held */
    const char *subscriptions[FAKE_ANSWERS]; /* to the n-th SUBSCRIBE; NULL: it is confirmed */
    /* Each connection has a descriptor, readable when there are bytes, for the worker thread. */
    bool descriptors;
    /* The fake's own. */
    unsigned acquires, subscribed, order;
    fake_peer *channel; /* the newest that is subscribed */
} fake_server;

extern fake_server fake_redis;

/* Connections made since the last fake_store or fake_reset. */
unsigned fake_connections(void);

/* Ends a test. It returns to the real clock, by which every deadline of the fake one has passed, so
 * background work ends soon. Then it frees everything, and checks that. NULLs are allowed. */
void fake_end(plock_lease *lease, plock_store *store);

/* Frees the notices that a test does not look at. */
void fake_drop_notices(void);

/* Waits until detached threads have freed everything, and checks that. */
void fake_settle(void);

/* Makes a store at this URL with the fake behind it, and resets all peers. NULL if there is no
 * memory. */
plock_store *fake_store(const char *url);
void fake_reset(void);

/* Puts the fake behind any store. */
void fake_transport_for(plock_store *store);

/* The peer sends bytes without a command. */
void fake_say(fake_peer *peer, const char *bytes, size_t length);

/* As PUBLISH on the channel of this process. Returns false if there is no subscriber. */
bool fake_publish(const char *message);
bool fake_publish_within(const char *message); /* from says */
/* Sends bytes on the channel. Returns false if it is not open. */
bool fake_say_on_channel(const char *bytes, size_t length);
bool fake_channel_is_open(void);
/* The server confirms the SUBSCRIBE that it has not answered. */
void fake_confirm(void);
/* The server ends the connection of the channel. */
void fake_cut_channel(void);

/* A lease of the key "k". */
plock_lease *fake_lease(plock_store *store);

/* Runs an operation that has begun to its end, with the fake's clock. It counts each TRY_FAILED,
 * and continues. */
plock_status fake_finish(plock_lease *lease);
extern _Thread_local unsigned fake_failed_tries;

/* Acquires for 3 s, with one attempt or patience. */
plock_status fake_acquire(plock_lease *lease, plock_ns wait);
plock_status fake_release(plock_lease *lease);

/* Leaves the lease to another owner that knows its value. Does nothing if it is not held. */
void fake_leave(plock_lease *lease);

/* Returns the number of commands with this beginning that all peers received. */
unsigned fake_commands_like(const char *beginning);

/* Copies the n-th of them, from 0, in the order of their arrival. Returns "" if there is none. */
const char *fake_command(const char *beginning, unsigned nth, char command[FAKE_COMMAND_ROOM]);

/* Copies the word at this place of a command, from 0. Returns "" if there is none. */
const char *fake_word(const char *command, unsigned place, char word[FAKE_COMMAND_ROOM]);

#endif
