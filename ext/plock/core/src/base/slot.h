/* The slots of a Redis Cluster. */
#ifndef PLOCK__SLOT_H
#define PLOCK__SLOT_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { PLOCK__SLOTS = 16384 };

/* Returns the slot of a key. The slot depends on the text between the key's first { and the next }.
 * If there is no such text, it depends on the whole key. */
unsigned plock__slot(plock_text key);

/* Returns true if the names that the scripts make from a lock's key (scripts/parts/beside.lua) are
 * in the slot of the key. If the key has a hash tag that does not begin at its first character, the
 * names keep that tag. Otherwise the whole key becomes the tag, which requires that it has no
 * closing brace. */
bool plock__slot_keeps_together(plock_text key);

#endif
