#include "base/index.h"

#include <stddef.h>

/* The hash function is FNV-1a. It does not resist keys that an attacker chose to collide. It need
 * not, because the keys come from the program, or are digests with the program's secret. */
static uint32_t hash_of(plock_text key) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < key.length; i++) hash = (hash ^ (unsigned char)key.bytes[i]) * 16777619u;
    return hash ^ hash >> 16;
}

void plock__index_add(plock__index *index, plock__index_entry *entry, plock_text key) {
    entry->hash = hash_of(key);
    entry->link = &index->lists[entry->hash % PLOCK__INDEX_LISTS];
    entry->next = *entry->link;
    if (entry->next) entry->next->link = &entry->next;
    *entry->link = entry;
}

void plock__index_remove(plock__index_entry *entry) {
    if (!entry->link) return;
    if (entry->next) entry->next->link = entry->link;
    *entry->link = entry->next;
    *entry = (plock__index_entry){0};
}

static plock__index_entry *from(plock__index_entry *entry, uint32_t hash) {
    while (entry && entry->hash != hash) entry = entry->next;
    return entry;
}

plock__index_entry *plock__index_first(const plock__index *index, plock_text key) {
    const uint32_t hash = hash_of(key);
    return from(index->lists[hash % PLOCK__INDEX_LISTS], hash);
}

plock__index_entry *plock__index_next(const plock__index_entry *entry) {
    return from(entry->next, entry->hash);
}
