/* SPDX-License-Identifier: MIT */
#pragma once

#include <pthread.h>
#include <sys/single_threaded.h>

/*
 * A call that does not concern a tracked socket goes straight to the kernel. Where it may block, it
 * is a cancellation point, as libc's own is: the thread can be cancelled while it is in the kernel.
 */
static inline int pass_enter(void)
{
	int type = -1; /* alone: nobody could cancel */

	if (!__libc_single_threaded)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	return type;
}

static inline void pass_leave(int type)
{
	if (type >= 0)
		pthread_setcanceltype(type, NULL);
}

/* PASS(sys_read(fd, buf, len)) */
#define PASS(call)                                                                                 \
	({                                                                                         \
		int pass_type = pass_enter();                                                      \
		long pass_result = (call);                                                         \
                                                                                                   \
		pass_leave(pass_type);                                                             \
		pass_result;                                                                       \
	})
