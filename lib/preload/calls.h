/* SPDX-License-Identifier: MIT */
#pragma once

#include "preload/libc.h"

/*
 * What serves the rows of calls.def: call_impl() does the whole call and returns its result or
 * -errno; before_impl() makes the sockets ready for libc's own function and returns 0 or -errno.
 * Neither touches errno; the parameters are those of the libc function.
 */
#define CALL(ret, name, params, args, impl) long call_##impl params;
#define LIBC CALL
#define ALIAS CALL
#define CHECKED CALL
#define BEFORE(ret, name, params, args, impl, fail) int before_##impl params;
#define BEFORE_HIDDEN BEFORE
#define HAND(ret, name, params)
#define HAND_HIDDEN HAND
#include "preload/calls.def"
#include "preload/rows_end.h"

/* The calls with variable arguments, after their arguments are known. */
long call_fcntl(int fd, int cmd, long arg);
long call_ioctl(int fd, unsigned long request, void *arg);
long call_syscall(long number, const long args[6]);

/* What clone() takes, in its order. */
struct clone_call {
	int (*fn)(void *arg);
	void *stack;
	int flags;
	void *arg;
	pid_t *parent_tid;
	void *tls;
	pid_t *child_tid;
};
long call_clone(const struct clone_call *clone_call);
