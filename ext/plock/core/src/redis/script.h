/* The Lua scripts, which the build embeds from core/scripts. A call names its script by SHA-1. If
 * the Redis user may only call functions (Redis 7), the call names a function whose body is the
 * script. */
#ifndef PLOCK__SCRIPT_H
#define PLOCK__SCRIPT_H

#include "base/text.h"
#include "plock/status.h"

#include <stdbool.h>
#include <stddef.h>

/* The scripts: X(id, name of the file, when the function may run). ACQUIRE_ALL and RELEASE_ALL are
 * for several locks at once, and those that begin with SHARED for locks that can have several
 * holders. */
#define PLOCK__SCRIPT_LIST(X)                                                                      \
    X(ACQUIRE, acquire, NEEDS_MEMORY)                                                              \
    X(RELEASE, release, ALWAYS)                                                                    \
    X(EXTEND, extend, ALWAYS)                                                                      \
    X(ADOPT, adopt, NEEDS_MEMORY)                                                                  \
    X(LEAVE, leave, ALWAYS)                                                                        \
    X(UNDO, undo, ALWAYS)                                                                          \
    X(BREAK, break, ALWAYS)                                                                        \
    X(CHECK, check, ALWAYS)                                                                        \
    X(STATUS, status, ALWAYS)                                                                      \
    X(SCAN, scan, ALWAYS)                                                                          \
    X(NOTE, note, NEEDS_MEMORY)                                                                    \
    X(ACQUIRE_ALL, acquire_all, NEEDS_MEMORY)                                                      \
    X(RELEASE_ALL, release_all, ALWAYS)                                                            \
    X(SHARED_ACQUIRE, shared_acquire, NEEDS_MEMORY)                                                \
    X(SHARED_RELEASE, shared_release, ALWAYS)                                                      \
    X(SHARED_EXTEND, shared_extend, ALWAYS)                                                        \
    X(SHARED_ADOPT, shared_adopt, NEEDS_MEMORY)                                                    \
    X(SHARED_LEAVE, shared_leave, ALWAYS)                                                          \
    X(SHARED_DOWNGRADE, shared_downgrade, ALWAYS)                                                  \
    X(SHARED_BREAK, shared_break, ALWAYS)                                                          \
    X(SHARED_STATUS, shared_status, ALWAYS)

#define X(id, name, flags) PLOCK__##id,
typedef enum plock_script_id { PLOCK__SCRIPT_LIST(X) PLOCK__SCRIPTS } plock_script_id;
#undef X

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
