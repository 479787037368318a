/* Commands in the form of the protocol, as hiredis' formatter makes them. It is asked only for a
 * new shape: a command of as many words, each as long as an earlier one's, differs from that in the
 * words alone. */
#ifndef PLOCK__COMMAND_H
#define PLOCK__COMMAND_H

#include "base/text.h"
#include "plock/status.h"

enum {
    PLOCK__WORDS_MAX = 11, /* about one key */
    PLOCK__LIST_MAX = 336, /* about several */
    PLOCK__SHAPE_MAX = 54, /* words: about ten keys; each larger command is formatted anew */
    PLOCK__SHAPES = 6 /* what goes to and fro on a connection: acquire, the same of one who waits,
                         release, leave; of several, too */
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
    plock_command large; /* the last that was of more words than a shape has */
} plock_commands;

/* At most PLOCK__LIST_MAX words. PLOCK_OK: *command is good until the next is written. Else
 * PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__command_write(plock_commands *commands, unsigned count,
                                                 const plock_text *words, plock_text *command);

/* Frees them, and wipes them first: AUTH is a command, too. */
void plock__commands_clear(plock_commands *commands);

#endif
