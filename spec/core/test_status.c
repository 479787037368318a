/* The list of statuses: their names, their texts, and the three functions that classify them. */
#include "test.h"

#include "base/failure.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define X(name, kind, another_try, carried_out, connection, text) PLOCK_##name,
static const plock_status ALL[] = {PLOCK_STATUSES(X)};
#undef X
enum { COUNT = sizeof ALL / sizeof *ALL };
static const plock_status NO_SUCH_STATUS = (plock_status)COUNT;

static void every_status_has_a_name_of_its_own_and_a_text(void) {
    char names[COUNT][32];
    for (unsigned i = 0; i < COUNT; i++) {
        strncpy(names[i], plock_status_name(ALL[i]), sizeof names[i] - 1);
        names[i][sizeof names[i] - 1] = 0;
        CHECK(*names[i]);
        for (const char *c = names[i]; *c; c++) CHECK(islower((unsigned char)*c) || *c == '_');
        for (unsigned j = 0; j < i; j++) CHECK(strcmp(names[i], names[j]) != 0);
        CHECK(*plock_status_text(ALL[i]) && !strchr(plock_status_text(ALL[i]), '%'));
    }
}

static void names_that_callers_match_on_stay(void) {
    CHECK_TEXT(plock_status_name(PLOCK_OK), "ok");
    CHECK_TEXT(plock_status_name(PLOCK_REFUSED), "refused");
    CHECK_TEXT(plock_status_name(PLOCK_READONLY), "readonly");
    CHECK_TEXT(plock_status_name(PLOCK_WRONGPASS), "wrongpass");
    CHECK_TEXT(plock_status_name(PLOCK_TLS_VERIFY), "tls_verify");
    CHECK_TEXT(plock_status_name(PLOCK_CLUSTERDOWN), "clusterdown");
}

static void a_number_that_is_no_status_is_harmless(void) {
    CHECK_TEXT(plock_status_name(NO_SUCH_STATUS), "unknown");
    CHECK_TEXT(plock_status_text(NO_SUCH_STATUS), "unknown status");
    CHECK_INT(plock_status_kind(NO_SUCH_STATUS), PLOCK_KIND_MISUSE);
    CHECK(!plock_status_retries(NO_SUCH_STATUS));
    CHECK(!plock_status_keeps_connection(NO_SUCH_STATUS));
}

static void what_may_pass_by_itself_is_tried_again(void) {
    static const plock_status PASSES[] = {
        PLOCK_REFUSED,   PLOCK_RESOLVE,     PLOCK_CONNECT, PLOCK_DISCONNECTED, PLOCK_SILENT,
        PLOCK_SATURATED, PLOCK_DESCRIPTORS, PLOCK_LOADING, PLOCK_READONLY,     PLOCK_MASTERDOWN,
        PLOCK_OOM,       PLOCK_CLUSTERDOWN, PLOCK_BUSY,    PLOCK_FORKED};
    static const plock_status STAYS[] = {PLOCK_OK,        PLOCK_MISUSE,    PLOCK_BAD_CONFIG,
                                         PLOCK_NOAUTH,    PLOCK_WRONGPASS, PLOCK_NOPERM,
                                         PLOCK_MOVED,     PLOCK_PROTOCOL,  PLOCK_TLS_VERIFY,
                                         PLOCK_NOT_OWNER, PLOCK_TIMED_OUT, PLOCK_NO_MEMORY};
    for (unsigned i = 0; i < sizeof PASSES / sizeof *PASSES; i++)
        CHECK(plock_status_retries(PASSES[i]));
    for (unsigned i = 0; i < sizeof STAYS / sizeof *STAYS; i++)
        CHECK(!plock_status_retries(STAYS[i]));
}

/* A connection must not be used again if a reply may still arrive, or if its server is the wrong
 * one. */
static void a_connection_in_an_unknown_state_is_dropped(void) {
    static const plock_status DROPPED[] = {PLOCK_SILENT,    PLOCK_DISCONNECTED, PLOCK_PROTOCOL,
                                           PLOCK_READONLY,  PLOCK_MASTERDOWN,   PLOCK_NOAUTH,
                                           PLOCK_WRONGPASS, PLOCK_FORKED,       PLOCK_NO_MEMORY,
                                           PLOCK_CONNECT,   PLOCK_TLS,          PLOCK_TLS_VERIFY};
    static const plock_status KEPT[] = {PLOCK_OK,      PLOCK_REFUSED, PLOCK_NOT_OWNER, PLOCK_OOM,
                                        PLOCK_LOADING, PLOCK_NOPERM,  PLOCK_BUSY};
    for (unsigned i = 0; i < sizeof DROPPED / sizeof *DROPPED; i++)
        CHECK(!plock_status_keeps_connection(DROPPED[i]));
    for (unsigned i = 0; i < sizeof KEPT / sizeof *KEPT; i++)
        CHECK(plock_status_keeps_connection(KEPT[i]));
}

