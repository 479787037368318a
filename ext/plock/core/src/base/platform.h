/* Says which system calls and clocks this platform has. PLOCK_PORTABLE turns off those of Linux, so
 * that the fallbacks can be tested on Linux. */
#ifndef PLOCK__PLATFORM_H
#define PLOCK__PLATFORM_H

#include <fcntl.h>
#include <sys/socket.h>
#include <time.h>

#if defined(__linux__) && !defined(PLOCK_PORTABLE)
#define PLOCK__EVENTFD 1
#define PLOCK__GETTID  1
#define PLOCK__FUTEX   1
#define PLOCK__PIDFD   1
#define PLOCK__INOTIFY 1
#define PLOCK__LOADAVG 1
#endif

#if defined(F_OFD_SETLK) && !defined(PLOCK_PORTABLE)
#define PLOCK__OFD 1
#endif

#if defined(CLOCK_BOOTTIME) && !defined(PLOCK_PORTABLE)
#define PLOCK__CLOCK CLOCK_BOOTTIME
#else
#define PLOCK__CLOCK CLOCK_MONOTONIC /* on macOS, this clock also runs while the machine sleeps */
#endif

/* A clock that stands still while the machine sleeps. */
#if defined(__APPLE__)
#define PLOCK__AWAKE_CLOCK CLOCK_UPTIME_RAW
#else
#define PLOCK__AWAKE_CLOCK CLOCK_MONOTONIC
#endif

#if defined(__APPLE__)
#define PLOCK__CHANGED_AT(found) ((found).st_ctimespec)
#else
#define PLOCK__CHANGED_AT(found) ((found).st_ctim)
#endif

#if defined(SOCK_CLOEXEC) && defined(SOCK_NONBLOCK) && !defined(PLOCK_PORTABLE)
#define PLOCK__SOCKET_FLAGS (SOCK_CLOEXEC | SOCK_NONBLOCK)
#else
#define PLOCK__SOCKET_FLAGS 0
#endif

#if defined(MSG_NOSIGNAL)
#define PLOCK__SEND_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL)
#else
#define PLOCK__SEND_FLAGS MSG_DONTWAIT /* on macOS, the socket has SO_NOSIGPIPE instead */
#endif

#endif
