#include "redis/script.h"

#include "plock_scripts.inc"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRIPT(id, name) [id] = {plock_script_##name, sizeof plock_script_##name - 1, {0}}
static plock_script scripts[PLOCK__SCRIPTS] = {
    SCRIPT(PLOCK__ACQUIRE, acquire),
    SCRIPT(PLOCK__RELEASE, release),
    SCRIPT(PLOCK__EXTEND, extend),
    SCRIPT(PLOCK__ADOPT, adopt),
    SCRIPT(PLOCK__LEAVE, leave),
    SCRIPT(PLOCK__UNDO, undo),
    SCRIPT(PLOCK__BREAK, break),
    SCRIPT(PLOCK__CHECK, check),
    SCRIPT(PLOCK__STATUS, status),
    SCRIPT(PLOCK__SCAN, scan),
    SCRIPT(PLOCK__NOTE, note),
    SCRIPT(PLOCK__ACQUIRE_ALL, acquire_all),
    SCRIPT(PLOCK__RELEASE_ALL, release_all),
    SCRIPT(PLOCK__SHARED_ACQUIRE, shared_acquire),
    SCRIPT(PLOCK__SHARED_RELEASE, shared_release),
    SCRIPT(PLOCK__SHARED_EXTEND, shared_extend),
    SCRIPT(PLOCK__SHARED_ADOPT, shared_adopt),
    SCRIPT(PLOCK__SHARED_LEAVE, shared_leave),
    SCRIPT(PLOCK__SHARED_DOWNGRADE, shared_downgrade),
    SCRIPT(PLOCK__SHARED_BREAK, shared_break),
    SCRIPT(PLOCK__SHARED_STATUS, shared_status),
};
#undef SCRIPT
static bool named;

/* Redis names a script by the SHA-1 of its text (https://redis.io/commands/evalsha). Security does
 * not depend on this SHA-1. */
static void name(void) {
    static const char DIGITS[] = "0123456789abcdef";
    named = true;
    for (int i = 0; i < PLOCK__SCRIPTS; i++) {
        unsigned char digest[EVP_MAX_MD_SIZE];
        if (EVP_Digest(scripts[i].text, scripts[i].length, digest, NULL, EVP_sha1(), NULL) != 1)
            named = false;
        for (int at = 0; at < PLOCK__SHA1_HEX; at++)
            scripts[i].sha1[at] = DIGITS[at % 2 ? digest[at / 2] & 15 : digest[at / 2] >> 4];
    }
    OPENSSL_thread_stop(); /* transport_tls.c says why */
}

const plock_script *plock__script(plock_script_id id) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, name);
    return named ? &scripts[id] : NULL;
}

static const char *line_of(const plock_script *script, long number) {
    const char *at = script->text;
    while (at && --number > 0) at = (at = strchr(at, '\n')) ? at + 1 : NULL;
    return at;
}

/* Is the word one of those that commas separate? */
static bool lists(const char *words, const char *word, size_t length) {
    for (const char *at = words; (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ',' || !at[length])) return true;
    return false;
}

void plock__script_commands(const plock_script *script, const char *failure,
                            char commands[PLOCK__COMMANDS_MAX]) {
    static const char PLACE[] = "user_script:", CALL[] = "call('";
    const char *place = strstr(failure, PLACE),
               *line = place ? line_of(script, strtol(place + sizeof PLACE - 1, NULL, 10)) : NULL;
    const char *end = line ? strchr(line, '\n') : NULL;
    size_t length = 0;
    commands[0] = 0;
    for (const char *at = line; at && (at = strstr(at, CALL)) && end && at < end;) {
        at += sizeof CALL - 1;
        const size_t word = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (length + word + 3 > PLOCK__COMMANDS_MAX) return;
        char name[PLOCK__COMMANDS_MAX];
        memcpy(name, at, word);
        name[word] = 0;
        if (lists(commands, name, word)) continue;
        length += (size_t)snprintf(commands + length, PLOCK__COMMANDS_MAX - length, "%s%s",
                                   length ? ", " : "", name);
    }
}
