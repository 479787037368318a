#include "redis/subject.h"

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
