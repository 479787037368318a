/* Replies in RESP2. The reader of hiredis fills a flat list of values. Values need no allocation of
 * their own, and a hostile server cannot cause a large allocation. */
#ifndef PLOCK__REPLY_H
#define PLOCK__REPLY_H

#include "plock/status.h"

#include <stddef.h>
#include <stdint.h>

enum {
    /* bytes in one reply, including the headers of its values */
    PLOCK__REPLY_BYTES_MAX = 16 * 1024,
    PLOCK__REPLY_VALUES_MAX = 256, /* values in one reply */
    /* the same two limits for the map of a cluster: enough for about 5000 ranges of slots */
    PLOCK__LARGE_REPLY_BYTES_MAX = 1536 * 1024,
    PLOCK__LARGE_REPLY_VALUES_MAX = 64 * 1024,
    PLOCK__REPLY_DEPTH_MAX = 4, /* how deep arrays may be nested */
};

typedef enum plock_type {
    PLOCK__NIL,
    PLOCK__INTEGER,
    PLOCK__STRING,
    PLOCK__DONE,
    PLOCK__ERROR,
    PLOCK__ARRAY
} plock_type;

typedef struct plock_value {
    plock_type type;
    int64_t integer; /* the value of an INTEGER */
    /* for a STRING, a DONE ("+OK") or an ERROR: the number of bytes; for an ARRAY: the number of
     * elements, which follow it in the list */
    size_t length;
    /* the bytes of a STRING, DONE or ERROR; no NUL follows them; valid until the next reply */
    const char *text;
} plock_value;

typedef struct plock_reader plock_reader;

/* Makes a reader, perhaps with room for a large reply. Returns NULL if memory runs out. */
plock_reader *plock__reader_new(bool large);
void plock__reader_free(plock_reader *reader); /* NULL is allowed */

/* Returns PLOCK_OK, PLOCK_PROTOCOL (the reply has too many bytes) or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__reader_feed(plock_reader *reader, const char *bytes,
                                               size_t length, plock_error *error);

/* Returns PLOCK_OK with the values of the next whole reply, the outermost first; PLOCK_AGAIN if
 * more bytes are needed; PLOCK_PROTOCOL or PLOCK_NO_MEMORY if the stream is unusable. */
PLOCK_MUST_USE plock_status plock__reader_next(plock_reader *reader, const plock_value **values,
                                               plock_error *error);

/* Do all bytes that the reader was fed belong to replies that it has returned? */
bool plock__reader_empty(const plock_reader *reader);

/* Returns the i-th element of an array, counted from 0. The array must have only plain values, and
 * no arrays. Returns NULL if there is no such element, or if it is not of this type. */
const plock_value *plock__element(const plock_value *array, size_t i, plock_type type);

/* Returns the value that follows this value and all values within it. For an array, that is the
 * value after its last element. */
const plock_value *plock__value_after(const plock_value *value);

/* Returns a copy of a plain value, or of an array of plain values. plock__free frees the copy.
 * Returns NULL if memory runs out. */
plock_value *plock__value_copy(const plock_value *value);

/* Returns the status for an error reply, and copies the server's words into error. */
plock_status plock__server_error(const plock_value *value, plock_error *error);

#endif
