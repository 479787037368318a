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

/* Are the names that the scripts make from the key of a lock, "plock:1:{KEY}:queue", in the slot of
 * the key? They are not if the key has a closing brace, which then ends the hash tag. */
bool plock__slot_keeps_together(plock_text key);

#endif
