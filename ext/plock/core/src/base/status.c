#include "plock/status.h"

#include "base/failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FINAL, RETRY };
enum { NEVER, PERHAPS };
enum { DROPS, KEEPS };

typedef struct row {
    const char *name, *text;
    plock_kind kind;
    bool retries, leaves_doubt, keeps_connection;
} row;

static const row LIST[] = {
#define X(name, kind, another_try, carried_out, connection, text)                                  \
    {#name, text, PLOCK_KIND_##kind, another_try, carried_out, connection},
    PLOCK_STATUSES(X)
#undef X
};

static const row UNKNOWN = {"UNKNOWN", "unknown status", PLOCK_KIND_MISUSE, FINAL, PERHAPS, DROPS};

static const row *row_of(plock_status status) {
    return (unsigned)status < sizeof LIST / sizeof *LIST ? &LIST[status] : &UNKNOWN;
}

const char *plock_status_name(plock_status status) {
    static _Thread_local char lower[32];
    const char *name = row_of(status)->name;
    size_t i = 0;
    for (; name[i] && i + 1 < sizeof lower; i++)
        lower[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    lower[i] = 0;
    return lower;
}

const char *plock_status_text(plock_status status) { return row_of(status)->text; }

plock_kind plock_status_kind(plock_status status) { return row_of(status)->kind; }

bool plock_status_retries(plock_status status) { return row_of(status)->retries; }

bool plock_status_unreachable(plock_status status) {
    switch (status) {
    case PLOCK_RESOLVE:
    case PLOCK_CONNECT:
    case PLOCK_DISCONNECTED:
    case PLOCK_SILENT:
    case PLOCK_FULL: return true;
    default: return false;
    }
}

bool plock_status_leaves_doubt(plock_status status) { return row_of(status)->leaves_doubt; }

bool plock_status_keeps_connection(plock_status status) { return row_of(status)->keeps_connection; }

/* --- describing a failure (failure.h) --- */

void plock__shorten(char *message, size_t room) {
    static const char ELLIPSIS[] = "…";
    enum { LONGEST_WORD = 24 };
    if (strnlen(message, room) < room) return;
    const size_t last = room - sizeof ELLIPSIS;
    size_t end = last;
    while (last - end < LONGEST_WORD && message[end] != ' ') end--;
    if (message[end] != ' ') end = last;
    while (end > 0 && (message[end] & 0xC0) == 0x80) end--; /* never cuts a character in two */
    memcpy(message + end, ELLIPSIS, sizeof ELLIPSIS);
}

plock_status plock__fail(plock_error *error, plock_status status, const char *format, ...) {
    if (!error) return status;
    va_list arguments;
    va_start(arguments, format);
    error->status = status;
    char message[PLOCK_MESSAGE_MAX + 1]; /* one more byte shows whether the text is too long */
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    plock__shorten(message, sizeof error->message);
    memcpy(error->message, message, strlen(message) + 1);
    return status;
}

plock_status plock__fail_plainly(plock_error *error, plock_status status) {
    return plock__fail(error, status, "%s", plock_status_text(status));
}

plock_status plock__fail_errno(plock_error *error, plock_status status, const char *doing,
                               int code) {
    if (code == EMFILE || code == ENFILE) status = PLOCK_DESCRIPTORS;
    char text[96] = "";
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    const char *words = strerror_r(code, text, sizeof text);
#else
    const char *words = strerror_r(code, text, sizeof text) == 0 ? text : "unknown error";
#endif
    return plock__fail(error, status, "%s: %s", doing, words);
}
