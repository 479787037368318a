/* An index finds the entries with a given key. The entries are embedded in their owners' structs,
 * so an insertion needs no memory and cannot fail. The index has a fixed number of lists. With a
 * hundred thousand keys, each list has about a hundred entries. */
#ifndef PLOCK__INDEX_H
#define PLOCK__INDEX_H

#include "base/text.h"

#include <stdint.h>

typedef struct plock__index_entry plock__index_entry;

/* An entry with all fields zero is in no index. */
struct plock__index_entry {
    plock__index_entry *next, **link; /* link: the pointer that leads to this entry */
    uint32_t hash;
};

enum { PLOCK__INDEX_LISTS = 1024 };

typedef struct plock__index {
    plock__index_entry *lists[PLOCK__INDEX_LISTS];
} plock__index;

/* Adds an entry that is in no index. */
void plock__index_add(plock__index *index, plock__index_entry *entry, plock_text key);

/* Removes the entry, if it is in an index. */
void plock__index_remove(plock__index_entry *entry);

/* These functions return the first entry that may have the key, and the next such entry after
 * `entry`. They return NULL if there is no such entry. Another key may have the same hash, so the
 * caller must compare the keys. */
plock__index_entry *plock__index_first(const plock__index *index, plock_text key);
plock__index_entry *plock__index_next(const plock__index_entry *entry);

#endif
