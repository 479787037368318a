/* Functions that prepare and close descriptors. */
#ifndef PLOCK__DESCRIPTOR_H
#define PLOCK__DESCRIPTOR_H

#include <fcntl.h>
#include <unistd.h>

/* Makes the descriptor non-blocking, and makes exec(2) close it. Returns 0, or -1 with errno. */
static inline int plock__prepare_descriptor(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return -1;
    return fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -1 : 0;
}

/* Closes the descriptor if it is open, and sets it to -1. */
static inline void plock__close_descriptor(int *fd) {
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

#endif
