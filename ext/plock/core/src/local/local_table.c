#include "local/local_make.h"
#include "local/local_table.h"

#include "base/failure.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { NONE_LEFT = 0 };

static uint64_t hash_of(const char *bytes, size_t length) {
    static const uint64_t FACTOR = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = length * FACTOR, word;
    for (; length >= sizeof word; length -= sizeof word, bytes += sizeof word) {
        memcpy(&word, bytes, sizeof word);
        hash = (hash ^ word) * FACTOR;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, bytes, length);
    hash = (hash ^ word) * FACTOR;
    return hash ^ hash >> 29;
}

plock_status plock__local_name_key(plock__local_name *name, plock_text key) {
    name->text = key;
    name->digested = key.length > PLOCK__LOCAL_NAME_MAX;
    if (name->digested) {
        const plock_status status = plock_digest(key.bytes, key.length, NULL, 0, name->digest);
        if (status) return status;
        name->text = plock__text(name->digest, sizeof name->digest);
    }
    name->hash = hash_of(name->text.bytes, name->text.length);
    return PLOCK_OK;
}

/* Reserves room in the file system for the next new record, and for more. Returns PLOCK_OK or
 * PLOCK_STORE_FULL. */
static plock_status make_room(plock__local_map *map, uint32_t made, uint32_t *ready, uint32_t most,
                              const void *first, size_t size, plock_error *error) {
    enum { AT_ONCE = 256 };
    if (made < *ready) return PLOCK_OK;
    const uint32_t until = *ready + AT_ONCE < most ? *ready + AT_ONCE : most;
    const uint64_t start = (uint64_t)((const unsigned char *)first - map->bytes);
    if (plock__local_fill(map->fd, start + *ready * size, start + until * size))
        return plock__fail_errno(error, PLOCK_STORE_FULL, "making room in the local store's file",
                                 errno);
    PLOCK__FAULT();
    *ready = until;
    return PLOCK_OK;
}

/* --- keys --- */

static _Atomic uint32_t *bucket(plock__local_map *map, uint64_t hash) {
    return &map->buckets[hash & map->bucket_mask];
}

/* A bucket stores the number of its first key plus 1, so that a file full of zeros is an empty
 * table. */
static uint32_t first_in(plock__local_map *map, uint64_t hash) {
    return atomic_load_explicit(bucket(map, hash), memory_order_relaxed) - 1;
}

uint32_t plock__local_find(plock__local_map *map, const plock__local_name *name) {
    uint32_t steps = 0;
    for (uint32_t number = first_in(map, name->hash); number != PLOCK__LOCAL_NONE;) {
        const plock__local_key *key = plock__key(map, number);
        if (key->hash == name->hash && key->length == name->text.length &&
            key->digested == name->digested &&
            !memcmp(key->name, name->text.bytes, name->text.length))
            return number;
        if (map->damaged || ++steps > map->key_count) {
            map->damaged = true;
            return PLOCK__LOCAL_NONE;
        }
        number = key->next;
    }
    return PLOCK__LOCAL_NONE;
}

void plock__local_link_key(plock__local_map *map, uint32_t number) {
    plock__local_key *key = plock__key(map, number);
    _Atomic uint32_t *first = bucket(map, key->hash);
    key->next = atomic_load_explicit(first, memory_order_relaxed) - 1;
    PLOCK__FAULT();
    atomic_store_explicit(first, number + 1, memory_order_relaxed);
}

static void unlink_key(plock__local_map *map, uint32_t number) {
    const plock__local_key *key = plock__key(map, number);
    _Atomic uint32_t *first = bucket(map, key->hash);
    uint32_t at = atomic_load_explicit(first, memory_order_relaxed) - 1;
    if (at == number) {
        atomic_store_explicit(first, key->next + 1, memory_order_relaxed);
        return;
    }
    for (uint32_t steps = 0; at != PLOCK__LOCAL_NONE && steps <= map->key_count; steps++) {
        plock__local_key *before = plock__key(map, at);
        if (before->next == number) {
            before->next = key->next;
            return;
        }
        if (map->damaged) return;
        at = before->next;
    }
    map->damaged = true; /* the key was not in its bucket */
}

plock_status plock__local_make_key(plock__local_map *map, const plock__local_name *name,
                                   uint32_t *number, plock_error *error) {
    plock__local_header *header = map->header;
    *number = header->keys_free;
    if (*number != PLOCK__LOCAL_NONE) {
        const plock__local_key *key = plock__key(map, *number);
        if (key->length != NONE_LEFT)
            map->damaged = true;
        else
            header->keys_free = key->next;
        if (map->damaged) return plock__fail_plainly(error, PLOCK_PROTOCOL);
    } else {
        if (header->keys_made >= map->key_count)
            return plock__fail(error, PLOCK_STORE_FULL,
                               "the local store %.120s has no room for more than %u keys at a time",
                               map->path, map->key_count);
        const plock_status status = make_room(map, header->keys_made, &header->keys_ready,
                                              map->key_count, map->keys, sizeof *map->keys, error);
        if (status) return status;
        *number = header->keys_made++;
        map->keys[*number].canary = PLOCK__KEY_CANARY ^ *number;
    }
    PLOCK__FAULT();
    plock__local_key *key = &map->keys[*number];
    key->first_holder = key->first_waiter = key->last_waiter = PLOCK__LOCAL_NONE;
    key->holders = 0;
    key->hash = name->hash;
    key->digested = name->digested;
    memcpy(key->name, name->text.bytes, name->text.length);
    PLOCK__FAULT();
    key->length = (uint8_t)name->text.length;
    PLOCK__FAULT();
    plock__local_link_key(map, *number);
    return PLOCK_OK;
}

