#include "net/command.h"

#include "base/memory.h"

#include <hiredis/hiredis.h>
#include <string.h>

static void clear(plock_command *command) {
    if (command->bytes) {
        plock__wipe(command->bytes, command->length);
        redisFreeCommand(command->bytes);
    }
    *command = (plock_command){0};
}

static bool fits(const plock_command *command, unsigned count, const plock_text *words) {
    if (command->count != count) return false;
    for (unsigned i = 0; i < count; i++)
        if (command->lengths[i] != words[i].length) return false;
    return true;
}

/* A command is "*COUNT\r\n", and then for each word "$LENGTH\r\n", the word and "\r\n"
 * (https://redis.io/docs/latest/develop/reference/protocol-spec). */
static void find_places(plock_command *command) {
    const char *at = strchr(command->bytes, '\n') + 1;
    for (unsigned i = 0; i < command->count; i++) {
        at = strchr(at, '\n') + 1;
        command->places[i] = (size_t)(at - command->bytes);
        at += command->lengths[i] + 2;
    }
}

static plock_status format(plock_command *command, unsigned count, const plock_text *words) {
    const char *arguments[PLOCK__LIST_MAX];
    size_t lengths[PLOCK__LIST_MAX];
    clear(command);
    for (unsigned i = 0; i < count; i++) {
        arguments[i] = words[i].bytes;
        lengths[i] = words[i].length;
    }
    const long long length =
        redisFormatCommandArgv(&command->bytes, (int)count, arguments, lengths);
    if (length < 0) {
        command->bytes = NULL;
        return PLOCK_NO_MEMORY;
    }
    command->length = (size_t)length;
    if (count > PLOCK__SHAPE_MAX) return PLOCK_OK;
    command->count = count;
    memcpy(command->lengths, lengths, count * sizeof *lengths);
    find_places(command);
    return PLOCK_OK;
}

static plock_command *of_this_shape(plock_commands *commands, unsigned count,
                                    const plock_text *words) {
    for (unsigned i = 0; i < PLOCK__SHAPES; i++)
        if (fits(&commands->shapes[i], count, words)) return &commands->shapes[i];
    return NULL;
}

plock_status plock__command_write(plock_commands *commands, unsigned count, const plock_text *words,
                                  plock_text *text) {
    plock_command *command = of_this_shape(commands, count, words);
    if (command) {
        for (unsigned i = 0; i < count; i++)
            memcpy(command->bytes + command->places[i], words[i].bytes, words[i].length);
    } else {
        const bool large = count > PLOCK__SHAPE_MAX;
        if (!large) commands->newest = (commands->newest + 1) % PLOCK__SHAPES;
        command = large ? &commands->large : &commands->shapes[commands->newest];
        const plock_status status = format(command, count, words);
        if (status) return status;
    }
    *text = plock__text(command->bytes, command->length);
    return PLOCK_OK;
}

void plock__commands_clear(plock_commands *commands) {
    for (unsigned i = 0; i < PLOCK__SHAPES; i++) clear(&commands->shapes[i]);
    clear(&commands->large);
}
