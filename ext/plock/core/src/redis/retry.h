/* A retry: repeats one request after failures that may be temporary, until the answer comes or the
 * deadline passes. */
#ifndef PLOCK__RETRY_H
#define PLOCK__RETRY_H

#include "redis/call.h"

/* Reads the answer, and returns its status. PLOCK_SILENT and PLOCK_PROTOCOL mean that the attempt
 * failed. PLOCK_AGAIN means that the server has not finished, so the retry asks again. */
typedef plock_status plock__retry_reader(void *context, const plock_value *answer,
                                         plock_error *error);

/* Makes the request that undoes a cancelled, unanswered request. The undo is sent behind that
 * request, on the same connection. Returns false if there is nothing to undo. */
typedef bool plock__retry_undoer(void *context, plock_request *undo);

typedef struct plock_retry {
    plock_node *node;
    plock__retry_reader *read; /* NULL: plock__read_done */
    plock__retry_undoer *undo; /* NULL: there is nothing to undo */
    plock__leaver *leaves;     /* called whenever the request is about to be sent; may be NULL */
    void *context;             /* passed to these three callbacks */
    plock_request request;
    plock_call call;
    plock_ns deadline, resume_at;
    unsigned pauses;
    plock_status failure; /* how the last attempt failed */
    bool halves; /* An attempt with a connection may use only half of the remaining time. So there
                  * is time for another attempt if the connection proves silent. */
    /* reconnected: A closed connection was replaced. A retry replaces only one. */
    bool pausing, reconnected;
    bool doubt; /* The server may have executed an earlier attempt whose reply was lost. */
    bool begun; /* The server has executed an earlier attempt in part. */
} plock_retry;

void plock__retry_begin(plock_retry *retry, plock_node *node, const plock_request *request,
                        plock_ns deadline, bool halves);

/* Sets the callbacks of a retry that has just begun. Each may be NULL. */
void plock__retry_heed(plock_retry *retry, plock__retry_reader *read, plock__retry_undoer *undo,
                       plock__leaver *leaves, void *context);

/* Returns PLOCK_OK or PLOCK_NOT_OWNER, depending on the answer. Otherwise returns PLOCK_AGAIN and
 * the interest, or the failure that ended the retry. */
PLOCK_MUST_USE plock_status plock__retry_step(plock_retry *retry, plock_interest *interest,
                                              plock_error *error);

/* Replaces the retry's deadline with `deadline`, if that is earlier. */
void plock__retry_hurry(plock_retry *retry, plock_ns deadline);

void plock__retry_cancel(plock_retry *retry);

/* Returns true if the server may have executed the request, or may still do so after a cancel. */
bool plock__retry_in_doubt(const plock_retry *retry);

#endif
