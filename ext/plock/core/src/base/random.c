#include "base/random.h"

#include "base/memory.h"
#include "base/process.h"

#include <string.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/random.h>
#endif

/* The most bytes that one call of getentropy returns. They are enough for 16 tokens, but the call
 * takes only as long as three calls for one token each. */
enum { DRAWN = 256 };

static _Thread_local struct {
    unsigned generation; /* a child must not hand out bytes that its parent drew */
    size_t left;
    unsigned char bytes[DRAWN];
} drawn;

plock_status plock__random(void *bytes, size_t length) {
    if (length > drawn.left || drawn.generation != plock__generation()) {
        drawn.left = 0;
        if (getentropy(drawn.bytes, DRAWN)) return PLOCK_CRYPTO;
        drawn.left = DRAWN;
        drawn.generation = plock__generation();
    }
    unsigned char *from = drawn.bytes + (DRAWN - drawn.left);
    memcpy(bytes, from, length);
    plock__wipe(from, length);
    drawn.left -= length;
    return PLOCK_OK;
}

int64_t plock__random_between(int64_t low, int64_t high) {
    uint32_t number = 0;
    if (high <= low || plock__random(&number, sizeof number)) return low;
    return low + (int64_t)(number % (uint64_t)(high - low + 1));
}
