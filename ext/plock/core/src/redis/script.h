/* The Lua scripts, which the build embeds from core/scripts. A call names its script by SHA-1. If
 * the Redis user may only call functions (Redis 7), the call names a function whose body is the
 * script. */
#ifndef PLOCK__SCRIPT_H
#define PLOCK__SCRIPT_H

#include "base/text.h"
#include "plock/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum plock_script_id {
    PLOCK__ACQUIRE,
    PLOCK__RELEASE,
    PLOCK__EXTEND,
    PLOCK__ADOPT,
    PLOCK__LEAVE,
    PLOCK__UNDO,
    PLOCK__BREAK,
    PLOCK__CHECK,
    PLOCK__STATUS,
    PLOCK__SCAN,
    PLOCK__NOTE,
    PLOCK__ACQUIRE_ALL, /* these two are for several locks at once */
    PLOCK__RELEASE_ALL,
    PLOCK__SHARED_ACQUIRE, /* from here on: for locks that can have several holders */
    PLOCK__SHARED_RELEASE,
    PLOCK__SHARED_EXTEND,
    PLOCK__SHARED_ADOPT,
    PLOCK__SHARED_LEAVE,
    PLOCK__SHARED_DOWNGRADE,
    PLOCK__SHARED_BREAK,
    PLOCK__SHARED_STATUS,
    PLOCK__SCRIPTS
} plock_script_id;

_Static_assert((int)PLOCK__SCRIPTS <= 32, "a number has a bit for each script");

enum { PLOCK__SHA1_HEX = 40, PLOCK__FUNCTION_MAX = 40 };

typedef struct plock_script {
    const char *text;
    size_t length;
    char sha1[PLOCK__SHA1_HEX];
    char function[PLOCK__FUNCTION_MAX]; /* the name of the Redis function that runs this script */
} plock_script;

/* The server's message about a missing permission names the line of the script ("@user_script:12"),
 * but not the command that the user may not run. Writes the commands of that line to `commands`,
 * separated by commas, or "" if the message names no line. */
enum { PLOCK__COMMANDS_MAX = 48 };
void plock__script_commands(const plock_script *script, const char *failure,
                            char commands[PLOCK__COMMANDS_MAX]);

/* Returns NULL if OpenSSL does not support SHA-1. `clustered`: for a Redis Cluster. */
const plock_script *plock__script(plock_script_id id, bool clustered);

/* The library of all functions, for FUNCTION LOAD. Empty if plock__script returns NULL. */
plock_text plock__script_library(bool clustered);

#endif