static void each_kind_says_what_a_caller_can_do(void) {
    CHECK_INT(plock_status_kind(PLOCK_OK), PLOCK_KIND_NONE);
    CHECK_INT(plock_status_kind(PLOCK_TIMED_OUT), PLOCK_KIND_TIMEOUT);
    CHECK_INT(plock_status_kind(PLOCK_NOT_OWNER), PLOCK_KIND_LOST);
    CHECK_INT(plock_status_kind(PLOCK_CONNECT), PLOCK_KIND_UNAVAILABLE);
    CHECK_INT(plock_status_kind(PLOCK_WRONGPASS), PLOCK_KIND_AUTHENTICATION);
    CHECK_INT(plock_status_kind(PLOCK_TLS_VERIFY), PLOCK_KIND_AUTHENTICATION);
    CHECK_INT(plock_status_kind(PLOCK_NOPERM), PLOCK_KIND_PERMISSION);
    CHECK_INT(plock_status_kind(PLOCK_PROTOCOL), PLOCK_KIND_PROTOCOL);
    CHECK_INT(plock_status_kind(PLOCK_BAD_CONFIG), PLOCK_KIND_CONFIGURATION);
    CHECK_INT(plock_status_kind(PLOCK_MOVED), PLOCK_KIND_UNSUPPORTED);
    CHECK_INT(plock_status_kind(PLOCK_NO_MEMORY), PLOCK_KIND_MEMORY);
}

static void failures_are_put_into_words_that_fit(void) {
    plock_error error;
    char longer[2 * PLOCK_MESSAGE_MAX];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    CHECK_STATUS(plock__fail(&error, PLOCK_CONNECT, "%s", longer), PLOCK_CONNECT);
    CHECK_INT(strlen(error.message), PLOCK_MESSAGE_MAX - 1);
    CHECK_TEXT(error.message + PLOCK_MESSAGE_MAX - 1 - strlen("x…"), "x…");
    memcpy(longer + PLOCK_MESSAGE_MAX - 20, " word", strlen(" word"));
    memcpy(longer + PLOCK_MESSAGE_MAX - 10, " cut", strlen(" cut"));
    CHECK_STATUS(plock__fail(&error, PLOCK_CONNECT, "%s", longer), PLOCK_CONNECT);
    CHECK_TEXT(error.message + PLOCK_MESSAGE_MAX - 20, " wordxxxxx…");
    for (int i = 0; i < PLOCK_MESSAGE_MAX; i += 2) memcpy(longer + i, "é", 2);
    CHECK_STATUS(plock__fail(&error, PLOCK_CONNECT, "%s", longer), PLOCK_CONNECT);
    CHECK_TEXT(error.message + PLOCK_MESSAGE_MAX - 6, "é…");
    memset(longer, 0x80, sizeof longer - 1); /* bytes that are no valid text */
    CHECK_STATUS(plock__fail(&error, PLOCK_CONNECT, "%s", longer), PLOCK_CONNECT);
    CHECK_TEXT(error.message, "…");
    CHECK_STATUS(plock__fail(NULL, PLOCK_CONNECT, "no one listens"), PLOCK_CONNECT);
    CHECK_STATUS(plock__fail_plainly(&error, PLOCK_OOM), PLOCK_OOM);
    CHECK_TEXT(error.message, "the server is out of memory");
}

static void the_system_running_out_of_something_has_its_own_status(void) {
    plock_error error;
    CHECK_STATUS(plock__fail_errno(&error, PLOCK_CONNECT, "connecting", ECONNREFUSED),
                 PLOCK_CONNECT);
    CHECK_TEXT(error.message, "connecting: Connection refused");
    CHECK_STATUS(plock__fail_errno(&error, PLOCK_CONNECT, "connecting", EMFILE), PLOCK_DESCRIPTORS);
    CHECK_STATUS(plock__fail_errno(&error, PLOCK_CONNECT, "connecting", ENFILE), PLOCK_DESCRIPTORS);
    /* ENOMEM has no status of its own, because the kernel may have enough memory again later */
    CHECK_STATUS(plock__fail_errno(&error, PLOCK_CONNECT, "connecting", ENOMEM), PLOCK_CONNECT);
}

int main(void) {
    RUN(every_status_has_a_name_of_its_own_and_a_text);
    RUN(names_that_callers_match_on_stay);
    RUN(a_number_that_is_no_status_is_harmless);
    RUN(what_may_pass_by_itself_is_tried_again);
    RUN(a_connection_in_an_unknown_state_is_dropped);
    RUN(each_kind_says_what_a_caller_can_do);
    RUN(failures_are_put_into_words_that_fit);
    RUN(the_system_running_out_of_something_has_its_own_status);
    return test_end("status");
}
