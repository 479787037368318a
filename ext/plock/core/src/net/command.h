/* Commands in the form of the protocol, made by the formatter of hiredis. Commands with the same
 * number of words, of the same lengths, have one shape, and differ only in the bytes of the words.
 * So the formatter is called only for a new shape. */
#ifndef PLOCK__COMMAND_H
#define PLOCK__COMMAND_H

#include "base/text.h"
#include "plock/status.h"

enum {
    PLOCK__WORDS_MAX = 11, /* words of a command about one key */
    PLOCK__LIST_MAX = 200, /* words of a command about several keys */
    PLOCK__SHAPE_MAX = 36, /* words in a shape (about ten keys); longer commands have none */
    PLOCK__SHAPES = 6 /* the commands that alternate on a connection: acquire, acquire of a waiter,
                       * release, leave, and those for several keys */
};

typedef struct plock_command {
    char *bytes;
    size_t length;
    unsigned count;
    size_t lengths[PLOCK__SHAPE_MAX], places[PLOCK__SHAPE_MAX]; /* of each word, in bytes */
} plock_command;

typedef struct plock_commands {
    plock_command shapes[PLOCK__SHAPES];
    unsigned newest;
    plock_command large; /* the last command with more words than a shape has */
} plock_commands;

/* Takes at most PLOCK__LIST_MAX words. Returns PLOCK_OK, with *command valid until the next call,
 * or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__command_write(plock_commands *commands, unsigned count,
                                                 const plock_text *words, plock_text *command);

/* Wipes and frees the commands; AUTH is one of them. */
void plock__commands_clear(plock_commands *commands);

#endif
