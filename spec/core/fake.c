#include "fake.h"

#include "memory.h"
#include "script.h"
#include "store.h"
#include "test.h"
#include "waker.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the clock --- */

static _Atomic plock_ns moment;

static plock_ns read_clock(void) {
    return atomic_load(&moment);
}

void fake_clock_start(void) {
    atomic_store(&moment, 10 * PLOCK_SECOND);
    plock_clock_replace(read_clock);
}

void fake_clock_pass(plock_ns span) {
    atomic_fetch_add(&moment, span);
}

void fake_clock_stop(void) {
    plock_clock_replace(NULL);
}

plock_status fake_wait(void *context, const plock_want *want) {
    (void)context;
    if (want->deadline > read_clock()) atomic_store(&moment, want->deadline);
    return PLOCK_OK;
}

/* --- the peers; all with the mutex held, because the native thread talks to them, too --- */

const char FAKE_SILENCE[] = "", FAKE_CLOSES[] = "";

fake_peer fake_peers[FAKE_PEERS];
static unsigned connections;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void add_input(fake_peer *peer, const char *bytes, size_t length) {
    if (length > sizeof peer->in - peer->in_length) abort();
    memcpy(peer->in + peer->in_length, bytes, length);
    peer->in_length += length;
}

static void answer(fake_peer *peer, const char *command) {
    const char *next = peer->answered < FAKE_ANSWERS ? peer->answers[peer->answered] : NULL;
    if (next) peer->answered++;
    else if (peer->obliging) next = !strncmp(command, "EVALSHA acquire", 15) ? FAKE_HELD : !strncmp(command, "SCRIPT", 6) ? FAKE_LOADED : FAKE_DONE;
    if (next == FAKE_CLOSES) peer->closing = true;
    else if (next) add_input(peer, next, strlen(next));
}

static bool is_greeting(const char *command) {
    return !strncmp(command, "AUTH ", 5) || !strncmp(command, "SELECT ", 7) || !strncmp(command, "CLIENT ", 7);
}

static void add_word(char *command, const char *word, size_t length) {
    static const char *const NAMES[PLOCK__SCRIPTS] = {
        [PLOCK__ACQUIRE] = "acquire", [PLOCK__RELEASE] = "release", [PLOCK__EXTEND] = "extend", [PLOCK__UNDO] = "undo"};
    for (int id = 0; id < PLOCK__SCRIPTS; id++) {
        const plock_script *script = plock__script((plock_script_id)id);
        const bool hash = length == PLOCK__SHA1_HEX && !memcmp(word, script->sha1, PLOCK__SHA1_HEX);
        if (!hash && !(length == script->length && !memcmp(word, script->text, length))) continue;
        word = NAMES[id];
        length = strlen(word);
    }
    const size_t used = strlen(command);
    (void)snprintf(command + used, FAKE_COMMAND_ROOM - used, "%s%.*s", used ? " " : "", (int)length, word);
}

/* "<mark><number>\r\n" at *from; -1 while it is not whole. */
static long number(const fake_peer *peer, size_t *from, char mark) {
    const char *start = peer->out + *from, *end = memchr(start, '\n', peer->out_length - *from);
    if (!end) return -1;
    if (*start != mark) abort(); /* plock never sends anything else */
    *from = (size_t)(end + 1 - peer->out);
    return strtol(start + 1, NULL, 10);
}

/* Takes the first command out of what was written, if it is whole. */
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
        if (peer->command_count < FAKE_COMMANDS) memcpy(peer->commands[peer->command_count], command, sizeof command);
        peer->command_count++;
        if (is_greeting(command) && !peer->silent_greeting) add_input(peer, "+OK\r\n", 5);
        else answer(peer, command);
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

static plock_status again(const fake_peer *peer, short events, plock_want *want) {
    want->fd = peer->fd;
    want->events = events;
    return PLOCK_AGAIN;
}

static plock_status fail(plock_status status, plock_error *error) {
    error->status = status;
    (void)snprintf(error->message, sizeof error->message, "the fake says %s", plock_status_name(status));
    return status;
}

static plock_status connect_step(plock_transport *transport, plock_ns deadline, plock_want *want, plock_error *error) {
    (void)deadline;
    fake_peer *peer = peer_of(transport);
    if (peer->connect_again > 0) {
        peer->connect_again--;
        return again(peer, POLLOUT, want);
    }
    if (peer->connect_failure) return fail(peer->connect_failure, error);
    peer->connected = true;
    return PLOCK_OK;
}

static plock_status read_some(plock_transport *transport, char *buffer, size_t size, size_t *got, plock_want *want, plock_error *error) {
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
    pthread_mutex_unlock(&mutex);
    *got = n;
    if (n > 0) return PLOCK_OK;
    if (paused) return again(peer, POLLIN, want);
    if (peer->read_failure) return fail(peer->read_failure, error);
    return peer->closing ? fail(PLOCK_DISCONNECTED, error) : again(peer, POLLIN, want);
}

