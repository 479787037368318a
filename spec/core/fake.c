#include "fake.h"

#include "base/memory.h"
#include "redis/script.h"
#include "redis/store.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the clock --- */

static _Atomic plock_ns moment;

static plock_ns read_clock(void) { return atomic_load(&moment); }

void fake_clock_start(void) {
    atomic_store(&moment, 10 * PLOCK_SECOND);
    plock_clock_replace(read_clock);
}

void fake_clock_pass(plock_ns span) { atomic_fetch_add(&moment, span); }

void fake_clock_stop(void) { plock_clock_replace(NULL); }

struct pollfd fake_polled(const plock_interest *interest) {
    const int woken = interest->waker ? plock_waker_descriptor(interest->waker) : -1;
    if (interest->waker) return (struct pollfd){.fd = woken, .events = POLLIN};
    return (struct pollfd){.fd = interest->fd, .events = interest->events};
}

plock_status fake_wait(void *context, const plock_interest *interest) {
    struct pollfd polled = fake_polled(interest);
    (void)context;
    if (polled.fd >= 0 && poll(&polled, 1, 0) > 0) return PLOCK_OK;
    if (interest->deadline > read_clock()) atomic_store(&moment, interest->deadline);
    return PLOCK_OK;
}

/* --- the peers; callers hold the mutex, because the worker thread also uses the peers --- */

const char FAKE_SILENCE[] = "", FAKE_CLOSES[] = "";

fake_peer fake_peers[FAKE_PEERS];
fake_server fake_redis;
static unsigned connections;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void wake(const fake_peer *peer) {
    if (peer->waker >= 0) (void)!write(peer->waker, "x", 1); /* a full pipe needs no more bytes */
}

static void clear(const fake_peer *peer) {
    char bytes[64];
    while (peer->waker >= 0 && read(peer->fd, bytes, sizeof bytes) > 0) continue;
}

static void add_input(fake_peer *peer, const char *bytes, size_t length) {
    if (length > sizeof peer->in - peer->in_length) abort();
    memcpy(peer->in + peer->in_length, bytes, length);
    peer->in_length += length;
    wake(peer);
}

static void hang_up(fake_peer *peer) {
    peer->closing = true;
    wake(peer);
}

static bool is(const char *command, const char *beginning) {
    return !strncmp(command, beginning, strlen(beginning));
}

static const char *answer_of(fake_peer *peer, const char *command) {
    const bool acquires = is(command, "EVALSHA acquire ") || is(command, "EVALSHA shared_acquire ");
    const char *next = fake_redis.says ? fake_redis.says(command, fake_redis.acquires) : NULL;
    fake_redis.acquires += acquires;
    if (!next && peer->answered < FAKE_ANSWERS && peer->answers[peer->answered])
        next = peer->answers[peer->answered++];
    const bool numbers =
        acquires || is(command, "EVALSHA adopt ") || is(command, "EVALSHA shared_adopt ");
    if (!next && peer->obliging)
        next = numbers ? FAKE_HELD : is(command, "SCRIPT") ? FAKE_LOADED : FAKE_DONE;
    return next;
}

static void answer(fake_peer *peer, const char *command) {
    const char *next = answer_of(peer, command);
    if (next == FAKE_CLOSES)
        hang_up(peer);
    else if (next)
        add_input(peer, next, strlen(next));
}

/* The command is "SUBSCRIBE name". */
static void confirm(fake_peer *peer, const char *command) {
    const char *name = command + sizeof "SUBSCRIBE",
               *said = fake_redis.subscribed < FAKE_ANSWERS
                           ? fake_redis.subscriptions[fake_redis.subscribed]
                           : NULL;
    char confirmation[128];
    fake_redis.subscribed++;
    if (!said) fake_redis.channel = peer;
    (void)snprintf(confirmation, sizeof confirmation,
                   "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%.64s\r\n:1\r\n", strlen(name), name);
    if (said == FAKE_CLOSES)
        hang_up(peer);
    else
        add_input(peer, said ? said : confirmation, strlen(said ? said : confirmation));
}

static bool is_greeting(const char *command) {
    return is(command, "AUTH ") || is(command, "SELECT ") || is(command, "CLIENT ");
}

/* Returns whether the word is the script's SHA-1 or text, for one server or for a cluster. */
static bool is_script(const char *word, size_t length, plock_script_id id) {
    for (int clustered = 0; clustered < 2; clustered++) {
        const plock_script *script = plock__script(id, clustered);
        if (length == PLOCK__SHA1_HEX && !memcmp(word, script->sha1, PLOCK__SHA1_HEX)) return true;
        if (length == script->length && !memcmp(word, script->text, length)) return true;
    }
    return false;
}

