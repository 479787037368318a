/* An errand: one request, tried again where a failure may pass, until it is answered or its time is over. */
#ifndef PLOCK__ERRAND_H
#define PLOCK__ERRAND_H

#include "redis/exchange.h"

/* What an answer comes to. PLOCK_SILENT and PLOCK_PROTOCOL are failures of the attempt; PLOCK_AGAIN: there is more to do, ask again. */
typedef plock_status plock__errand_reader(void *context, const plock_value *answer, plock_error *error);

/* What undoes a request that is given up unanswered: it leaves behind it, on the same connection. False: nothing does. */
typedef bool plock__errand_undoer(void *context, plock_request *undo);

typedef struct plock_errand {
    plock_store *store;
    plock__errand_reader *read; /* NULL: done or not ours (plock__read_done) */
    plock__errand_undoer *undo; /* NULL: nothing is to be undone */
    plock__leaver *leaves;      /* as an exchange has it */
    void *context;
    plock_request request;
    plock_exchange exchange;
    plock_ns deadline, resume_at;
    unsigned pauses;
    plock_status failure; /* of the last attempt */
    bool halves;      /* an attempt that has a connection gets half of the time that is left, so that a connection that has
                       * gone silent leaves time for another */
    bool pausing, reconnected; /* reconnected: a connection found closed has been replaced, once */
    bool doubt;       /* an earlier attempt may have been carried out, and its reply was lost */
    bool begun;       /* an earlier attempt was carried out in part */
} plock_errand;

void plock__errand_begin(plock_errand *errand, plock_store *store, const plock_request *request, plock_ns deadline, bool halves);

/* Who reads, undoes and hears of what has just begun; each may be NULL. */
void plock__errand_heed(plock_errand *errand, plock__errand_reader *read, plock__errand_undoer *undo, plock__leaver *leaves, void *context);

/* PLOCK_OK or PLOCK_NOT_OWNER as the answer reads, PLOCK_AGAIN with want, or the failure that it ended with. */
PLOCK_MUST_USE plock_status plock__errand_step(plock_errand *errand, plock_want *want, plock_error *error);

/* It ends by the deadline. */
void plock__errand_hurry(plock_errand *errand, plock_ns deadline);

void plock__errand_cancel(plock_errand *errand);

/* May the server have carried it out, or still do so, when it is cancelled now? */
bool plock__errand_in_doubt(const plock_errand *errand);

#endif