void plock__local_drop_key(plock__local_map *map, uint32_t number) {
    plock__local_key *key = plock__key(map, number);
    unlink_key(map, number);
    PLOCK__FAULT();
    key->length = NONE_LEFT;
    PLOCK__FAULT();
    key->next = map->header->keys_free;
    PLOCK__FAULT();
    map->header->keys_free = number;
}

/* --- claims --- */

plock_status plock__local_make_claim(plock__local_map *map, uint32_t *number, plock_error *error) {
    plock__local_header *header = map->header;
    *number = header->claims_free;
    if (*number != PLOCK__LOCAL_NONE) {
        const plock__local_claim *claim = plock__claim(map, *number);
        if (plock__state(claim) != PLOCK__FREE)
            map->damaged = true;
        else
            header->claims_free = claim->next;
        if (map->damaged) return plock__fail_plainly(error, PLOCK_PROTOCOL);
    } else {
        if (header->claims_made >= map->claim_count)
            return plock__fail(
                error, PLOCK_STORE_FULL,
                "the local store %.120s has no room for more than %u holders and waiters",
                map->path, map->claim_count);
        const plock_status status =
            make_room(map, header->claims_made, &header->claims_ready, map->claim_count,
                      map->claims, sizeof *map->claims, error);
        if (status) return status;
        *number = header->claims_made++;
        map->claims[*number].canary = PLOCK__CLAIM_CANARY ^ *number;
    }
    PLOCK__FAULT();
    return PLOCK_OK;
}

void plock__local_drop_claim(plock__local_map *map, uint32_t number) {
    plock__local_claim *claim = plock__claim(map, number);
    claim->next = map->header->claims_free;
    PLOCK__FAULT();
    map->header->claims_free = number;
}

/* --- lists --- */

void plock__local_link_holder(plock__local_map *map, plock__local_key *key, uint32_t number) {
    plock__local_claim *claim = plock__claim(map, number);
    claim->previous = PLOCK__LOCAL_NONE;
    claim->next = key->first_holder;
    if (claim->next != PLOCK__LOCAL_NONE) plock__claim(map, claim->next)->previous = number;
    PLOCK__FAULT();
    key->first_holder = number;
    key->holders++;
}

static void unlink_claim(plock__local_map *map, uint32_t *first, uint32_t *last, uint32_t number) {
    const plock__local_claim *claim = plock__claim(map, number);
    const uint32_t next = claim->next, previous = claim->previous;
    *(previous == PLOCK__LOCAL_NONE ? first : &plock__claim(map, previous)->next) = next;
    PLOCK__FAULT();
    *(next == PLOCK__LOCAL_NONE ? last : &plock__claim(map, next)->previous) = previous;
}

void plock__local_unlink_holder(plock__local_map *map, plock__local_key *key, uint32_t number) {
    uint32_t last; /* not kept, because no walk begins with the last holder */
    unlink_claim(map, &key->first_holder, &last, number);
    key->holders--;
}

void plock__local_link_waiter(plock__local_map *map, plock__local_key *key, uint32_t number,
                              uint32_t before) {
    plock__local_claim *claim = plock__claim(map, number);
    claim->next = before;
    claim->previous =
        before == PLOCK__LOCAL_NONE ? key->last_waiter : plock__claim(map, before)->previous;
    PLOCK__FAULT();
    if (claim->previous == PLOCK__LOCAL_NONE)
        key->first_waiter = number;
    else
        plock__claim(map, claim->previous)->next = number;
    PLOCK__FAULT();
    if (before == PLOCK__LOCAL_NONE)
        key->last_waiter = number;
    else
        plock__claim(map, before)->previous = number;
}

void plock__local_unlink_waiter(plock__local_map *map, plock__local_key *key, uint32_t number) {
    unlink_claim(map, &key->first_waiter, &key->last_waiter, number);
}

/* --- times and fences --- */

int64_t plock__local_wall(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

int64_t plock__local_next_fence(plock__local_map *map, int64_t wall) {
    const int64_t last = atomic_load_explicit(&map->header->fence, memory_order_relaxed);
    if (last < 0 || last >= PLOCK__LOCAL_FENCE_MAX) {
        map->damaged = true;
        return last;
    }
    const int64_t fence = last >= wall ? last + 1 : wall;
    atomic_store_explicit(&map->header->fence, fence, memory_order_relaxed);
    return fence;
}

void plock__local_outlives(plock__local_map *map, plock_ns until) {
    if (atomic_load_explicit(&map->header->outlives_until, memory_order_relaxed) >= until) return;
    atomic_store(&map->header->seen_at, plock_now());
    PLOCK__FAULT();
    atomic_store(&map->header->outlives_until, until);
}
