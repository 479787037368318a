/* Sets the event that an unfinished operation waits for. */
#ifndef PLOCK__INTEREST_H
#define PLOCK__INTEREST_H

#include "plock/interest.h"

#include <stddef.h>

/* Makes the interest wait for events of this descriptor. Clears `read_ahead`, which may belong to
 * another descriptor. */
static inline void plock__interest_set(plock_interest *interest, int fd, short events) {
    interest->fd = fd;
    interest->events = events;
    interest->read_ahead = NULL;
}

#endif
