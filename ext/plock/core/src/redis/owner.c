#include "redis/owner.h"

#include "base/memory.h"
#include "base/process.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_MAX = 24 };
_Static_assert(PLOCK__IDENTITY_MAX + NUMBER_MAX + PLOCK__CHANNEL_MAX + PLOCK_LABEL_MAX + 3 <=
                   PLOCK__SIGNATURE_MAX,
               "a signature has room");

/* --- the caller's own value --- */

plock_status plock__owner_bring(plock_owner *owner, plock_text value) {
    if (value.length == 0) return PLOCK_MISUSE;
    char *copy = plock__allocate(value.length + PLOCK__SIGNATURE_MAX);
    if (!copy) return PLOCK_NO_MEMORY;
    memcpy(copy, value.bytes, value.length);
    plock__free(owner->brought);
    owner->brought = copy;
    owner->value = plock__text(copy, value.length);
    owner->signature = plock__text(NULL, 0); /* its bytes were in the old copy */
    return PLOCK_OK;
}

static plock_status copy_brought(plock_owner *copy, const plock_owner *owner) {
    const plock_status status = plock__owner_bring(copy, owner->value);
    if (status || !owner->signature.bytes) return status;
    char *signature = copy->brought + copy->value.length;
    memcpy(signature, owner->signature.bytes, owner->signature.length);
    copy->signature = plock__text(signature, owner->signature.length);
    return PLOCK_OK;
}

/* The texts of a fresh token point into the struct itself, so the copy's texts must point into the
 * copy. */
void plock__owner_copy_fresh(plock_owner *copy, const plock_owner *owner) {
    *copy = *owner;
    copy->value =
        plock__text(owner->value.bytes == owner->marshalled ? copy->marshalled : copy->token,
                    owner->value.length);
    copy->signature = plock__text(copy->written, owner->signature.length);
    copy->channel = copy->label = plock__text(NULL, 0); /* the signature already contains them */
}

plock_status plock__owner_copy(plock_owner *copy, const plock_owner *owner) {
    if (owner->brought) return copy_brought(copy, owner);
    plock__owner_copy_fresh(copy, owner);
    return PLOCK_OK;
}

void plock__owner_clear(plock_owner *owner) {
    plock__free(owner->brought);
    owner->brought = NULL;
}

/* --- signatures --- */

static size_t append(char *signature, size_t length, plock_text word) {
    signature[length++] = ' ';
    if (word.length)
        memcpy(signature + length, word.bytes, word.length);
    else
        signature[length++] = '-';
    return length + word.length;
}

/* number: distinguishes acquires with the same value; 0: the signature has no number. */
static void sign(plock_owner *owner, char *signature, unsigned long number, plock_text channel,
                 plock_text label) {
    size_t length;
    const char *identity = plock__identity(&length);
    memcpy(signature, identity, length);
    if (number) length += (size_t)snprintf(signature + length, NUMBER_MAX, ".%lu", number);
    length = append(signature, length, channel);
    length = append(signature, length, label);
    owner->signature = plock__text(signature, length);
}

void plock__owner_number(plock_owner *owner) {
    static atomic_ulong number;
    sign(owner, owner->brought + owner->value.length, atomic_fetch_add(&number, 1) + 1,
         owner->channel, owner->label);
}

/* --- fresh tokens --- */

/* Writes Ruby's Marshal format 4.8: a String whose instance variable E is false, which means
 * US-ASCII, the encoding of SecureRandom.uuid. Marshal writes a small length with 5 added. */
static plock_text marshal(plock_owner *owner) {
    static const char before[] = {4, 8, 'I', '"', PLOCK_TOKEN_LENGTH + 5},
                      after[] = {6, ':', 6, 'E', 'F'};
    char *token = owner->marshalled + sizeof before;
    memcpy(owner->marshalled, before, sizeof before);
    memcpy(token, owner->token, PLOCK_TOKEN_LENGTH);
    memcpy(token + PLOCK_TOKEN_LENGTH, after, sizeof after);
    return plock__text(owner->marshalled, sizeof before + PLOCK_TOKEN_LENGTH + sizeof after);
}

plock_status plock__owner_renew(plock_owner *owner, plock_encoding encoding) {
    const plock_status status = plock_token(owner->token);
    if (status) return status;
    owner->value =
        encoding == PLOCK_PLAIN ? plock__text(owner->token, PLOCK_TOKEN_LENGTH) : marshal(owner);
    plock__owner_sign(owner, owner->channel, owner->label);
    return PLOCK_OK;
}

void plock__owner_sign(plock_owner *owner, plock_text channel, plock_text label) {
    sign(owner, owner->written, 0, channel, label);
}

plock_text plock__owner_name(const plock_owner *owner) {
    if (owner->brought || !owner->value.bytes) return owner->value;
    return plock__text(owner->token, PLOCK_TOKEN_LENGTH);
}
