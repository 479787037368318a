/* Real sockets on this machine, for the tests of the transports: listeners, and accepted
 * connections. */
#ifndef LOOPBACK_H
#define LOOPBACK_H

#include <stdbool.h>

enum { LOOPBACK_PORT_ROOM = 6 };

/* A listener on a free port of this address ("127.0.0.1", "::1"). Writes the port to port. -1 if
 * the machine has no such address. */
int loopback_listen(const char *address, int backlog, char port[LOOPBACK_PORT_ROOM]);
int loopback_listen_unix(const char *path, int backlog);

/* A port without a listener. */
void loopback_free_port(char port[LOOPBACK_PORT_ROOM]);

/* The next connection, blocking or not; waits for it. -1 after 10 s. */
int loopback_accept(int listener, bool blocking);

/* Closes with a reset instead of an end. */
void loopback_reset(int fd);

/* Returns true if the descriptor has something to read, or its end, within 10 s. */
bool loopback_readable(int fd);

#endif
