/* A debt: something on the server that must still be released, although no caller waits for the
 * release. It is a lease, the lock of an unanswered acquire, or a place in a queue. The worker
 * thread tries until the release is done, or until the lease or the place has expired on the
 * server. */
#ifndef PLOCK__DEBT_H
#define PLOCK__DEBT_H

#include "plock/store.h"
#include "redis/request.h"

typedef struct plock_node plock_node;
typedef struct plock_debt plock_debt;
typedef struct plock_collector plock_collector;

struct plock_debt {
    plock_debt *next;
    plock_ns until; /* when the lease or place has expired; a failure after that ends the debt */
    /* Makes the request. The worker thread calls this once for each try. */
    plock_request (*request)(plock_debt *, plock_ns now);
    /* Called once, when the debt ends: with PLOCK_OK, PLOCK_NOT_OWNER, or the last failure. */
    void (*settle)(plock_debt *, plock_status status);
};

/* The debts of one node. Protected by the mutex. */
typedef struct plock_debts {
    struct plock_debts *next; /* the debts of the next node that has collectors */
    plock_debt *first, *last;
    plock_debt *inherited; /* in a forked child, the parent's debts, which are only freed */
    unsigned count;
    plock_collector *collectors; /* at least one while there are debts */
    unsigned collecting;         /* the number of collectors */
    unsigned failures;           /* failed tries in a row */
    plock_ns resume_at; /* no try before this time, because the server could not be reached */
} plock_debts;

/* Takes over the debt, which must keep the store alive until `settle` is called. If there are too
 * many debts, memory runs out, or no thread can be started, the debt ends at once with a failure,
 * and nothing is sent. Do not call with the mutex held. */
void plock__debt_submit(plock_node *node, plock_debt *debt);

/* Ends the current pauses, because the process is about to end. */
void plock__debts_hurry(void);

void plock__debts_in_child(void);

#endif
