/* Sends arbitrary bytes to the channel, because any client may publish messages. The channel must
 * read every message, skip other pushes of a server, and fail at bytes that no server sends. It
 * must read the same messages however the bytes are cut. Input: one byte of settings (the size of
 * a read, whether the subscription is confirmed already, whether the channel has a tag), then the
 * bytes. */
#include "fuzz.h"

#include "fake.h"

#include "base/memory.h"
#include "base/process.h"
#include "redis/channel.h"
#include "redis/store.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIRMED = 128, TAGGED = 64, CHUNK = 63, SIZE_MAX_HEARD = 12000 };

/* The result: the last status, and a checksum of all messages before it. */
typedef struct outcome {
    plock_status status;
    unsigned messages;
    uint64_t sum;
} outcome;

static void check_message(const plock_message *message, outcome *heard) {
    heard->messages++;
    fuzz_add(&heard->sum, &message->kind, 1);
    if (!message->kind) return; /* the subscription is confirmed */
    REQUIRE(strchr("=+~!", message->kind));
    REQUIRE(message->ms <= 10000009);
    /* a break names a holder's value, which may contain blanks */
    REQUIRE(message->value.length > 0);
    REQUIRE(message->kind == '!' || !memchr(message->value.bytes, ' ', message->value.length));
    REQUIRE(message->key.length > 0 &&
            message->value.length + message->key.length < PLOCK__REPLY_BYTES_MAX);
    fuzz_add(&heard->sum, &message->ms, sizeof message->ms);
    /* reads all bytes, so that the sanitizer checks that they are allocated */
    fuzz_add(&heard->sum, message->value.bytes, message->value.length);
    fuzz_add(&heard->sum, message->key.bytes, message->key.length);
}

static outcome hear(const uint8_t *data, size_t size, unsigned how, size_t chunk) {
    outcome heard = {PLOCK_OK, 0, UINT64_C(0xcbf29ce484222325)};
    plock_channel channel = {0};
    plock_message message;
    plock_error error = {PLOCK_OK, ""};
    fake_clock_start();
    plock_store *store = fake_store("redis://h");
    REQUIRE(store && plock__channel_name(&channel) == PLOCK_OK);
    if (!(how & CONFIRMED)) fake_redis.subscriptions[0] = FAKE_SILENCE;
    if (how & TAGGED) {
        memcpy(channel.name + PLOCK__CHANNEL_LENGTH, "{7}", 3);
        channel.tag_length = 3;
    }
    plock__begin_step();
    for (bool said = false; heard.status == PLOCK_OK || !said;) {
        plock_interest interest = {.fd = -1, .deadline = PLOCK_NEVER};
        heard.status =
            plock__channel_step(&channel, &store->node, true, &message, &interest, &error);
        if (heard.status == PLOCK_OK) check_message(&message, &heard);
        if (said) continue;
        REQUIRE(heard.status == PLOCK_OK || heard.status == PLOCK_AGAIN);
        said = true;
        fake_peers[0].read_chunk = chunk;
        fake_say(&fake_peers[0], (const char *)data, size);
        heard.status = PLOCK_OK;
    }
    REQUIRE((heard.status == PLOCK_AGAIN) == (channel.state != PLOCK__CHANNEL_CLOSED));
    REQUIRE(heard.status == PLOCK_AGAIN || error.status == heard.status);
    REQUIRE(memchr(error.message, 0, sizeof error.message));
    plock__channel_close(&channel, &store->node);
    plock__end_step();
    REQUIRE(fake_peers[0].destroyed && store->node.pool.open == 0);
    fake_clock_stop();
    plock_store_close(store);
    REQUIRE(plock__live_allocations() == 0);
    return heard;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2 || size > SIZE_MAX_HEARD) return 0;
    const outcome whole = hear(data + 1, size - 1, data[0], 0),
                  cut = hear(data + 1, size - 1, data[0], 1 + (data[0] & CHUNK));
    REQUIRE(whole.status == cut.status && whole.messages == cut.messages && whole.sum == cut.sum);
    return 0;
}
