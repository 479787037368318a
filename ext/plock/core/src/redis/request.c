#include "redis/request.h"

#include "base/failure.h"

#include <string.h>

void plock__subject_name(plock_subject *subject, char *room, plock_text key, plock_ns fence_ttl) {
    subject->fence_ttl = fence_ttl;
    memcpy(room, key.bytes, key.length);
    subject->key = plock__text(room, key.length);
}

plock_status plock__subject_copy(plock_subject *copy, char *room, const plock_subject *subject) {
    plock__subject_name(copy, room, subject->key, subject->fence_ttl);
    memcpy(copy->share, subject->share, sizeof copy->share);
    copy->replicas = subject->replicas;
    return plock__owner_copy(&copy->owner, &subject->owner);
}

static plock_text write_number(char room[PLOCK__NUMBER_ROOM], int64_t number) {
    char *const end = room + PLOCK__NUMBER_ROOM, *at = end;
    do *--at = (char)('0' + number % 10);
    while (number /= 10);
    return plock__text(at, (size_t)(end - at));
}

static plock_text write_ms(char room[PLOCK__NUMBER_ROOM], plock_ns span) {
    return write_number(room, span / PLOCK_MILLISECOND);
}

/* Rounds up to milliseconds, and adds one, because Redis counts from the start of the current
 * millisecond. So the key is never free too early. */
static plock_ns kept_for(plock_ns keep) {
    return keep ? ((keep + PLOCK_MILLISECOND - 1) / PLOCK_MILLISECOND + 1) * PLOCK_MILLISECOND : 0;
}

/* Locks that can have several holders have scripts of their own. */
static bool is_shared(const plock_subject *s) { return *s->share != 0; }

/* Writes the TTL of the companion, in ms. The companion lasts fence_ttl longer than the span for
 * which the key is taken. */
static plock_text write_noted_for(plock_subject *s, plock_ns span) {
    return write_ms(s->noted_for, span + s->fence_ttl);
}

static plock_text write_fence_ttl(plock_subject *s) { return write_noted_for(s, 0); }

/* A request about the lock of `s`. Only the first `count` of the arguments are sent. */
#define REQUEST(s, id, count, ...)                                                                 \
    ((plock_request){                                                                              \
        .script = (id), .keys = 1, .arguments = (count), .texts = {(s)->key, __VA_ARGS__}})

static plock_request confirmed(const plock_subject *s, plock_request request) {
    request.replicas = s->replicas;
    return request;
}

plock_request plock__acquire_request(plock_subject *s, plock_ns ttl, bool again) {
    if (is_shared(s))
        return confirmed(s,
                         REQUEST(s, PLOCK__SHARED_ACQUIRE, 5, s->owner.value, write_ms(s->ttl, ttl),
                                 s->owner.signature, write_fence_ttl(s), plock__text_of(s->share)));
    return confirmed(s, REQUEST(s, PLOCK__ACQUIRE, again ? 5 : 4, s->owner.value,
                                write_ms(s->ttl, ttl), s->owner.signature, write_noted_for(s, ttl),
                                plock__text_of("again")));
}

plock_request plock__queue_request(plock_subject *s, plock_ns ttl, int64_t ticket,
                                   plock_ns window) {
    plock_request request = plock__acquire_request(s, ttl, false);
    request.texts[request.keys + request.arguments++] = write_number(s->ticket, ticket);
    if (!is_shared(s))
        request.texts[request.keys + request.arguments++] = write_ms(s->window, window);
    request.irreplaceable = ticket;
    return request;
}

/* Writes the TTL of the companion. If a lock can have several holders, its companion contains the
 * fence, so the script needs the TTL of the fence instead. */
static plock_text write_companion_ttl(plock_subject *s, plock_ns ttl) {
    return is_shared(s) ? write_fence_ttl(s) : write_noted_for(s, ttl);
}

static plock_request extension(plock_subject *s, plock_ns ttl, plock_text longer,
                               plock_text place) {
    const unsigned count = place.length ? 5 : longer.length ? 4 : 3;
    return confirmed(s, REQUEST(s, is_shared(s) ? PLOCK__SHARED_EXTEND : PLOCK__EXTEND, count,
                                s->owner.value, write_ms(s->ttl, ttl), write_companion_ttl(s, ttl),
                                longer, place));
}

plock_request plock__extend_request(plock_subject *s, plock_ns ttl) {
    return extension(s, ttl, plock__text("", 0), plock__text("", 0));
}

plock_request plock__adopt_request(plock_subject *s, plock_text left, plock_ns ttl) {
    return confirmed(s, REQUEST(s, is_shared(s) ? PLOCK__SHARED_ADOPT : PLOCK__ADOPT, 5, left,
                                write_ms(s->ttl, ttl), s->owner.value, s->owner.signature,
                                write_companion_ttl(s, ttl)));
}

