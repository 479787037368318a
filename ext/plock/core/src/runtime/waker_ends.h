/* The descriptors of wakers: an eventfd, or both ends of a pipe. A few unused ones stay open for
 * the next wakers. */
#ifndef PLOCK__WAKER_ENDS_H
#define PLOCK__WAKER_ENDS_H

#include <stdbool.h>
#include <stdint.h>

/* One word with two descriptors, one to poll and one to write to, so that both change at once. The
 * word stores each descriptor's number plus one. With an eventfd, both are the same. */
typedef uint64_t plock__ends;
enum { PLOCK__NO_ENDS = 0 };

/* Returns PLOCK__NO_ENDS with errno if no descriptor is left. */
plock__ends plock__ends_take(void);
void plock__ends_give(plock__ends given);
void plock__ends_close(plock__ends of);
void plock__ends_close_kept(void);

/* Returns the descriptor to poll. */
int plock__ends_descriptor(plock__ends of);

/* Makes the descriptor readable. */
void plock__ends_write(plock__ends of);
void plock__ends_drain(plock__ends of);

#endif
