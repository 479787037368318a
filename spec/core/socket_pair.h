/* plock's TCP transport, connected to a peer that the test plays. */
#ifndef SOCKET_PAIR_H
#define SOCKET_PAIR_H

#include "net/transport.h"

typedef struct socket_pair {
    int listener, peer; /* peer is -1 after the test has closed it */
    plock_config *config;
    plock_resolver resolver;
    plock_transport *transport;
    plock_interest interest;
    plock_error error;
} socket_pair;

void socket_pair_begin(socket_pair *pair);

/* Frees the pair, and checks that no memory is left. */
void socket_pair_end(socket_pair *pair);

#endif
