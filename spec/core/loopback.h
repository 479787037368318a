/* Real sockets on this machine, for the tests of the transports: listeners, and what they accept.
 */
#ifndef LOOPBACK_H
#define LOOPBACK_H

#include <stdbool.h>

enum { LOOPBACK_PORT_ROOM = 6 };

/* A listener on a free port of this address ("127.0.0.1", "::1"), which is written to port; -1
 * where the machine has no such address. */
int loopback_listen(const char *address, int backlog, char port[LOOPBACK_PORT_ROOM]);
int loopback_listen_unix(const char *path, int backlog);

/* A port on which nobody listens. */
void loopback_free_port(char port[LOOPBACK_PORT_ROOM]);

/* The next connection, blocking or not; waits for it. -1 after 10 s. */
int loopback_accept(int listener, bool blocking);

/* Closes so that the other side gets a reset instead of an end. */
void loopback_reset(int fd);

/* Has this descriptor something to read, or its end, within 10 s? */
bool loopback_readable(int fd);

#endif
