/* The setup of the engine, which each process does once. */
#ifndef PLOCK_PROCESS_H
#define PLOCK_PROCESS_H

#include "plock/status.h"

/* Prepares the process for fork(). Call this before the first plock_waker_take or
 * plock_notice_descriptor. Opening a store also calls this. Further calls do nothing. Returns
 * PLOCK_OK or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock_initialize(void);

#endif
