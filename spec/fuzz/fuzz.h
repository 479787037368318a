/* Shared parts of the fuzz targets. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

/* Adds bytes to a checksum, which shows whether two readings of one input agree (FNV-1a's step). */
static inline void fuzz_add(uint64_t *sum, const void *bytes, size_t length) {
    const unsigned char *from = bytes;
    for (size_t i = 0; i < length; i++) *sum = (*sum ^ from[i]) * UINT64_C(0x100000001b3);
}

#endif
