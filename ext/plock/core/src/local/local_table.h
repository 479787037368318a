/* Keys and claims of a local store. All of it in the critical section. What stands in the file is
 * never trusted to be a place in it: a number that names no record leads to one that stands in, and
 * the file counts as damaged. */
#ifndef PLOCK__LOCAL_TABLE_H
#define PLOCK__LOCAL_TABLE_H

#include "base/text.h"
#include "local/local_map.h"
#include "plock/digest.h"

enum { PLOCK__KEY_CANARY = 0x6b65792e, PLOCK__CLAIM_CANARY = 0x636c6d2e };

/* A key as it stands in the table. */
typedef struct plock__local_name {
    plock_text text;
    bool digested;
    uint64_t hash;
    char digest[PLOCK_DIGEST_HEX];
} plock__local_name;

/* Not in the critical section. The text is the caller's. PLOCK_OK or PLOCK_CRYPTO. */
PLOCK_MUST_USE plock_status plock__local_name_key(plock__local_name *name, plock_text key);

static inline plock__local_key *plock__key(plock__local_map *map, uint32_t number) {
    if (number < map->key_count && map->keys[number].canary == (PLOCK__KEY_CANARY ^ number))
        return &map->keys[number];
    map->damaged = true;
    return &map->no_key;
}

static inline plock__local_claim *plock__claim(plock__local_map *map, uint32_t number) {
    if (number < map->claim_count && map->claims[number].canary == (PLOCK__CLAIM_CANARY ^ number))
        return &map->claims[number];
    map->damaged = true;
    map->no_claim.next = map->no_claim.previous = PLOCK__LOCAL_NONE; /* so that every walk ends */
    return &map->no_claim;
}

static inline uint32_t plock__claim_number(const plock__local_map *map,
                                           const plock__local_claim *claim) {
    return claim == &map->no_claim ? PLOCK__LOCAL_NONE : (uint32_t)(claim - map->claims);
}

/* The number of the key, or NONE. */
uint32_t plock__local_find(plock__local_map *map, const plock__local_name *name);

/* One more; it is free again as soon as no claim is on it. PLOCK_OK or PLOCK_STORE_FULL. */
PLOCK_MUST_USE plock_status plock__local_make_key(plock__local_map *map,
                                                  const plock__local_name *name, uint32_t *number,
                                                  plock_error *error);
void plock__local_drop_key(plock__local_map *map, uint32_t number);

/* One that is free, with a canary and nothing else. PLOCK_OK or PLOCK_STORE_FULL. */
PLOCK_MUST_USE plock_status plock__local_make_claim(plock__local_map *map, uint32_t *number,
                                                    plock_error *error);
void plock__local_drop_claim(plock__local_map *map, uint32_t number);

/* Into the lists of its key, and out of them. */
void plock__local_link_holder(plock__local_map *map, plock__local_key *key, uint32_t number);
void plock__local_unlink_holder(plock__local_map *map, plock__local_key *key, uint32_t number);
/* NONE: at the end */
void plock__local_link_waiter(plock__local_map *map, plock__local_key *key, uint32_t number,
                              uint32_t before);
void plock__local_unlink_waiter(plock__local_map *map, plock__local_key *key, uint32_t number);
void plock__local_link_key(plock__local_map *map, uint32_t number);

#endif
