#include "redis/subject.h"

#include <string.h>

static const char BEFORE[] = "plock:1:{", FENCE[] = "}:fence", QUEUE[] = "}:queue";

enum { AROUND = sizeof BEFORE - 1 + sizeof FENCE - 1 };
_Static_assert(sizeof FENCE == sizeof QUEUE, "both names have the same length");

size_t plock__names_room(size_t key_length) { return 3 * key_length + 2 * AROUND; }

static char *append(char *to, const char *bytes, size_t length) {
    memcpy(to, bytes, length);
    return to + length;
}

static plock_text name(char *to, plock_text key, const char *after) {
    char *at = append(to, BEFORE, sizeof BEFORE - 1);
    at = append(at, key.bytes, key.length);
    at = append(at, after, sizeof FENCE - 1);
    return plock__text(to, (size_t)(at - to));
}

void plock__subject_name(plock_subject *subject, char *room, plock_text key, plock_ns fence_ttl) {
    subject->fence_ttl = fence_ttl;
    subject->key = plock__text(room, key.length);
    room = append(room, key.bytes, key.length);
    subject->companion = name(room, key, FENCE);
    subject->queue = name(room + key.length + AROUND, key, QUEUE);
}

plock_status plock__subject_copy(plock_subject *copy, char *room, const plock_subject *subject) {
    plock__subject_name(copy, room, subject->key, subject->fence_ttl);
    memcpy(copy->share, subject->share, sizeof copy->share);
    return plock__owner_copy(&copy->owner, &subject->owner);
}
