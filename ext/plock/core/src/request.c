#include "request.h"

#include "failure.h"

static plock_text write_number(char *to, size_t room, int64_t number) {
    char *const end = to + room, *at = end;
    do *--at = (char)('0' + number % 10);
    while (number /= 10);
    return plock__text(at, (size_t)(end - at));
}

static plock_text write_ttl(plock_subject *s, plock_ns ttl) {
    return write_number(s->ttl, sizeof s->ttl, ttl / PLOCK_MILLISECOND);
}

static plock_text write_window(plock_subject *s, plock_ns window) {
    return write_number(s->window, sizeof s->window, window / PLOCK_MILLISECOND);
}

plock_request plock__acquire_request(plock_subject *s, plock_ns ttl, bool again) {
    return (plock_request){PLOCK__ACQUIRE, 3, again ? 4 : 3,
                           {s->key, s->companion, s->queue, s->owner.value, write_ttl(s, ttl), s->owner.record, plock__text("again", 5)}};
}

plock_request plock__queue_request(plock_subject *s, plock_ns ttl, int64_t ticket, plock_ns window) {
    return (plock_request){PLOCK__ACQUIRE, 3, 5,
                           {s->key, s->companion, s->queue, s->owner.value, write_ttl(s, ttl), s->owner.record,
                            write_number(s->ticket, sizeof s->ticket, ticket), write_window(s, window)}};
}

plock_request plock__extend_request(plock_subject *s, plock_ns ttl) {
    return (plock_request){PLOCK__EXTEND, 1, 2, {s->key, s->owner.value, write_ttl(s, ttl)}};
}

plock_request plock__renew_request(plock_subject *s, plock_ns ttl) {
    return (plock_request){PLOCK__EXTEND, 1, 3, {s->key, s->owner.value, write_ttl(s, ttl), plock__text("longer", 6)}};
}

plock_request plock__check_request(const plock_subject *s) {
    return (plock_request){PLOCK__CHECK, 1, 1, {s->key, s->owner.value}};
}

plock_request plock__break_request(const plock_subject *s) {
    return (plock_request){PLOCK__BREAK, 3, 0, {s->key, s->companion, s->queue}};
}

#define AS_TEXT(number) #number
#define WAITERS_TOLD(number) plock__text(AS_TEXT(number), sizeof AS_TEXT(number) - 1)

plock_request plock__status_request(plock_subject *s, int64_t first) {
    return (plock_request){PLOCK__STATUS, 3, 2,
                           {s->key, s->companion, s->queue, write_number(s->ticket, sizeof s->ticket, first), WAITERS_TOLD(PLOCK_WAITERS_TOLD)}};
}

plock_request plock__scan_request(plock_subject *s, int64_t cursor) {
    return (plock_request){PLOCK__SCAN, 0, 2, {write_number(s->ticket, sizeof s->ticket, cursor), s->key}};
}

plock_request plock__release_request(plock_subject *s, plock_ns window, plock_ns keep) {
    const unsigned arguments = keep ? 3 : window ? 2 : 1;
    return (plock_request){PLOCK__RELEASE, 2, arguments, {s->key, s->queue, s->owner.value, write_window(s, window), keep ? write_ttl(s, keep) : plock__text("", 0)}};
}

plock_request plock__leave_request(const plock_subject *s, bool doubt) {
    return (plock_request){PLOCK__LEAVE, 2, s->owner.record.length ? 3 : 2, {s->key, s->queue, s->owner.value, plock__text(doubt ? "1" : "0", 1), s->owner.record}};
}

plock_request plock__undo_request(const plock_subject *s) {
    return (plock_request){PLOCK__UNDO, 3, 2, {s->key, s->companion, s->queue, s->owner.value, s->owner.record}};
}

/* --- answers --- */

static plock_status not_ours(plock_error *error) {
    return plock__fail(error, PLOCK_PROTOCOL, "an answer that none of our scripts gives");
}

/* A fence or a ticket: microseconds, a string of 16 digits, or somewhat more in three centuries. */
static bool read_number(const plock_value *value, int64_t *read) {
    if (value->type != PLOCK__STRING || value->length < 16 || value->length > 18) return false;
    int64_t number = 0;
    for (size_t i = 0; i < value->length; i++) {
        if (value->text[i] < '0' || value->text[i] > '9') return false;
        number = number * 10 + (value->text[i] - '0');
    }
    *read = number;
    return number > 0;
}

static bool read_place(const plock_value *answer, plock_place *place) {
    const plock_value *rank = plock__element(answer, 2, PLOCK__INTEGER), *ticket = plock__element(answer, 3, PLOCK__STRING);
    const plock_value *notified = plock__element(answer, 4, PLOCK__INTEGER);
    if (!rank || rank->integer < 0 || rank->integer > INT32_MAX || !ticket || !notified || !read_number(ticket, &place->ticket)) return false;
    place->rank = rank->integer;
    place->notified = notified->integer == 1;
    return true;
}

plock_status plock__read_acquired(const plock_value *answer, int64_t *fence, plock_place *place, plock_error *error) {
    if (read_number(answer, fence)) return PLOCK_OK;
    const plock_value *held = plock__element(answer, 0, PLOCK__INTEGER), *ms = plock__element(answer, 1, PLOCK__INTEGER);
    if (!held || held->integer != 0 || !ms) return not_ours(error);
    place->free_in = ms->integer > 0 && ms->integer < INT32_MAX ? ms->integer * PLOCK_MILLISECOND : PLOCK_NEVER;
    if (answer->length > 2 && !read_place(answer, place)) return not_ours(error);
    return PLOCK_REFUSED;
}

plock_status plock__read_done(plock_script_id script, const plock_value *answer, plock_error *error) {
    const int64_t last = script == PLOCK__EXTEND ? 1 : 2; /* 2: handed over */
    if (answer->type != PLOCK__INTEGER || answer->integer < 0 || answer->integer > last) return not_ours(error);
    return answer->integer ? PLOCK_OK : plock__fail_plainly(error, PLOCK_NOT_OWNER);
}