plock_request plock__renew_request(plock_subject *s, plock_ns ttl, plock_text place) {
    return extension(s, ttl, plock__text_of("longer"), place);
}

plock_request plock__check_request(const plock_subject *s) {
    return REQUEST(s, is_shared(s) ? PLOCK__SHARED_EXTEND : PLOCK__CHECK, 1, s->owner.value);
}

plock_request plock__downgrade_request(plock_subject *s) {
    return REQUEST(s, PLOCK__SHARED_DOWNGRADE, 2, s->owner.value, write_fence_ttl(s));
}

plock_request plock__break_request(plock_subject *s, plock_text only) {
    const unsigned chosen = only.length ? 1 : 0;
    const plock_text anyway = plock__text_of("anyway");
    if (is_shared(s))
        return REQUEST(s, PLOCK__SHARED_BREAK, 1 + chosen, write_fence_ttl(s), only, anyway);
    return REQUEST(s, PLOCK__BREAK, chosen, only, anyway);
}

void plock__break_anyway(plock_request *request) {
    if (request->script == PLOCK__BREAK && request->arguments == 0) request->arguments = 2;
    if (request->script == PLOCK__SHARED_BREAK && request->arguments == 1) request->arguments = 3;
}

#define AS_TEXT(number)      #number
#define WAITERS_TOLD(number) plock__text_of(AS_TEXT(number))

plock_request plock__status_request(plock_subject *s, int64_t first) {
    return REQUEST(s, is_shared(s) ? PLOCK__SHARED_STATUS : PLOCK__STATUS, 2,
                   write_number(s->ticket, first), WAITERS_TOLD(PLOCK_WAITERS_TOLD));
}

plock_request plock__scan_request(plock_subject *s, int64_t cursor) {
    return (plock_request){.script = PLOCK__SCAN,
                           .keys = 0,
                           .arguments = 2,
                           .texts = {write_number(s->ticket, cursor), s->key}};
}

plock_request plock__note_request(const plock_subject *s, plock_text note, bool replace) {
    return REQUEST(s, PLOCK__NOTE, replace ? 2 : 1, note, plock__text_of("replace"));
}

plock_request plock__release_request(plock_subject *s, plock_ns window, plock_ns keep) {
    const plock_text span = keep ? write_ms(s->ttl, kept_for(keep)) : plock__text("", 0);
    if (is_shared(s))
        return REQUEST(s, PLOCK__SHARED_RELEASE, keep ? 3 : 2, s->owner.value, write_fence_ttl(s),
                       span);
    if (keep)
        return REQUEST(s, PLOCK__RELEASE, 4, s->owner.value, write_ms(s->window, window), span,
                       write_noted_for(s, kept_for(keep)));
    return REQUEST(s, PLOCK__RELEASE, window ? 2 : 1, s->owner.value, write_ms(s->window, window));
}

plock_request plock__release_valid_request(plock_subject *s) {
    return REQUEST(s, PLOCK__SHARED_RELEASE, 3, s->owner.value, write_fence_ttl(s),
                   plock__text_of("held"));
}

plock_request plock__leave_request(plock_subject *s, bool doubt) {
    const plock_text doubtful = plock__text(doubt ? "1" : "0", 1);
    const bool queued = s->owner.signature.length != 0;
    if (is_shared(s))
        return REQUEST(s, PLOCK__SHARED_LEAVE, queued ? 5 : 3, s->owner.value, doubtful,
                       write_fence_ttl(s), plock__text_of(s->share), s->owner.signature);
    return REQUEST(s, PLOCK__LEAVE, queued ? 3 : 2, s->owner.value, doubtful, s->owner.signature);
}

plock_request plock__undo_request(const plock_subject *s) {
    return REQUEST(s, PLOCK__UNDO, 2, s->owner.value, s->owner.signature);
}

/* --- requests for several locks --- */

static plock_text *put_keys(plock_text *to, plock_subject *const *subjects, size_t count) {
    for (size_t i = 0; i < count; i++) *to++ = subjects[i]->key;
    return to;
}

plock_request plock__acquire_all_request(plock_subject *const *subjects, size_t count, plock_ns ttl,
                                         plock_text *texts) {
    plock_text *to = put_keys(texts, subjects, count);
    *to++ = write_ms(subjects[0]->ttl, ttl);
    *to++ = write_noted_for(subjects[0], ttl);
    bool same = true;
    for (size_t i = 0; i < count; i++) {
        *to++ = subjects[i]->owner.value;
        same = same && plock__same_text(subjects[i]->owner.signature, subjects[0]->owner.signature);
    }
    for (size_t i = 0; i < (same ? 1 : count); i++) *to++ = subjects[i]->owner.signature;
    return (plock_request){.script = PLOCK__ACQUIRE_ALL,
                           .keys = (unsigned)count,
                           .arguments = (unsigned)(to - texts) - (unsigned)count,
                           .replicas = subjects[0]->replicas,
                           .list = texts};
}

