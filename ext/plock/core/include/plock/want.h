/* What an operation that is not finished waits for. */
#ifndef PLOCK_WANT_H
#define PLOCK_WANT_H

#include "plock/clock.h"

typedef struct plock_want {
    int fd;         /* -1: no descriptor, only the deadline */
    short events;   /* POLLIN or POLLOUT */
    plock_ns deadline;
} plock_want;

#endif
