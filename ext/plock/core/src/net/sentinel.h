/* Finds a primary through its sentinels. */
#ifndef PLOCK__SENTINEL_H
#define PLOCK__SENTINEL_H

#include "net/pool.h"

/* A plock__finder that asks all sentinels of the config at once which server is the primary. It
 * takes the server that more than half of the sentinels name. If there is no such server, the
 * finder gives the silent sentinels a short time to answer. It then takes the server that is named
 * most often. If that server is not the known primary, the time to answer lasts until half of
 * connect_timeout is over.
 *
 * Names with an address in common are one server. If several servers are named equally often, the
 * finder takes the first one that says it is a primary. A connection to the server then checks that
 * the server is a primary.
 *
 * Returns PLOCK_OK; PLOCK_BAD_CONFIG if more than half of the sentinels know no such primary; or
 * the failure of one sentinel (plock__inquiry_failure says which one). */
PLOCK_MUST_USE plock_status plock__find_primary(plock_config *config, const plock_addresses *known,
                                                plock_addresses *found, plock_error *so_far,
                                                plock_error *error);

/* --- one sentinel, for the code that listens to it --- */

/* Asks for the primary's address. Returns what plock__connection_send returns. */
PLOCK_MUST_USE plock_status plock__sentinel_ask(plock_connection *connection, const char *primary,
                                                plock_error *error);

/* Reads the answer into the host and port of `named`. If the host is an address literal, also fills
 * in the address. Returns PLOCK_OK, PLOCK_REFUSED if the sentinel knows no such primary, or the
 * sentinel's failure. */
PLOCK_MUST_USE plock_status plock__sentinel_read(const plock_value *answer, plock_addresses *named,
                                                 plock_error *error);

#endif
