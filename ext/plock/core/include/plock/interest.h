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
    /* The worker thread does the awaited work, but plock_await may do it instead. */
    bool helps;
    /* A place in shared memory where plock_await may sleep instead. A wake of the waker also ends
     * that sleep. NULL: no such place. */
    const plock__parking_slot *parking_slot;
    /* plock_await_answer calls this to read the answer from `source` ahead of the next step. NULL:
     * plock_await_answer only waits. */
    plock_status (*read_ahead)(const struct plock_interest *);
    void *source;
} plock_interest;

/* Waits for the interest. Returns PLOCK_OK when it is ready or its deadline has come, or
 * PLOCK_INTERRUPTED on a signal or when the waker `interrupt` is woken (NULL: no such waker). If
 * the interest has a descriptor, the function calls poll(2), for which `interrupt` also opens a
 * descriptor.
 *
 * A thread that waits for its turn may listen to the server itself, so that no other thread has to
 * wake it. The caller must hold no lock that another thread might need to proceed, such as an
 * interpreter's lock. */
plock_status plock_await(const plock_interest *interest, plock_waker *interrupt);

/* Waits as plock_await does, but only a signal can interrupt the wait, and only while the thread
 * sleeps. If `read_ahead` is set, the function polls for the answer for a moment, and then sleeps
 * in recv(2). That saves a system call, and the thread wakes sooner than from poll(2). In that case
 * the function may return PLOCK_OK early. Only the thread that makes the operation's next step may
 * call it. */
plock_status plock_await_answer(const plock_interest *interest);

/* Makes the worker thread do the awaited work. A thread must call this before it waits for an
 * interest with `helps` by any means but plock_await. */
void plock_have_led(void);

#endif
