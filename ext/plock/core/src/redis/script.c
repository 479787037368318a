#include "redis/script.h"

#include "plock_scripts.inc"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* When Redis runs out of memory, it refuses functions without `allow-oom`. In that state a grant
 * may fail, but a release must not. `allow-cross-slot-keys` lets a function SPUBLISH to a channel
 * in another slot of the same node (parts/cluster.lua). A script may do so without this flag. */
#define ALWAYS       ",flags={'allow-oom','allow-cross-slot-keys'}"
#define NEEDS_MEMORY ",flags={'allow-cross-slot-keys'}"

/* each script has one text for a single server, and one for a cluster */
static plock_script scripts[2][PLOCK__SCRIPTS] = {
#define X(id, name, flags)                                                                         \
    [PLOCK__##id] = {.text = plock_script_##name, .length = sizeof plock_script_##name - 1},
    {PLOCK__SCRIPT_LIST(X)},
#undef X
#define X(id, name, flags)                                                                         \
    [PLOCK__##id] = {.text = plock_cluster_script_##name,                                          \
                     .length = sizeof plock_cluster_script_##name - 1},
    {PLOCK__SCRIPT_LIST(X)}
#undef X
};

/* A library of functions: its first line, and each script as the body of a function. The scripts
 * for a cluster are the longer ones, so the room is computed from their sizes. */
enum { FRAME = 200 }; /* bytes around each script */
typedef struct library_room {
    char first_line[FRAME];
#define X(id, name, flags) char name##_function[sizeof plock_cluster_script_##name + FRAME];
    PLOCK__SCRIPT_LIST(X)
#undef X
} library_room;
typedef struct library {
    char text[sizeof(library_room)];
    size_t length;
} library;
static library libraries[2];

static bool named;

static bool digest(const char *text, size_t length, char hex[PLOCK__SHA1_HEX]) {
    unsigned char bytes[EVP_MAX_MD_SIZE] = {0};
    const bool done = EVP_Digest(text, length, bytes, NULL, EVP_sha1(), NULL) == 1;
    plock__write_hex(bytes, PLOCK__SHA1_HEX / 2, hex);
    return done;
}

static void add(library *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int added =
        vsnprintf(to->text + to->length, sizeof to->text - to->length, format, arguments);
    va_end(arguments);
    to->length += (size_t)added;
}

/* Each name contains a part of the digest of all scripts, so the libraries of two versions of plock
 * can be on one server. */
static bool write_library(plock_script *all, library *to) {
    static const struct {
        const char *name, *flags;
    } FUNCTIONS[] = {
#define X(id, name, flags) [PLOCK__##id] = {#name, flags},
        PLOCK__SCRIPT_LIST(X)
#undef X
    };
    char version[PLOCK__SHA1_HEX * PLOCK__SCRIPTS], hex[PLOCK__SHA1_HEX];
    for (int i = 0; i < PLOCK__SCRIPTS; i++)
        memcpy(version + (size_t)i * PLOCK__SHA1_HEX, all[i].sha1, PLOCK__SHA1_HEX);
    if (!digest(version, sizeof version, hex)) return false;
    add(to, "#!lua name=plock_%.8s\n", hex);
    for (int i = 0; i < PLOCK__SCRIPTS; i++) {
        (void)snprintf(all[i].function, sizeof all[i].function, "plock_%.8s_%s", hex,
                       FUNCTIONS[i].name);
        add(to,
            "redis.register_function{function_name='%s',callback=function(KEYS,ARGV)\n%send%s}\n",
            all[i].function, all[i].text, FUNCTIONS[i].flags);
    }
    return true;
}

/* Redis names a script by the SHA-1 of its text (https://redis.io/commands/evalsha). Security does
 * not depend on this SHA-1. */
static bool name_all(plock_script *all, library *to) {
    for (int i = 0; i < PLOCK__SCRIPTS; i++)
        if (!digest(all[i].text, all[i].length, all[i].sha1)) return false;
    return write_library(all, to);
}

static void name(void) {
    named =
        name_all(scripts[false], &libraries[false]) && name_all(scripts[true], &libraries[true]);
    OPENSSL_thread_stop(); /* transport_tls.c says why */
}

const plock_script *plock__script(plock_script_id id, bool clustered) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, name);
    return named ? &scripts[clustered][id] : NULL;
}

plock_text plock__script_library(bool clustered) {
    const library *whole = &libraries[clustered];
    return plock__script(PLOCK__ACQUIRE, clustered) ? plock__text(whole->text, whole->length)
                                                    : plock__text(NULL, 0);
}

static const char *line_of(const plock_script *script, long number) {
    const char *at = script->text;
    while (at && --number > 0) at = (at = strchr(at, '\n')) ? at + 1 : NULL;
    return at;
}

/* Is the word in the comma-separated list? */
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
