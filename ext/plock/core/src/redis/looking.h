/* The keys for which this process has a request under way. A second request for a key would only
 * need another connection, and might overtake the first. */
#ifndef PLOCK__LOOKING_H
#define PLOCK__LOOKING_H

#include "base/text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { PLOCK__LOOKING_SLOTS = 256 };

/* Returns false if the key is marked already. Otherwise returns true. If the key's slot is free,
 * also marks the key there, and sets *slot to that slot. */
bool plock__looking_begin(_Atomic uint64_t slots[PLOCK__LOOKING_SLOTS], plock_text key,
                          _Atomic uint64_t **slot);

/* Removes the mark. slot: may be NULL. */
void plock__looking_end(_Atomic uint64_t *slot);

#endif
