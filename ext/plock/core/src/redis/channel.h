/* The channel on which a store tells this process that a lock is its turn: one connection that is
 * subscribed. It belongs to the native thread. */
#ifndef PLOCK__CHANNEL_H
#define PLOCK__CHANNEL_H

#include "redis/owner.h"
#include "redis/store.h"

typedef struct plock_channel {
    enum {
        PLOCK__CHANNEL_CLOSED,
        PLOCK__CHANNEL_CONNECTING,
        PLOCK__CHANNEL_SUBSCRIBING,
        PLOCK__CHANNEL_OPEN
    } state;
    plock_connection *connection;
    plock_ns deadline;
    char id[PLOCK__CHANNEL_LENGTH]; /* random: who knows it can wake us */
} plock_channel;

typedef struct plock_message {
    /* '=': your turn; '+': the same where the lock has several holders; '~': look again in so many
     * ms; '!': the lease was broken */
    char kind;
    unsigned ms;
    plock_text value, key; /* good until the next step */
} plock_message;

/* PLOCK_OK or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__channel_name(plock_channel *channel);

/* Connects and subscribes where it is closed. PLOCK_OK: *message is one, or has kind 0 when the
 * subscription has just been confirmed; call again at once, without `reads`: so a message costs one
 * read. PLOCK_AGAIN with interest. Else the failure: it is closed. */
PLOCK_MUST_USE plock_status plock__channel_step(plock_channel *channel, plock_store *store,
                                                bool reads, plock_message *message,
                                                plock_interest *interest, plock_error *error);

void plock__channel_close(plock_channel *channel, plock_store *store);

#endif
