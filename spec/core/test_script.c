/* The scripts inside the library are those in core/scripts. Their names are the SHA-1s that Redis
 * computes. */
#include "test.h"

#include "redis/script.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PLOCK_SCRIPTS /* the Makefile defines the folder */
#error "PLOCK_SCRIPTS must be the folder of the .lua files"
#endif

#define FILE_OF(id, name) [id] = #name ".lua"
static const char *const FILES[PLOCK__SCRIPTS] = {
    FILE_OF(PLOCK__ACQUIRE, acquire),
    FILE_OF(PLOCK__RELEASE, release),
    FILE_OF(PLOCK__EXTEND, extend),
    FILE_OF(PLOCK__ADOPT, adopt),
    FILE_OF(PLOCK__LEAVE, leave),
    FILE_OF(PLOCK__UNDO, undo),
    FILE_OF(PLOCK__BREAK, break),
    FILE_OF(PLOCK__CHECK, check),
    FILE_OF(PLOCK__STATUS, status),
    FILE_OF(PLOCK__SCAN, scan),
    FILE_OF(PLOCK__NOTE, note),
    FILE_OF(PLOCK__ACQUIRE_ALL, acquire_all),
    FILE_OF(PLOCK__RELEASE_ALL, release_all),
    FILE_OF(PLOCK__SHARED_ACQUIRE, shared_acquire),
    FILE_OF(PLOCK__SHARED_RELEASE, shared_release),
    FILE_OF(PLOCK__SHARED_EXTEND, shared_extend),
    FILE_OF(PLOCK__SHARED_ADOPT, shared_adopt),
    FILE_OF(PLOCK__SHARED_LEAVE, shared_leave),
    FILE_OF(PLOCK__SHARED_DOWNGRADE, shared_downgrade),
    FILE_OF(PLOCK__SHARED_BREAK, shared_break),
    FILE_OF(PLOCK__SHARED_STATUS, shared_status),
};
#undef FILE_OF

/* Reads a file as the build embeds it: without comment lines, indentation and blank lines. A line
 * `-- include NAME` is replaced with that file. */
static size_t read_stripped(const char *name, char *text, size_t room) {
    static const char INCLUDE[] = "-- include ";
    char path[1024], line[512];
    size_t length = 0;
    (void)snprintf(path, sizeof path, "%s/%s", PLOCK_SCRIPTS, name);
    FILE *file = fopen(path, "r");
    if (!CHECK(file != NULL)) return 0;
    while (fgets(line, sizeof line, file)) {
        const char *start = line + strspn(line, " \t");
        if (!strncmp(start, INCLUDE, sizeof INCLUDE - 1)) {
            char part[256];
            const char *named = start + sizeof INCLUDE - 1;
            const char *slash = strrchr(name, '/');
            (void)snprintf(part, sizeof part, "%.*s%.*s.lua", slash ? (int)(slash + 1 - name) : 0,
                           name, (int)strcspn(named, "\n"), named);
            length += read_stripped(part, text + length, room - length);
            continue;
        }
        if (*start == '\n' || !strncmp(start, "--", 2)) continue;
        const size_t more = strlen(start);
        if (!CHECK(length + more < room)) break;
        memcpy(text + length, start, more);
        length += more;
    }
    CHECK(fclose(file) == 0);
    return length;
}

static void each_script_is_the_file_without_its_comments(void) {
    char text[8192];
    for (int id = 0; id < PLOCK__SCRIPTS; id++) {
        const plock_script *script = plock__script((plock_script_id)id, false);
        const size_t length = read_stripped(FILES[id], text, sizeof text);
        CHECK(length > 0);
        CHECK_INT(script->length, length);
        CHECK(script->length == length && !memcmp(script->text, text, length));
        CHECK_INT(strlen(script->text), script->length);
    }
}

static void each_script_is_named_by_the_sha1_of_its_text(void) {
    for (int id = 0; id < PLOCK__SCRIPTS; id++) {
        const plock_script *script = plock__script((plock_script_id)id, false);
        unsigned char digest[EVP_MAX_MD_SIZE];
        char expected[2 * EVP_MAX_MD_SIZE + 1], actual[PLOCK__SHA1_HEX + 1] = "";
        unsigned length = 0;
        CHECK(EVP_Digest(script->text, script->length, digest, &length, EVP_sha1(), NULL) == 1);
        for (unsigned i = 0; i < length; i++)
            (void)snprintf(expected + 2 * i, 3, "%02x", digest[i]);
        memcpy(actual, script->sha1, PLOCK__SHA1_HEX);
        CHECK_TEXT(actual, expected);
        for (int other = 0; other < id; other++)
            CHECK(memcmp(script->sha1, plock__script((plock_script_id)other, false)->sha1,
                         PLOCK__SHA1_HEX) != 0);
    }
}

