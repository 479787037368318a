/* A retry: one request, tried again where a failure may pass, until it is answered or its time is
 * over. */
#ifndef PLOCK__RETRY_H
#define PLOCK__RETRY_H

#include "redis/call.h"

/* What an answer comes to. PLOCK_SILENT and PLOCK_PROTOCOL are failures of the attempt;
 * PLOCK_AGAIN: there is more to do, ask again. */
typedef plock_status plock__retry_reader(void *context, const plock_value *answer,
                                         plock_error *error);

/* What undoes a request that is given up unanswered: it leaves behind it, on the same connection.
 * False: nothing does. */
typedef bool plock__retry_undoer(void *context, plock_request *undo);

typedef struct plock_retry {
    plock_store *store;
    plock__retry_reader *read; /* NULL: done or not ours (plock__read_done) */
    plock__retry_undoer *undo; /* NULL: nothing is to be undone */
    plock__leaver *leaves;     /* as a call has it */
    void *context;
    plock_request request;
    plock_call call;
    plock_ns deadline, resume_at;
    unsigned pauses;
    plock_status failure; /* of the last attempt */
    bool halves; /* an attempt that has a connection gets half of the time that is left, so that a
                  * connection that has gone silent leaves time for another */
    bool pausing, reconnected; /* reconnected: a connection found closed has been replaced, once */
    bool doubt; /* an earlier attempt may have been carried out, and its reply was lost */
    bool begun; /* an earlier attempt was carried out in part */
} plock_retry;

void plock__retry_begin(plock_retry *retry, plock_store *store, const plock_request *request,
                        plock_ns deadline, bool halves);

/* Who reads, undoes and hears of what has just begun; each may be NULL. */
void plock__retry_heed(plock_retry *retry, plock__retry_reader *read, plock__retry_undoer *undo,
                       plock__leaver *leaves, void *context);

/* PLOCK_OK or PLOCK_NOT_OWNER as the answer reads, PLOCK_AGAIN with interest, or the failure that
 * it ended with. */
PLOCK_MUST_USE plock_status plock__retry_step(plock_retry *retry, plock_interest *interest,
                                              plock_error *error);

/* It ends by the deadline. */
void plock__retry_hurry(plock_retry *retry, plock_ns deadline);

void plock__retry_cancel(plock_retry *retry);

/* May the server have carried it out, or still do so, when it is cancelled now? */
bool plock__retry_in_doubt(const plock_retry *retry);

#endif