static void add_word(char *command, const char *word, size_t length) {
    static const char *const NAMES[PLOCK__SCRIPTS] = {[PLOCK__ACQUIRE] = "acquire",
                                                      [PLOCK__RELEASE] = "release",
                                                      [PLOCK__EXTEND] = "extend",
                                                      [PLOCK__LEAVE] = "leave",
                                                      [PLOCK__UNDO] = "undo",
                                                      [PLOCK__BREAK] = "break",
                                                      [PLOCK__CHECK] = "check",
                                                      [PLOCK__STATUS] = "status",
                                                      [PLOCK__SCAN] = "scan",
                                                      [PLOCK__NOTE] = "note",
                                                      [PLOCK__ACQUIRE_ALL] = "acquire_all",
                                                      [PLOCK__RELEASE_ALL] = "release_all",
                                                      [PLOCK__SHARED_ACQUIRE] = "shared_acquire",
                                                      [PLOCK__SHARED_RELEASE] = "shared_release",
                                                      [PLOCK__SHARED_EXTEND] = "shared_extend",
                                                      [PLOCK__ADOPT] = "adopt",
                                                      [PLOCK__SHARED_ADOPT] = "shared_adopt",
                                                      [PLOCK__SHARED_LEAVE] = "shared_leave",
                                                      [PLOCK__SHARED_DOWNGRADE] =
                                                          "shared_downgrade",
                                                      [PLOCK__SHARED_BREAK] = "shared_break",
                                                      [PLOCK__SHARED_STATUS] = "shared_status"};
    for (int id = 0; id < PLOCK__SCRIPTS; id++) {
        if (!is_script(word, length, (plock_script_id)id)) continue;
        word = NAMES[id];
        length = strlen(word);
    }
    const size_t used = strlen(command);
    (void)snprintf(command + used, FAKE_COMMAND_ROOM - used, "%s%.*s", used ? " " : "", (int)length,
                   word);
}

/* Reads "<mark><number>\r\n" at *from. Returns -1 if the line is incomplete. */
static long number(const fake_peer *peer, size_t *from, char mark) {
    const char *start = peer->out + *from, *end = memchr(start, '\n', peer->out_length - *from);
    if (!end) return -1;
    if (*start != mark) abort(); /* plock never sends anything else */
    *from = (size_t)(end + 1 - peer->out);
    return strtol(start + 1, NULL, 10);
}

/* Moves the first command out of the written bytes. Returns false if it is incomplete. */
static bool take_command(fake_peer *peer, char command[FAKE_COMMAND_ROOM]) {
    size_t at = 0;
    *command = 0;
    long words = number(peer, &at, '*');
    if (words < 0) return false;
    for (; words > 0; words--) {
        const long length = number(peer, &at, '$');
        if (length < 0 || at + (size_t)length + 2 > peer->out_length) return false;
        add_word(command, peer->out + at, (size_t)length);
        at += (size_t)length + 2;
    }
    memmove(peer->out, peer->out + at, peer->out_length - at);
    peer->out_length -= at;
    return true;
}

static void take_commands(fake_peer *peer) {
    char command[FAKE_COMMAND_ROOM];
    while (take_command(peer, command)) {
        if (is(command, "HELLO ")) { /* HELLO commands are counted, but not recorded */
            peer->hellos++;
            if (peer->silent_greeting)
                answer(peer, command);
            else
                add_input(peer, "+OK\r\n", 5);
            continue;
        }
        if (peer->command_count < FAKE_COMMANDS) {
            memcpy(peer->commands[peer->command_count], command, sizeof command);
            peer->orders[peer->command_count] = fake_redis.order++;
        }
        peer->command_count++;
        if (is_greeting(command) && !peer->silent_greeting)
            add_input(peer, "+OK\r\n", 5);
        else if (is(command, "SUBSCRIBE "))
            confirm(peer, command);
        else
            answer(peer, command);
    }
}

/* --- the transport --- */

typedef struct fake_transport {
    plock_transport base;
    fake_peer *peer;
} fake_transport;

static fake_peer *peer_of(plock_transport *transport) {
    return ((fake_transport *)(void *)transport)->peer;
}

static plock_status again(const fake_peer *peer, short events, plock_interest *interest) {
    interest->fd = peer->fd;
    interest->events = events;
    return PLOCK_AGAIN;
}

