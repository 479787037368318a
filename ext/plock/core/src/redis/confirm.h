/* WAIT: replicas confirm what a script has granted. call.h says why the call sends WAIT. */
#ifndef PLOCK__CONFIRM_H
#define PLOCK__CONFIRM_H

#include "redis/call.h"

/* Copies the script's answer, and sends WAIT. The call is then CONFIRMING. */
PLOCK_MUST_USE plock_status plock__confirm_ask(plock_call *call, const plock_value *answer,
                                               plock_error *error);

/* Reads the answer of a call that is CONFIRMING. Returns PLOCK_OK and the script's answer in *value
 * if enough replicas have confirmed it, PLOCK_AGAIN, or the failure. */
PLOCK_MUST_USE plock_status plock__confirm_hear(plock_call *call, const plock_value **value,
                                                plock_interest *interest, plock_error *error);

#endif