static void *get_script(void *argument) {
    *(const plock_script **)argument = plock__script(PLOCK__ACQUIRE, false);
    return NULL;
}

static void all_threads_see_the_same_script(void) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    const plock_script *seen[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, get_script, (void *)&seen[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0 &&
              seen[i] == plock__script(PLOCK__ACQUIRE, false));
}

/* --- the embedding itself --- */

static char folder[] = "/tmp/plock-script-XXXXXX";

static void put(const char *name, const char *text) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* Embeds one file. Writes awk's output and messages to output. Returns true if awk succeeded. */
static bool embed(const char *name, char *output, size_t room) {
    char command[2048];
    (void)snprintf(command, sizeof command, "${AWK:-awk} -f '%s/embed.awk' '%s/%s' 2>&1",
                   PLOCK_SCRIPTS, folder, name);
    FILE *pipe = popen(command, "r");
    if (!CHECK(pipe != NULL)) return false;
    output[fread(output, 1, room - 1, pipe)] = 0;
    return pclose(pipe) == 0;
}

static void quotes_and_backslashes_survive(void) {
    char output[4096];
    put("q.lua", "-- a comment\n\n  return \"a\\n?\?=\" -- kept\n");
    CHECK(embed("q.lua", output, sizeof output));
    CHECK_HAS(output, "static const char plock_script_q[] =\n  \"return \\\"a\\\\n\\?\\?=\\\" -- "
                      "kept\\n\"\n  ;\n");
}

static void one_script_can_include_another(void) {
    char output[4096];
    put("inner.lua", "local x = 1\n");
    put("outer.lua", "-- include inner\nreturn x\n");
    CHECK(embed("outer.lua", output, sizeof output));
    CHECK_HAS(output, "\"local x = 1\\n\"\n  \"return x\\n\"\n");
}

static void what_cannot_be_embedded_is_refused_by_name(void) {
    char output[4096];
    put("Bad-name.lua", "return 1\n");
    put("long.lua", "return [[\n  indented\n]]\n");
    put("circle.lua", "-- include circle\n");
    CHECK(!embed("Bad-name.lua", output, sizeof output));
    CHECK_HAS(output, "Bad-name.lua: a script's name must be");
    CHECK(!embed("long.lua", output, sizeof output));
    CHECK_HAS(output, "long.lua: long brackets");
    CHECK(!embed("circle.lua", output, sizeof output));
    CHECK_HAS(output, "includes itself");
    CHECK(!embed("absent.lua", output, sizeof output));
    CHECK_HAS(output, "absent.lua: cannot be read");
}

static void each_command_of_a_line_is_named_once(void) {
    char commands[PLOCK__COMMANDS_MAX];
    const plock_script script = {
        .text =
            "local x\nreturn call('HGET', x), call('GET', x), call('GET', y), call('HGET', y)\n"};
    plock__script_commands(&script, "NOPERM … script: 5f8e, on @user_script:2.", commands);
    CHECK(!strcmp(commands, "HGET, GET"));
}

static void remove_folder(void) {
    static const char *const NAMES[] = {"q.lua",        "inner.lua", "outer.lua",
                                        "Bad-name.lua", "long.lua",  "circle.lua"};
    char path[256];
    for (unsigned i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, NAMES[i]);
        (void)unlink(path);
    }
    CHECK(rmdir(folder) == 0);
}

int main(void) {
    RUN(each_script_is_the_file_without_its_comments);
    RUN(each_script_is_named_by_the_sha1_of_its_text);
    RUN(all_threads_see_the_same_script);
    RUN(each_command_of_a_line_is_named_once);
    if (!CHECK(mkdtemp(folder) != NULL)) return test_end("script");
    RUN(quotes_and_backslashes_survive);
    RUN(one_script_can_include_another);
    RUN(what_cannot_be_embedded_is_refused_by_name);
    remove_folder();
    return test_end("script");
}