static plock_status fail(plock_status status, plock_error *error) {
    error->status = status;
    (void)snprintf(error->message, sizeof error->message, "the fake says %s",
                   plock_status_name(status));
    return status;
}

static plock_status connect_step(plock_transport *transport, plock_ns deadline,
                                 plock_interest *interest, plock_error *error) {
    (void)deadline;
    fake_peer *peer = peer_of(transport);
    if (peer->connect_again > 0) {
        peer->connect_again--;
        return again(peer, POLLOUT, interest);
    }
    if (peer->connect_failure) return fail(peer->connect_failure, error);
    peer->connected = true;
    return PLOCK_OK;
}

static plock_status read_some(plock_transport *transport, char *buffer, size_t size, size_t *got,
                              plock_interest *interest, plock_error *error) {
    fake_peer *peer = peer_of(transport);
    pthread_mutex_lock(&mutex);
    size_t n = peer->in_length - peer->in_read;
    peer->reads++;
    if (peer->read_chunk && n > peer->read_chunk) n = peer->read_chunk;
    if (n > size) n = size;
    if (peer->paused) n = 0;
    const bool paused = peer->paused;
    peer->paused = n > 0 && peer->read_dribbles;
    memcpy(buffer, peer->in + peer->in_read, n);
    peer->in_read += n;
    if (peer->hoards && n > 0) peer->hoarded = peer->in_length;
    /* the descriptor of a closed connection stays readable */
    const bool closing = peer->closing;
    if ((peer->in_read == peer->in_length || peer->hoards) && !closing) clear(peer);
    pthread_mutex_unlock(&mutex);
    *got = n;
    if (n > 0) return PLOCK_OK;
    if (paused) return again(peer, POLLIN, interest);
    if (peer->read_failure) return fail(peer->read_failure, error);
    return closing ? fail(PLOCK_DISCONNECTED, error) : again(peer, POLLIN, interest);
}

static plock_status write_some(plock_transport *transport, const char *bytes, size_t size,
                               size_t *sent, plock_interest *interest, plock_error *error) {
    fake_peer *peer = peer_of(transport);
    if (peer->write_failure) return fail(peer->write_failure, error);
    pthread_mutex_lock(&mutex);
    if (peer->write_room && size > peer->write_room - peer->written)
        size = peer->write_room - peer->written;
    if (peer->write_chunk && size > peer->write_chunk) size = peer->write_chunk;
    if (size > sizeof peer->out - peer->out_length) abort();
    memcpy(peer->out + peer->out_length, bytes, size);
    peer->out_length += size;
    peer->written += size;
    take_commands(peer);
    pthread_mutex_unlock(&mutex);
    *sent = size;
    return size ? PLOCK_OK : again(peer, POLLOUT, interest);
}

static void expect(plock_transport *transport, plock_interest *interest) {
    const fake_peer *peer = ((const fake_transport *)(const void *)transport)->peer;
    interest->fd = peer->waker >= 0 ? peer->fd : -1;
    interest->events = POLLIN;
}

static size_t pending(const plock_transport *transport) {
    const fake_peer *peer = ((const fake_transport *)(const void *)transport)->peer;
    return peer->hoarded > peer->in_read ? peer->hoarded - peer->in_read : 0;
}

static bool alive(plock_transport *transport) {
    fake_peer *peer = peer_of(transport);
    peer->looks++;
    return !peer->looks_dead && peer->in_read == peer->in_length;
}

static void close_descriptors(fake_peer *peer) {
    if (peer->waker < 0) return;
    (void)close(peer->fd);
    (void)close(peer->waker);
    peer->fd = peer->waker = -1;
}

static void abandon(plock_transport *transport) {
    fake_peer *peer = peer_of(transport);
    peer->abandoned = true;
    close_descriptors(peer);
}

static void destroy(plock_transport *transport) {
    fake_peer *peer = peer_of(transport);
    pthread_mutex_lock(&mutex);
    peer->destroyed = true;
    if (fake_redis.channel == peer) fake_redis.channel = NULL;
    close_descriptors(peer);
    pthread_mutex_unlock(&mutex);
    plock__free(transport);
}

static void open_descriptors(fake_peer *peer) {
    int ends[2];
    if (pipe(ends) || fcntl(ends[0], F_SETFL, O_NONBLOCK) || fcntl(ends[1], F_SETFL, O_NONBLOCK))
        abort();
    peer->fd = ends[0];
    peer->waker = ends[1];
}

