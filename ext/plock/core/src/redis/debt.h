/* A debt: something on the server that is still to be given back, and no caller waits for it.
 * It is a lease, the lock that an unanswered acquire may have got, or a place in a queue. The
 * native thread tries until it is done, or until the server has let go of it by itself. */
#ifndef PLOCK__DEBT_H
#define PLOCK__DEBT_H

#include "plock/store.h"
#include "redis/request.h"

typedef struct plock_debt plock_debt;
typedef struct plock_collector plock_collector;

struct plock_debt {
    plock_debt *next;
    plock_ns until; /* the server has let go of it by then: a failure after that is the end */
    /* Called by the native thread, once for each try. */
    plock_request (*request)(plock_debt *, plock_ns now);
    /* The last call: it is done (PLOCK_OK, PLOCK_NOT_OWNER), or why it is given up. */
    void (*settle)(plock_debt *, plock_status status);
};

/* Those of one store. Under the lock. */
typedef struct plock_debts {
    struct plock_debts *next; /* of the process, as long as there are collectors */
    plock_debt *first, *last;
    plock_debt *inherited; /* the parent's: they are freed, and nothing else */
    unsigned count;
    plock_collector *collectors; /* there is one at least while there are debts */
    unsigned collecting;         /* how many */
    unsigned failures;           /* since the last success */
    plock_ns resume_at;          /* the server could not be reached: no try before this */
} plock_debts;

/* Takes the debt over. The debt keeps the store alive until it is settled. If there are too
 * many, or there is no thread, it is settled at once. Not with the lock held. */
void plock__debt_submit(plock_store *store, plock_debt *debt);

/* The process is about to end: no pause that is under way is waited for. */
void plock__debts_hurry(void);

void plock__debts_in_child(void);

#endif