static plock_status write_some(plock_transport *transport, const char *bytes, size_t size, size_t *sent, plock_want *want, plock_error *error) {
    fake_peer *peer = peer_of(transport);
    if (peer->write_failure) return fail(peer->write_failure, error);
    pthread_mutex_lock(&mutex);
    if (peer->write_room && size > peer->write_room - peer->written) size = peer->write_room - peer->written;
    if (peer->write_chunk && size > peer->write_chunk) size = peer->write_chunk;
    if (size > sizeof peer->out - peer->out_length) abort();
    memcpy(peer->out + peer->out_length, bytes, size);
    peer->out_length += size;
    peer->written += size;
    take_commands(peer);
    pthread_mutex_unlock(&mutex);
    *sent = size;
    return size ? PLOCK_OK : again(peer, POLLOUT, want);
}

static int descriptor(const plock_transport *transport) {
    (void)transport;
    return -1;
}

static bool alive(plock_transport *transport) {
    fake_peer *peer = peer_of(transport);
    peer->looks++;
    return !peer->looks_dead && peer->in_read == peer->in_length;
}

static void abandon(plock_transport *transport) {
    peer_of(transport)->abandoned = true;
}

static void destroy(plock_transport *transport) {
    peer_of(transport)->destroyed = true;
    plock__free(transport);
}

static plock_transport *make(plock_store *store) {
    static const plock_transport_operations OPERATIONS = {connect_step, read_some, write_some, descriptor, alive, abandon, destroy};
    (void)store;
    fake_transport *transport = plock__allocate(sizeof *transport);
    if (!transport) return NULL;
    pthread_mutex_lock(&mutex);
    if (connections == FAKE_PEERS) abort();
    transport->peer = &fake_peers[connections++];
    pthread_mutex_unlock(&mutex);
    transport->base.does = &OPERATIONS;
    return &transport->base;
}

/* --- for the tests --- */

void fake_reset(void) {
    memset(fake_peers, 0, sizeof fake_peers);
    for (unsigned i = 0; i < FAKE_PEERS; i++) fake_peers[i].fd = -1;
    connections = 0;
}

unsigned fake_connections(void) {
    pthread_mutex_lock(&mutex);
    const unsigned made = connections;
    pthread_mutex_unlock(&mutex);
    return made;
}

void fake_end(plock_lease *lease, plock_store *store) {
    plock_lease_free(lease);
    fake_clock_stop();
    plock_drain(plock_now() + 5 * PLOCK_SECOND);
    plock_store_close(store);
    plock__forget_wakers();
    CHECK_INT(plock__live_allocations(), 0);
}

/* Blocks in use, those of wakers that wait for their next use not counted. */
static long blocks_in_use(void) {
    enum { WAKERS_MAX = 16 };
    plock_waker *wakers[WAKERS_MAX];
    long before, taken = 0;
    do { /* unused ones come first; then a new one is made */
        before = plock__live_allocations();
        wakers[taken++] = plock_waker_take();
    } while (plock__live_allocations() == before && taken < WAKERS_MAX);
    const long in_use = plock__live_allocations() - taken;
    while (taken > 0) plock_waker_give(wakers[--taken]);
    return in_use;
}

void fake_settle(void) {
    unsigned rounds = 0;
    while (blocks_in_use() > 0 && test_patient(&rounds)) continue;
    plock__forget_wakers();
    CHECK_INT(plock__live_allocations(), 0);
}

void fake_transport_for(plock_store *store) {
    store->make_transport = make;
}

plock_store *fake_store(const char *url) {
    plock_error error;
    plock_config *config;
    plock_store *store;
    fake_reset();
    if (plock_config_new(&config, url, &error) || plock_store_open(&store, config, &error)) return NULL;
    fake_transport_for(store);
    return store;
}

void fake_say(fake_peer *peer, const char *bytes, size_t length) {
    pthread_mutex_lock(&mutex);
    add_input(peer, bytes, length);
    pthread_mutex_unlock(&mutex);
}

/* --- leases --- */

unsigned fake_failed_tries;

plock_lease *fake_lease(plock_store *store) {
    plock_lease *lease;
    return plock_lease_new(&lease, store, "k", 1) ? NULL : lease;
}

plock_status fake_finish(plock_lease *lease) {
    plock_status status;
    fake_failed_tries = 0;
    while ((status = plock_drive(lease, fake_wait, NULL)) == PLOCK_TRY_FAILED) fake_failed_tries++;
    return status;
}

plock_status fake_acquire(plock_lease *lease, plock_ns wait) {
    const plock_status status = plock_lease_acquire(lease, &(plock_patience){.ttl = 3 * PLOCK_SECOND, .wait = wait});
    return status ? status : fake_finish(lease);
}

plock_status fake_release(plock_lease *lease) {
    const plock_status status = plock_lease_release(lease);
    return status ? status : fake_finish(lease);
}

/* --- looking at commands --- */

unsigned fake_commands_like(const char *beginning) {
    unsigned count = 0;
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < connections; i++)
        for (unsigned c = 0; c < fake_peers[i].command_count && c < FAKE_COMMANDS; c++)
            count += !strncmp(fake_peers[i].commands[c], beginning, strlen(beginning));
    pthread_mutex_unlock(&mutex);
    return count;
}

const char *fake_word(const char *command, unsigned place, char word[FAKE_COMMAND_ROOM]) {
    for (; place > 0 && *command; place--) {
        command += strcspn(command, " ");
        command += *command == ' ';
    }
    const size_t length = strcspn(command, " ");
    memcpy(word, command, length);
    word[length] = 0;
    return word;
}
