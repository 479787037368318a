#include "redis/looking.h"

#include "base/process.h"

#include <string.h>

/* Most keys are digests, whose bytes are close to random. So a simple hash is enough. */
static uint64_t hash(plock_text key) {
    /* the generation is included, so that the parent's marks do not count in a forked child */
    uint64_t value = (key.length + plock__generation()) * 0x9e3779b97f4a7c15u;
    for (size_t at = 0; at + sizeof value <= key.length; at += sizeof value) {
        uint64_t word;
        memcpy(&word, key.bytes + key.length - sizeof word - at, sizeof word);
        value = (value ^ word) * 0xff51afd7ed558ccdu;
        value ^= value >> 32;
    }
    return value | 1;
}

bool plock__looking_begin(_Atomic uint64_t slots[PLOCK__LOOKING_SLOTS], plock_text key,
                          _Atomic uint64_t **slot) {
    const uint64_t mark = hash(key);
    _Atomic uint64_t *place = &slots[mark >> 32 & (PLOCK__LOOKING_SLOTS - 1)];
    uint64_t other = 0;
    if (atomic_compare_exchange_strong(place, &other, mark)) *slot = place;
    return other != mark;
}

void plock__looking_end(_Atomic uint64_t *slot) {
    if (slot) atomic_store(slot, 0);
}
