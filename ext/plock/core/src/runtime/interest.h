/* Sets what an unfinished operation waits for. */
#ifndef PLOCK__INTEREST_H
#define PLOCK__INTEREST_H

#include "plock/interest.h"

#include <stddef.h>

/* Waits for events of a descriptor, and not for those of another one that was set before. */
static inline void plock__interest_set(plock_interest *interest, int fd, short events) {
    interest->fd = fd;
    interest->events = events;
    interest->read_ahead = NULL;
}

#endif
