/* Commands in the form of the protocol, made by the formatter of hiredis. It is called only for a
 * new shape: a command with as many words, each as long as an earlier one's, differs from that
 * command in the words alone. */
#ifndef PLOCK__COMMAND_H
#define PLOCK__COMMAND_H

#include "base/text.h"
#include "plock/status.h"

enum {
    PLOCK__WORDS_MAX = 11, /* of a command about one key */
    PLOCK__LIST_MAX = 336, /* of a command about several keys */
    PLOCK__SHAPE_MAX = 54, /* words, for about ten keys; each larger command is formatted again */
    PLOCK__SHAPES = 6 /* the commands that alternate on a connection: acquire, acquire of a waiter,
                       * release, leave, and those for several keys */
};

typedef struct plock_command {
    char *bytes;
    size_t length;
    unsigned count;
    size_t lengths[PLOCK__SHAPE_MAX], places[PLOCK__SHAPE_MAX]; /* of the words, in bytes */
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
