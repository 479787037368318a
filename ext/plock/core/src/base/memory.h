/* All memory of the engine comes from here, so that a test can make the n-th allocation fail. */
#ifndef PLOCK__MEMORY_H
#define PLOCK__MEMORY_H

#include <stddef.h>

void *plock__allocate(size_t size); /* zeroed; NULL if memory runs out */
void plock__free(void *memory);
char *plock__copy(const char *text, size_t length); /* terminated; NULL if memory runs out */

/* Overwrites the memory in a way that the compiler does not optimize away. */
void plock__wipe(void *memory, size_t size);

/* Wipes a terminated string, then frees it. NULL is allowed. */
void plock__free_secret(char *text);

#ifdef PLOCK_TESTING
/* Makes the nth allocation after this call fail, and only that one. 1 means the next allocation, 0
 * means none. Returns the number of allocations since the last call. */
unsigned long plock__fail_allocation(unsigned long n);
/* Returns the number of blocks that are allocated and not freed. */
long plock__live_allocations(void);
#endif

#endif