static plock_transport *make(plock_node *node) {
    static const plock_transport_operations OPERATIONS = {
        connect_step, read_some, write_some, expect, pending, alive, abandon, destroy};
    (void)node;
    fake_transport *transport = plock__allocate(sizeof *transport);
    if (!transport) return NULL;
    pthread_mutex_lock(&mutex);
    if (connections == FAKE_PEERS) abort();
    transport->peer = &fake_peers[connections++];
    if (fake_redis.descriptors) open_descriptors(transport->peer);
    pthread_mutex_unlock(&mutex);
    transport->base.does = &OPERATIONS;
    return &transport->base;
}

/* --- for the tests --- */

void fake_reset(void) {
    memset(fake_peers, 0, sizeof fake_peers);
    for (unsigned i = 0; i < FAKE_PEERS; i++) fake_peers[i].fd = fake_peers[i].waker = -1;
    fake_redis = (fake_server){0};
    connections = 0;
}

unsigned fake_connections(void) {
    pthread_mutex_lock(&mutex);
    const unsigned made = connections;
    pthread_mutex_unlock(&mutex);
    return made;
}

void fake_transport_for(plock_store *store) { store->node.make_transport = make; }

plock_store *fake_store(const char *url) {
    plock_error error;
    plock_config *config;
    plock_store *store;
    fake_reset();
    if (plock_config_new(&config, url, &error) || plock_store_open(&store, config, &error))
        return NULL;
    fake_transport_for(store);
    return store;
}

void fake_say(fake_peer *peer, const char *bytes, size_t length) {
    pthread_mutex_lock(&mutex);
    add_input(peer, bytes, length);
    pthread_mutex_unlock(&mutex);
}

bool fake_say_on_channel(const char *bytes, size_t length) {
    pthread_mutex_lock(&mutex);
    fake_peer *peer = fake_redis.channel;
    if (peer) add_input(peer, bytes, length);
    pthread_mutex_unlock(&mutex);
    return peer;
}

bool fake_publish_within(const char *message) {
    char text[2 * FAKE_COMMAND_ROOM];
    const int length =
        snprintf(text, sizeof text,
                 "*3\r\n$7\r\nmessage\r\n$29\r\nplock:1:wake:0123456789abcdef\r\n$%zu\r\n%s\r\n",
                 strlen(message), message);
    if (fake_redis.channel) add_input(fake_redis.channel, text, (size_t)length);
    return fake_redis.channel;
}

bool fake_publish(const char *message) {
    pthread_mutex_lock(&mutex);
    const bool heard = fake_publish_within(message);
    pthread_mutex_unlock(&mutex);
    return heard;
}

bool fake_channel_is_open(void) {
    pthread_mutex_lock(&mutex);
    const bool open = fake_redis.channel;
    pthread_mutex_unlock(&mutex);
    return open;
}

void fake_confirm(void) {
    static const char CONFIRMATION[] = "*3\r\n$9\r\nsubscribe\r\n$13\r\nplock:1:wake:\r\n:1\r\n";
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < connections; i++) {
        fake_peer *peer = &fake_peers[i];
        if (peer->destroyed || !is(peer->commands[peer->command_count - 1], "SUBSCRIBE")) continue;
        add_input(peer, CONFIRMATION, sizeof CONFIRMATION - 1);
        fake_redis.channel = peer;
    }
    pthread_mutex_unlock(&mutex);
}

void fake_cut_channel(void) {
    pthread_mutex_lock(&mutex);
    fake_peer *peer = fake_redis.channel;
    fake_redis.channel = NULL;
    if (peer) hang_up(peer);
    pthread_mutex_unlock(&mutex);
}

/* --- looking at commands --- */

unsigned fake_commands_like(const char *beginning) {
    unsigned count = 0;
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < connections; i++)
        for (unsigned c = 0; c < fake_peers[i].command_count && c < FAKE_COMMANDS; c++)
            count += is(fake_peers[i].commands[c], beginning);
    pthread_mutex_unlock(&mutex);
    return count;
}

const char *fake_command(const char *beginning, unsigned nth, char command[FAKE_COMMAND_ROOM]) {
    *command = 0;
    pthread_mutex_lock(&mutex);
    for (unsigned order = 0; order < fake_redis.order && !*command; order++)
        for (unsigned i = 0; i < connections; i++)
            for (unsigned c = 0; c < fake_peers[i].command_count && c < FAKE_COMMANDS; c++)
                if (fake_peers[i].orders[c] == order && is(fake_peers[i].commands[c], beginning) &&
                    nth-- == 0)
                    memcpy(command, fake_peers[i].commands[c], FAKE_COMMAND_ROOM);
    pthread_mutex_unlock(&mutex);
    return command;
}
