/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>

#include "preload/calls.h"
#include "preload/edge.h"
#include "preload/real.h"

#define EXPORT __attribute__((visibility("default")))

/*
 * The HAND rows of calls.def: functions with variable arguments, which no table can pass on.
 */

/* The one argument that may follow: an int, a long or a pointer, one register in each case. */
#define ONE_ARG(last)                                                                              \
	({                                                                                         \
		va_list one_list;                                                                  \
		long one;                                                                          \
                                                                                                   \
		va_start(one_list, last);                                                          \
		one = va_arg(one_list, long);                                                      \
		va_end(one_list);                                                                  \
		one;                                                                               \
	})

EXPORT int fcntl(int fd, int cmd, ...)
{
	return (int)edge_result(call_fcntl(fd, cmd, ONE_ARG(cmd)));
}

EXPORT int fcntl64(int fd, int cmd, ...)
{
	return (int)edge_result(call_fcntl(fd, cmd, ONE_ARG(cmd)));
}

EXPORT int __fcntl(int fd, int cmd, ...);
EXPORT int __fcntl(int fd, int cmd, ...)
{
	return (int)edge_result(call_fcntl(fd, cmd, ONE_ARG(cmd)));
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	return (int)edge_result(call_ioctl(fd, request, (void *)ONE_ARG(request)));
}

/* Fewer arguments may have been given than are read, as libc's own does: what then stands there is
 * passed on, and the kernel does not look at it. */
#define READS_MORE __attribute__((no_sanitize("address")))

READS_MORE EXPORT long syscall(long number, ...)
{
	va_list list;
	long args[6];

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		args[i] = va_arg(list, long);
	va_end(list);
	return edge_result(call_syscall(number, args));
}

#define CLONE_CALL(fn, stack, flags, arg)                                                          \
	va_list list;                                                                              \
	struct clone_call clone_call = {                                                           \
		.fn = fn,                                                                          \
		.stack = stack,                                                                    \
		.flags = flags,                                                                    \
		.arg = arg,                                                                        \
	};                                                                                         \
                                                                                                   \
	va_start(list, arg);                                                                       \
	clone_call.parent_tid = va_arg(list, pid_t *);                                             \
	clone_call.tls = va_arg(list, void *);                                                     \
	clone_call.child_tid = va_arg(list, pid_t *);                                              \
	va_end(list);                                                                              \
	return (int)edge_result(call_clone(&clone_call))

READS_MORE EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	CLONE_CALL(fn, stack, flags, arg);
}

EXPORT int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
READS_MORE EXPORT int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	CLONE_CALL(fn, stack, flags, arg);
}

EXPORT void closefrom(int first)
{
	call_close_range(first < 0 ? 0 : (unsigned int)first, UINT_MAX, 0);
}

EXPORT int dprintf(int fd, const char *format, ...)
{
	va_list args;
	int n = -1;

	va_start(args, format);
	if (!edge_failed(before_vdprintf(fd, format, args)))
		n = real(vdprintf)(fd, format, args);
	va_end(args);
	return n;
}

typedef int (*vdprintf_chk_fn)(int fd, int level, const char *format, va_list args);

EXPORT int __dprintf_chk(int fd, int level, const char *format, ...);
EXPORT int __dprintf_chk(int fd, int level, const char *format, ...)
{
	va_list args;
	int n = -1;

	va_start(args, format);
	if (!edge_failed(before_vdprintf(fd, format, args)))
		n = ((vdprintf_chk_fn)real_get(REAL___vdprintf_chk))(fd, level, format, args);
	va_end(args);
	return n;
}

/* How many arguments @arg and @args are, the NULL that ends them included. */
static size_t count_args(const char *arg, va_list *args)
{
	va_list copy;
	size_t n = 1;

	va_copy(copy, *args);
	for (; arg; n++)
		arg = va_arg(copy, char *);
	va_end(copy);
	return n;
}

static void collect_args(const char *arg, va_list *args, char **ret_argv)
{
	for (; arg; arg = va_arg(*args, char *))
		*ret_argv++ = (char *)(uintptr_t)arg;
	*ret_argv = NULL;
}

/*
 * An execl…() with @serve: the arguments go on the stack, since there may be no memory, and since a
 * child of vfork() would leave it to its parent.
 */
#define EXECL(arg, serve)                                                                          \
	va_list args;                                                                              \
	long rc;                                                                                   \
                                                                                                   \
	va_start(args, arg);                                                                       \
	{                                                                                          \
		char **argv = __builtin_alloca(count_args(arg, &args) * sizeof(*argv));            \
                                                                                                   \
		collect_args(arg, &args, argv);                                                    \
		rc = serve;                                                                        \
	}                                                                                          \
	va_end(args);                                                                              \
	return (int)edge_result(rc)

EXPORT int execl(const char *path, const char *arg, ...)
{
	EXECL(arg, call_execve(path, argv, environ));
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
	EXECL(arg, call_execvpe(file, argv, environ));
}

EXPORT int execle(const char *path, const char *arg, ...)
{
	EXECL(arg, call_execve(path, argv, va_arg(args, char **)));
}
