/* A clock that the test moves, and a store whose server the test plays.
 *
 * The n-th connection that the store makes talks to fake_peers[n]. A peer answers the greeting by
 * itself; to each command after it, it gives the next of its answers as soon as the command is
 * complete. A peer that has none left is silent. It confirms a SUBSCRIBE by itself; what the native
 * thread says and hears can be told by the whole server, fake_server. */
#ifndef FAKE_H
#define FAKE_H

#include "net/transport.h"
#include "plock.h"

#include <poll.h>

/* --- the clock --- */

void fake_clock_start(void); /* stands still, soon after the machine was started */
void fake_clock_pass(plock_ns span);
void fake_clock_stop(void);

/* A wait for plock_drive that takes no time: where nothing is ready the clock jumps to the
 * deadline. */
plock_status fake_wait(void *context, const plock_interest *interest);

/* What an event loop would poll for it. */
struct pollfd fake_polled(const plock_interest *interest);

/* --- the server --- */

enum {
    FAKE_PEERS = 120,
    FAKE_COMMANDS = 24,
    FAKE_ANSWERS = 16,
    FAKE_COMMAND_ROOM = 400,
    FAKE_IN = 20480,
    FAKE_OUT = 12288
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
    FAKE_PLACE(5000, 0, FAKE_TICKET,                                                               \
               1) /* the first in the queue; the holder has 5 s left, and will tell */
#define FAKE_HELD       "$16\r\n1700000000000001\r\n"
#define FAKE_HELD_FENCE 1700000000000001
#define FAKE_DONE       ":1\r\n"
#define FAKE_NOT_OURS   ":0\r\n"
#define FAKE_NOSCRIPT   "-NOSCRIPT No matching script. Please use EVAL.\r\n"
#define FAKE_LOADED     "$40\r\n0123456789012345678901234567890123456789\r\n"

typedef struct fake_peer {
    /* What the test sets. */
    const char *answers[FAKE_ANSWERS];
    /* when it has no answers left, it grants and confirms whatever is asked */
    bool obliging;
    bool silent_greeting;   /* the greeting takes from answers, too */
    unsigned connect_again; /* so many times connect says AGAIN */
    plock_status connect_failure;
    size_t read_chunk; /* bytes that one read gives at most; 0: all there are */
    /* the first read empties the descriptor, as TLS does; the rest is pending */
    bool hoards;
    bool read_dribbles;        /* each read that gave something is followed by one AGAIN */
    plock_status read_failure; /* when all has been read; PLOCK_OK: AGAIN */
    size_t write_chunk;        /* bytes that one write takes at most; 0: all */
    size_t write_room;         /* bytes that it takes before it says AGAIN; 0: without end */
    plock_status write_failure;
    bool looks_dead; /* what alive() finds */
    int fd;          /* for want; -1 unless the test puts another there */

    /* What the test reads. A command is its words, with blanks between; the name of a script stands
     * for its SHA-1. */
    char commands[FAKE_COMMANDS][FAKE_COMMAND_ROOM];
    unsigned command_count;
    unsigned hellos; /* HELLO is no command in this sense: it only asks which server this is */
    bool connected, abandoned, destroyed;
    unsigned looks, reads; /* calls of alive() and read() */

    /* The fake's own. */
    char in[FAKE_IN], out[FAKE_OUT]; /* to plock, from plock */
    unsigned orders[FAKE_COMMANDS];  /* when each came, of all the server's */
    int waker;                       /* the other end of fd; -1: the fake has none */
    /* hoarded: of what came, so much has left the descriptor */
    size_t in_length, in_read, out_length, written, hoarded;
    unsigned answered;
    bool paused, closing;
} fake_peer;

extern fake_peer fake_peers[FAKE_PEERS];

/* The server as a whole. All is reset by fake_reset. */
typedef struct fake_server {
    /* What the test sets. */
    const char *(*says)(
        const char *command,
        unsigned nth); /* to the n-th of its kind ("EVALSHA acquire", from 0), before any peer's
                        * own answers; NULL: nothing to say. With the fake's mutex held */
    const char *subscriptions[FAKE_ANSWERS]; /* to the n-th SUBSCRIBE; NULL: it is confirmed */
    /* connections have one, which is readable when there is something to read: for the native
     * thread */
    bool descriptors;
    /* The fake's own. */
    unsigned acquires, subscribed, order;
    fake_peer *channel; /* the newest that is subscribed */
} fake_server;

extern fake_server fake_redis;

/* Connections made since the last fake_store or fake_reset. */
unsigned fake_connections(void);

/* The end of a test: back to the real clock, for which every deadline of the fake one has passed,
 * so that what goes on in the background is done soon; then everything is given back, and that is
 * checked. NULLs are allowed. */
void fake_end(plock_lease *lease, plock_store *store);

/* Waits until threads that are nobody's to join have given everything back, and checks that. */
void fake_settle(void);

/* A store at this URL with the fake behind it; all peers start anew. NULL where there is no memory.
 */
plock_store *fake_store(const char *url);
void fake_reset(void);

/* Puts the fake behind any store. */
void fake_transport_for(plock_store *store);

/* The peer sends bytes that no command asked for. */
void fake_say(fake_peer *peer, const char *bytes, size_t length);

/* As PUBLISH on the channel of this process; false: nobody hears it. */
bool fake_publish(const char *message);
bool fake_publish_within(const char *message); /* from says */
/* Bytes that come on the channel; false: it is not open. */
bool fake_say_on_channel(const char *bytes, size_t length);
bool fake_channel_is_open(void);
/* The server confirms the SUBSCRIBE that it was silent to. */
void fake_confirm(void);
/* The server ends the connection of the channel. */
void fake_cut_channel(void);

/* A lease of the key "k". */
plock_lease *fake_lease(plock_store *store);

/* Carries an operation that has begun to its end, with the clock of the fake. TRY_FAILED is gone
 * past, and counted. */
plock_status fake_finish(plock_lease *lease);
extern unsigned fake_failed_tries;

/* Acquires for 3 s, with one attempt or patience. */
plock_status fake_acquire(plock_lease *lease, plock_ns wait);
plock_status fake_release(plock_lease *lease);

/* Leaves it to whoever knows its owner; one that is not held stays as it is. */
void fake_leave(plock_lease *lease);

/* How many commands all peers together got that begin like this. */
unsigned fake_commands_like(const char *beginning);

/* The n-th of those, from 0, in the order in which the server got them, copied; "" where there is
 * none. */
const char *fake_command(const char *beginning, unsigned nth, char command[FAKE_COMMAND_ROOM]);

/* The word of a command at this place, counted from 0, copied to word; "" where there is none. */
const char *fake_word(const char *command, unsigned place, char word[FAKE_COMMAND_ROOM]);

#endif
