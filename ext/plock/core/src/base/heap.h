/* A heap finds the entry with the earliest moment. The entries are embedded in their owners'
 * structs, so an insertion needs no memory and cannot fail. The heap is a pairing heap. An
 * insertion takes a few instructions, and a removal takes O(log n) on average. */
#ifndef PLOCK__HEAP_H
#define PLOCK__HEAP_H

#include "plock/clock.h"

#include <stdbool.h>

typedef struct plock__heap_entry plock__heap_entry;

/* An entry with all fields zero is in no heap. */
struct plock__heap_entry {
    plock__heap_entry *child, *next;
    plock__heap_entry *previous; /* the previous sibling; for the first sibling, the parent */
    plock_ns at;                 /* the entry's moment; only the heap changes it */
    bool entered;
};

typedef struct plock__heap {
    plock__heap_entry *first; /* the earliest entry; NULL if the heap is empty */
} plock__heap;

/* Inserts an entry that is in no heap. */
void plock__heap_insert(plock__heap *heap, plock__heap_entry *entry, plock_ns at);

/* Removes the entry, if it is in the heap. */
void plock__heap_remove(plock__heap *heap, plock__heap_entry *entry);

/* Moves the entry to another moment, or inserts it if it is in no heap. */
void plock__heap_move(plock__heap *heap, plock__heap_entry *entry, plock_ns at);

/* Moves all entries of `from` to `to`. */
void plock__heap_merge(plock__heap *to, plock__heap *from);

/* Returns the earliest moment, or PLOCK_NEVER if the heap is empty. */
static inline plock_ns plock__heap_at(const plock__heap *heap) {
    return heap->first ? heap->first->at : PLOCK_NEVER;
}

#ifdef PLOCK_TESTING
/* Returns how many pairs of entries were compared since the last call, in all heaps. */
unsigned long plock__heap_compared(void);
#endif

#endif
