/* WAIT: replicas confirm what a call has been granted. call.h says why it is sent here. */
#ifndef PLOCK__CONFIRM_H
#define PLOCK__CONFIRM_H

#include "redis/call.h"

/* Keeps the script's answer, and asks the replicas to confirm it. The call is CONFIRMING then. */
PLOCK_MUST_USE plock_status plock__confirm_ask(plock_call *call, const plock_value *answer,
                                               plock_error *error);

/* Reads the answer of a call that is CONFIRMING. Returns PLOCK_OK and the script's answer in *value
 * if enough replicas have confirmed it, PLOCK_AGAIN, or why they have not. */
PLOCK_MUST_USE plock_status plock__confirm_hear(plock_call *call, const plock_value **value,
                                                plock_interest *interest, plock_error *error);

/* The time of a call that is CONFIRMING is over. */
PLOCK_MUST_USE plock_status plock__confirm_late(const plock_call *call, plock_error *error);

#endif
