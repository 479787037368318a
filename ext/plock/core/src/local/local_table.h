/* Keys and claims of a local store. These functions run in the critical section. They never trust a
 * record number that they read from the file. If there is no record with that number, they use a
 * stand-in record, and mark the file as damaged. */
#ifndef PLOCK__LOCAL_TABLE_H
#define PLOCK__LOCAL_TABLE_H

#include "base/text.h"
#include "local/local_map.h"
#include "plock/digest.h"

enum { PLOCK__KEY_CANARY = 0x6b65792e, PLOCK__CLAIM_CANARY = 0x636c6d2e };

/* The name under which the table stores a key. */
typedef struct plock__local_name {
    plock_text text;
    bool digested;
    uint64_t hash;
    char digest[PLOCK_DIGEST_HEX];
} plock__local_name;

/* Makes the name for a key. The name points to the bytes of the key. If the key is too long, the
 * name has a digest instead. Call this function outside the critical section. Returns PLOCK_OK or
 * PLOCK_CRYPTO. */
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
    map->no_claim.next = map->no_claim.previous = PLOCK__LOCAL_NONE; /* so that every walk through a
                                                                      * list ends */
    return &map->no_claim;
}

/* Is there another claim to visit in a walk through one of a key's lists? `at` is its number, and
 * *steps was 0 when the walk began. If the walk is longer than any list can be, the file is
 * damaged. */
static inline bool plock__walks(plock__local_map *map, uint32_t at, uint32_t *steps) {
    if (at != PLOCK__LOCAL_NONE && ++*steps > map->claim_count) map->damaged = true;
    return at != PLOCK__LOCAL_NONE && !map->damaged;
}

static inline uint32_t plock__claim_number(const plock__local_map *map,
                                           const plock__local_claim *claim) {
    return claim == &map->no_claim ? PLOCK__LOCAL_NONE : (uint32_t)(claim - map->claims);
}

/* Returns the number of the key, or PLOCK__LOCAL_NONE. */
uint32_t plock__local_find(plock__local_map *map, const plock__local_name *name);

/* Adds a key. The caller must then add a claim to the key, or drop the key. Returns PLOCK_OK,
 * PLOCK_STORE_FULL or PLOCK_PROTOCOL. */
PLOCK_MUST_USE plock_status plock__local_make_key(plock__local_map *map,
                                                  const plock__local_name *name, uint32_t *number,
                                                  plock_error *error);
void plock__local_drop_key(plock__local_map *map, uint32_t number);

/* Takes a free claim record, in which only the canary is valid. Returns PLOCK_OK, PLOCK_STORE_FULL
 * or PLOCK_PROTOCOL. */
PLOCK_MUST_USE plock_status plock__local_make_claim(plock__local_map *map, uint32_t *number,
                                                    plock_error *error);
void plock__local_drop_claim(plock__local_map *map, uint32_t number);

/* These functions add a claim to one of the two lists of its key (holders and waiters), or remove
 * it from that list. */
void plock__local_link_holder(plock__local_map *map, plock__local_key *key, uint32_t number);
void plock__local_unlink_holder(plock__local_map *map, plock__local_key *key, uint32_t number);
/* Adds the waiter in front of the claim `before`; at the end if `before` is PLOCK__LOCAL_NONE. */
void plock__local_link_waiter(plock__local_map *map, plock__local_key *key, uint32_t number,
                              uint32_t before);
void plock__local_unlink_waiter(plock__local_map *map, plock__local_key *key, uint32_t number);

void plock__local_link_key(plock__local_map *map, uint32_t number);

/* Returns the time of day in microseconds since 1970. */
int64_t plock__local_wall(void);

/* Returns the fence of the next lease, which is greater than all earlier fences. */
int64_t plock__local_next_fence(plock__local_map *map, int64_t wall);

/* Records that a claim may last until this time, even if its process ends. */
void plock__local_outlives(plock__local_map *map, plock_ns until);

#endif
