#include "owner.h"

#include "memory.h"
#include "process.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_MAX = PLOCK__SIGNATURE_MAX - PLOCK__IDENTITY_MAX };

/* --- what the caller brings --- */

plock_status plock__owner_bring(plock_owner *owner, plock_text value) {
    if (value.length == 0) return PLOCK_MISUSE;
    char *copy = plock__allocate(value.length + PLOCK__SIGNATURE_MAX + value.length);
    if (!copy) return PLOCK_NO_MEMORY;
    memcpy(copy, value.bytes, value.length);
    plock__free(owner->brought);
    owner->brought = copy;
    owner->value = plock__text(copy, value.length);
    return PLOCK_OK;
}

plock_status plock__owner_copy(plock_owner *copy, const plock_owner *owner) {
    const plock_status status = plock__owner_bring(copy, owner->value);
    if (status || !owner->record.bytes) return status;
    char *record = copy->brought + copy->value.length;
    memcpy(record, owner->record.bytes, owner->record.length);
    copy->record = plock__text(record, owner->record.length);
    return PLOCK_OK;
}

void plock__owner_clear(plock_owner *owner) {
    plock__free(owner->brought);
    owner->brought = NULL;
}

/* --- records --- */

static plock_text finish_record(char *record, size_t length, plock_text value) {
    record[length++] = ' ';
    memcpy(record + length, value.bytes, value.length);
    return plock__text(record, length + value.length);
}

static size_t sign(char *record) {
    size_t length;
    const char *identity = plock__identity(&length);
    memcpy(record, identity, length);
    return length;
}

void plock__owner_number(plock_owner *owner) {
    static atomic_ulong number;
    char *record = owner->brought + owner->value.length;
    size_t length = sign(record);
    length += (size_t)snprintf(record + length, NUMBER_MAX, ".%lu", atomic_fetch_add(&number, 1));
    owner->record = finish_record(record, length, owner->value);
}

/* --- fresh tokens --- */

/* Marshal 4.8: a String with the instance variable E (encoding) false, which is US-ASCII, as SecureRandom.uuid has it. A
 * small length is written with 5 added. */
static plock_text marshal(plock_owner *owner) {
    const int length = snprintf(owner->marshalled, sizeof owner->marshalled, "\x04\bI\"%c%.*s\x06:\x06" "EF", PLOCK_TOKEN_LENGTH + 5,
                                PLOCK_TOKEN_LENGTH, owner->token);
    return plock__text(owner->marshalled, (size_t)length);
}

plock_status plock__owner_renew(plock_owner *owner, plock_encoding encoding) {
    const plock_status status = plock_token(owner->token);
    if (status) return status;
    owner->value = encoding == PLOCK_PLAIN ? plock__text(owner->token, PLOCK_TOKEN_LENGTH) : marshal(owner);
    owner->record = finish_record(owner->written, sign(owner->written), owner->value);
    return PLOCK_OK;
}

plock_text plock__owner_name(const plock_owner *owner) {
    if (owner->brought || !owner->value.bytes) return owner->value;
    return plock__text(owner->token, PLOCK_TOKEN_LENGTH);
}
