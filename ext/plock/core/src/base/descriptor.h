/* Descriptors that never block and that exec(2) closes. */
#ifndef PLOCK__DESCRIPTOR_H
#define PLOCK__DESCRIPTOR_H

#include <fcntl.h>

/* Returns 0, or -1 with errno. */
static inline int plock__prepare_descriptor(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return -1;
    return fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -1 : 0;
}

#endif
