/* The Lua scripts: embedded when the engine is built (from core/scripts), called by their SHA-1. */
#ifndef PLOCK__SCRIPT_H
#define PLOCK__SCRIPT_H

#include "plock/status.h"

#include <stddef.h>

typedef enum plock_script_id { PLOCK__ACQUIRE, PLOCK__RELEASE, PLOCK__EXTEND, PLOCK__UNDO, PLOCK__SCRIPTS } plock_script_id;

enum { PLOCK__SHA1_HEX = 40 };

typedef struct plock_script {
    const char *text;
    size_t length;
    char sha1[PLOCK__SHA1_HEX];
} plock_script;

/* NULL where OpenSSL cannot do SHA-1. */
const plock_script *plock__script(plock_script_id id);

#endif
