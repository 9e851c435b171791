/* SPDX-License-Identifier: MIT */
#pragma once

#include "os/sys.h"

/*
 * System calls that wait, and those about threads and processes; the contract of os/sys.h. A
 * timeout is never written back, whatever the kernel does with it. Signal masks may be NULL.
 */

/* Bytes of a signal set as the kernel counts them; libc's sigset_t begins with these. */
#define SYS_SIGSET_BYTES 8u

static inline int sys_ppoll(struct pollfd *fds, unsigned int n, const struct timespec *timeout,
			    const sigset_t *mask)
{
	struct timespec copy = {0};

	if (timeout)
		copy = *timeout;
	return (int)SYS_CALL(ppoll, fds, n, timeout ? &copy : NULL, mask, SYS_SIGSET_BYTES);
}

/* poll(2): milliseconds, negative = for ever. */
static inline int sys_poll(struct pollfd *fds, unsigned int n, int timeout_ms)
{
	struct timespec ts = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};

	return sys_ppoll(fds, n, timeout_ms < 0 ? NULL : &ts, NULL);
}

static inline int sys_pselect6(int n, fd_set *rd, fd_set *wr, fd_set *ex,
			       const struct timespec *timeout, const sigset_t *mask)
{
	const struct {
		const sigset_t *mask;
		size_t bytes;
	} set = {mask, SYS_SIGSET_BYTES};
	struct timespec copy = {0};

	if (timeout)
		copy = *timeout;
	return (int)SYS_CALL(pselect6, n, rd, wr, ex, timeout ? &copy : NULL, &set);
}

static inline int sys_epoll_create1(int flags)
{
	return (int)SYS_CALL(epoll_create1, flags);
}

static inline int sys_epoll_ctl(int ep, int op, int fd, struct epoll_event *event)
{
	return (int)SYS_CALL(epoll_ctl, ep, op, fd, event);
}

static inline int sys_epoll_pwait(int ep, struct epoll_event *ret_events, int n, int timeout_ms,
				  const sigset_t *mask)
{
	return (int)SYS_CALL(epoll_pwait, ep, ret_events, n, timeout_ms, mask, SYS_SIGSET_BYTES);
}

static inline int sys_epoll_wait(int ep, struct epoll_event *ret_events, int n, int timeout_ms)
{
	return sys_epoll_pwait(ep, ret_events, n, timeout_ms, NULL);
}

/* -ENOSYS before Linux 5.11. */
static inline int sys_epoll_pwait2(int ep, struct epoll_event *ret_events, int n,
				   const struct timespec *timeout, const sigset_t *mask)
{
	return (int)SYS_CALL(epoll_pwait2, ep, ret_events, n, timeout, mask, SYS_SIGSET_BYTES);
}

static inline int sys_futex(void *word, int op, uint32_t val, const struct timespec *timeout,
			    uint32_t bitset)
{
	return (int)SYS_CALL(futex, word, op, val, timeout, NULL, bitset);
}

static inline pid_t sys_getpid(void)
{
	return (pid_t)SYS_CALL(getpid);
}

static inline pid_t sys_gettid(void)
{
	return (pid_t)SYS_CALL(gettid);
}

static inline uid_t sys_geteuid(void)
{
	return (uid_t)SYS_CALL(geteuid);
}

static inline int sys_tgkill(pid_t pid, pid_t tid, int sig)
{
	return (int)SYS_CALL(tgkill, pid, tid, sig);
}

static inline int sys_kill(pid_t pid, int sig)
{
	return (int)SYS_CALL(kill, pid, sig);
}

static inline int sys_sched_yield(void)
{
	return (int)SYS_CALL(sched_yield);
}
