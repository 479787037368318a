#include "runtime/notice.h"

#include "base/memory.h"
#include "base/process.h"
#include "runtime/waker.h"

#include <stdatomic.h>
#include <string.h>

/* The mutex protects these variables. */
static plock_notice *first, **last = &first;
static plock_waker *listener_waker;
/* One bit for each kind of notice. Kinds whose bit is set are not posted. */
static atomic_uint unwanted = 1u << PLOCK_RENEWED | 1u << PLOCK_EXPIRED;

void plock__notice_post(plock_notice_kind kind, uint64_t id, plock_text key, int64_t fence,
                        plock_ns took) {
    if (atomic_load_explicit(&unwanted, memory_order_relaxed) & 1u << kind) return;
    plock_notice *notice = plock__allocate(sizeof *notice + key.length);
    if (!notice) return;
    *notice = (plock_notice){
        .kind = kind, .id = id, .fence = fence, .took = took, .key_length = key.length};
    memcpy(notice->key, key.bytes, key.length);
    plock__enter();
    *last = notice;
    last = &notice->next;
    if (listener_waker) plock_waker_wake(listener_waker);
    plock__leave();
}

plock_notice *plock_notice_next(void) {
    plock__enter();
    plock_notice *notice = first;
    if (notice) first = notice->next;
    if (!first) last = &first;
    plock__leave();
    return notice;
}

void plock_notice_free(plock_notice *notice) { plock__free(notice); }

int plock_notice_descriptor(void) {
    plock_waker *made = NULL;
    plock__enter();
    const bool known = listener_waker;
    plock__leave();
    if (!known && !(made = plock__waker_take_open())) return -1;
    plock__enter();
    if (!listener_waker) {
        listener_waker = made;
        made = NULL;
        /* a notice or a plock_notice_wake may have come before the waker existed */
        plock_waker_wake(listener_waker);
    }
    const int descriptor = plock_waker_descriptor(listener_waker);
    plock__leave();
    plock_waker_give(made);
    return descriptor;
}

void plock_notice_clear(void) {
    plock__enter();
    plock_waker *waker = listener_waker;
    plock__leave();
    if (waker) (void)plock_waker_clear(waker);
}

bool plock_notice_awaited(void) {
    plock__enter();
    const bool awaited = listener_waker;
    plock__leave();
    return awaited;
}

void plock_notice_wake(void) {
    plock__enter();
    if (listener_waker) plock_waker_wake(listener_waker);
    plock__leave();
}

void plock_notice_want(plock_notice_kind kind, bool wanted) {
    if (wanted)
        atomic_fetch_and(&unwanted, ~(1u << kind));
    else
        atomic_fetch_or(&unwanted, 1u << kind);
}

/* The notices belong to the parent, which reports them. The child does not free their memory. */
void plock__notices_in_child(void) {
    first = NULL;
    last = &first;
    if (listener_waker) plock__waker_put_back(listener_waker);
    listener_waker = NULL;
}
