/* Finds a struct by the address of one of its members. */
#ifndef PLOCK__CONTAINER_H
#define PLOCK__CONTAINER_H

#include <stddef.h>

#define PLOCK__CONTAINER(type, member, pointer)                                                    \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