plock_request plock__release_all_request(plock_subject *const *subjects, size_t count,
                                         plock_ns keep, plock_text *texts) {
    plock_text *to = put_keys(texts, subjects, count);
    *to++ = keep > 0 ? write_ms(subjects[0]->ttl, kept_for(keep)) : plock__text("", 0);
    *to++ = keep > 0 ? write_noted_for(subjects[0], kept_for(keep)) : plock__text("", 0);
    for (size_t i = 0; i < count; i++) *to++ = subjects[i]->owner.value;
    return (plock_request){.script = PLOCK__RELEASE_ALL,
                           .keys = (unsigned)count,
                           .arguments = 2 + (unsigned)count,
                           .list = texts};
}

/* --- answers --- */

bool plock__grants(plock_script_id script, const plock_value *answer) {
    switch (script) {
    case PLOCK__EXTEND:
    case PLOCK__SHARED_EXTEND: return answer->type == PLOCK__INTEGER && answer->integer == 1;
    default: return answer->type == PLOCK__STRING || plock__element(answer, 0, PLOCK__STRING);
    }
}

bool plock__shows_primary(const plock_request *request, const plock_value *answer) {
    switch (request->script) {
    case PLOCK__ACQUIRE:
    case PLOCK__SHARED_ACQUIRE: return true;
    case PLOCK__EXTEND:
    case PLOCK__SHARED_EXTEND: /* without a TTL, the script only reads */
        return request->arguments > 1 && plock__grants(request->script, answer);
    default: return false;
    }
}

plock_status plock__not_our_answer(plock_error *error) {
    return plock__fail(error, PLOCK_PROTOCOL, "an answer that none of our scripts gives");
}

bool plock__read_number(const plock_value *value, int64_t *read) {
    /* a time in microseconds has 16 digits until the year 2286 */
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
    const plock_value *rank = plock__element(answer, 2, PLOCK__INTEGER),
                      *ticket = plock__element(answer, 3, PLOCK__STRING);
    const plock_value *notified = plock__element(answer, 4, PLOCK__INTEGER),
                      *lost = plock__element(answer, 5, PLOCK__INTEGER);
    if (!rank || rank->integer < 0 || rank->integer > INT32_MAX || !ticket || !notified || !lost)
        return false;
    if (!plock__read_number(ticket, &place->ticket)) return false;
    place->rank = rank->integer;
    place->notified = notified->integer == 1;
    place->lost = lost->integer == 1;
    return true;
}

static plock_ns span(const plock_value *ms) {
    return ms->integer > 0 && ms->integer < INT32_MAX ? ms->integer * PLOCK_MILLISECOND
                                                      : PLOCK_NEVER;
}

plock_status plock__read_acquired(const plock_value *answer, plock_grant *grant, plock_place *place,
                                  plock_error *error) {
    grant->next_in = PLOCK_NEVER;
    if (plock__read_number(answer, &grant->fence)) return PLOCK_OK;
    const plock_value *fence = plock__element(answer, 0, PLOCK__STRING),
                      *held = plock__element(answer, 0, PLOCK__INTEGER);
    const plock_value *ms = plock__element(answer, 1, PLOCK__INTEGER);
    if (!ms) return plock__not_our_answer(error);
    if (fence && plock__read_number(fence, &grant->fence)) {
        grant->next_in = span(ms);
        return PLOCK_OK;
    }
    if (!held || held->integer != 0) return plock__not_our_answer(error);
    place->free_in = ms->integer == 0 ? 0 : span(ms);
    place->lost = false;
    if (answer->length > 2 && !read_place(answer, place)) return plock__not_our_answer(error);
    return PLOCK_REFUSED;
}

plock_status plock__read_done(plock_script_id script, const plock_value *answer,
                              plock_error *error) {
    /* 0: the owner held nothing; 1: done; 2: done, and the lock was handed over to a waiter */
    const int64_t last =
        script == PLOCK__EXTEND || script == PLOCK__SHARED_EXTEND ? 1 : PLOCK__UNFINISHED;
    if (answer->type != PLOCK__INTEGER || answer->integer < 0 || answer->integer > last)
        return plock__not_our_answer(error);
    if (answer->integer == PLOCK__UNFINISHED) return PLOCK_AGAIN;
    return answer->integer ? PLOCK_OK : plock__fail_plainly(error, PLOCK_NOT_OWNER);
}
