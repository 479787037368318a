/* The event that an unfinished operation waits for. */
#ifndef PLOCK_INTEREST_H
#define PLOCK_INTEREST_H

#include <stdbool.h>

#include "plock/clock.h"
#include "plock/status.h"
#include "plock/waker.h"

typedef struct plock__parking_slot plock__parking_slot;

typedef struct plock_interest {
    int fd;       /* -1: no descriptor */
    short events; /* POLLIN or POLLOUT */
    plock_ns deadline;
    /* The wait ends when this waker is woken. Used only if fd is -1. NULL: no waker. An event loop
     * polls the waker's descriptor, and then clears the waker. */
    plock_waker *waker;
    /* true: either the worker thread does the awaited work, or the thread that waits in plock_await
     * does it */
    bool helps;
    /* A place in shared memory where plock_await may sleep instead of waiting for the waker. The
     * sleep also ends when the waker is woken. NULL: no such place. */
    const plock__parking_slot *parking_slot;
    /* plock_await_answer calls this function to read the answer from `source`, so that the
     * operation's next step finds the answer already read. NULL: plock_await_answer only waits. */
    plock_status (*read_ahead)(const struct plock_interest *);
    void *source;
} plock_interest;

/* Waits for the interest. Returns PLOCK_OK when the interest is ready or its deadline has come.
 * Returns PLOCK_INTERRUPTED on a signal, or when the waker `interrupt` is woken (NULL: no such
 * waker). If the interest has a descriptor, the function waits in poll(2), and `interrupt` then
 * also needs a descriptor, which the function opens.
 *
 * A thread that waits for its turn may listen to the server itself, so that no other thread has to
 * wake it. The caller must hold no lock that another thread might need to proceed, such as an
 * interpreter's lock. */
plock_status plock_await(const plock_interest *interest, plock_waker *interrupt);

/* Waits as plock_await does, but only a signal can interrupt the wait, and only while the thread
 * sleeps. Only the thread that makes the operation's next step may call this function.
 *
 * If `read_ahead` is set, the function polls for the answer for a moment, and then sleeps in
 * recv(2). That saves a system call, and the thread wakes sooner than from poll(2). With
 * `read_ahead`, the function may return PLOCK_OK before the interest is ready. */
plock_status plock_await_answer(const plock_interest *interest);

/* Makes the worker thread do the awaited work. A thread that waits for an interest with `helps`,
 * but not in plock_await, must call this function before it waits. */
void plock_have_led(void);

#endif
