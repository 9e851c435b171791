/* SPDX-License-Identifier: MIT */
#pragma once

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * One raw system call: result, or -errno; the thread's errno is left alone. The instruction is
 * issued inline, so that no symbol is looked up that a preload library (ours included) defines,
 * and it is no cancellation point. Other 64-bit machines take libc's syscall(), resolved as usual.
 */
_Static_assert(sizeof(long) == 8, "64-bit Linux only: arguments are passed in one register each");

#if defined(__x86_64__)

static inline long sys_raw(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory", "cc");
	return ret;
}

#elif defined(__aarch64__)

static inline long sys_raw(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory", "cc");
	return x0;
}

#else

static inline long sys_raw(long nr, long a, long b, long c, long d, long e, long f)
{
	int saved = errno;
	long ret = syscall(nr, a, b, c, d, e, f);

	if (ret < 0)
		ret = -errno;
	errno = saved;
	return ret;
}

#endif

/* SYS_CALL(close, fd): the arguments as longs, missing ones as 0. */
#define SYS_CALL(name, ...) SYS_PAD(SYS_##name, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define SYS_PAD(nr, a, b, c, d, e, f, ...)                                                         \
	sys_raw(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
