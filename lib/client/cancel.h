/* SPDX-License-Identifier: MIT */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/single_threaded.h>

/*
 * Cancellation points, which raw system calls are not. While the kernel has the thread it can be
 * cancelled at any moment, as in libc's own wrappers; nowhere else in the library. What such a
 * thread leaves counted (a receive under way, a wait) keeps the socket on TCP, or its memory
 * mapped, and harms nothing else.
 */
static inline int cancel_enter(void)
{
	int type = -1; /* alone: nobody could cancel */

	if (!__libc_single_threaded)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	return type;
}

static inline void cancel_leave(int type)
{
	if (type >= 0)
		pthread_setcanceltype(type, NULL);
}

/* CANCELLABLE(sys_read(fd, buf, len)) */
#define CANCELLABLE(call)                                                                          \
	({                                                                                         \
		int cancel_type = cancel_enter();                                                  \
		long cancel_result = (call);                                                       \
                                                                                                   \
		cancel_leave(cancel_type);                                                         \
		cancel_result;                                                                     \
	})

/* At the begin of a call that the library serves without the kernel. */
static inline void cancel_point(void)
{
	if (!__libc_single_threaded)
		pthread_testcancel();
}
