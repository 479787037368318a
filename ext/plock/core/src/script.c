#include "script.h"

#include "plock_scripts.inc"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdbool.h>

static plock_script scripts[PLOCK__SCRIPTS] = {
    [PLOCK__ACQUIRE] = {plock_script_acquire, sizeof plock_script_acquire - 1, {0}},
    [PLOCK__RELEASE] = {plock_script_release, sizeof plock_script_release - 1, {0}},
    [PLOCK__EXTEND] = {plock_script_extend, sizeof plock_script_extend - 1, {0}},
    [PLOCK__UNDO] = {plock_script_undo, sizeof plock_script_undo - 1, {0}},
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
    ERR_clear_error();
}

const plock_script *plock__script(plock_script_id id) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, name);
    return named ? &scripts[id] : NULL;
}
