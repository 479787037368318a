/* The keys for which this process has an unanswered acquire. While a key is marked, other acquires
 * of the key join the wait queue without asking. A second request would need another connection,
 * and might overtake the first. */
#ifndef PLOCK__LOOKING_H
#define PLOCK__LOOKING_H

#include "base/text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { PLOCK__LOOKING_SLOTS = 256 };

/* Returns false if the key is already marked. Otherwise returns true, marks the key, and sets *slot
 * to the slot of the mark. If another key has the slot, returns true without marking. */
bool plock__looking_begin(_Atomic uint64_t slots[PLOCK__LOOKING_SLOTS], plock_text key,
                          _Atomic uint64_t **slot);

/* Removes the mark. slot: may be NULL. */
void plock__looking_end(_Atomic uint64_t *slot);

#endif
