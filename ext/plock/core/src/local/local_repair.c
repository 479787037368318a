#include "local/local_queue.h"
#include "local/local_table.h"

#include <string.h>

static bool is_claim(const plock__local_map *map, const plock__local_claim *claim,
                     uint32_t number) {
    const unsigned state = plock__state(claim);
    return claim->canary == (PLOCK__CLAIM_CANARY ^ number) && state != PLOCK__FREE &&
           state <= PLOCK__KEPT && claim->key < map->header->keys_made &&
           map->keys[claim->key].length > 0 && claim->owner_length <= PLOCK__LOCAL_OWNER_MAX &&
           claim->label_length <= PLOCK_LOCAL_LABEL_MAX;
}

/* Adds the waiter to the queue, in the order of arrival. */
static void line_up(plock__local_map *map, plock__local_key *key, uint32_t number) {
    const uint64_t serial = plock__serial(plock__claim(map, number));
    uint32_t before = PLOCK__LOCAL_NONE;
    for (uint32_t at = key->last_waiter;
         at != PLOCK__LOCAL_NONE && plock__serial(plock__claim(map, at)) > serial;) {
        before = at;
        at = plock__claim(map, at)->previous;
    }
    plock__local_link_waiter(map, key, number, before);
}

static void empty_keys(plock__local_map *map) {
    plock__local_header *header = map->header;
    for (uint32_t i = 0; i <= map->bucket_mask; i++)
        atomic_store_explicit(&map->buckets[i], 0, memory_order_relaxed);
    for (uint32_t number = 0; number < header->keys_made; number++) {
        plock__local_key *key = &map->keys[number];
        key->canary = PLOCK__KEY_CANARY ^ number;
        key->first_holder = key->first_waiter = key->last_waiter = PLOCK__LOCAL_NONE;
        key->holders = 0;
    }
}

static void place_claims(plock__local_map *map) {
    plock__local_header *header = map->header;
    header->claims_free = PLOCK__LOCAL_NONE;
    for (uint32_t number = 0; number < header->claims_made; number++) {
        plock__local_claim *claim = &map->claims[number];
        if (is_claim(map, claim, number)) {
            plock__local_key *key = &map->keys[claim->key];
            if (plock__state(claim) == PLOCK__WAITING)
                line_up(map, key, number);
            else
                plock__local_link_holder(map, key, number);
            if (header->serial < plock__serial(claim)) header->serial = plock__serial(claim);
        } else {
            claim->canary = PLOCK__CLAIM_CANARY ^ number;
            atomic_store(&claim->word, plock__word(plock__serial(claim), PLOCK__FREE));
            plock__local_drop_claim(map, number);
        }
    }
}

static void place_keys(plock__local_map *map) {
    plock__local_header *header = map->header;
    header->keys_free = PLOCK__LOCAL_NONE;
    for (uint32_t number = header->keys_made; number-- > 0;) {
        plock__local_key *key = &map->keys[number];
        if (key->length &&
            (key->first_holder != PLOCK__LOCAL_NONE || key->first_waiter != PLOCK__LOCAL_NONE)) {
            plock__local_link_key(map, number);
        } else {
            key->length = 0;
            key->next = header->keys_free;
            header->keys_free = number;
        }
    }
}

void plock__local_repair(plock__local_map *map) {
    const plock__local_header *header = map->header;
    if (header->keys_made > map->key_count || header->claims_made > map->claim_count ||
        header->keys_ready > map->key_count || header->claims_ready > map->claim_count) {
        map->damaged = true;
        return;
    }
    empty_keys(map);
    place_claims(map);
    place_keys(map);
    map->swept_at = 0;
    /* the dead process may have been about to admit a waiter, so the sweep admits all waiters that
     * it can */
    (void)plock__local_sweep(map, plock_now());
}
