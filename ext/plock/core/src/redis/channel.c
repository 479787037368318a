#include "redis/channel.h"

#include "base/failure.h"
#include "base/random.h"

#include <string.h>

static const char PREFIX[] = "plock:1:wake:";

enum { NUMBER_MAX = 1000000 };

plock_status plock__channel_name(plock_channel *channel) {
    unsigned char bytes[PLOCK__CHANNEL_LENGTH / 2];
    const plock_status status = plock__random(bytes, sizeof bytes);
    plock__write_hex(bytes, sizeof bytes, channel->name);
    return status;
}

/* --- subscribing --- */

static plock_status begin(plock_channel *channel, plock_node *node, plock_error *error) {
    const plock_status status = plock__node_connect_beside(node, &channel->connection, error);
    if (status) return status;
    channel->state = PLOCK__CHANNEL_CONNECTING;
    channel->deadline = plock_after(plock_now(), node->config->connect_timeout);
    return PLOCK_OK;
}

/* Sends a command with the first `length` bytes of the channel's name, which are the id, or the id
 * and the tag. */
static plock_status ask(const plock_channel *channel, plock_text command, size_t length,
                        plock_error *error) {
    char name[sizeof PREFIX - 1 + PLOCK__CHANNEL_MAX];
    memcpy(name, PREFIX, sizeof PREFIX - 1);
    memcpy(name + sizeof PREFIX - 1, channel->name, length);
    const plock_text words[] = {command, plock__text(name, sizeof PREFIX - 1 + length)};
    return plock__connection_send(channel->connection, 2, words, error);
}

static plock_status subscribe(plock_channel *channel, plock_node *node, plock_error *error) {
    channel->state = PLOCK__CHANNEL_SUBSCRIBING;
    channel->deadline = plock_after(plock_now(), node->config->command_timeout);
    return ask(channel, plock__text_of("SUBSCRIBE"), PLOCK__CHANNEL_LENGTH, error);
}

void plock__channel_use_tag(plock_channel *channel) {
    plock_error ignored; /* if the connection is lost, the next step reports that */
    if (channel->state != PLOCK__CHANNEL_OPEN || !channel->tag_length) return;
    const plock_text name = plock__channel_text(channel);
    if (!ask(channel, plock__text_of("SSUBSCRIBE"), name.length, &ignored)) channel->unanswered++;
}

/* --- messages --- */

static bool says(const plock_value *pushed, const char *word) {
    const plock_value *kind = plock__element(pushed, 0, PLOCK__STRING);
    return kind && kind->length == strlen(word) && !memcmp(kind->text, word, kind->length);
}

/* Is the message about the channel's present name? It may be about an earlier tag, which was
 * replaced because its slot had moved. */
static bool names(const plock_channel *channel, const plock_value *pushed) {
    const plock_value *name = plock__element(pushed, 1, PLOCK__STRING);
    const size_t before = sizeof PREFIX - 1;
    return name && name->length >= before &&
           plock__same_text(plock__text(name->text + before, name->length - before),
                            plock__channel_text(channel));
}

/* Reads "KIND VALUE KEY". KIND is "=", "+", "~" with a number of ms, or "!" with the length of
 * VALUE, because a holder's value may contain blanks. */
static bool read_message(const plock_value *pushed, plock_message *message) {
    const plock_value *payload = plock__element(pushed, 2, PLOCK__STRING);
    const bool sharded = says(pushed, "smessage");
    if (!sharded && !says(pushed, "message")) return false;
    if (!payload || !payload->length) return false;
    plock_text rest = plock__text(payload->text, payload->length);
    const plock_text kind = plock__cut_word(&rest);
    *message = (plock_message){.kind = kind.length ? kind.bytes[0] : 0, .sharded = sharded};
    if (!message->kind || !strchr("=+~!", message->kind)) return false;
    unsigned number = 0;
    for (size_t i = 1; i < kind.length; i++) {
        if (kind.bytes[i] < '0' || kind.bytes[i] > '9' || number > NUMBER_MAX) return false;
        number = number * 10 + (unsigned)(kind.bytes[i] - '0');
    }
    if (message->kind == '~') message->ms = number;
    if (message->kind == '!' && number) {
        if (number >= rest.length || rest.bytes[number] != ' ') return false;
        message->value = plock__text(rest.bytes, number);
        rest = plock__text(rest.bytes + number + 1, rest.length - number - 1);
    } else {
        message->value = plock__cut_word(&rest);
    }
    message->key = rest;
    return message->value.length && message->key.length;
}

/* Does the error say that another node serves the slot? */
static bool is_moved(const plock_value *refusal) {
    static const char WORD[] = "MOVED ";
    return refusal->length >= sizeof WORD - 1 && !memcmp(refusal->text, WORD, sizeof WORD - 1);
}

/* Skips messages that are not for this process, because any client may publish. */
static plock_status hear(plock_channel *channel, plock_node *node, bool reads,
                         plock_message *message, plock_interest *interest, plock_error *error) {
    for (;;) {
        const plock_value *pushed;
        const plock_status status = plock__connection_hear(
            channel->connection, reads || channel->state != PLOCK__CHANNEL_OPEN, &pushed, interest,
            error);
        if (status) return status;
        const bool refused = pushed->type == PLOCK__ERROR;
        if (refused && !channel->unanswered) return plock__server_error(pushed, error);
        if (channel->unanswered && (refused || says(pushed, "ssubscribe"))) channel->unanswered--;
        if ((says(pushed, "sunsubscribe") && names(channel, pushed)) ||
            (refused && is_moved(pushed)))
            channel->tag_lost = true;
        if (channel->state == PLOCK__CHANNEL_SUBSCRIBING && says(pushed, "subscribe")) {
            channel->state = PLOCK__CHANNEL_OPEN;
            plock__channel_use_tag(channel);
            plock__node_reached(node, plock_now());
            *message = (plock_message){0};
            return PLOCK_OK;
        }
        if (read_message(pushed, message)) return PLOCK_OK;
        reads = false;
    }
}

/* --- steps --- */

plock_status plock__channel_step(plock_channel *channel, plock_node *node, bool reads,
                                 plock_message *message, plock_interest *interest,
                                 plock_error *error) {
    plock_status status = PLOCK_OK;
    if (channel->state == PLOCK__CHANNEL_CLOSED) status = begin(channel, node, error);
    if (!status && channel->state == PLOCK__CHANNEL_CONNECTING) {
        status = plock__connection_open(channel->connection, channel->deadline, interest, error);
        if (!status) status = subscribe(channel, node, error);
    }
    if (!status) status = hear(channel, node, reads, message, interest, error);
    if (status == PLOCK_AGAIN && channel->state != PLOCK__CHANNEL_OPEN) {
        if (interest->deadline > channel->deadline) interest->deadline = channel->deadline;
        if (plock_now() >= channel->deadline) status = plock__fail_plainly(error, PLOCK_SILENT);
    }
    if (status && status != PLOCK_AGAIN) plock__channel_close(channel, node);
    return status;
}

void plock__channel_close(plock_channel *channel, plock_node *node) {
    if (channel->connection) plock__pool_give(&node->pool, channel->connection, false);
    channel->connection = NULL;
    channel->unanswered = 0;
    channel->state = PLOCK__CHANNEL_CLOSED;
}
