/* The slots of a Redis Cluster. */
#ifndef PLOCK__SLOT_H
#define PLOCK__SLOT_H

#include "base/text.h"

#include <stdbool.h>

enum { PLOCK__SLOTS = 16384 };

/* Returns the slot of a key. The slot depends on the text between the key's first { and the next }.
 * If there is no such text, it depends on the whole key. */
unsigned plock__slot(plock_text key);

/* Returns true if the names that the scripts make from a lock's key (scripts/parts/beside.lua) are
 * in the key's slot. If the key has a hash tag that does not begin at its first character, the
 * names keep that tag. Otherwise the scripts make the whole key the tag, so the key must not
 * contain a closing brace. */
bool plock__slot_keeps_together(plock_text key);

#endif
