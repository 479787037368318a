/* Each entry is the root of a tree. No entry below the root is earlier than the root. The root's
 * children are in a list, in any order. */
#include "base/heap.h"

#include <stddef.h>

#ifdef PLOCK_TESTING
#include <stdatomic.h>

static atomic_ulong compared;

unsigned long plock__heap_compared(void) { return atomic_exchange(&compared, 0); }
#define COUNT() ((void)atomic_fetch_add_explicit(&compared, 1, memory_order_relaxed))
#else
#define COUNT() ((void)0)
#endif

/* Puts the tree with the later root below the other tree. If both roots have the same moment, `one`
 * stays above. */
static plock__heap_entry *join(plock__heap_entry *one, plock__heap_entry *other) {
    COUNT();
    plock__heap_entry *above = other->at < one->at ? other : one,
                      *below = above == one ? other : one;
    below->previous = above;
    below->next = above->child;
    if (below->next) below->next->previous = below;
    above->child = below;
    return above;
}

/* Joins the trees of a list in pairs, and then joins the pairs from the last to the first. This
 * order keeps the average cost logarithmic. */
static plock__heap_entry *join_all(plock__heap_entry *list) {
    plock__heap_entry *pairs = NULL, *all = NULL;
    while (list) {
        plock__heap_entry *one = list, *other = one->next;
        list = other ? other->next : NULL;
        plock__heap_entry *pair = other ? join(one, other) : one;
        pair->next = pairs;
        pairs = pair;
    }
    while (pairs) {
        plock__heap_entry *pair = pairs;
        pairs = pair->next;
        all = all ? join(pair, all) : pair;
    }
    return all;
}

static void set_first(plock__heap *heap, plock__heap_entry *first) {
    heap->first = first;
    if (first) first->next = first->previous = NULL;
}

void plock__heap_insert(plock__heap *heap, plock__heap_entry *entry, plock_ns at) {
    *entry = (plock__heap_entry){.at = at, .entered = true};
    set_first(heap, heap->first ? join(heap->first, entry) : entry);
}

static void cut(plock__heap_entry *entry) {
    plock__heap_entry *previous = entry->previous;
    *(previous->child == entry ? &previous->child : &previous->next) = entry->next;
    if (entry->next) entry->next->previous = previous;
}

void plock__heap_remove(plock__heap *heap, plock__heap_entry *entry) {
    if (!entry->entered) return;
    const bool first = heap->first == entry;
    if (!first) cut(entry);
    plock__heap_entry *below = join_all(entry->child);
    if (first)
        set_first(heap, below);
    else if (below)
        set_first(heap, join(heap->first, below));
    *entry = (plock__heap_entry){.at = entry->at};
}

void plock__heap_move(plock__heap *heap, plock__heap_entry *entry, plock_ns at) {
    if (entry->entered && entry->at == at) return;
    plock__heap_remove(heap, entry);
    plock__heap_insert(heap, entry, at);
}

void plock__heap_merge(plock__heap *to, plock__heap *from) {
    if (to->first && from->first)
        set_first(to, join(to->first, from->first));
    else if (from->first)
        to->first = from->first;
    from->first = NULL;
}
