/* Judges the answers to the greeting of a connection: is this the kind of server that the URL
 * names?
 */
#ifndef PLOCK__JUDGE_H
#define PLOCK__JUDGE_H

#include "net/config.h"
#include "net/reply.h"

/* Judges the answer to HELLO. Returns PLOCK_OK, PLOCK_BAD_CONFIG, PLOCK_CLUSTER or PLOCK_SENTINEL.
 */
PLOCK_MUST_USE plock_status plock__judge_server(const plock_config *config,
                                                const plock_value *answer, plock_error *error);

/* Judges the answer to ROLE. Returns PLOCK_OK or PLOCK_READONLY. */
PLOCK_MUST_USE plock_status plock__judge_role(const plock_value *answer, plock_error *error);

/* Does this error in answer to AUTH say that the server has no password? */
bool plock__judge_no_password(const plock_value *value);

#endif
