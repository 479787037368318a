/* Real sockets on this machine, for the tests of the transports: listeners, and accepted
 * connections. */
#ifndef LOOPBACK_H
#define LOOPBACK_H

#include <stdbool.h>

enum { LOOPBACK_PORT_ROOM = 6 };

/* Listens on a free port of this address ("127.0.0.1", "::1"), and stores the port in `port`.
 * Returns -1 if the machine has no such address. */
int loopback_listen(const char *address, int backlog, char port[LOOPBACK_PORT_ROOM]);
int loopback_listen_unix(const char *path, int backlog);

/* Finds a port on which no server listens. */
void loopback_free_port(char port[LOOPBACK_PORT_ROOM]);

/* Waits for the next connection, and returns its descriptor in blocking or non-blocking mode.
 * Returns -1 after 10 seconds. */
int loopback_accept(int listener, bool blocking);

/* Closes the connection with a reset. */
void loopback_reset(int fd);

/* Returns true if the descriptor has bytes to read, or has reached its end, within 10 s. */
bool loopback_readable(int fd);

#endif
