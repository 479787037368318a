#include "request.h"

#include "failure.h"

/* In milliseconds. */
static plock_text write_ttl(plock_subject *subject, plock_ns ttl) {
    char *const end = subject->ttl + sizeof subject->ttl, *at = end;
    plock_ns left = ttl / PLOCK_MILLISECOND;
    do *--at = (char)('0' + left % 10);
    while (left /= 10);
    return plock__text(at, (size_t)(end - at));
}

plock_request plock__acquire_request(plock_subject *s, plock_ns ttl, bool again) {
    return (plock_request){PLOCK__ACQUIRE, 2, again ? 4 : 3, {s->key, s->companion, s->owner.value, write_ttl(s, ttl), s->owner.record, plock__text("again", 5)}};
}

plock_request plock__extend_request(plock_subject *s, plock_ns ttl) {
    return (plock_request){PLOCK__EXTEND, 1, 2, {s->key, s->owner.value, write_ttl(s, ttl)}};
}

plock_request plock__release_request(const plock_subject *s) {
    return (plock_request){PLOCK__RELEASE, 1, 1, {s->key, s->owner.value}};
}

plock_request plock__undo_request(const plock_subject *s) {
    return (plock_request){PLOCK__UNDO, 2, 2, {s->key, s->companion, s->owner.value, s->owner.record}};
}

/* --- answers --- */

static plock_status not_ours(plock_error *error) {
    return plock__fail(error, PLOCK_PROTOCOL, "an answer that none of our scripts gives");
}

/* A string of 16 digits, or somewhat more in three centuries. */
static bool read_fence(const plock_value *value, int64_t *fence) {
    if (value->type != PLOCK__STRING || value->length < 16 || value->length > 18) return false;
    int64_t number = 0;
    for (size_t i = 0; i < value->length; i++) {
        if (value->text[i] < '0' || value->text[i] > '9') return false;
        number = number * 10 + (value->text[i] - '0');
    }
    *fence = number;
    return number > 0;
}

plock_status plock__read_acquired(const plock_value *answer, int64_t *fence, plock_ns *left, plock_error *error) {
    if (read_fence(answer, fence)) return PLOCK_OK;
    const plock_value *held = plock__element(answer, 0, PLOCK__INTEGER), *ms = plock__element(answer, 1, PLOCK__INTEGER);
    if (!held || held->integer != 0 || !ms) return not_ours(error);
    *left = ms->integer > 0 && ms->integer < INT32_MAX ? ms->integer * PLOCK_MILLISECOND : PLOCK_NEVER;
    return PLOCK_REFUSED;
}

plock_status plock__read_done(const plock_value *answer, plock_error *error) {
    if (answer->type != PLOCK__INTEGER || (answer->integer != 0 && answer->integer != 1)) return not_ours(error);
    return answer->integer ? PLOCK_OK : plock__fail_plainly(error, PLOCK_NOT_OWNER);
}
