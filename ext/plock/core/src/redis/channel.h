/* The channel: a subscribed connection on which the server notifies this process of its turns and
 * its broken leases. Only the worker thread uses the channel. */
#ifndef PLOCK__CHANNEL_H
#define PLOCK__CHANNEL_H

#include "redis/owner.h"
#include "redis/node.h"

typedef struct plock_channel {
    enum {
        PLOCK__CHANNEL_CLOSED,
        PLOCK__CHANNEL_CONNECTING,
        PLOCK__CHANNEL_SUBSCRIBING,
        PLOCK__CHANNEL_OPEN
    } state;
    plock_connection *connection;
    plock_ns deadline;
    /* The id is random, because any client that knows it can wake this process. On a cluster, a
     * hash tag such as "{7}" follows, for a slot that the channel's node serves. */
    char name[PLOCK__CHANNEL_MAX];
    size_t tag_length;   /* 0: the name has no tag */
    unsigned tag;        /* the number in the tag */
    bool tag_lost;       /* the slot has moved to another node */
    unsigned unanswered; /* requests to subscribe with the tag that have no answer yet */
} plock_channel;

typedef struct plock_message {
    /* '=': the waiter with this value has its turn; '+': the same for a lock with several holders;
     * '~': the waiter with this value must ask the server again in `ms`; '!': the lease with this
     * value was broken */
    char kind;
    bool sharded; /* sent with SPUBLISH, so no other channel receives this message */
    unsigned ms;
    plock_text value, key; /* valid until the next step */
} plock_message;

/* Returns the name that records contain: the id and the tag. */
static inline plock_text plock__channel_text(const plock_channel *channel) {
    return plock__text(channel->name, PLOCK__CHANNEL_LENGTH + channel->tag_length);
}

/* Gives the channel a fresh id. Returns PLOCK_OK or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__channel_name(plock_channel *channel);

/* Connects and subscribes if the channel is closed. Returns PLOCK_OK and a message, whose kind is 0
 * if the subscription has just been confirmed. After PLOCK_OK the caller calls again at once, with
 * `reads` false. So one read is enough for all messages that have arrived. Otherwise returns
 * PLOCK_AGAIN and the interest, or the failure that has closed the channel. */
PLOCK_MUST_USE plock_status plock__channel_step(plock_channel *channel, plock_node *node,
                                                bool reads, plock_message *message,
                                                plock_interest *interest, plock_error *error);

/* If the channel is open and has a tag, also subscribes to the name with the tag. Only this node
 * handles a message that is sent to that name with SPUBLISH, so the scripts try SPUBLISH first
 * (parts/cluster.lua). All nodes of the cluster have to handle a PUBLISH. If the server refuses the
 * subscription, this process still receives what is sent with PUBLISH. */
void plock__channel_use_tag(plock_channel *channel);

void plock__channel_close(plock_channel *channel, plock_node *node);

#endif
