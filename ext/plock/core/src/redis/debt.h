/* A debt: something on the server that must still be released, and that no caller waits for. It is
 * a lease, the lock of an unanswered acquire, or a place in a queue. The worker thread tries until
 * the release is done, or until the lease has expired on the server. */
#ifndef PLOCK__DEBT_H
#define PLOCK__DEBT_H

#include "plock/store.h"
#include "redis/request.h"

typedef struct plock_node plock_node;
typedef struct plock_debt plock_debt;
typedef struct plock_collector plock_collector;

struct plock_debt {
    plock_debt *next;
    plock_ns until; /* it has expired on the server by then, so a later failure ends the debt */
    /* Called by the worker thread, once for each try. */
    plock_request (*request)(plock_debt *, plock_ns now);
    /* Called last, with PLOCK_OK or PLOCK_NOT_OWNER, or the failure that ends the debt. */
    void (*settle)(plock_debt *, plock_status status);
};

/* The debts of one store. Under the lock. */
typedef struct plock_debts {
    struct plock_debts *next; /* of another store with collectors */
    plock_debt *first, *last;
    plock_debt *inherited; /* the parent's; they are only freed */
    unsigned count;
    plock_collector *collectors; /* at least one while there are debts */
    unsigned collecting;         /* how many */
    unsigned failures;           /* since the last success */
    plock_ns resume_at;          /* no try before this, after the server could not be reached */
} plock_debts;

/* Takes over the debt, which keeps the store alive until it is settled. If there are too many debts
 * or no thread, the debt is settled at once. The caller must not hold the lock. */
void plock__debt_submit(plock_node *node, plock_debt *debt);

/* Ends the current pauses, because the process is about to end. */
void plock__debts_hurry(void);

void plock__debts_in_child(void);

#endif
