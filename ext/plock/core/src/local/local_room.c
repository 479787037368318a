/* Room for records in a local store's file. */
#include "local/local_make.h"

#include "base/failure.h"

#include <errno.h>

/* How many records get room at a time. */
enum { AT_ONCE = 256 };

static plock_status ready(plock__local_map *map, uint32_t made, uint32_t *ready_ones, uint32_t most,
                          const void *first, size_t size, plock_error *error) {
    if (made < *ready_ones) return PLOCK_OK;
    const uint32_t until = *ready_ones + AT_ONCE < most ? *ready_ones + AT_ONCE : most;
    const uint64_t start = (uint64_t)((const unsigned char *)first - map->bytes);
    if (plock__local_fill(map->fd, start + *ready_ones * size, start + until * size))
        return plock__fail_errno(error, PLOCK_STORE_FULL, "making room in the local store's file",
                                 errno);
    PLOCK__FAULT();
    *ready_ones = until;
    return PLOCK_OK;
}

plock_status plock__local_ready_key(plock__local_map *map, plock_error *error) {
    return ready(map, map->header->keys_made, &map->header->keys_ready, map->key_count, map->keys,
                 sizeof *map->keys, error);
}

plock_status plock__local_ready_claim(plock__local_map *map, plock_error *error) {
    return ready(map, map->header->claims_made, &map->header->claims_ready, map->claim_count,
                 map->claims, sizeof *map->claims, error);
}
