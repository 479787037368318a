/* The common part of the leases of all stores, and the functions in which they differ. */
#ifndef PLOCK__LEASE_H
#define PLOCK__LEASE_H

#include "base/text.h"
#include "plock/lease.h"

/* The functions of one kind of lease. Each has the contract of the plock_lease_… function with the
 * same name. */
typedef struct plock_lease_kind {
    plock_status (*release)(plock_lease *lease, plock_ns keep);
    plock_status (*extend)(plock_lease *lease, plock_ns ttl);
    plock_status (*downgrade)(plock_lease *lease);
    plock_status (*leave)(plock_lease *lease);
    plock_status (*step)(plock_lease *lease, plock_interest *interest);
    void (*hurry)(plock_lease *lease, plock_ns deadline);
    void (*cancel)(plock_lease *lease);
    void (*let_go)(plock_lease *lease, plock_ns keep);
    plock_status (*release_trailing)(plock_lease *lease, plock_ns keep); /* NULL: the kind has no
                                                                          * such release */
    plock_ns (*budget)(const plock_lease *lease, bool releases);
    void (*free)(plock_lease *lease);
    bool (*busy)(const plock_lease *lease); /* is an operation on the held lease under way? */
    bool (*valid)(const plock_lease *lease);
    bool (*lost)(const plock_lease *lease);
    plock_ns (*valid_until)(const plock_lease *lease);
    plock_text (*owner)(const plock_lease *lease);
    plock_text (*value)(const plock_lease *lease);
    char (*mode)(const plock_lease *lease);
} plock_lease_kind;

/* The struct of each kind begins with this one. */
struct plock_lease {
    const plock_lease_kind *kind;
    plock_text key;
    uint64_t id;
    unsigned generation; /* the fork generation of the process that acquired the lease */
    bool held, contended;
    int64_t fence;
    plock_ns ttl, acquired_at, waited;
    plock_place_in_turn *turns; /* the threads that will use the lease next, in order
                                 * (plock/turn.h) */
    plock_error error;
};

/* Returns a number that no other lease of this process has. */
uint64_t plock__lease_number(void);

/* Forgets the failure of an earlier operation, when a new one begins. */
void plock__lease_forget_error(plock_lease *lease);

/* May an operation on the held lease begin? Returns PLOCK_OK, PLOCK_MISUSE or PLOCK_IN_USE. */
PLOCK_MUST_USE plock_status plock__lease_free_to_begin(const plock_lease *lease);

bool plock__is_ttl(plock_ns ttl);

#endif
