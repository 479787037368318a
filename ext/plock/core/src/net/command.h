/* Writes commands in the protocol of Redis, with the formatter of hiredis. Two commands have the
 * same shape if they have the same number of words, with the same lengths. They then differ only in
 * the bytes of the words, so the formatter is called only for a new shape. */
#ifndef PLOCK__COMMAND_H
#define PLOCK__COMMAND_H

#include "base/text.h"
#include "plock/status.h"

enum {
    PLOCK__WORDS_MAX = 11, /* the most words of a command about one key */
    PLOCK__LIST_MAX = 200, /* the most words of a command about several keys */
    /* shapes with at most this many words are remembered (about ten keys) */
    PLOCK__SHAPE_MAX = 36,
    /* remembered shapes: enough for the commands that alternate on a connection, which are acquire,
     * a waiter's acquire, release, leave, acquire_all and release_all */
    PLOCK__SHAPES = 6
};

typedef struct plock_command {
    char *bytes;
    size_t length;
    unsigned count;
    size_t lengths[PLOCK__SHAPE_MAX], places[PLOCK__SHAPE_MAX]; /* the length of each word, and its
                                                                 * place in `bytes` */
} plock_command;

typedef struct plock_commands {
    plock_command shapes[PLOCK__SHAPES];
    unsigned newest;
    plock_command large; /* the last command whose shape is too long to be remembered */
} plock_commands;

/* Writes a command of at most PLOCK__LIST_MAX words. Returns PLOCK_OK or PLOCK_NO_MEMORY. *command
 * is valid until the next call. */
PLOCK_MUST_USE plock_status plock__command_write(plock_commands *commands, unsigned count,
                                                 const plock_text *words, plock_text *command);

/* Wipes and frees the commands, because one of them may be AUTH with its password. */
void plock__commands_clear(plock_commands *commands);

#endif
