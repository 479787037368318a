/* The setup of the engine, once in each process. */
#ifndef PLOCK_PROCESS_H
#define PLOCK_PROCESS_H

#include "plock/status.h"

/* Prepares the process for fork(). Call it before the first waker is taken or notice awaited. It
 * may be called again, and opening a store calls it, too. Returns PLOCK_OK or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock_initialize(void);

#endif
