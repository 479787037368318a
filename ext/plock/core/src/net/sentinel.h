/* Finds a primary through its sentinels. */
#ifndef PLOCK__SENTINEL_H
#define PLOCK__SENTINEL_H

#include "net/pool.h"

/* A plock__finder: asks all sentinels of the config at once which server is the primary. Believes
 * an address that more than half of them name; if fewer answer, the address that most of them name.
 * It waits shortly for the others then, but half of the time if that is not the known server.
 * Names with an address in common are one server. If several servers are named as often, it takes
 * the first one of them that says it is a primary. A connection to it then checks that it is a
 * primary.
 *
 * Returns PLOCK_OK; PLOCK_BAD_CONFIG if more than half of them know no such primary; or the failure
 * of one of them. That is one that no later attempt can cure only if all have answered or failed,
 * or half of them with such a failure. */
PLOCK_MUST_USE plock_status plock__find_primary(plock_config *config, const plock_addresses *known,
                                                plock_addresses *found, plock_error *so_far,
                                                plock_error *error);

/* --- one sentinel, for the code that listens to it --- */

/* Asks for the primary's address, as plock__connection_send does. */
PLOCK_MUST_USE plock_status plock__sentinel_ask(plock_connection *connection, const char *primary,
                                                plock_error *error);

/* Reads the answer into the host and port of `named`, and the address if the host is one. Returns
 * PLOCK_OK, PLOCK_REFUSED if the sentinel knows no such primary, or the sentinel's failure. */
PLOCK_MUST_USE plock_status plock__sentinel_read(const plock_value *answer, plock_addresses *named,
                                                 plock_error *error);

#endif
