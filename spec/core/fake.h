/* A clock that the test moves, and a store whose server the test plays.
 *
 * The n-th connection that the store makes leads to fake_peers[n]. A peer answers the greeting
 * and SUBSCRIBE by itself. It answers every other command with its next answer, as soon as the
 * command is complete. A peer without answers is silent. A test that uses the worker thread can
 * set fake_redis.says, which answers for all peers. */
#ifndef FAKE_H
#define FAKE_H

#include "net/transport.h"
#include "plock.h"

#include <poll.h>

/* --- the clock --- */

void fake_clock_start(void); /* replaces the clock with one that is stopped at 10 s */
void fake_clock_pass(plock_ns span);
void fake_clock_stop(void);

/* Waits for plock_drive without taking real time. If nothing is ready, the clock jumps to the
 * deadline. */
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
extern const char FAKE_SILENCE[]; /* the peer sends nothing */
extern const char FAKE_CLOSES[];  /* the peer closes the connection */

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
    /* when its answers are used up, the peer grants and confirms every command */
    bool obliging;
    bool silent_greeting;   /* the peer answers the greeting from `answers`, like any command */
    unsigned connect_again; /* how many times connect returns AGAIN */
    plock_status connect_failure;
    size_t read_chunk; /* the most bytes that one read returns; 0: no limit */
    /* As in TLS, the first read takes all bytes from the descriptor. The transport holds the bytes
     * that the read does not return. */
    bool hoards;
    bool read_dribbles;        /* each read that returns bytes is followed by AGAIN */
    plock_status read_failure; /* what a read returns after all bytes; PLOCK_OK: AGAIN */
    size_t write_chunk;        /* the most bytes that one write takes; 0: no limit */
    size_t write_room;         /* how many bytes the peer accepts before AGAIN; 0: no limit */
    plock_status write_failure;
    bool looks_dead; /* alive() returns false */
    int fd; /* the descriptor that plock polls; -1: none. Set by the test or by `descriptors` */

    /* Read by the test. A command is its words, separated by blanks. A script's name replaces its
     * SHA-1 or text. */
    char commands[FAKE_COMMANDS][FAKE_COMMAND_ROOM];
    unsigned command_count;
    unsigned hellos; /* HELLO commands, which are not in commands */
    bool connected, abandoned, destroyed;
    unsigned looks, reads; /* how many times alive() and read() were called */

    /* Used by the fake only. */
    char in[FAKE_IN], out[FAKE_OUT]; /* bytes to plock, and bytes from plock */
    unsigned orders[FAKE_COMMANDS];  /* each command's number among all commands to the server */
    int waker;                       /* the other end of fd; -1 if the fake did not make fd */
    /* hoarded: how many bytes of `in` have left the descriptor */
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
        unsigned nth); /* Returns the answer to a command, with the fake's mutex held. nth: the
                          number of acquires that arrived before this command. The peer's own
                          answers are used only if this returns NULL. */
    /* the answer to the n-th SUBSCRIBE; NULL: a confirmation */
    const char *subscriptions[FAKE_ANSWERS];
    /* If true, each connection has a descriptor that is readable when there are bytes. The worker
     * thread needs such a descriptor. */
    bool descriptors;
    /* Used by the fake only. */
    unsigned acquires, subscribed, order;
    fake_peer *channel; /* the peer with the newest subscription */
} fake_server;

extern fake_server fake_redis;

/* Connections made since the last fake_store or fake_reset. */
unsigned fake_connections(void);

/* Ends a test. Returns to the real clock, on which all deadlines of the fake clock have passed. So
 * background work ends soon. Then frees everything, and checks that no memory is left. Both
 * arguments may be NULL. */
void fake_end(plock_lease *lease, plock_store *store);

/* Frees the notices that a test does not look at. */
void fake_drop_notices(void);

/* Waits until detached threads have freed their memory, and checks that no memory is left. */
void fake_settle(void);

/* Makes a store at this URL whose server is the fake, and resets all peers. Returns NULL if memory
 * runs out. */
plock_store *fake_store(const char *url);
void fake_reset(void);

/* Makes the fake the server of an existing store. */
void fake_transport_for(plock_store *store);

/* The peer sends bytes that answer no command. */
void fake_say(fake_peer *peer, const char *bytes, size_t length);

/* Acts like PUBLISH on this process's channel. Returns false if there is no subscriber. */
bool fake_publish(const char *message);
bool fake_publish_within(const char *message); /* the same, for calls from `says` */
/* Sends bytes on the channel. Returns false if the channel is not open. */
bool fake_say_on_channel(const char *bytes, size_t length);
bool fake_channel_is_open(void);
/* The server confirms the SUBSCRIBE that is still unanswered. */
void fake_confirm(void);
/* The server ends the connection of the channel. */
void fake_cut_channel(void);

/* Makes a lease on the key "k". */
plock_lease *fake_lease(plock_store *store);

/* Drives the lease's operation to its end on the fake clock. Continues after each TRY_FAILED, and
 * counts them in fake_failed_tries. */
plock_status fake_finish(plock_lease *lease);
extern _Thread_local unsigned fake_failed_tries;

/* Acquires a lease of 3 s. If `wait` is 0, makes one attempt. */
plock_status fake_acquire(plock_lease *lease, plock_ns wait);
plock_status fake_release(plock_lease *lease);

/* Gives the lease up without a release, so that any process that knows its token can adopt it. Does
 * nothing if the lease is not held. */
void fake_leave(plock_lease *lease);

/* Returns how many received commands begin with these words, on all peers together. */
unsigned fake_commands_like(const char *beginning);

/* Copies the n-th command that begins with these words, counting from 0, in the order of arrival.
 * Returns "" if there are fewer. */
const char *fake_command(const char *beginning, unsigned nth, char command[FAKE_COMMAND_ROOM]);

/* Copies word number `place` of the command, counting from 0. Returns "" if there is none. */
const char *fake_word(const char *command, unsigned place, char word[FAKE_COMMAND_ROOM]);

#endif
