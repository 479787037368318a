/* The slots of a Redis Cluster. */
#ifndef PLOCK__SLOT_H
#define PLOCK__SLOT_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { PLOCK__SLOTS = 16384 };

/* Returns the slot of a key: that of what stands between its first { and the next }, if there is
 * anything; else that of the whole key. */
unsigned plock__slot(plock_text key);

/* Are the names that the scripts make from the key of a lock (scripts/parts/beside.lua) in the slot
 * of the key? A key without a closing brace becomes the hash tag of these names. A key that has a
 * hash tag after its first character keeps it. */
bool plock__slot_keeps_together(plock_text key);

#endif
