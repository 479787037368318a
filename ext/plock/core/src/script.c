#include "script.h"

#include "plock_scripts.inc"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static plock_script scripts[PLOCK__SCRIPTS] = {
    [PLOCK__ACQUIRE] = {plock_script_acquire, sizeof plock_script_acquire - 1, {0}},
    [PLOCK__RELEASE] = {plock_script_release, sizeof plock_script_release - 1, {0}},
    [PLOCK__EXTEND] = {plock_script_extend, sizeof plock_script_extend - 1, {0}},
    [PLOCK__LEAVE] = {plock_script_leave, sizeof plock_script_leave - 1, {0}},
    [PLOCK__UNDO] = {plock_script_undo, sizeof plock_script_undo - 1, {0}},
    [PLOCK__BREAK] = {plock_script_break, sizeof plock_script_break - 1, {0}},
    [PLOCK__CHECK] = {plock_script_check, sizeof plock_script_check - 1, {0}},
    [PLOCK__STATUS] = {plock_script_status, sizeof plock_script_status - 1, {0}},
    [PLOCK__SCAN] = {plock_script_scan, sizeof plock_script_scan - 1, {0}},
};
static bool named;

/* Redis names a script by the SHA-1 of its text (https://redis.io/commands/evalsha); nothing depends on its strength. */
static void name(void) {
    static const char DIGITS[] = "0123456789abcdef";
    named = true;
    for (int i = 0; i < PLOCK__SCRIPTS; i++) {
        unsigned char digest[EVP_MAX_MD_SIZE];
        if (EVP_Digest(scripts[i].text, scripts[i].length, digest, NULL, EVP_sha1(), NULL) != 1) named = false;
        for (int at = 0; at < PLOCK__SHA1_HEX; at++) scripts[i].sha1[at] = DIGITS[at % 2 ? digest[at / 2] & 15 : digest[at / 2] >> 4];
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

void plock__script_commands(const plock_script *script, const char *failure, char commands[PLOCK__COMMANDS_MAX]) {
    static const char PLACE[] = "user_script:", CALL[] = "call('";
    const char *place = strstr(failure, PLACE), *line = place ? line_of(script, strtol(place + sizeof PLACE - 1, NULL, 10)) : NULL;
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
        if (strstr(commands, name)) continue;
        length += (size_t)snprintf(commands + length, PLOCK__COMMANDS_MAX - length, "%s%s", length ? ", " : "", name);
    }
}
