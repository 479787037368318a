/* From a member of a struct to the struct. */
#ifndef PLOCK__CONTAINER_H
#define PLOCK__CONTAINER_H

#include <stddef.h>

#define PLOCK__CONTAINER(type, member, pointer)                                                    \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
